//! Grammars over a small vocabulary and over those of real models: what may come, what is refused, what it costs.

mod gbnf;
mod hostile;
mod json;
mod pattern;
mod schemas;
mod walk;
