//! The plan against what the process really took.

use std::path::Path;

use frank_testkit::assets;
use serde_json::json;

use crate::endpoint::Endpoint;
use crate::program::frank;

/// Bytes that `frank fit` plans with `options`.
fn planned(model: &Path, options: &[&str]) -> u64 {
    let args = [&["fit", "--json", model.to_str().expect("UTF-8")], options].concat();
    frank(args)
        .ended(0)
        .json()
        .pointer("/devices/0/used")
        .and_then(serde_json::Value::as_u64)
        .expect("a plan")
}

fn check(model: &Path, options: &[&str]) {
    let planned = planned(model, options);
    let endpoint = Endpoint::start(model, options);
    let request = json!({
        "prompt": "Tell me a long story about a cat and a dog. ".repeat(20),
        "max_tokens": 100,
        "temperature": 1,
        "seed": 1,
    });
    let reply = endpoint.post("/v1/completions", &request.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    // The first answer in a form makes the trie of all tokens, which stays; each has a grammar of its own.
    let in_form = json!({
        "prompt": "A cat in JSON: ",
        "max_tokens": 20,
        "response_format": {"type": "json_object"},
        "logprobs": 2,
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let reply = endpoint.post("/v1/completions", &in_form.to_string());
                assert_eq!(reply.status, 200, "{}", reply.body);
            });
        }
    });
    let peak = endpoint.peak_bytes();
    let is_near = peak <= planned && (planned - peak) * 100 <= planned * 3;
    assert!(is_near, "{} {options:?}: planned {planned}, peak {peak}", model.display());
}

#[test]
fn the_peak_of_served_requests_is_below_the_plan_by_3_percent_at_most() {
    let model = &assets::smollm2();
    for ctx_size in ["512", "2048", "8192"] {
        check(model, &["--ctx-size", ctx_size]);
        check(model, &["--ctx-size", ctx_size, "--parallel", "1"]);
    }
    check(model, &["--ctx-size", "512", "--kv-type", "f32", "--ubatch-size", "64"]);
    check(model, &["--ctx-size", "512", "--prefix-cache", "200MiB"]);
}

#[test]
fn the_peak_is_below_the_plan_by_3_percent_at_most_for_other_families_and_vocabularies() {
    for model in [assets::gemma3(), assets::qwen2()].into_iter().flatten() {
        check(&model, &["--ctx-size", "512", "--parallel", "1"]);
        check(&model, &["--ctx-size", "2048"]);
    }
}

#[test]
fn the_peak_while_loading_is_within_the_plan() {
    for options in [["--ctx-size", "512"], ["--ctx-size", "8192"]] {
        let (model, options) = (assets::smollm2(), options.as_slice());
        let planned = planned(&model, options);
        let endpoint = Endpoint::start(&model, options);
        assert!(endpoint.preface.contains("loaded 93.81 MiB in "), "{}", endpoint.preface);
        let peak = endpoint.peak_bytes();
        assert!(peak <= planned, "{options:?}: planned {planned}, peak {peak}");
    }
}
