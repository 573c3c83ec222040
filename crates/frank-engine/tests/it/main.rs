//! The step loop over a model that follows a script.

mod disk_cache;
mod exactness;
mod experts;
mod failing_reads;
mod panics;
mod prefix_cache;
mod requests;
mod restart;
mod script;
