//! What the `frank` program does, seen from outside: output, errors, exit codes.

mod bad_input;
mod files;
mod fit;
mod help;
mod inspect;
mod program;
mod readme;
mod stdout;
