//! `frank fit`: the plan of this machine or another, as text and as JSON.

mod headers;
mod picture;
mod refusals;
mod settings;
mod speed;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::files::{Folder, llama};
use crate::program::{Run, frank};

/// A desktop with 64 GiB, 60 of them free, that reads 50 GB a second.
pub(crate) const DESKTOP: &str = r#"
[host]
ram = "64GiB"
cores = 16
[[device]]
id = "cpu:0"
kind = "cpu"
total = "64GiB"
free = "60GiB"
headroom = "2GiB"
bandwidth = "50GB"
"#;

const GIB: u64 = 1 << 30;

fn fit(model: &Path, options: &[&str]) -> Run {
    let args = ["fit".into(), OsString::from(model)];
    frank(args.into_iter().chain(options.iter().map(OsString::from)))
}

fn plan(model: &Path, options: &[&str]) -> Value {
    fit(model, &[options, &["--json"]].concat()).ended(0).json()
}

fn desktop(folder: &Folder) -> PathBuf {
    folder.file("desktop.toml", DESKTOP)
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number of bytes"))
}

#[test]
fn the_json_has_exactly_the_documented_keys() {
    let plan = plan(&llama(), &[]);
    assert_eq!(
        keys(&plan),
        ["fits", "model", "devices", "experts", "predict", "warnings", "refusal"]
    );
    assert_eq!(keys(&plan["model"]), ["arch", "file_bytes", "layers", "experts", "experts_used"]);
    let device = &plan["devices"][0];
    assert_eq!(keys(device), ["id", "total", "free", "headroom", "use", "used", "left"]);
    let uses = [
        "dense",
        "experts",
        "stream_cache",
        "kv_cache",
        "state",
        "prefix_cache",
        "compute",
        "io_staging",
        "draft",
        "projector",
        "runtime",
    ];
    assert_eq!(keys(&device["use"]), uses);
    let experts =
        ["count", "bytes_each", "primary", "secondary", "stream", "cache_slots", "floor_slots"];
    assert_eq!(keys(&plan["experts"]), experts);
    assert_eq!(keys(&plan["predict"]), ["decode_tok_s", "prefill_tok_s", "bound"]);
    assert_eq!(
        (&plan["fits"], &plan["refusal"], &plan["warnings"]),
        (&json!(true), &Value::Null, &json!([]))
    );
}

#[test]
fn the_numbers_of_this_machine_add_up() {
    let plan = plan(&llama(), &[]);
    let device = &plan["devices"][0];
    assert_eq!((&device["id"], plan["devices"].as_array().unwrap().len()), (&json!("cpu:0"), 1));
    let sum: u64 = device["use"].as_object().unwrap().values().map(number).sum();
    assert_eq!(number(&device["used"]), sum);
    assert!(number(&device["free"]) <= number(&device["total"]), "{device}");
    assert_eq!(
        number(&device["left"]),
        number(&device["free"]) - number(&device["headroom"]) - sum
    );
    let model = &plan["model"];
    assert_eq!(
        (&model["arch"], &model["layers"], &model["experts"]),
        (&json!("llama"), &json!(3), &json!(0))
    );
    assert_eq!(number(&model["file_bytes"]), std::fs::metadata(llama()).unwrap().len());
}

#[test]
fn a_machine_file_is_planned_for_instead_of_this_machine() {
    let folder = Folder::new();
    let desktop = desktop(&folder);
    let plan = plan(&llama(), &["--machine", desktop.to_str().unwrap()]);
    let device = &plan["devices"][0];
    assert_eq!(number(&device["total"]), 64 * GIB);
    assert_eq!(number(&device["free"]), 60 * GIB);
    assert_eq!(number(&device["headroom"]), 2 * GIB);
    assert!(plan["predict"]["decode_tok_s"].as_f64().unwrap() > 0.0, "{plan}");
    // So small a model takes longer to work through than to read.
    assert_eq!(plan["predict"]["bound"], "compute");
}

#[test]
fn the_plan_is_readable() {
    let folder = Folder::new();
    let desktop = desktop(&folder);
    let run = fit(
        &llama(),
        &["-c", "256", "-np", "2", "-ub", "64", "--machine", desktop.to_str().unwrap()],
    )
    .ended(0);
    assert_eq!(run.stderr, "");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[0], "llama, 3 layers, 590.88 KiB file");
    let settings =
        "256 tokens of context for each of 2 requests, 64 rows a step, 384 B of KV cache a token";
    assert_eq!(lines[1], settings);
    assert_eq!(lines[3], "cpu:0: 60.00 GiB free of 64.00 GiB");
    for expected in ["  kv_cache         2.00 MiB", "  headroom         2.00 GiB"] {
        assert!(lines.contains(&expected), "{}", run.stdout);
    }
    assert!(run.stdout.contains("tokens a second"), "{}", run.stdout);
}

/// The options that `--optimize` says, and a plan that was made with them.
pub(crate) fn optimized(model: &Path, aim: &str, options: &[&str]) -> (Vec<String>, Value) {
    let asked = [options, &["--optimize", aim]].concat();
    let best = plan(model, &asked);
    let found: Vec<String> = serde_json::from_value(best["options"].clone()).expect("options");
    let text = fit(model, &asked).ended(0).stdout;
    assert!(text.ends_with(&format!("\nuse {}\n", found.join(" "))), "{text}");
    let words: Vec<&str> = found.iter().flat_map(|option| option.split(' ')).collect();
    let planned = plan(model, &[options, &words].concat());
    assert_eq!((&planned["devices"], &planned["experts"]), (&best["devices"], &best["experts"]));
    (found, planned)
}
