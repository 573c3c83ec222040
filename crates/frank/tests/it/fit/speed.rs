//! The speed of a plan whose experts are streamed: from a drive that is measured, and from nothing else.

use std::path::Path;

use serde_json::{Value, json};

use super::{DESKTOP, plan};
use crate::endpoint::Endpoint;
use crate::files::str;
use crate::mixture::{LAYERS, Moe, STREAMED};

/// Speeds of a plan, and its warnings.
fn predicted(model: &Path, options: &[&str]) -> (Option<f64>, Option<f64>, Vec<String>) {
    let plan = plan(model, &[&STREAMED[..], options].concat());
    let speed = |name: &str| plan["predict"][name].as_f64();
    let warnings = serde_json::from_value(plan["warnings"].clone()).expect("texts");
    (speed("decode_tok_s"), speed("prefill_tok_s"), warnings)
}

#[test]
fn a_plan_that_streams_has_a_speed_from_the_drive_where_the_model_lies() {
    let moe = Moe::new();
    for options in [&[][..], &["--io", "pread"], &["--io", "mmap"]] {
        let (decode, prefill, warnings) = predicted(&moe.model, options);
        assert!(decode.is_some_and(|speed| speed > 0.0), "{options:?}: {warnings:?}");
        assert!(prefill.is_some_and(|speed| speed > 0.0), "{options:?}: {warnings:?}");
        assert_eq!(warnings, [""; 0], "{options:?}");
    }
    assert_eq!(predicted(&moe.model, &["--no-measure"]), (None, None, Vec::new()));
}

#[test]
fn a_model_that_is_not_on_the_drive_as_a_whole_has_no_speed_and_the_plan_says_why() {
    let moe = Moe::new();
    let bytes = std::fs::read(&moe.model).expect("the model");
    let cut = moe.folder.file("cut.gguf", &bytes[..bytes.len() / 2]);
    let (decode, prefill, warnings) = predicted(&cut, &[]);
    assert_eq!((decode, prefill), (None, None));
    let reason = "no speed is predicted: the model is not here as a whole";
    assert!(warnings.iter().any(|warning| warning == reason), "{warnings:?}");
    // As long as it should be, and half of it a hole.
    let hole = std::fs::File::options().write(true).open(&cut).expect("that file");
    hole.set_len(bytes.len() as u64).expect("room for a hole");
    let (decode, prefill, warnings) = predicted(&cut, &[]);
    assert_eq!((decode, prefill), (None, None));
    let is_said = |warning: &String| {
        warning.starts_with("no speed is predicted: ") && warning.contains("cut.gguf is sparse")
    };
    assert!(warnings.iter().any(is_said), "{warnings:?}");
}

#[test]
fn experts_that_were_used_most_are_expected_in_memory() {
    let moe = Moe::new();
    let drive = "[[drive]]\npath = \"/\"\nbandwidth = \"1MB\"\n";
    let machine = moe.folder.file("desktop.toml", format!("{DESKTOP}{drive}"));
    let speed = |options: &[&str]| {
        let (decode, _, warnings) =
            predicted(&moe.model, &[&["--machine", str(&machine)], options].concat());
        decode.unwrap_or_else(|| panic!("{warnings:?}"))
    };
    let even = speed(&[]);
    let hot = |count: u64| {
        let lines = (0..LAYERS).map(|layer| format!("{layer},3,{count}\n{layer},7,{count}\n"));
        moe.folder.file("usage.csv", lines.collect::<String>())
    };
    let by_option = speed(&["--hotness", str(&hot(1000))]);
    assert!(by_option > 10.0 * even, "{by_option} {even}");
    assert!(speed(&["--hotness", str(&hot(1))]) < by_option);
    let usage = format!("{}.frank-usage", moe.model.display());
    std::fs::copy(hot(1000), usage).expect("copied");
    assert!(speed(&[]) > 10.0 * even, "slots fill with them too");
}

#[test]
fn a_server_says_the_speed_that_it_expects() {
    let moe = Moe::new();
    let options = ["-c", "65536", "--parallel", "1"];
    let endpoint = Endpoint::start(&moe.model, &[&STREAMED[..], &options].concat());
    assert!(endpoint.preface.contains(" tokens a second for one answer"), "{}", endpoint.preface);
}

#[test]
fn a_machine_file_without_a_drive_gives_no_speed() {
    let moe = Moe::new();
    let machine = moe.folder.file("desktop.toml", DESKTOP);
    let planned = plan(&moe.model, &[&STREAMED[..], &["--machine", str(&machine)]].concat());
    let none =
        json!({"decode_tok_s": Value::Null, "prefill_tok_s": Value::Null, "bound": Value::Null});
    assert_eq!(planned["predict"], none);
}
