//! What the system refuses when experts are read: said with its cause and the way out, at the start or when it shows.

use crate::endpoint::Endpoint;
use crate::files::str;
use crate::mixture::{Moe, STREAMED};
use crate::program::{command, run};

/// A command that reads experts with options.
fn bench<'a>(moe: &'a Moe, options: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["bench", "throughput", str(&moe.model), "-p", "4", "-n", "4", "-r", "1"];
    [&fixed[..], &STREAMED, options].concat()
}

#[test]
fn a_way_to_read_that_the_system_lacks_is_refused_with_its_cause_and_the_way_out() {
    let moe = Moe::new();
    let args = bench(&moe, &["--io", "uring"]);
    let lines = run(command(args).env("FRANK_FAULTS", "uring-refused")).failed(1);
    let expected = [
        "error: cannot read files with io_uring",
        "cause: Function not implemented (os error 38)",
        "hint: --io auto takes what the system gives",
    ];
    assert!(lines.ends_with(&expected.map(str::to_owned)), "{lines:?}");
}

#[test]
fn a_bench_whose_experts_cannot_be_read_fails_and_says_which() {
    let moe = Moe::new();
    let args = bench(&moe, &["--io", "pread"]);
    let lines = run(command(args).env("FRANK_FAULTS", "read-error:20")).failed(1);
    assert!(lines.iter().any(|line| line.starts_with("error: cannot measure ")), "{lines:?}");
    let cause = lines.last().expect("a cause");
    assert!(cause.starts_with("cause: cannot read expert "), "{lines:?}");
}

#[test]
fn a_refusal_that_shows_only_at_the_first_read_is_said_then() {
    let moe = Moe::new();
    let faults = [("FRANK_FAULTS", "direct-refused-at-transfer")];
    let endpoint = Endpoint::start_with(&faults, &moe.model, &STREAMED);
    let body = r#"{"prompt": [256, 116, 104], "max_tokens": 4, "ignore_eos": true}"#;
    assert_eq!(endpoint.post("/v1/completions", body).status, 200);
    endpoint.signal("-TERM");
    let said = endpoint.preface.clone();
    let said = said + &endpoint.end().1;
    assert_eq!(said.matches("O_DIRECT refused").count(), 1, "{said}");
    let lines = run(command(bench(&moe, &[])).env(faults[0].0, faults[0].1)).ended(0).stderr;
    assert_eq!(lines.matches("O_DIRECT refused").count(), 1, "{lines}");
}

#[test]
fn what_was_read_is_said_and_not_the_whole_file() {
    let moe = Moe::new();
    let endpoint = Endpoint::start(&moe.model, &STREAMED);
    let line = endpoint.preface.lines().find(|line| line.starts_with("loaded "));
    let line = line.unwrap_or_else(|| panic!("{}", endpoint.preface));
    let size = frank_plan::Size(std::fs::metadata(&moe.model).expect("the model").len());
    assert!(line.contains(&format!(" of {size} in ")), "{line}");
    let resident = Endpoint::start(&moe.model, &[]);
    let line = format!("loaded {size} in ");
    assert!(resident.preface.contains(&line), "{}", resident.preface);
}
