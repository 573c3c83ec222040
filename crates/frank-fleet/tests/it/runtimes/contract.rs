//! The contract of an endpoint under every runtime.

use frank_fleet::{EnvValue, Gate, Program, Published, RUNTIMES, SecretRef, Workload};
use proptest::prelude::*;
use serde_json::json;

use super::{Case, NAMES, case};

#[test]
fn the_table_holds_every_runtime_once() {
    let names: Vec<&str> = RUNTIMES.iter().map(|runtime| runtime.name).collect();
    assert_eq!(names, NAMES);
}

fn listens(workload: &Workload, flag: &str) -> Option<String> {
    let args = workload.program.args();
    let at = args.iter().position(|arg| arg == flag)?;
    args.get(at + 1).cloned()
}

proptest! {
    #[test]
    fn port_and_alias_stay_while_runtime_and_model_change(
        port in 1_u16..,
        alias in "[a-zA-Z0-9._/ $%'\"-]{1,30}",
        bind in prop::option::of("[0-9]{1,3}\\.[0-9]{1,3}\\.0\\.1"),
        model in "/[a-z]{1,9}/[a-z]{1,9}\\.gguf",
        image in any::<bool>(),
    ) {
        for name in NAMES {
            let mut case = case(name).with("port", port).with("alias", alias.as_str());
            case.endpoint["bind"] = json!(bind);
            case.model_path = model.clone();
            let case = if image { case.in_image() } else { case };
            let workload = case.workload();
            let inner = listens(&workload, "--port");
            prop_assert_eq!(inner, Some(port.to_string()), "{}", name);
            prop_assert_eq!(workload.readiness.port, port);
            prop_assert_eq!(&workload.labels["frank.alias"], &alias);
            prop_assert!(workload.program.args().contains(&alias), "{} {:?}", name, workload.program);
            let address = bind.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
            let published = vec![Published { address, port, inner: port }];
            prop_assert_eq!(workload.published, if image { published } else { Vec::new() });
        }
    }
}

#[test]
fn only_the_contracts_port_is_published() {
    for name in NAMES {
        let published = case(name).in_image().workload().published;
        assert_eq!(published.len(), 1, "{name}");
        assert_eq!(
            (published[0].address.as_str(), published[0].port),
            ("127.0.0.1", 7770),
            "{name}"
        );
    }
}

#[test]
fn a_container_listens_on_all_its_addresses_and_a_program_on_the_endpoints() {
    for name in ["frank", "llama.cpp", "vllm", "lucebox"] {
        let case = case(name).with("bind", "10.0.0.7");
        assert_eq!(case.value("--host").as_deref(), Some("10.0.0.7"), "{name}");
        assert_eq!(case.in_image().value("--host").as_deref(), Some("0.0.0.0"), "{name}");
    }
}

#[test]
fn what_is_declared_and_absent_is_an_error() {
    for name in NAMES {
        let case = rich(name);
        let workload = case.workload();
        let absent = |workload: &Workload| {
            case.placed(|runtime, placement| runtime.absent(placement, workload))
        };
        assert_eq!(absent(&workload), [], "{name}");
        let Program::Host { argv } = &workload.program else {
            panic!("{name}: a program of the host")
        };
        // Each word is taken out in turn: whichever it is, somebody declared it.
        for at in 1..argv.len() {
            let mut argv = argv.clone();
            let word = argv.remove(at);
            let edited = Workload { program: Program::Host { argv }, ..workload.clone() };
            let faults = absent(&edited);
            assert!(!faults.is_empty(), "{name}: without {word}");
            assert_eq!(faults[0].code, "declared_but_absent");
        }
    }
}

/// An endpoint that declares much.
fn rich(name: &str) -> Case {
    match name {
        "llama.cpp" => case(name)
            .with_projector()
            .with_draft()
            .with("vision", true)
            .with("slots", 2)
            .option("spec-type", "draft-mtp")
            .option("ubatch-size", 1536),
        "vllm" => case(name).option("gpu-memory-utilization", 0.8).option("enforce-eager", true),
        "lucebox" => case(name).with_draft().option("chunk", 1024),
        "frank" => case(name).option("kv-type", "q8_0").option("no-prefetch", true),
        _ => case(name),
    }
}

#[test]
fn a_default_that_is_written_down_changes_nothing() {
    for (name, option, value) in [
        ("llama.cpp", "batch-size", json!(2048)),
        ("llama.cpp", "temp", json!(0.8)),
        ("llama.cpp", "temp", json!("0.80")),
        ("llama.cpp", "ctx-checkpoints", json!(32)),
        ("llama.cpp", "swa-checkpoints", json!(32)),
        ("llama.cpp", "kv-offload", json!(true)),
        ("llama.cpp", "spec-type", json!("none")),
        ("vllm", "tensor-parallel-size", json!(1)),
        ("vllm", "kv-cache-dtype", json!("auto")),
        ("lucebox", "chunk", json!(512)),
        ("lucebox", "fast-rollback", json!(true)),
        ("frank", "queue", json!(64)),
        ("frank", "kv-type", json!("f16")),
        ("frank", "no-prefetch", json!(false)),
    ] {
        let plain = case(name);
        let explicit = plain.clone().option(option, value.clone());
        assert_eq!(plain.workload(), explicit.workload(), "{name} {option} = {value}");
    }
}

