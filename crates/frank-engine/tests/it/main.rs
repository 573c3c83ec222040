//! The step loop over a model that follows a script, and over models from files.

mod disk_cache;
mod disk_damage;
mod exactness;
mod experts;
mod failing_reads;
mod loaded;
mod panics;
mod prefix_cache;
mod requests;
mod restart;
mod same_tokens;
mod script;
mod together;
