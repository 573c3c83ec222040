//! `frank bench throughput`: its rows, its report, and what it refuses. How fast anything is is nothing to assert.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use frank_testkit::assets;
use serde_json::Value;

use crate::files::llama;
use crate::program::{Run, command, frank};

fn arguments(model: &Path, options: &[&str]) -> Vec<OsString> {
    let head = ["bench".into(), "throughput".into(), OsString::from(model)];
    head.into_iter().chain(options.iter().map(OsString::from)).collect()
}

fn bench(model: &Path, options: &[&str]) -> Run {
    frank(arguments(model, options))
}

/// The report of a bench of `model`.
fn report(model: &Path, options: &[&str]) -> Value {
    bench(model, &[options, &["--json"]].concat()).ended(0).json()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn tests(report: &Value) -> Vec<&str> {
    let rows = report["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["test"].as_str().expect("a name")).collect()
}

/// Every number of a row is there and positive; a prompt has no bytes of a token.
fn check_row(row: &Value, n_tokens: u64, n_streams: u64, repetitions: u64) {
    assert_eq!(
        keys(row),
        ["test", "n_tokens", "n_streams", "tok_s", "bytes_per_token", "bandwidth_share"]
    );
    assert_eq!(
        (row["n_tokens"].as_u64(), row["n_streams"].as_u64()),
        (Some(n_tokens), Some(n_streams))
    );
    assert_eq!(row["tok_s"]["n"].as_u64(), Some(repetitions), "{row}");
    for name in ["median", "min", "max"] {
        assert!(row["tok_s"][name].as_f64().expect("a number") > 0.0, "{name}: {row}");
    }
    let is_prompt = row["test"].as_str().expect("a name").starts_with("pp");
    assert_eq!(
        row["bytes_per_token"].as_f64().is_some_and(|bytes| bytes > 0.0),
        !is_prompt,
        "{row}"
    );
}

#[test]
fn rows_are_called_as_in_llama_bench_and_are_complete() {
    let report = report(&llama(), &["-p", "40", "-n", "6", "-r", "3", "--seed", "5", "-ub", "16"]);
    assert_eq!(
        keys(&report),
        [
            "model",
            "arch",
            "file_bytes",
            "threads",
            "ubatch",
            "kv_types",
            "seed",
            "bandwidth",
            "rows"
        ]
    );
    assert_eq!((&report["model"], &report["arch"]), (&"llama.gguf".into(), &"llama".into()));
    assert_eq!((report["seed"].as_u64(), report["ubatch"].as_u64()), (Some(5), Some(16)));
    assert_eq!(tests(&report), ["pp40", "tg6"]);
    check_row(&report["rows"][0], 40, 1, 3);
    check_row(&report["rows"][1], 6, 1, 3);
}

#[test]
fn streams_together_are_a_row_of_their_own_and_share_the_weights_of_a_step() {
    let report = report(&llama(), &["-p", "8", "-n", "6", "-r", "2", "-np", "3"]);
    assert_eq!(tests(&report), ["pp8", "tg6", "tg6x3"]);
    check_row(&report["rows"][2], 18, 3, 2);
    let bytes = |row: usize| report["rows"][row]["bytes_per_token"].as_f64().expect("a number");
    assert!(bytes(2) < bytes(1) / 2.0, "{report}");
}

#[test]
fn every_family_is_measured_past_the_end_of_its_windows() {
    for name in ["gemma3-window.gguf", "qwen2.gguf", "qwen3.gguf"] {
        let options = ["-p", "200", "-n", "100", "-r", "1", "-np", "2", "-ub", "32"];
        let report = report(&assets::tiny(name), &options);
        assert_eq!(tests(&report), ["pp200", "tg100", "tg100x2"], "{name}");
    }
}

#[test]
fn a_length_of_0_leaves_its_row_out() {
    assert_eq!(tests(&report(&llama(), &["-p", "0", "-n", "2", "-r", "1"])), ["tg2"]);
    assert_eq!(tests(&report(&llama(), &["-p", "2", "-n", "0", "-r", "1"])), ["pp2"]);
}

#[test]
fn the_table_is_data_on_stdout_and_the_rest_is_said_on_stderr() {
    let run = bench(&llama(), &["-p", "8", "-n", "2", "-r", "1"]).ended(0);
    let tests: Vec<&str> = run.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(tests.ends_with(&["test", "pp8", "tg2"]), "{run:?}");
    assert!(run.stdout.starts_with("llama.gguf (llama), threads: "), "{run:?}");
    assert!(run.stderr.contains("loaded "), "{run:?}");
}

#[test]
fn what_cannot_be_measured_is_refused_before_the_model_is_read() {
    let check = |options: &[&str], expected: &[&str]| {
        assert_eq!(bench(&llama(), options).failed(2), expected, "{options:?}");
    };
    check(&["-p", "0", "-n", "0"], &["error: --n-prompt 0 and --n-gen 0 leave nothing to measure"]);
    check(
        &["-p", "64", "-c", "32"],
        &["error: 128 tokens do not fit in a context of 32", "hint: --ctx-size 128"],
    );
    check(&["-n", "0", "-np", "2"], &["error: --parallel has no effect beside --n-gen 0"]);
    check(
        &["--chat-template", "x"],
        &["error: --chat-template has no effect: prompts are random tokens"],
    );
    check(
        &["-r", "0"],
        &["error: invalid value '0' for '--repetitions <R>': 0 is not in 1..=10000"],
    );
    check(
        &["-p", "-1"],
        &["error: invalid value '-1' for '--n-prompt <N>': -1 is not in 0..=16777216"],
    );
}

#[test]
fn a_budget_that_the_model_does_not_fit_is_refused() {
    let lines = bench(&llama(), &["--memory-budget", "1MiB"]).failed(3);
    assert!(lines[0].starts_with("error: does not fit on cpu:0"), "{lines:?}");
}

#[test]
fn ctrl_c_ends_a_bench_with_130() {
    let options = ["-p", "0", "-n", "128", "-r", "10000", "--json"];
    let mut child = command(arguments(&llama(), &options))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.starts_with("loaded ") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("text") > 0, "it ended early");
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn the_workloads_explain_themselves() {
    insta::assert_snapshot!(frank(["bench", "throughput", "--help"]).ended(0).stdout);
}
