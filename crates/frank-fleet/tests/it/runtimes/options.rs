//! Options by their names, in every runtime's own words.

use serde_json::json;

use super::case;

#[track_caller]
fn check(runtime: &str, option: &str, value: serde_json::Value, expected: &str) {
    let said = case(runtime).option(option, value).said().join("\n");
    assert_eq!(said, expected);
}

#[test]
fn an_unknown_option_names_what_may_have_been_meant() {
    check(
        "llama.cpp",
        "ubatchsize",
        json!(512),
        "error unknown_option endpoints.chat.options.ubatchsize: llama.cpp has no option `ubatchsize` \
         (did you mean `ubatch-size` or `batch-size`?)",
    );
    check(
        "vllm",
        "gpu-memory-utilisation",
        json!(0.9),
        "error unknown_option endpoints.chat.options.gpu-memory-utilisation: vllm has no option \
         `gpu-memory-utilisation` (did you mean `gpu-memory-utilization`?)",
    );
    check(
        "frank",
        "stream-cash",
        json!("1GiB"),
        "error unknown_option endpoints.chat.options.stream-cash: frank has no option `stream-cash` \
         (did you mean `stream-cache`?)",
    );
    check(
        "lucebox",
        "zzz",
        json!(1),
        "error unknown_option endpoints.chat.options.zzz: lucebox has no option `zzz` (`frank probe` \
         reads the options of the build on the host)",
    );
}

#[test]
fn an_option_that_the_endpoint_sets_is_refused_with_its_field() {
    for (runtime, option, field) in [
        ("llama.cpp", "ctx-size", "context"),
        ("llama.cpp", "c", "context"),
        ("llama.cpp", "np", "slots"),
        ("llama.cpp", "port", "port"),
        ("llama.cpp", "md", "draft"),
        ("llama.cpp", "mmproj", "projector"),
        ("vllm", "max-model-len", "context"),
        ("vllm", "served-model-name", "alias"),
        ("lucebox", "max-ctx", "context"),
        ("frank", "ctx-size", "context"),
        ("frank", "memory-budget", "memory-budget"),
    ] {
        let said = case(runtime).option(option, 1).said().join("\n");
        assert!(said.starts_with("error contract_option"), "{runtime} {option}: {said}");
        assert!(said.contains(&format!("`{field}`")), "{runtime} {option}: {said}");
    }
}

#[test]
fn a_secret_is_no_option() {
    for (runtime, option) in
        [("llama.cpp", "hf-token"), ("vllm", "hf-token"), ("lucebox", "prefill-upstream-key")]
    {
        assert_eq!(case(runtime).option(option, "x").errors(), ["secret_option"], "{runtime}");
    }
}

#[test]
fn what_a_runtime_took_out_or_does_nothing_with_is_said() {
    assert_eq!(case("llama.cpp").option("draft-max", 4).errors(), ["removed_option"]);
    assert_eq!(case("llama.cpp").option("defrag-thold", 0.1).warnings(), ["ignored_option"]);
    assert_eq!(case("llama.cpp").option("list-devices", true).errors(), ["not_for_a_server"]);
}

#[test]
fn options_stand_without_dashes_and_once() {
    assert_eq!(case("llama.cpp").option("--batch-size", 1).errors(), ["dashes"]);
    let twice = case("llama.cpp").option("batch-size", 1).option("b", 2);
    assert_eq!(twice.errors(), ["option_twice"]);
}

#[test]
fn an_option_by_any_of_its_names_is_written_by_its_first() {
    let plain = case("llama.cpp").args();
    let args = case("llama.cpp").option("ub", 1536).args();
    assert_eq!(args[plain.len()..], ["--ubatch-size", "1536"]);
}

#[test]
fn values_of_lists_switches_and_json_are_single_arguments() {
    for (runtime, name, value, expected) in [
        ("llama.cpp", "tensor-split", json!([36, 29]), "--tensor-split 36,29"),
        ("llama.cpp", "samplers", json!(["top_k", "temperature"]), "--samplers top_k;temperature"),
        ("llama.cpp", "kv-offload", json!(false), "--no-kv-offload"),
        ("llama.cpp", "cpu-moe", json!(true), "--cpu-moe"),
        ("llama.cpp", "no-warmup", json!(true), "--no-warmup"),
        ("llama.cpp", "nkvo", json!(true), "--no-kv-offload"),
        ("llama.cpp", "logit-bias", json!(["1+2", "3-4"]), "--logit-bias 1+2 --logit-bias 3-4"),
        ("vllm", "enable-prefix-caching", json!(false), "--no-enable-prefix-caching"),
        ("vllm", "compilation-config", json!({"mode": 3}), "--compilation-config {\"mode\":3}"),
        ("vllm", "cudagraph-capture-sizes", json!([1, 2, 4]), "--cudagraph-capture-sizes 1 2 4"),
        (
            "lucebox",
            "prefill-curve",
            json!(["10000:0.5", "40000:0.2"]),
            "--prefill-curve 10000:0.5 40000:0.2",
        ),
        ("frank", "expert-budget", json!(["cpu:0=20GiB"]), "--expert-budget cpu:0=20GiB"),
    ] {
        let args = case(runtime).option(name, value).args().join(" ");
        assert!(args.ends_with(expected), "{runtime}: {args}");
    }
}

#[test]
fn a_value_that_an_option_cannot_have_is_refused() {
    for (runtime, name, value) in [
        ("llama.cpp", "cpu-moe", json!(1)),
        ("llama.cpp", "ubatch-size", json!(true)),
        ("llama.cpp", "kv-offload", json!("off")),
        ("llama.cpp", "samplers", json!(["a;b"])),
        ("llama.cpp", "logit-bias", json!([])),
        ("vllm", "cudagraph-capture-sizes", json!([[1]])),
    ] {
        assert_eq!(
            case(runtime).option(name, value.clone()).errors(),
            ["bad_value"],
            "{name} {value}"
        );
    }
}

#[test]
fn hostile_values_stay_one_argument_each() {
    for value in
        ["a b", "'\"`$(x)`", "%h ${HOME}", "line\nline", "ünïcode", "-leading", "--port=1", ""]
    {
        let case = case("llama.cpp").option("reverse-prompt", json!([value])).with("alias", value);
        let args = case.args();
        assert_eq!(args.iter().filter(|arg| *arg == value).count(), 2, "{value:?} in {args:?}");
    }
}
