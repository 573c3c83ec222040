//! llama.cpp: context and slots, speculation, projector, keys and values, shares of devices.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use fancy_regex::Regex;
use frank_fleet::{BenchRun, BuildFacts, DraftFacts, Gate, check_llama_bench, learn, llama_bench};
use frank_testkit::assets;
use serde_json::json;

use super::{Case, case};

const CARDS: [(&str, &str); 2] = [("rocm:0", "gfx1201"), ("rocm:1", "gfx1201")];

#[test]
fn the_total_context_is_slots_times_what_each_request_gets() {
    for (slots, context, total) in [(4, 262_144, "1048576"), (1, 8192, "8192"), (3, 1, "3")] {
        let case = case("llama.cpp").with("slots", slots).with("context", context);
        assert_eq!(case.value("--ctx-size").as_deref(), Some(total));
        assert_eq!(case.value("--parallel"), Some(slots.to_string()));
    }
    let largest = case("llama.cpp").with("slots", u32::MAX).with("context", u32::MAX);
    assert_eq!(largest.value("--ctx-size").as_deref(), Some("18446744065119617025"));
}

#[test]
fn without_slots_there_is_one_and_without_a_context_a_warning() {
    let case = case("llama.cpp").with("slots", json!(null));
    assert_eq!(case.value("--parallel").as_deref(), Some("1"));
    let case = case.with("context", json!(null));
    assert_eq!(case.warnings(), ["no_context"]);
    assert_eq!(case.value("--ctx-size"), None);
}

/// Every type of speculation: its name, and whether it drafts with a file of its own.
const TYPES: [(&str, bool); 11] = [
    ("none", false),
    ("draft-simple", true),
    ("draft-eagle3", true),
    ("draft-mtp", true),
    ("draft-dflash", true),
    ("draft-dspark", true),
    ("ngram-simple", false),
    ("ngram-map-k", false),
    ("ngram-map-k4v", false),
    ("ngram-mod", false),
    ("ngram-cache", false),
];

#[test]
fn the_draft_path_is_there_exactly_when_a_type_drafts_with_a_file() {
    for (name, has_file) in TYPES {
        let case = case("llama.cpp").with_draft().option("spec-type", name);
        let draft = case.value("--spec-draft-model");
        assert_eq!(draft.is_some(), has_file, "{name}");
        assert!(draft.is_none_or(|draft| draft == "/srv/models/m/MTP/draft.gguf"), "{name}");
        let gate = Gate::Draft("/srv/models/m/MTP/draft.gguf".to_owned());
        assert_eq!(case.workload().gates.contains(&gate), has_file, "{name}");
        assert_eq!(case.warnings().contains(&"unused_draft"), !has_file, "{name}");
        assert_eq!(case.value("--spec-type").as_deref(), (name != "none").then_some(name));
    }
}

#[test]
fn a_type_that_drafts_with_a_file_needs_one_and_a_head_in_the_model_does_not() {
    for (name, has_file) in TYPES {
        let case = case("llama.cpp").option("spec-type", name);
        let needs = has_file && name != "draft-mtp";
        let expected: &[&str] = if needs { &["missing_draft"] } else { &[] };
        assert_eq!(case.errors(), expected, "{name}");
    }
    assert_eq!(
        case("llama.cpp").option("spec-type", "draft-mtp").value("--spec-draft-model"),
        None
    );
}

#[test]
fn the_types_are_those_that_the_servers_help_lists() {
    let listed = TYPES.map(|(name, _)| name).join(", ");
    let said = case("llama.cpp").option("spec-type", "draft-mpt").said().join("\n");
    assert!(said.contains(listed.trim_start_matches("none, ")), "{said}");
}

