//! What builds say of themselves.

use std::path::PathBuf;
use std::process::Command;

use frank_fleet::{BuildFacts, DefaultClaim, Learned, Runtime, learn};
use frank_testkit::assets;

use super::case;

const LLAMA_HELP: &str = "\
----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      CPU threads (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-fa,   --flash-attn [on|off|auto]       flash attention ('on', 'off', or 'auto', default: 'auto')
--poll <0...100>                        how to wait (0 - no polling, default: 50)
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether it offloads (default: enabled)
-ctxcp, --ctx-checkpoints, --swa-checkpoints N
                                        checkpoints for each slot (default:
                                        32)[(more info)](https://example.org/15293)
-cram, --cache-ram N                    most in MiB (default: 8192, -1 - no limit, 0 -
                                        disable)
--cors-methods METHODS                  methods (default: GET, POST,
                                        DELETE, OPTIONS)
--yarn-orig-ctx N                       original size (default: 0 = model training
                                        context size)
--spec-type none,draft-mtp,ngram-mod
                                        types with commas between (default:
                                        none)
--lora FNAME                            path (use commas for several)
";

#[track_caller]
fn check(learned: &Learned, name: &str, takes_value: bool, default: Option<&str>) {
    let option = learned.find(name).unwrap_or_else(|| panic!("{name} in {learned:?}"));
    assert_eq!((option.takes_value, option.default.as_deref()), (takes_value, default), "{name}");
}

#[test]
fn names_and_defaults_are_read_from_a_help_text() {
    let learned =
        learn(LLAMA_HELP, "version: 0.6.0-dev (build 11434, commit unknown)\nbuilt with GNU 12\n");
    assert_eq!(learned.version.as_deref(), Some("0.6.0-dev (build 11434)"));
    check(&learned, "help", false, None);
    check(&learned, "t", true, Some("-1"));
    check(&learned, "flash-attn", true, Some("auto"));
    check(&learned, "poll", true, Some("50"));
    check(&learned, "no-kv-offload", false, Some("enabled"));
    check(&learned, "swa-checkpoints", true, Some("32"));
    check(&learned, "cache-ram", true, Some("8192"));
    check(&learned, "cors-methods", true, Some("GET, POST, DELETE, OPTIONS"));
    check(&learned, "spec-type", true, Some("none"));
    check(&learned, "lora", true, None);
}

#[test]
fn help_texts_of_other_makers_are_read_too() {
    let argparse = "options:\n  --max-model-len MAX_MODEL_LEN\n                        Length. (default: None)\n  \
                    --port PORT           Port number. (default: 8000)\n  \
                    --kv-cache-dtype {auto,fp8}\n                        Type. (default: auto)\n  \
                    --enable-prefix-caching, --no-enable-prefix-caching\n                        Reuse. (default: None)\n";
    let learned = learn(argparse, "0.21.0\n");
    assert_eq!(learned.version.as_deref(), Some("0.21.0"));
    check(&learned, "max-model-len", true, None);
    check(&learned, "port", true, Some("8000"));
    check(&learned, "kv-cache-dtype", true, Some("auto"));
    check(&learned, "no-enable-prefix-caching", false, None);
    let clap = "Options:\n      --port <PORT>            Port to listen on; 0 picks one [default: 7770]\n  \
                -c, --ctx-size <N>          Tokens of context [default:\n                              4096, or less]\n\n    \
                -d '{\"stream\": true}'\n";
    let learned = learn(clap, "frank 0.1.0\n");
    assert_eq!(learned.version.as_deref(), Some("0.1.0"));
    check(&learned, "port", true, Some("7770"));
    check(&learned, "c", true, Some("4096"));
    assert_eq!(learned.find("d"), None, "an example");
    let usage = "  --draft <path>       Draft model\n  --chunk <N>          Chunk size (default: 512)\n  --peer-access        Enable it\n";
    let learned = learn(usage, "");
    assert_eq!(learned.version, None);
    check(&learned, "chunk", true, Some("512"));
    check(&learned, "peer-access", false, None);
}

#[test]
fn a_claim_that_the_build_contradicts_is_shown() {
    let learned = learn(LLAMA_HELP, "");
    let claim = |option: &str, default: &str| DefaultClaim {
        option: option.to_owned(),
        default: default.to_owned(),
    };
    let claims = [
        claim("ctx-checkpoints", "0"),
        claim("threads", "-1"),
        claim("kv-offload", "on"),
        claim("nothing", "1"),
    ];
    let contradicted = learned.contradicts(&claims);
    assert_eq!(contradicted, [(&claims[0], "32".to_owned())]);
}

/// A default of the build stands before ours: `batch-size` 2048 is no default for a build that says 4096.
#[test]
fn the_builds_own_default_decides_what_is_left_out() {
    let learned = learn("-b, --batch-size N     logical (default: 4096)\n", "");
    let mut case = case("llama.cpp").option("batch-size", 2048);
    assert_eq!(case.value("--batch-size"), None);
    case.build = Some(BuildFacts { learned: Some(learned), ..BuildFacts::default() });
    assert_eq!(case.value("--batch-size").as_deref(), Some("2048"));
    assert_eq!(case.option("batch-size", 4096).value("--batch-size"), None);
}

fn output(program: &PathBuf, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn learn_from(program: &PathBuf, help: &[&str]) -> Learned {
    learn(&output(program, help), &output(program, &["--version"]))
}

/// Every option of the list is in the help of the build that it was made of, with the same default, and none is left out.
fn compare(runtime: &str, learned: &Learned) {
    let claims = (Runtime::named(runtime).unwrap().defaults)();
    assert_eq!(learned.contradicts(&claims), [], "{runtime}");
    for claim in &claims {
        assert!(learned.find(&claim.option).is_some(), "{runtime} has no `{}`", claim.option);
    }
    for option in &learned.options {
        let name = option.names.last().unwrap();
        let mut case = case(runtime);
        case.build = Some(BuildFacts { learned: Some(learned.clone()), ..BuildFacts::default() });
        let build = case.option(name, "x").errors();
        let ours = super::case(runtime).option(name, "x").errors();
        assert!(!build.contains(&"unknown_option"), "{runtime} {name}");
        assert!(!ours.contains(&"unknown_option"), "the list of {runtime} lacks `{name}`");
    }
}

#[test]
fn the_list_of_llama_cpp_is_that_of_the_server_that_is_tested_with() {
    let server = assets::cache_dir().join("llama_cpp_native/bin/llama-server");
    if !server.exists() {
        return;
    }
    let learned = learn_from(&server, &["--help"]);
    assert!(learned.options.len() > 200, "{} options", learned.options.len());
    assert_eq!(learned.version.as_deref(), Some("0.6.0-dev (build 11434)"));
    compare("llama.cpp", &learned);
}

#[test]
fn the_list_of_frank_is_that_of_its_own_help() {
    // Beside this test's own program, when the whole workspace was built.
    let here = std::env::current_exe().unwrap();
    let frank = here.parent().and_then(|deps| deps.parent()).unwrap().join("frank");
    if !frank.exists() {
        return;
    }
    compare("frank", &learn_from(&frank, &["serve", "--help"]));
}
