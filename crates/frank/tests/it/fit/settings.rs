//! What settings change in a plan, and the most of one that fits.

use frank_testkit::assets;
use serde_json::json;

use super::{desktop, fit, number, optimized, plan};
use crate::files::{Folder, llama};

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
