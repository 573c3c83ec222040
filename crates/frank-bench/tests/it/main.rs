//! Measuring the machine that the tests run on: numbers come out, and nothing is left behind.

mod drive;
mod machine;
