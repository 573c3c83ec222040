//! A process that may have no more threads: a few lines say so, and the way out that they name is one.

use crate::files::{llama, str};
use crate::mixture::{self, Moe};
use crate::program::{command, run};

#[test]
fn a_limit_of_threads_is_an_error_with_the_way_out() {
    let model = llama();
    let args = ["--raw", "-n", "2", "hi", "--threads"];
    let refused = |threads| {
        let args = [&["run", str(&model)], &args[..], &[threads]].concat();
        run(command(args).env("FRANK_FAULTS", "threads-refused"))
    };
    let lines = refused("2").failed(1);
    let wanted = ["error: cannot start 2 threads that compute", "cause: Resource temporarily "];
    let found = lines.iter().position(|line| *line == wanted[0]).expect("an error");
    assert!(lines[found + 1].starts_with(wanted[1]), "{lines:?}");
    assert!(lines[found + 2].starts_with("hint: --threads 1 needs none; "), "{lines:?}");
    assert_eq!(lines.len(), found + 3, "{lines:?}");
    refused("1").ended(0);
}

#[test]
fn experts_are_read_out_of_a_map_where_there_is_neither_a_ring_nor_a_thread() {
    let Moe { folder: _folder, model } = Moe::new();
    let answer = |faults: &str| {
        let args = ["run", str(&model), "--raw", "-n", "8", "--temp", "0", "--threads", "1", "hi"];
        let args = [&args[..], &mixture::STREAMED].concat();
        run(command(args).env("FRANK_FAULTS", faults)).ended(0)
    };
    let mapped = answer("uring-refused,threads-refused");
    assert_eq!(mapped.stdout, answer("").stdout);
    let said = "warning: reads with mmap: io_uring refused: ";
    assert!(mapped.stderr.lines().any(|line| line.starts_with(said)), "{}", mapped.stderr);
}