#[test]
fn one_drafter_keeps_a_context_and_any_number_of_ngram_types_goes_with_it() {
    let errors = |types: &str| case("llama.cpp").with_draft().option("spec-type", types).errors();
    assert_eq!(errors("draft-dflash,ngram-mod"), Vec::<&str>::new());
    assert_eq!(errors("draft-dflash,ngram-mod,ngram-cache,ngram-map-k"), Vec::<&str>::new());
    assert_eq!(errors("draft-mtp,draft-dflash"), ["second_drafter"]);
    assert_eq!(errors("draft-eagle3, draft-simple"), ["second_drafter"]);
    let list =
        case("llama.cpp").with_draft().option("spec-type", json!(["draft-mtp", "draft-dspark"]));
    assert_eq!(list.errors(), ["second_drafter"]);
}

fn drafting(kind: &str, block_size: u32, depth: u32) -> Case {
    let mut case = case("llama.cpp").with_draft().option("spec-type", kind);
    case.draft = Some(DraftFacts { block_size: Some(block_size), is_quantized: Some(false) });
    case.option("spec-draft-n-max", depth)
}

#[test]
fn the_draft_depth_is_below_the_block_size() {
    assert_eq!(drafting("draft-dspark", 7, 6).errors(), Vec::<&str>::new());
    assert_eq!(drafting("draft-dflash", 8, 7).errors(), Vec::<&str>::new());
    for (kind, block_size, depth, bound) in
        [("draft-dspark", 7, 7, "depth 7, max 6"), ("draft-dflash", 8, 8, "depth 8, max 7")]
    {
        let case = drafting(kind, block_size, depth);
        assert_eq!(case.errors(), ["draft_depth"]);
        assert!(case.said()[0].contains(bound), "{:?}", case.said());
    }
    // The default of three counts too, and a head that drafts token by token has no blocks.
    let mut default = drafting("draft-dflash", 3, 1);
    default.endpoint["options"] = json!({"spec-type": "draft-dflash"});
    assert_eq!(default.errors(), ["draft_depth"]);
    assert_eq!(drafting("draft-mtp", 2, 16).errors(), Vec::<&str>::new());
}

#[test]
fn a_quantized_drafter_of_blocks_is_warned_about_with_both_figures() {
    let mut case = drafting("draft-dspark", 7, 6);
    assert_eq!(case.warnings(), Vec::<&str>::new());
    case.draft.as_mut().unwrap().is_quantized = Some(true);
    assert_eq!(case.warnings(), ["quantized_drafter"]);
    assert!(case.said()[0].contains("1.00 where bf16 gave 2.80 to 3.56"), "{:?}", case.said());
}

#[test]
fn an_option_of_a_type_that_is_not_on_is_warned_about() {
    for (types, option, is_used) in [
        ("none", "spec-draft-n-max", false),
        ("ngram-mod", "spec-draft-n-max", false),
        ("draft-mtp", "spec-draft-n-max", true),
        ("draft-mtp", "spec-ngram-mod-n-max", false),
        ("draft-mtp,ngram-mod", "spec-ngram-mod-n-max", true),
        ("ngram-map-k", "spec-ngram-map-k-size-n", true),
        ("ngram-map-k", "spec-ngram-map-k4v-size-n", false),
        ("ngram-map-k4v", "spec-ngram-map-k4v-size-n", true),
        ("ngram-map-k4v", "spec-ngram-map-k-size-n", false),
        ("ngram-simple", "spec-ngram-simple-min-hits", true),
        ("ngram-mod", "lookup-cache-dynamic", false),
        ("ngram-cache", "lookup-cache-dynamic", true),
        ("draft-mtp", "draft-p-min", true),
        ("ngram-mod", "draft-p-min", false),
    ] {
        let case = case("llama.cpp").option("spec-type", types).option(option, 9);
        let expected: &[&str] = if is_used { &[] } else { &["unused_option"] };
        assert_eq!(case.warnings(), expected, "{types} {option}");
    }
}

#[test]
fn vision_renders_the_projector_by_its_path_and_no_vision_renders_none() {
    let seeing = case("llama.cpp").with_projector().with("vision", true);
    assert_eq!(seeing.value("--mmproj").as_deref(), Some("/srv/models/p/mmproj.gguf"));
    let workload = seeing.workload();
    assert!(workload.gates.contains(&Gate::Projector("/srv/models/p/mmproj.gguf".to_owned())));
    assert_eq!(workload.log.must, ["loaded multimodal model"]);
    let blind = case("llama.cpp").with_projector();
    assert_eq!(blind.value("--mmproj"), None);
    assert!(!blind.workload().gates.iter().any(|gate| matches!(gate, Gate::Projector(_))));
    assert_eq!(blind.workload().log.must, Vec::<String>::new());
    assert_eq!(case("llama.cpp").with("vision", true).errors(), ["missing_projector"]);
}

