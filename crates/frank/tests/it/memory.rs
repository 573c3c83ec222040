//! The plan against what the process really took.

use std::path::Path;

use frank_testkit::assets;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::program::frank;

/// What `frank fit` plans with `options`.
fn planned(model: &Path, options: &[&str]) -> Value {
    let args = [&["fit", "--json", model.to_str().expect("UTF-8")], options].concat();
    frank(args).ended(0).json()
}

/// A number of a plan.
fn number(plan: &Value, pointer: &str) -> u64 {
    plan.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {plan}"))
}

/// Bytes of the whole plan.
fn used(plan: &Value) -> u64 {
    number(plan, "/devices/0/used")
}

fn check(model: &Path, options: &[&str]) {
    check_answers(model, options, 40, 20);
}

/// Serves an answer of `long` tokens after a long prompt, then four of `short` in a form at once, and compares the peak with
/// the plan.
fn check_answers(model: &Path, options: &[&str], long: u32, short: u32) {
    let planned = used(&planned(model, options));
    let endpoint = Endpoint::start(model, options);
    let request = json!({
        "prompt": "Tell me a long story about a cat and a dog. ".repeat(20),
        "max_tokens": long,
        "temperature": 1,
        "seed": 1,
    });
    let reply = endpoint.post("/v1/completions", &request.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    // The first answer in a form makes the trie of all tokens, which stays; each has a grammar of its own.
    let in_form = json!({
        "prompt": "A cat in JSON: ",
        "max_tokens": short,
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
    check(model, &["--ctx-size", "8192", "--kv-type", "q8_0"]);
    check(model, &["--ctx-size", "512", "--prefix-cache", "200MiB"]);
}

#[test]
fn the_peak_is_below_the_plan_by_3_percent_at_most_for_other_families_and_vocabularies() {
    for model in [assets::gemma3(), assets::qwen2()].into_iter().flatten() {
        check_answers(&model, &["--ctx-size", "512", "--parallel", "1"], 20, 20);
        check_answers(&model, &["--ctx-size", "2048"], 20, 20);
    }
}

#[test]
fn the_peak_of_a_real_mixture_of_experts_is_below_the_plan_by_3_percent_at_most() {
    if let Some(model) = assets::smol_moe() {
        check(&model, &["--ctx-size", "512", "--parallel", "1"]);
        check(&model, &["--ctx-size", "2048"]);
    }
}

/// Budgets for a model with experts: what everything takes, what is left with half of the experts in memory, and the least
/// that is not refused.
fn budgets(model: &Path, context: &[&str]) -> [u64; 3] {
    let with = |budget: u64| {
        let budget = format!("{budget}B");
        planned(model, &[context, &["--memory-budget", &budget]].concat())
    };
    let whole = with(4 << 30);
    assert_eq!(number(&whole, "/experts/stream"), 0, "all resident: {whole}");
    let half = used(&whole) - number(&whole, "/devices/0/use/experts") / 2;
    let halved = with(half);
    let cache = number(&halved, "/devices/0/use/stream_cache");
    let resident = number(&halved, "/devices/0/use/experts");
    assert!(cache + resident > 0 && number(&halved, "/experts/stream") > 0, "streamed: {halved}");
    let slots = number(&halved, "/experts/floor_slots");
    // Memory is taken in huge pages.
    let floor = (slots * number(&halved, "/experts/bytes_each")).next_multiple_of(2 << 20);
    let gone = cache + resident - floor;
    // So is a page table for each of them; one is left for what rounding took.
    let least = used(&halved) - gone - gone / 512 + 4096;
    assert_eq!(number(&with(least), "/experts/cache_slots"), slots, "at the floor");
    [used(&whole), half, least]
}

#[test]
fn the_peak_of_streamed_experts_is_below_the_plan_by_3_percent_at_most_at_three_budgets() {
    let model = &assets::synthetic_moe();
    for (ctx_size, io) in [("512", "mmap"), ("2048", "pread"), ("8192", "auto")] {
        let context = ["--ctx-size", ctx_size, "--parallel", "1"];
        let [whole, half, least] = budgets(model, &context).map(|budget| format!("{budget}B"));
        check_answers(model, &[&context[..], &["--memory-budget", &whole]].concat(), 8, 4);
        for budget in [half, least] {
            let streamed = ["--memory-budget", &budget, "--io", io];
            check_answers(model, &[&context[..], &streamed].concat(), 8, 4);
        }
    }
}

#[test]
fn the_peak_while_loading_is_within_the_plan() {
    for options in [["--ctx-size", "512"], ["--ctx-size", "8192"]] {
        let (model, options) = (assets::smollm2(), options.as_slice());
        let planned = used(&planned(&model, options));
        let endpoint = Endpoint::start(&model, options);
        assert!(endpoint.preface.contains("loaded 93.81 MiB in "), "{}", endpoint.preface);
        let peak = endpoint.peak_bytes();
        assert!(peak <= planned, "{options:?}: planned {planned}, peak {peak}");
    }
}