#[test]
fn every_default_that_is_known_changes_nothing_when_it_is_written_down() {
    for runtime in RUNTIMES {
        for claim in (runtime.defaults)() {
            let default = match claim.default.as_str() {
                "on" => json!(true),
                "off" => json!(false),
                text => json!(text),
            };
            let plain = case(runtime.name);
            let text = plain.clone().option(&claim.option, claim.default.as_str());
            let switch = plain.clone().option(&claim.option, default);
            let explicit = if switch.errors().is_empty() { switch } else { text };
            if explicit.errors().contains(&"contract_option") {
                continue;
            }
            assert_eq!(plain.workload(), explicit.workload(), "{} {claim:?}", runtime.name);
        }
    }
}

#[test]
fn every_runtime_may_lock_memory() {
    for name in NAMES {
        assert!(case(name).workload().locks_memory, "{name}");
    }
}

#[test]
fn a_start_may_take_as_long_as_it_was_seen_to() {
    for (name, seconds) in
        [("frank", 1800), ("llama.cpp", 1800), ("vllm", 2400), ("lucebox", 2400), ("command", 1800)]
    {
        assert_eq!(case(name).workload().readiness.start_period, seconds, "{name}");
        let own = case(name).with("verify", json!({"start-period": 60}));
        let own = own.placed(|runtime, placement| (runtime.render)(placement));
        assert!([60, seconds].contains(&own.readiness.start_period));
    }
}

#[test]
fn a_budget_is_a_limit_of_the_system_where_the_runtime_keeps_none() {
    for name in NAMES {
        let limit = case(name).workload().memory_limit;
        assert_eq!(limit, (name != "frank").then_some(20 << 30), "{name}");
    }
    assert_eq!(case("frank").value("--memory-budget").as_deref(), Some("20GiB"));
}

#[test]
fn gates_are_those_of_the_program_and_its_model() {
    for name in NAMES {
        let gates = case(name).workload().gates;
        let program = Gate::Program(format!("/opt/{name}/server"));
        let model = Gate::Model("/srv/models/m/m-00001-of-00003.gguf".to_owned());
        assert_eq!(gates, [program, model], "{name}");
    }
}

#[test]
fn no_value_of_a_secret_is_asked_for_and_its_place_is_kept() {
    for (name, variable) in [("llama.cpp", "LLAMA_API_KEY"), ("vllm", "VLLM_API_KEY")] {
        for place in ["env:KEYS", "credential:keys"] {
            let env = case(name).with("api-keys", place).workload().env;
            assert_eq!(env.len(), 1);
            assert_eq!(env[0].name, variable);
            assert_eq!(env[0].value, EnvValue::Secret(SecretRef(place.to_owned()).0));
        }
        assert_eq!(case(name).with("api-keys", "sk-123").errors(), ["secret_value"]);
    }
    for name in ["frank", "llama.cpp"] {
        let case = case(name).with("api-keys", "file:/etc/keys");
        assert_eq!(case.value("--api-key-file").as_deref(), Some("/etc/keys"), "{name}");
        let mounts = case.in_image().workload().mounts;
        assert!(mounts.iter().any(|mount| mount.source == "/etc/keys" && mount.read_only));
    }
    assert_eq!(case("frank").with("api-keys", "env:KEYS").errors(), ["no_api_keys"]);
    assert_eq!(case("vllm").with("api-keys", "file:/etc/keys").errors(), ["no_api_keys"]);
    assert_eq!(case("lucebox").with("api-keys", "file:/etc/keys").errors(), ["no_api_keys"]);
}

#[test]
fn secrets_of_the_environment_stay_where_they_are() {
    let env = json!({"HF_TOKEN": "file:/etc/token", "PLAIN": "a $b %c"});
    let env = case("vllm").with("env", env).workload().env;
    assert_eq!(env[0].value, EnvValue::Secret("file:/etc/token".to_owned()));
    assert_eq!(env[1].value, EnvValue::Plain("a $b %c".to_owned()));
}

#[test]
fn a_vision_endpoint_without_its_projector_is_an_error_and_not_a_text_only_server() {
    for name in NAMES {
        let mut case = case(name).with_projector().with("vision", true);
        case.projector_path = None;
        assert!(case.errors().contains(&"missing_projector"), "{name}");
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    assert_eq!(case("frank").with("slots", 0).errors(), ["bad_value"]);
    assert_eq!(case("llama.cpp").with("memory-budget", "20 gigs").errors(), ["bad_value"]);
}

#[test]
fn a_command_follows_its_endpoint_by_the_names_in_braces() {
    let args = json!([
        "--listen={address}:{port}",
        "-m",
        "{model}",
        "-c",
        "{context}",
        "{{port}",
        "{none}"
    ]);
    let case = case("command").option("args", args).option("health", "/ready");
    let expected = [
        "--listen=127.0.0.1:7770",
        "-m",
        "/srv/models/m/m-00001-of-00003.gguf",
        "-c",
        "8192",
        "{7770",
        "{none}",
    ];
    assert_eq!(case.args(), expected);
    assert_eq!(case.workload().readiness.path, "/ready");
    assert_eq!(case.clone().option("args", json!(["{model}"])).errors(), ["contract_unused"]);
    assert_eq!(case.clone().option("args", json!(["{port}"])).warnings(), ["contract_unused"]);
    let draft = json!(["{port}", "{model}", "{draft}"]);
    assert_eq!(case.clone().option("args", draft).errors(), ["contract_unset"]);
    assert_eq!(case.clone().option("arg", json!([])).errors(), ["unknown_option"]);
    assert_eq!(case.option("health", "ready").errors(), ["bad_value"]);
}

#[test]
fn a_value_in_braces_is_not_filled_twice() {
    let case = case("command").with("alias", "{model}");
    assert_eq!(case.value("--name").as_deref(), Some("{model}"));
}
