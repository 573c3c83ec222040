//! The program of every runtime, on the host and in a container.

use serde_json::json;

use super::{Case, NAMES, case};

/// An endpoint that asks for much of what its runtime has.
pub(crate) fn full(name: &str) -> Case {
    let devices = [("rocm:0", "gfx1201"), ("rocm:1", "gfx1201")];
    let case = case(name).on(&devices).with("env", json!({"TOKEN": "credential:token"}));
    match name {
        "llama.cpp" => case
            .with_draft()
            .with_projector()
            .with("vision", true)
            .with("slots", 2)
            .with("devices", json!(["rocm:0", "rocm:1"]))
            .with("api-keys", "file:/etc/frank/keys")
            .option("spec-type", "draft-dflash,ngram-mod")
            .option("spec-draft-n-max", 7)
            .option("tensor-split", json!([35, 30]))
            .option("slot-save-path", "/srv/slots")
            .option("ub", 1536),
        "vllm" => case
            .with_draft()
            .with("slots", 4)
            .with("api-keys", "env:KEY")
            .option("tensor-parallel-size", 2)
            .option("speculative-config", json!({"method": "mtp", "num_speculative_tokens": 2})),
        "lucebox" => case.with_draft().option("kv-cache-dir", "/srv/kv").option("chunk", 1024),
        "frank" => case
            .with("api-keys", "file:/etc/frank/keys")
            .option("cache-dir", "/srv/prefixes")
            .option("hotness", "/srv/models/usage.csv")
            .option("no-prefetch", true),
        _ => case.option("health", "/ready"),
    }
}

#[test]
fn every_kind_of_runtime_has_its_program_on_the_host_and_in_a_container() {
    for name in NAMES {
        insta::assert_debug_snapshot!(format!("{name}_on_the_host"), full(name).workload());
        insta::assert_debug_snapshot!(
            format!("{name}_in_a_container"),
            full(name).in_image().workload()
        );
    }
}

#[test]
fn a_template_is_given_by_its_path() {
    for (name, option) in [
        ("frank", "--chat-template"),
        ("llama.cpp", "--chat-template-file"),
        ("vllm", "--chat-template"),
        ("lucebox", "--chat-template-file"),
    ] {
        let mut case = case(name);
        case.template_path = Some("/srv/files/chat.jinja".to_owned());
        assert_eq!(case.value(option).as_deref(), Some("/srv/files/chat.jinja"), "{name}");
        let mounts = case.in_image().workload().mounts;
        let mount = mounts.iter().find(|mount| mount.source == "/srv/files/chat.jinja").unwrap();
        assert!(mount.read_only && !mount.is_folder, "{name}");
    }
}

#[test]
fn every_rule_for_a_log_is_a_regular_expression() {
    for name in NAMES {
        let log = full(name).with("env", json!({"VLLM_A.B": "1"})).workload().log;
        for rule in log.must.iter().chain(&log.may).chain(&log.must_not) {
            assert!(fancy_regex::Regex::new(rule).is_ok(), "{name}: {rule}");
        }
    }
}
