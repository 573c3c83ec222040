//! `frank fit`: the plan, its JSON, and refusals that say what to change.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use frank_gguf::type_id;
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;
use serde_json::{Value, json};

use crate::files::{Folder, llama, llama_keys};
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

#[test]
fn each_device_has_a_bar_that_is_plain_where_nobody_looks_at_a_terminal() {
    let folder = Folder::new();
    let desktop = desktop(&folder);
    let output = fit(&llama(), &["--machine", desktop.to_str().unwrap()]).ended(0).stdout;
    let (_, bars) = output.split_once("\ncpu:0\n").expect("a bar below the table");
    let bar = bars.lines().next().expect("the bar");
    assert_eq!(bar.chars().count(), 80, "{bar}");
    // 4 of 64 GiB are held by others, and 2 stay free.
    assert!(bar.starts_with("  [-----###") && bar.ends_with("  ..]"), "{bar}");
    assert!(!output.contains('\x1b'), "{output}");
}

#[test]
fn the_plan_is_a_picture_too_and_nothing_else_is_overwritten() {
    let folder = Folder::new();
    let svg = folder.path().join("plan.svg");
    let draw = |model: &Path, options: &[&str]| {
        fit(model, &[options, &["--svg", svg.to_str().unwrap()]].concat())
    };
    draw(&llama(), &[]).ended(0);
    let picture = std::fs::read_to_string(&svg).expect("it was written");
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"), "{picture}");
    for expected in ["llama, 3 layers", "cpu:0: ", "dense ", "kv_cache ", "headroom "] {
        assert!(picture.contains(expected), "{expected}: {picture}");
    }
    draw(&llama(), &["--memory-budget", "1MiB", "--json"]).ended(3);
    let picture = std::fs::read_to_string(&svg).expect("it was written again");
    assert!(picture.contains("does not fit on cpu:0"), "{picture}");
    let evil = GgufWriter::new("<script>\x1b").f32_tensor("output.weight", &[4], &[0.0; 4]);
    draw(&folder.gguf("evil.gguf", &evil), &[]).ended(0);
    let picture = std::fs::read_to_string(&svg).expect("and again");
    assert!(picture.contains(r"&lt;script&gt;\u{1b}") && !picture.contains("<script"), "{picture}");
    let model = folder.file("model.gguf", "weights");
    for (place, cause) in [
        (model.as_path(), "cause: what is there is no .svg file"),
        (folder.path(), "cause: what is there is no .svg file"),
        (Path::new("/no/such/folder/plan.svg"), "cause: No such file or directory"),
    ] {
        let lines = fit(&llama(), &["--svg", place.to_str().unwrap()]).failed(2);
        assert_eq!(lines[0], format!("error: cannot write the plan to {}", place.display()));
        assert!(lines[1].starts_with(cause), "{lines:?}");
    }
    assert_eq!(std::fs::read(&model).unwrap(), b"weights");
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

#[test]
fn the_largest_context_and_number_of_requests_are_found_and_one_more_does_not_fit() {
    let folder = Folder::new();
    let desktop = desktop(&folder);
    let model = folder.llama_with("llama.context_length", 1_000_000u32);
    let fixed = ["--machine", desktop.to_str().unwrap(), "--memory-budget", "120MiB"];
    for (aim, option, step) in [("context", "--ctx-size", 32), ("requests", "--parallel", 1)] {
        let (found, _) = optimized(&model, aim, &fixed);
        let [found] = found.as_slice() else { panic!("{found:?}") };
        let (name, number) = found.split_once(' ').expect("an option and a number");
        assert_eq!(name, option);
        let number: u32 = number.parse().expect("a number");
        let more = (number + step).to_string();
        fit(&model, &[&fixed[..], &[name, &more]].concat()).ended(3);
    }
    // Nothing to find where even the least does not fit.
    fit(&model, &["--memory-budget", "1MiB", "--optimize", "context"]).ended(3);
}

#[test]
fn settings_change_what_is_used() {
    let use_of = |purpose: &str, options: &[&str]| {
        number(&plan(&llama(), options)["devices"][0]["use"][purpose])
    };
    let long = ["-c", "65536", "-np", "1"];
    assert_eq!(use_of("kv_cache", &long), 65536 * 3 * 2 * 2 * 16 * 2);
    assert_eq!(
        use_of("kv_cache", &[&long[..], &["--kv-type", "f32"]].concat()),
        65536 * 3 * 2 * 2 * 16 * 4
    );
    assert_eq!(
        use_of("kv_cache", &[&long[..], &["--kv-type", "f32,f16"]].concat()),
        65536 * 3 * 2 * 16 * (4 + 2)
    );
    // 6 layers with one head of 64 each for keys and for values; a block of 32 values is 34 bytes, or 18.
    let of_64 = |kv_type: &str| {
        let options = ["-c", "65536", "-np", "1", "--kv-type", kv_type, "-ub", "64"];
        number(&plan(&assets::tiny("gemma3.gguf"), &options)["devices"][0]["use"]["kv_cache"])
    };
    for (kv_type, bytes) in
        [("q8_0", 68 + 68), ("q4_0", 36 + 36), ("q8_0,q4_0", 68 + 36), ("f16,q4_0", 128 + 36)]
    {
        let all: u64 = (65536 + 5 * 4 * 32) * bytes;
        assert_eq!(of_64(kv_type), all.next_multiple_of(2 << 20), "{kv_type}");
    }
    assert!(use_of("compute", &["-ub", "512"]) > use_of("compute", &["-ub", "32"]));
}

#[test]
fn layers_with_a_window_take_what_they_reach_and_the_plan_says_how_much_that_is() {
    let gemma3 = assets::tiny("gemma3.gguf");
    let options = ["-c", "65536", "-np", "1", "-ub", "64"];
    let plan = plan(&gemma3, &options);
    // One of 6 layers looks back on everything; the others need 4 blocks. A token takes 64 keys and 64 values in f16.
    let bytes: u64 = (65536 + 5 * 4 * 32) * 2 * 64 * 2;
    assert_eq!(number(&plan["devices"][0]["use"]["kv_cache"]), bytes.next_multiple_of(2 << 20));
    let lines = fit(&gemma3, &options).ended(0).stdout;
    let expected = "1.50 KiB of KV cache a token, 1.25 KiB of it for the last 16 tokens only";
    assert!(lines.contains(expected), "{lines}");
}

#[test]
fn a_prefix_cache_is_planned_and_its_size_judged() {
    let options = ["-c", "65536", "-np", "1", "--prefix-cache", "64MiB"];
    let planned = plan(&llama(), &options);
    assert_eq!(number(&planned["devices"][0]["use"]["prefix_cache"]), 64 << 20);
    assert_eq!(number(&planned["devices"][0]["use"]["kv_cache"]), 65536 * 3 * 2 * 2 * 16 * 2);
    let small = plan(&llama(), &["-c", "65536", "--prefix-cache", "2MiB"]);
    let warnings = small["warnings"].to_string();
    let expected =
        "a prefix cache of 2.00 MiB cannot keep one whole request, which takes 24.00 MiB";
    assert!(warnings.contains(expected), "{warnings}");
    let off = plan(&llama(), &["--prefix-cache", "0"]);
    assert_eq!(off["devices"][0]["used"], plan(&llama(), &[])["devices"][0]["used"]);
}

#[test]
fn a_context_beyond_the_trained_one_is_warned_of() {
    let warnings = &plan(&llama(), &["-c", "1024"])["warnings"];
    let expected = "a context of 1024 tokens extrapolates 512 tokens beyond the 512 that the model was trained on";
    assert_eq!(*warnings, json!([expected]));
    let run = fit(&llama(), &["-c", "1024"]).ended(0);
    assert!(run.stdout.contains(&format!("warning: {expected}")), "{run:?}");
}

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

#[test]
fn a_header_alone_is_enough_to_plan() {
    let folder = Folder::new();
    let whole = plan(&llama(), &[]);
    let cut = plan(&folder.cut_llama(8000), &[]);
    assert_eq!(cut["devices"][0]["use"], whole["devices"][0]["use"]);
    assert!(cut["warnings"][0].as_str().unwrap().contains("is cut off: "), "{cut}");
}

#[test]
fn a_sparse_file_of_many_gigabytes_is_planned_at_its_full_size() {
    let folder = Folder::new();
    let row: u64 = 1 << 20;
    // A tensor of 160 GiB is only told of: the writer lays out no bytes for it.
    let writer = llama_keys("llama", 1).tensor(
        "blk.0.big.weight",
        &[row, 40 << 10],
        type_id::F32,
        Vec::new(),
    );
    let path = folder.sparse(&writer, 161 * GIB);
    let desktop = desktop(&folder);
    let run = fit(&path, &["--json", "--machine", desktop.to_str().unwrap()]).ended(3);
    assert!(number(&run.json()["devices"][0]["use"]["dense"]) >= 160 * GIB, "{run:?}");
}

#[test]
fn an_unknown_architecture_is_planned_from_its_tensors_and_said_so() {
    let folder = Folder::new();
    let writer = llama_keys("martian", 1)
        .tensor("blk.0.claw.weight", &[32, 32], 250, vec![0; 64 << 10])
        .f32_tensor("output.weight", &[4], &[0.0; 4]);
    let plan = plan(&folder.gguf("martian.gguf", &writer), &[]);
    assert_eq!(plan["model"]["arch"], "martian");
    assert!(number(&plan["devices"][0]["use"]["dense"]) >= 64 << 10, "{plan}");
    assert!(number(&plan["devices"][0]["use"]["kv_cache"]) > 0, "{plan}");
    assert!(plan["warnings"][0].as_str().unwrap().contains("cannot be loaded"), "{plan}");
}

#[test]
fn experts_are_told_apart_and_resident() {
    let folder = Folder::new();
    let expert = |part: &str| format!("blk.0.ffn_{part}_exps.weight");
    let writer = llama_keys("qwen3moe", 1)
        .value("qwen3moe.expert_count", 4u32)
        .value("qwen3moe.expert_used_count", 2u32)
        .f32_tensor(&expert("gate"), &[8, 2, 4], &[0.0; 64])
        .f32_tensor(&expert("up"), &[8, 2, 4], &[0.0; 64])
        .f32_tensor(&expert("down"), &[2, 8, 4], &[0.0; 64]);
    let path = folder.gguf("moe.gguf", &writer);
    let plan = plan(&path, &[]);
    assert_eq!(plan["model"]["experts"], 4);
    // They lie in whole huge pages.
    assert_eq!(number(&plan["devices"][0]["use"]["experts"]), 2 << 20);
    let experts = &plan["experts"];
    assert_eq!(
        (&experts["count"], &experts["primary"], &experts["floor_slots"]),
        (&json!(4), &json!(4), &json!(2))
    );
}

#[test]
fn absurd_metadata_is_planned_or_refused_and_never_a_panic() {
    let folder = Folder::new();
    for arch in ["llama", "martian"] {
        for key in [
            "block_count",
            "context_length",
            "embedding_length",
            "feed_forward_length",
            "attention.head_count",
            "attention.head_count_kv",
            "attention.key_length",
            "attention.value_length",
            "expert_count",
            "expert_used_count",
            "vocab_size",
        ] {
            for value in [0, 1, u32::MAX] {
                let writer = llama_keys(arch, 1).value(&format!("{arch}.{key}"), value).f32_tensor(
                    "blk.0.attn_q.weight",
                    &[64, 64],
                    &[0.0; 4096],
                );
                let run = fit(&folder.gguf("absurd.gguf", &writer), &["--no-measure"]);
                assert!(
                    [0, 2, 3].contains(&run.code) && !run.stderr.contains("panicked"),
                    "{key} {value}: {run:?}"
                );
            }
        }
        let writer = llama_keys(arch, 1)
            .value(&format!("{arch}.attention.head_count_kv"), u32::MAX)
            .value(&format!("{arch}.attention.key_length"), u32::MAX)
            .value(&format!("{arch}.attention.value_length"), u32::MAX);
        let run = fit(&folder.gguf("absurd.gguf", &writer), &["--no-measure"]);
        assert!([0, 2, 3].contains(&run.code) && !run.stderr.contains("panicked"), "{run:?}");
    }
}

#[test]
fn names_of_a_file_never_write_to_the_terminal() {
    let folder = Folder::new();
    let writer = GgufWriter::new("evil\x1b[2J").f32_tensor("output.weight", &[4], &[0.0; 4]);
    let run = fit(&folder.gguf("evil.gguf", &writer), &[]).ended(0);
    assert!(!run.stdout.contains('\x1b') && run.stdout.contains(r"evil\u{1b}[2J"), "{run:?}");
}
