//! vLLM: what the checkpoint decides, keys and values, speculation, devices.

use frank_fleet::{CheckpointFacts, DraftFacts, Gate, kv_pool_tokens};
use serde_json::{Value, json};

use super::{Case, case};

fn checkpoint(quantization: &str) -> CheckpointFacts {
    CheckpointFacts { quantization: Some(quantization.to_owned()), ..CheckpointFacts::default() }
}

/// The recorded endpoint: a model that reads images, with heads of 256 and 512, on a card of sm_86.
fn recorded(kv_type: &str) -> Case {
    let mut case = case("vllm").on(&[("cuda:0", "sm_86")]).option("kv-cache-dtype", kv_type);
    let head_sizes = vec![256, 512];
    case.checkpoint = Some(CheckpointFacts { quantization: None, head_sizes, is_multimodal: true });
    case
}

#[test]
fn each_impossible_type_of_keys_and_values_has_its_own_reason() {
    for (kv_type, reason) in [
        ("fp8", "cuda:0 is sm_86, which has no 8-bit floats"),
        ("fp8_e4m3", "cuda:0 is sm_86, which has no 8-bit floats"),
        ("int8_per_token_head", "pages of 4160 and 8256 bytes do not unify"),
        ("turboquant_k8v4", "no prefix of images or sound"),
    ] {
        let case = recorded(kv_type);
        assert_eq!(case.errors(), ["kv_type"], "{kv_type}: {:?}", case.said());
        assert!(case.said()[0].contains(reason), "{:?}", case.said());
    }
    assert_eq!(recorded("bfloat16").said(), Vec::<String>::new());
    assert_eq!(recorded("auto").said(), Vec::<String>::new());
}

#[test]
fn what_one_device_or_model_cannot_another_can() {
    assert_eq!(recorded("fp8").on(&[("cuda:0", "sm_89")]).errors(), Vec::<&str>::new());
    assert_eq!(recorded("fp8").on(&[("cuda:0", "sm_120a")]).errors(), Vec::<&str>::new());
    let text = |kv_type, head_sizes| {
        let mut case = recorded(kv_type);
        case.checkpoint = Some(CheckpointFacts { head_sizes, ..CheckpointFacts::default() });
        case.errors()
    };
    assert_eq!(text("int8_per_token_head", vec![256]), Vec::<&str>::new());
    assert_eq!(text("int8_per_token_head", vec![128, 260]), Vec::<&str>::new());
    assert_eq!(text("turboquant_k8v4", vec![256]), Vec::<&str>::new());
}

#[test]
fn a_type_that_nobody_tried_is_a_warning_and_no_verdict() {
    for kv_type in ["fp8_e5m2", "nvfp4", "something_new"] {
        let case = recorded(kv_type);
        assert_eq!((case.errors(), case.warnings()), (vec![], vec!["kv_type"]), "{kv_type}");
    }
}

#[test]
fn the_pool_holds_as_many_tokens_as_was_recorded() {
    let tokens = 289_647;
    assert_eq!(kv_pool_tokens(tokens, "bfloat16"), Some(289_647));
    assert_eq!(kv_pool_tokens(tokens, "int8_per_token_head"), Some(579_294));
    assert_eq!(kv_pool_tokens(tokens, "turboquant_k8v4"), Some(772_392));
    assert_eq!(kv_pool_tokens(tokens, "nvfp4"), None);
}

#[test]
fn the_checkpoint_picks_flag_and_gates() {
    let with = |quantization| {
        let mut case = case("vllm");
        case.checkpoint = Some(checkpoint(quantization));
        case
    };
    let fp8 = with("fp8");
    assert_eq!(fp8.value("--quantization").as_deref(), Some("fp8"));
    assert_eq!(fp8.workload().gates.len(), 2, "{:?}", fp8.workload().gates);
    let mxfp4 = with("mxfp4");
    assert_eq!(mxfp4.value("--quantization"), None);
    let gates = mxfp4.workload().gates;
    assert_eq!(gates[2..], [Gate::Patches("mxfp4".to_owned()), Gate::Library("mxfp4".to_owned())]);
    assert_eq!(case("vllm").workload().gates.len(), 2, "without a config.json nothing is added");
    assert_eq!(with("fp8").option("quantization", "awq").errors(), ["quantization"]);
    let asked = with("fp8").option("quantization", "fp8").args();
    assert_eq!(asked.iter().filter(|arg| *arg == "--quantization").count(), 1);
}

#[test]
fn the_drafters_gate_is_there_for_a_method_with_a_drafter_alone() {
    for (method, has_gate) in
        [("dflash", true), ("mtp", true), ("eagle3", true), ("ngram", false), ("suffix", false)]
    {
        let config = json!({"method": method, "num_speculative_tokens": 3});
        let gates = case("vllm").with_draft().option("speculative-config", config).workload().gates;
        let is_draft = |gate: &Gate| matches!(gate, Gate::Draft(_));
        assert_eq!(gates.iter().any(is_draft), has_gate, "{method}: {gates:?}");
    }
}

