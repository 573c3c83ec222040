//! The step loop over a model that follows a script.

mod requests;
mod script;
