//! `frank probe`: facts, rates, and the machine file that `frank fit` reads. How fast anything is is nothing to assert.

use std::path::Path;

use frank_plan::Machine;
use serde_json::Value;

use crate::files::{Folder, llama};
use crate::program::{Run, frank};

/// A folder in memory: it is told at once that it is no drive.
const IN_MEMORY: &str = "/dev/shm";

fn probe(options: &[&str]) -> Run {
    frank([&["probe"], options].concat())
}

fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

#[test]
fn the_json_has_facts_and_rates() {
    let folder = Folder::new();
    let run = probe(&["--json", "--drive", folder.path().to_str().unwrap()]).ended(0);
    let facts = run.json();
    let (host, memory, drive) = (&facts["host"], &facts["memory"], &facts["drive"]);
    assert!(positive(&host["cores"]) && positive(&host["numa_nodes"]), "{facts}");
    assert!(host["features"].is_array(), "{facts}");
    assert!(memory["free"].as_u64() <= memory["total"].as_u64(), "{facts}");
    for rate in ["bandwidth", "arithmetic"] {
        assert!(positive(&memory[rate]["median"]), "{rate}: {facts}");
    }
    assert_eq!(drive["path"], folder.path().to_str().unwrap());
    // A folder of tests may lie in memory or on a full drive; it is said then, and never a number made up.
    let why_not = drive["not_measured"].is_string();
    assert!(positive(&drive["bandwidth"]) != why_not, "{facts}");
    assert_eq!(run.stderr.contains("is not measured: "), why_not, "{run:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn the_machine_file_is_read_back_by_fit_which_then_knows_the_speeds() {
    let folder = Folder::new();
    let run = probe(&["--toml", "--drive", IN_MEMORY]).ended(0);
    let machine = Machine::from_toml(&run.stdout).expect("fit reads it");
    assert_eq!(machine.to_toml(), run.stdout);
    let device = machine.primary().expect("a processor");
    assert!(device.bandwidth > Some(0) && device.arithmetic > Some(0), "{machine:?}");
    assert_eq!(machine.drives.len(), 1, "{machine:?}");
    let path = folder.file("box.toml", &run.stdout);
    let fit = |path: &Path| {
        let llama = llama();
        let args = ["fit".as_ref(), llama.as_os_str(), "--json".as_ref(), "--machine".as_ref()];
        frank([&args, &[path.as_os_str()][..]].concat()).ended(0).json()
    };
    let plan = fit(&path);
    assert_eq!(plan["devices"][0]["total"].as_u64(), Some(device.total));
    let predict = &plan["predict"];
    assert!(positive(&predict["decode_tok_s"]) && positive(&predict["prefill_tok_s"]), "{plan}");
}

#[test]
fn fit_measures_this_machine_and_leaves_it_when_told_to() {
    let fit = |options: &[&str]| {
        let llama = llama();
        let args = ["fit", llama.to_str().unwrap(), "--json"];
        frank([&args, options].concat()).ended(0).json()["predict"].clone()
    };
    let predict = fit(&[]);
    assert!(positive(&predict["decode_tok_s"]) && positive(&predict["prefill_tok_s"]), "{predict}");
    assert!(predict["bound"].is_string(), "{predict}");
    let predict = fit(&["--no-measure"]);
    assert!(predict["decode_tok_s"].is_null() && predict["bound"].is_null(), "{predict}");
}

#[test]
fn a_budget_too_small_to_measure_within_is_kept() {
    let llama = llama();
    let args = ["fit", llama.to_str().unwrap(), "--json", "--memory-budget", "50MiB"];
    let plan = frank(args).ended(0).json();
    assert!(plan["predict"]["decode_tok_s"].is_null(), "{plan}");
}

#[test]
fn the_table_names_each_fact() {
    let run = probe(&["--drive", IN_MEMORY]).ended(0);
    let names: Vec<&str> = run.stdout.lines().map(|line| line[..12].trim_end()).collect();
    assert_eq!(
        names,
        [
            "host",
            "cpu",
            "cores",
            "features",
            "last cache",
            "memory",
            "bandwidth",
            "arithmetic",
            "drive"
        ]
    );
    assert!(
        run.stderr.contains("/dev/shm is not measured: files there are kept in memory"),
        "{run:?}"
    );
}

#[test]
fn as_many_threads_measure_as_are_asked_for() {
    let facts = probe(&["--json", "--drive", IN_MEMORY, "--threads", "1"]).ended(0).json();
    assert_eq!(facts["memory"]["threads"].as_u64(), Some(1), "{facts}");
    let lines = probe(&["--threads", "0"]).failed(2);
    assert!(lines[0].contains("0 is not in 1..=512"), "{lines:?}");
}

#[test]
fn a_folder_that_is_none_is_refused() {
    let lines = probe(&["--drive", "/no/such/folder"]).failed(2);
    assert_eq!(lines, ["error: --drive /no/such/folder: there is no such folder"]);
    let lines = probe(&["--json", "--toml"]).failed(2);
    assert!(lines[0].contains("cannot be used with"), "{lines:?}");
}