#[test]
fn a_container_sees_model_projector_and_draft_at_their_own_paths() {
    let case = case("llama.cpp").with_projector().with("vision", true).in_image();
    let mounts = case.workload().mounts;
    let seen: Vec<(&str, &str, bool)> = mounts
        .iter()
        .map(|mount| (mount.source.as_str(), mount.target.as_str(), mount.read_only))
        .collect();
    let same = |path| (path, path, true);
    assert_eq!(seen, [same("/srv/models/m"), same("/srv/models/p/mmproj.gguf")]);
}

#[test]
fn what_goes_not_with_images_is_warned_about() {
    let seeing = case("llama.cpp").with_projector().with("vision", true);
    assert_eq!(seeing.clone().option("cache-reuse", 256).warnings(), ["ignored_option"]);
    assert_eq!(seeing.clone().option("context-shift", true).warnings(), ["ignored_option"]);
    assert_eq!(seeing.option("cache-reuse", 0).warnings(), Vec::<&str>::new());
}

#[test]
fn quantized_keys_and_values_on_cuda_need_a_build_with_their_kernels() {
    let mut case = case("llama.cpp").on(&[("cuda:0", "sm_86")]).option("cache-type-k", "q8_0");
    assert_eq!((case.errors(), case.warnings()), (vec![], vec!["kv_type"]), "nobody knows");
    case.build = Some(BuildFacts { all_kv_types: Some(false), ..BuildFacts::default() });
    assert_eq!(case.errors(), ["kv_type"]);
    assert!(case.said()[0].contains("GGML_CUDA_FA_ALL_QUANTS"), "{:?}", case.said());
    case.build = Some(BuildFacts { all_kv_types: Some(true), ..BuildFacts::default() });
    assert_eq!(case.said(), Vec::<String>::new());
    case.build = Some(BuildFacts { all_kv_types: Some(false), ..BuildFacts::default() });
    assert_eq!(case.clone().option("cache-type-k", "f16").said(), Vec::<String>::new());
    assert_eq!(case.on(&CARDS).said(), Vec::<String>::new());
}

#[test]
fn what_needs_flash_attention_is_refused_without_it() {
    for (name, value) in [("cache-type-v", "q8_0"), ("split-mode", "tensor")] {
        let case = case("llama.cpp").option(name, value);
        assert_eq!(case.errors(), Vec::<&str>::new(), "{name}");
        assert_eq!(case.option("flash-attn", "off").errors(), ["needs_flash_attention"], "{name}");
    }
    let mut grok = case("llama.cpp").option("flash-attn", "on");
    grok.architecture = Some("grok".to_owned());
    assert_eq!(grok.warnings(), ["ignored_option"]);
}

#[test]
fn shares_of_devices_stand_between_commas_and_one_for_each() {
    let two = case("llama.cpp").on(&CARDS);
    assert_eq!(
        two.clone().option("tensor-split", "36,29").value("--tensor-split").as_deref(),
        Some("36,29")
    );
    let slash = two.clone().option("tensor-split", "36/29");
    assert_eq!(slash.errors(), ["split_separator"]);
    assert!(slash.said()[0].ends_with("(write 36,29)"), "{:?}", slash.said());
    assert_eq!(two.option("tensor-split", json!([36, 29, 1])).errors(), ["split_count"]);
}

#[test]
fn a_placement_by_tensor_on_devices_of_two_kinds_is_not_expressible() {
    let mixed = [("cuda:0", "sm_86"), ("vulkan:0", "gfx1151")];
    let by_tensor = case("llama.cpp").option("override-tensor", "exps=Vulkan0");
    assert_eq!(by_tensor.clone().on(&mixed).errors(), ["not_expressible"]);
    assert_eq!(by_tensor.on(&CARDS).errors(), Vec::<&str>::new());
}

