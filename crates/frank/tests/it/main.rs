//! What the `frank` program does, seen from outside: output, errors, exit codes.

mod bad_input;
mod bench;
mod cache_dir;
mod demo;
mod endpoint;
mod eval;
mod experts;
mod files;
mod fit;
mod help;
mod inspect;
mod malformed;
mod memory;
mod probe;
mod program;
mod readme;
mod real_models;
mod repack;
mod run;
mod serve;
mod stdout;
mod streaming;