#[test]
fn speculation_is_one_object_with_the_draft_model_by_its_path() {
    let object = json!({"num-speculative-tokens": 5, "method": "dflash"});
    let short = case("vllm").with_draft().option("spec-method", "dflash").option("spec-tokens", 5);
    for case in [
        case("vllm").with_draft().option("speculative-config", object.clone()),
        case("vllm").with_draft().option("sc", object.to_string()),
        short,
    ] {
        let rendered = case.value("--speculative-config").unwrap();
        let expected = json!({
            "method": "dflash", "model": "/srv/models/m/MTP", "num_speculative_tokens": 5,
        });
        assert_eq!(serde_json::from_str::<Value>(&rendered).unwrap(), expected);
        assert_eq!(case.value("--spec-method"), None);
        assert_eq!(case.value("--spec-tokens"), None);
    }
}

#[test]
fn speculation_that_cannot_be_is_refused() {
    let with = |config: Value| case("vllm").option("speculative-config", config);
    assert_eq!(with(json!({"method": "dflash"})).errors(), ["missing_draft"]);
    assert_eq!(
        with(json!({"method": "mtp", "num_speculative_tokens": 2})).errors(),
        Vec::<&str>::new()
    );
    assert_eq!(with(json!({"num_speculative_tokens": 2})).errors(), ["bad_value"]);
    assert_eq!(with(json!("{")).errors(), ["bad_value"]);
    assert_eq!(with(json!({"method": "ngram", "model": "x"})).errors(), ["contract_option"]);
    assert_eq!(with(json!({"method": "new"})).warnings(), ["unknown_value"]);
    assert_eq!(with(json!({"method": "ngram"})).with_draft().warnings(), ["unused_draft"]);
    assert_eq!(case("vllm").with_draft().warnings(), ["unused_draft"]);
    let twice = with(json!({"method": "ngram"})).option("spec-method", "ngram");
    assert_eq!(twice.errors(), ["option_twice"]);
    let mut deep = with(json!({"method": "dflash", "num_speculative_tokens": 8})).with_draft();
    deep.draft = Some(DraftFacts { block_size: Some(8), is_quantized: None });
    assert_eq!(deep.errors(), ["draft_depth"]);
}

#[test]
fn a_model_that_reads_images_is_told_not_to_where_the_endpoint_does_not() {
    let mut case = case("vllm");
    case.checkpoint = Some(CheckpointFacts { is_multimodal: true, ..CheckpointFacts::default() });
    assert!(case.args().contains(&"--language-model-only".to_owned()));
    let seeing = case.clone().with("vision", true);
    assert!(!seeing.args().contains(&"--language-model-only".to_owned()));
    case.checkpoint = Some(CheckpointFacts::default());
    assert!(!case.args().contains(&"--language-model-only".to_owned()));
    assert_eq!(case.with("vision", true).errors(), ["missing_projector"]);
}

#[test]
fn a_model_is_cut_for_as_many_devices_as_there_are() {
    let two = case("vllm").on(&[("rocm:0", "gfx1201"), ("rocm:1", "gfx1201")]);
    assert_eq!(two.warnings(), ["device_count"]);
    assert_eq!(two.clone().option("tensor-parallel-size", 2).said(), Vec::<String>::new());
    assert_eq!(two.clone().option("tensor-parallel-size", 4).errors(), ["device_count"]);
    let many = two.clone().option("tensor-parallel-size", 4).option("nnodes", 2);
    assert_eq!(many.said(), Vec::<String>::new());
    let shared = two.clone().option("tensor-parallel-size", 2).in_image().workload().shared_memory;
    assert_eq!(shared, Some(8 << 30), "its processes share memory");
    assert_eq!(two.in_image().workload().shared_memory, None);
}

#[test]
fn the_model_is_a_folder_whichever_of_its_files_is_named() {
    for (path, folder) in [
        ("/srv/m/model-00001-of-00007.safetensors", "/srv/m"),
        ("/srv/m/config.json", "/srv/m"),
        ("/srv/Model-1.5", "/srv/Model-1.5"),
        ("/srv/m.d/x", "/srv/m.d/x"),
    ] {
        let mut case = case("vllm");
        case.model_path = path.to_owned();
        assert_eq!(case.value("serve").as_deref(), Some(folder), "{path}");
    }
}

#[test]
fn only_variables_that_the_endpoint_sets_count_as_ignored() {
    let workload = case("vllm").with("env", json!({"VLLM_USE_X": "1", "HOME": "/"})).workload();
    assert_eq!(workload.log.must_not, ["Unknown vLLM environment variable detected: VLLM_USE_X$"]);
    assert_eq!(workload.log.may, ["Unknown vLLM environment variable detected"]);
}
