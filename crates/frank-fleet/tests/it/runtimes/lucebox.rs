//! Lucebox: options that are one architecture's, budgets of experts, the way around its entry point.

use frank_fleet::Program;
use serde_json::json;

use super::{Case, case};

fn of(architecture: &str) -> Case {
    let mut case = case("lucebox").on(&[("rocm:0", "gfx1151")]);
    case.architecture = Some(architecture.to_owned());
    case
}

#[test]
fn options_that_an_architecture_refuses_are_errors_and_those_that_it_ignores_warnings() {
    for (architecture, option, value, code, is_error) in [
        ("qwen35", "ds4-prefill", json!("sparse"), "architecture_refuses", true),
        ("laguna", "ds4-fused-decode", json!(true), "architecture_refuses", true),
        ("gemma4", "prefill-compression", json!("auto"), "architecture_refuses", true),
        ("gemma4", "cache-type-k", json!("q8_0"), "ignored_option", false),
        ("deepseek4", "cache-type-v", json!("q8_0"), "ignored_option", false),
        ("qwen3", "target-layer-split", json!("1,1"), "ignored_option", false),
        ("qwen35", "spark", json!(true), "ignored_option", false),
        ("qwen35", "verify-width", json!(8), "ignored_option", false),
        ("deepseek4", "ddtree", json!(true), "ignored_option", false),
    ] {
        let case = of(architecture).option(option, value);
        let expected = if is_error { case.errors() } else { case.warnings() };
        assert!(expected.contains(&code), "{architecture} {option}: {:?}", case.said());
        assert_eq!(case.errors().is_empty(), !is_error, "{:?}", case.said());
    }
    for (architecture, option, value) in [
        ("deepseek4", "ds4-prefill", json!("sparse")),
        ("deepseek4", "ds4-fused-decode", json!(true)),
        ("laguna", "cache-type-k", json!("q8_0")),
        ("qwen35", "ddtree", json!(true)),
        ("qwen35", "ds4-prefill", json!("exact")),
    ] {
        assert_eq!(
            of(architecture).option(option, value).said(),
            Vec::<String>::new(),
            "{architecture} {option}"
        );
    }
}

#[test]
fn a_draft_model_that_an_architecture_passes_over_is_a_warning() {
    assert_eq!(of("qwen35").with_draft().said(), Vec::<String>::new());
    assert_eq!(of("qwen3").with_draft().warnings(), ["ignored_option"]);
}

#[test]
fn what_wants_one_device_of_amd_is_refused_elsewhere() {
    let fused = of("deepseek4").option("ds4-fused-decode", true);
    assert_eq!(fused.clone().on(&[("cuda:0", "sm_86")]).errors(), ["device_count"]);
    assert_eq!(
        fused.option("target-devices", json!(["hip:0", "hip:1"])).errors(),
        ["device_count"]
    );
}

#[test]
fn an_architecture_that_nobody_has_seen_it_load_is_a_warning() {
    assert_eq!(of("llama").warnings(), ["unknown_architecture"]);
}

#[test]
fn a_prefill_that_wants_one_device_is_refused_beside_shared_experts() {
    let dense = of("deepseek4").option("ds4-prefill", "dense");
    assert_eq!(dense.errors(), Vec::<&str>::new());
    let hybrid = dense.with("env", json!({"LUCE_EXPERT_BUDGET_MB": "18000"}));
    assert_eq!(hybrid.errors(), ["prefill_needs_one_device"]);
    assert!(hybrid.said().join("\n").contains("191,932.25 MiB"), "{:?}", hybrid.said());
}

#[test]
fn a_budget_of_experts_that_is_not_pinned_is_named() {
    let shared = |env| of("laguna").option("spark", true).with("env", env);
    let said = shared(json!({})).said().join("\n");
    assert!(said.contains("experts on the first device"), "{said}");
    assert!(said.contains("slots of the expert cache"), "{said}");
    let two = shared(json!({})).on(&[("rocm:0", "gfx1151"), ("rocm:1", "gfx1201")]);
    assert_eq!(two.warnings(), ["budget_not_pinned"; 3]);
    let pinned = json!({
        "LUCE_EXPERT_BUDGET_MB": "18000", "LUCE_EXPERT_SECONDARY_BUDGET_MB": "54000",
        "DFLASH_LAGUNA_CACHE_SLOTS": "675",
    });
    assert_eq!(two.with("env", pinned).said(), Vec::<String>::new());
    assert_eq!(
        of("laguna").warnings(),
        Vec::<&str>::new(),
        "without shared experts there is nothing to pin"
    );
}

#[test]
fn the_entry_point_of_an_image_that_cannot_take_the_flags_is_replaced() {
    let entrypoint = |case: &Case| match case.workload().program {
        Program::Container { entrypoint, .. } => entrypoint,
        Program::Host { .. } => panic!("a container"),
    };
    let server = "/opt/lucebox-hub/server/build/dflash_server";
    assert_eq!(entrypoint(&case("lucebox").in_image()).as_deref(), Some(server));
    let own = case("lucebox").in_image().with("program", "/own/server");
    assert_eq!(entrypoint(&own).as_deref(), Some("/own/server"));
    assert_eq!(entrypoint(&case("vllm").in_image()).as_deref(), Some("vllm"));
    assert_eq!(entrypoint(&case("llama.cpp").in_image()), None);
}

#[test]
fn what_it_is_not_known_to_have_is_said() {
    assert_eq!(case("lucebox").with("vision", true).errors(), ["no_vision"]);
    assert_eq!(case("lucebox").with("slots", 2).warnings(), ["unknown_slots"]);
}

#[test]
fn its_log_tells_what_it_passed_over_and_a_fallback_may_be_meant() {
    let log = "[spark] --spark ignored: arch 'qwen35' has no hot/cold MoE offload path\n\
               [adaptive-k] ignoring DFLASH_ADAPTIVE_K_TAU=\"x\"\n[server] listening on http://x\n";
    let faults =
        case("lucebox").placed(|runtime, _| runtime.ignored_options("endpoints.chat", log));
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert_eq!(case("lucebox").workload().log.may, ["falling back"]);
}
