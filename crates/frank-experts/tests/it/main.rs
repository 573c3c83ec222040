//! What the expert store gives, from files on disk.

mod ahead;
mod clocks;
mod made;
mod memory;
mod read_errors;
mod refusals;
mod serving;
