//! What the `frank` program does, seen from outside: output, errors, exit codes.

mod bad_input;
mod demo;
mod endpoint;
mod eval;
mod files;
mod fit;
mod help;
mod inspect;
mod memory;
mod program;
mod readme;
mod serve;
mod stdout;