#[test]
fn a_line_that_passes_over_an_option_is_an_ignored_option() {
    let log = "main: loading\n\
        warn: LLAMA_ARG_PORT environment variable is set, but will be overwritten by command line argument --port\n\
        warning: no usable GPU found, --gpu-layers option will be ignored\n\
        warning: no usable GPU found, --gpu-layers option will be ignored\nready\n";
    let faults =
        case("llama.cpp").placed(|runtime, _| runtime.ignored_options("endpoints.chat", log));
    let codes: Vec<&str> = faults.iter().map(|fault| fault.code).collect();
    assert_eq!(codes, ["ignored_option", "ignored_option"]);
    assert!(faults[0].message.contains("LLAMA_ARG_PORT"), "{faults:?}");
    let none = case("llama.cpp").placed(|runtime, _| runtime.ignored_options("x", "all is well\n"));
    assert_eq!(none, []);
}

#[test]
fn names_follow_the_build() {
    let help = "-md,   --model-draft FNAME              draft model\n--port PORT                             port\n";
    let mut case = case("llama.cpp").with_draft().option("spec-type", "draft-mtp");
    case.endpoint["options"] = json!({});
    case.build = Some(BuildFacts { learned: Some(learn(help, "")), ..BuildFacts::default() });
    let spec = case.clone().option("spec-type", "draft-mtp");
    assert_eq!(spec.errors(), ["unknown_option"], "the build does not speculate by type");
    let args = spec.placed(|runtime, placement| (runtime.args)(placement));
    assert!(args.iter().any(|arg| arg.words[0] == "--model-draft"), "{args:?}");
}

#[test]
fn llama_bench_has_a_slash_between_devices_and_a_comma_between_configurations() {
    let run = BenchRun {
        model: "/m.gguf".to_owned(),
        devices: vec!["ROCm0".to_owned(), "ROCm1".to_owned()],
        splits: vec![vec![36, 29], vec![35, 30]],
        ubatches: vec![512, 1536],
        prompts: vec![512],
        depths: vec![0, 65_536],
        repetitions: 3,
        ..BenchRun::default()
    };
    let expected = "--model /m.gguf --device ROCm0/ROCm1 --tensor-split 36/29,35/30 --ubatch-size 512,1536 \
                    --n-prompt 512 --n-depth 0,65536 --repetitions 3";
    assert_eq!(llama_bench(&run).join(" "), expected);
    assert_eq!(check_llama_bench(&llama_bench(&run), 2), []);
    let args = ["-ts", "36,29"].map(str::to_owned);
    let faults = check_llama_bench(&args, 2);
    assert_eq!((faults.len(), faults[0].code), (1, "split_separator"));
    assert_eq!(faults[0].hint.as_deref(), Some("one configuration for 2 devices is 36/29"));
    assert_eq!(check_llama_bench(&args, 1), []);
}

/// The log of the server that the tests have, from its start until it listens, with the arguments that were rendered for it.
#[test]
fn a_real_server_gives_each_request_its_context_and_says_nothing_that_it_must_not() {
    let server = assets::cache_dir().join("llama_cpp_native/bin/llama-server");
    if !server.exists() {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut case = case("llama.cpp").with("port", port).with("context", 1024).with("slots", 2);
    case.model_path = assets::smollm2().to_str().unwrap().to_owned();
    let workload = case.workload();
    let mut process =
        Command::new(server).args(workload.program.args()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = String::new();
    for line in BufReader::new(process.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        log += &(line.clone() + "\n");
        if line.contains("listening on") {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(log.contains(&format!("listening on http://127.0.0.1:{port}")), "{log}");
    assert!(log.contains("n_slots = 2, n_ctx_slot = 1024"), "{log}");
    for rule in &workload.log.must_not {
        assert!(!Regex::new(rule).unwrap().is_match(&log).unwrap(), "{rule}: {log}");
    }
}
