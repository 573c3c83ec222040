//! What does not fit is refused with the numbers to change.

use super::{fit, keys, number};
use crate::files::llama;

#[test]
fn a_tiny_budget_is_refused_with_the_device_the_shortfall_and_the_numbers_to_change() {
    let run = fit(&llama(), &["--memory-budget", "1MiB"]).ended(3);
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert!(lines[0].starts_with("error: does not fit on cpu:0: "), "{run:?}");
    assert!(
        lines[0].contains("1.00 MiB allowed by --memory-budget") && lines[0].contains("short"),
        "{run:?}"
    );
    assert!(lines[1].starts_with("hint: it fits with --memory-budget "), "{run:?}");
    assert_eq!(lines.len(), 2, "{run:?}");
    assert!(run.stdout.contains("  used "), "what it would take is shown: {run:?}");
}

#[test]
fn every_change_that_a_refusal_suggests_fits() {
    let options = ["--memory-budget", "600MiB", "-c", "1000000", "-np", "4"];
    let refused = fit(&llama(), &[&options[..], &["--json"]].concat()).ended(3).json();
    assert_eq!(refused["fits"], false);
    let refusal = &refused["refusal"];
    assert_eq!(keys(refusal), ["device", "short_by", "reason", "change"]);
    assert_eq!(refusal["device"], "cpu:0");
    let used = number(&refused["devices"][0]["used"]);
    assert_eq!(number(&refusal["short_by"]), used - (600 << 20));
    let changes = refusal["change"].as_array().unwrap();
    assert!(changes.len() >= 3, "{refusal}");
    for change in changes {
        // What is given twice counts once: a change replaces what was asked for.
        let change: Vec<&str> = change.as_str().unwrap().split(' ').collect();
        let asked = options.chunks(2).filter(|pair| !change.contains(&full_name(pair[0])));
        let changed: Vec<&str> = asked.flatten().copied().chain(change.iter().copied()).collect();
        fit(&llama(), &changed).ended(0);
    }
}

fn full_name(option: &str) -> &str {
    match option {
        "-c" => "--ctx-size",
        "-np" => "--parallel",
        other => other,
    }
}

#[test]
fn a_device_cap_is_kept_to() {
    let run = fit(&llama(), &["--device", "cpu:0=1MiB"]).ended(3);
    assert!(run.stderr.contains("1.00 MiB allowed by --device cpu:0"), "{run:?}");
    fit(&llama(), &["--device", "cpu:0=1GiB"]).ended(0);
}
