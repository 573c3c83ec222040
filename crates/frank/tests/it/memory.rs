//! The plan against what the process really took.

use frank_testkit::assets;
use serde_json::json;

use crate::endpoint::Endpoint;
use crate::program::frank;

/// Bytes that `frank fit` plans with `options`.
fn planned(options: &[&str]) -> u64 {
    let model = assets::smollm2();
    let args = [&["fit", "--json", model.to_str().expect("UTF-8")], options].concat();
    frank(args)
        .ended(0)
        .json()
        .pointer("/devices/0/used")
        .and_then(serde_json::Value::as_u64)
        .expect("a plan")
}

fn check(options: &[&str]) {
    let planned = planned(options);
    let endpoint = Endpoint::start(&assets::smollm2(), options);
    let request = json!({
        "messages": [{"role": "user", "content": "Tell me a long story about a cat and a dog. ".repeat(20)}],
        "max_tokens": 100,
        "temperature": 1,
        "seed": 1,
    });
    let reply = endpoint.post("/v1/chat/completions", &request.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    let peak = endpoint.peak_bytes();
    let off = planned.abs_diff(peak);
    assert!(off * 20 <= planned, "{options:?}: planned {planned}, peak {peak}");
}

#[test]
fn the_peak_of_a_served_request_is_within_5_percent_of_the_plan() {
    for ctx_size in ["512", "2048", "8192"] {
        check(&["--ctx-size", ctx_size]);
        check(&["--ctx-size", ctx_size, "--parallel", "1"]);
    }
    check(&["--ctx-size", "512", "--kv-type", "f32", "--ubatch-size", "64"]);
}

#[test]
fn the_peak_while_loading_is_within_the_plan() {
    for options in [["--ctx-size", "512"], ["--ctx-size", "8192"]] {
        let planned = planned(&options);
        let endpoint = Endpoint::start(&assets::smollm2(), &options);
        assert!(endpoint.preface.contains("loaded 93.81 MiB in "), "{}", endpoint.preface);
        let peak = endpoint.peak_bytes();
        assert!(peak <= planned, "{options:?}: planned {planned}, peak {peak}");
    }
}
