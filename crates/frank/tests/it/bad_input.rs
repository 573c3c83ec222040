//! Bad input: one clear line, the right exit code, nothing on stdout.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use frank_testkit::gguf_writer::GgufWriter;

use crate::files::{Folder, llama};
use crate::program::frank;

/// `fit` and `inspect` of `model` fail with exit code 2 and one error line that has `expected` in it.
fn check_model(model: &Path, expected: &str) {
    for subcommand in ["fit", "inspect"] {
        let lines = frank([subcommand.as_ref(), model.as_os_str()]).failed(2);
        assert!(
            lines[0].starts_with("error: ") && lines[0].contains(expected),
            "{subcommand}: {lines:?}"
        );
        assert!(
            lines[1..].iter().all(|line| line.starts_with("hint: ")),
            "{subcommand}: {lines:?}"
        );
    }
}

/// `frank ARGS` fails with exit code 2 and exactly these lines.
fn check_usage(args: &[&str], expected: &[&str]) {
    assert_eq!(frank(args).failed(2), expected, "{args:?}");
}

#[test]
fn a_wrong_path_is_named() {
    check_model(Path::new("/no/such/model.gguf"), "/no/such/model.gguf: no such file");
}

#[test]
fn a_directory_is_no_model() {
    let folder = Folder::new();
    check_model(folder.path(), "is a directory, not a file");
}

#[test]
fn a_text_file_is_no_model() {
    let folder = Folder::new();
    check_model(&folder.file("notes.gguf", "# Notes\nnothing here\n"), "not a GGUF file");
    check_model(&folder.file("empty.gguf", ""), "empty.gguf");
}

#[test]
fn a_file_cut_in_its_header_is_refused_wherever_the_cut_is() {
    let folder = Folder::new();
    for bytes in [1, 4, 23, 24, 100, 1000, 7000] {
        check_model(&folder.cut_llama(bytes), "cut.gguf");
    }
}

#[test]
fn a_header_without_an_architecture_can_be_inspected_and_not_planned() {
    let folder = Folder::new();
    let path = folder.gguf("bare.gguf", &GgufWriter::without_keys());
    frank([OsString::from("inspect"), path.clone().into()]).ended(0);
    let lines = frank([OsString::from("fit"), path.into()]).failed(2);
    assert_eq!(lines, ["error: key \"general.architecture\" is missing"]);
}

#[test]
fn a_missing_part_of_a_split_model_is_named() {
    let folder = Folder::new();
    let part = GgufWriter::new("llama").split(0, 3, 0);
    let path = folder.gguf("big-00001-of-00003.gguf", &part);
    let third = folder.gguf("big-00003-of-00003.gguf", &GgufWriter::without_keys().split(2, 3, 0));
    let lines = frank(["run".as_ref(), path.as_os_str(), "x".as_ref()]).failed(2);
    assert!(lines[0].contains("big-00002-of-00003.gguf"), "{lines:?}");
    for subcommand in ["fit", "inspect"] {
        let told = frank([subcommand.as_ref(), path.as_os_str()]).ended(0).stdout;
        let warning = "a part of the model is not here: big-00002-of-00003.gguf";
        assert!(told.contains(warning), "{subcommand}: {told}");
    }
    std::fs::remove_file(&path).expect("it is there");
    check_model(&third, "big-00001-of-00003.gguf");
}

#[test]
fn a_name_that_is_not_utf8_is_still_the_name_of_a_file() {
    let name = OsString::from_vec(b"/no/such/m\xffdel.gguf".to_vec());
    let lines = frank([OsString::from("fit"), name]).failed(2);
    assert_eq!(lines, ["error: /no/such/m\u{fffd}del.gguf: no such file"]);
}

#[test]
fn a_reference_that_cannot_be_followed_is_refused_without_the_network() {
    for (model, expected) in [
        ("hf:no-such-org/no-such-repo", "hf:no-such-org/no-such-repo is not in the store"),
        ("no-such-name", "the store has no payload `no-such-name`"),
        ("pip:llm==1", "pip reference without"),
        ("", "an empty model reference"),
    ] {
        let lines = frank(["fit", model]).failed(2);
        assert!(lines[0].contains(expected), "{lines:?}");
    }
}

#[test]
fn control_characters_of_names_never_reach_the_terminal() {
    let lines = frank(["fit", "\x1b[31m/red\n\u{202e}.gguf"]).failed(2);
    assert_eq!(lines, ["error: \\u{1b}[31m/red\\n\\u{202e}.gguf: no such file"]);
}

#[test]
fn an_unknown_option_is_refused_with_the_nearest_one() {
    check_usage(
        &["fit", "--ctx", "3", "x.gguf"],
        &[
            "error: unexpected argument '--ctx' found",
            "hint: a similar argument exists: '--ctx-size'",
            "hint: usage: frank fit --ctx-size <N> <MODEL>",
        ],
    );
    check_usage(
        &["fitt"],
        &[
            "error: unrecognized subcommand 'fitt'",
            "hint: a similar subcommand exists: 'fit'",
            "hint: usage: frank <COMMAND>",
        ],
    );
}

#[test]
fn no_model_is_a_usage_error_and_no_panic() {
    for subcommand in ["fit", "inspect", "serve"] {
        let usage = format!("hint: usage: frank {subcommand} <MODEL>");
        check_usage(
            &[subcommand],
            &["error: the following required arguments were not provided: <MODEL>", &usage],
        );
    }
}

#[test]
fn counts_that_cannot_be_are_refused() {
    for (value, reason) in [
        ("0", "0 is not in 1..=MAX"),
        ("-5", "-5 is not in 1..=MAX"),
        ("4294967296", "4294967296 is not in 1..=MAX"),
        ("4k", "invalid digit found in string"),
        ("1.5", "invalid digit found in string"),
    ] {
        for (option, name, max) in [
            ("-c", "--ctx-size", "4294967295"),
            ("--ctx-size", "--ctx-size", "4294967295"),
            ("-np", "--parallel", "4294967295"),
            ("-ub", "--ubatch-size", "4294967295"),
            ("-t", "--threads", "512"),
        ] {
            let reason = reason.replace("MAX", max);
            let expected = format!("error: invalid value '{value}' for '{name} <N>': {reason}");
            assert_eq!(frank(["fit", "x.gguf", option, value]).failed(2), [expected]);
        }
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for value in ["", "-1", "-1GiB", "8gigs", "NaN", "inf", "1e9", "1GIB"] {
        for option in ["--memory-budget", "--headroom"] {
            let expected = format!(
                "error: invalid value '{value}' for '{option} <SIZE>': `{value}` is not a size: \
                 a number with one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, or plain bytes"
            );
            assert_eq!(frank(["fit", "x.gguf", option, value]).failed(2), [expected]);
        }
    }
    let lines = frank(["fit", "x.gguf", "--memory-budget", "99999999999TiB"]).failed(2);
    assert!(lines[0].ends_with("`99999999999TiB` is more than 16 EiB"), "{lines:?}");
}

#[test]
fn a_device_that_is_none_is_refused() {
    let llama = llama();
    let llama = llama.to_str().unwrap();
    check_usage(
        &["fit", llama, "--device", "gpu:7=1GiB"],
        &["error: --device gpu:7: the machine has no such device", "hint: it has cpu:0"],
    );
    check_usage(
        &["fit", llama, "--device", "cpu:7=1GiB"],
        &[
            "error: --device cpu:7 has no effect: nothing is placed there",
            "hint: the whole model lies on cpu:0",
        ],
    );
    for value in ["cpu:0", "=", "cpu:0=", "cpu:0=lots"] {
        let lines = frank(["fit", llama, "--device", value]).failed(2);
        assert!(
            lines[0]
                .starts_with(&format!("error: invalid value '{value}' for '--device <ID=SIZE>'"))
        );
    }
}

#[test]
fn two_sizes_for_one_device_are_refused_by_its_name() {
    let (llama, moe) = (llama(), frank_testkit::assets::tiny("qwen3moe.gguf"));
    for (model, option, id) in [
        (&llama, "--device", "cpu:0"),
        (&moe, "--device", "cpu:1"),
        (&moe, "--expert-budget", "cpu:0"),
    ] {
        let sizes = ["8MiB", "16MiB"].map(|size| format!("{id}={size}"));
        let args = ["fit", model.to_str().unwrap(), option, &sizes[0], option, &sizes[1]];
        let fact = format!("error: {option} {id} is given twice");
        check_usage(&args, &[&fact, &format!("hint: give {id} one size")]);
    }
}

#[test]
fn a_kv_type_that_is_none_is_refused() {
    for (value, reason) in [
        ("f16,q5_0", "`q5_0` is no type of a KV cache; f32, f16, q8_0, q4_0 are"),
        ("int8", "`int8` is no type of a KV cache; f32, f16, q8_0, q4_0 are"),
    ] {
        let expected = format!("error: invalid value '{value}' for '--kv-type <K[,V]>': {reason}");
        assert_eq!(frank(["fit", "x.gguf", "--kv-type", value]).failed(2), [expected]);
    }
}

#[test]
fn a_kv_type_that_does_not_divide_the_heads_is_refused_before_the_weights_are_read() {
    let llama = llama();
    let llama = llama.to_str().unwrap();
    let commands: [(&[&str], _, _); 2] =
        [(&["fit", llama], "q8_0", "key"), (&["run", llama, "x"], "f16,q4_0", "value")];
    for (command, value, side) in commands {
        let kv_type = value.rsplit(',').next().unwrap();
        let fact = format!(
            "error: {side} heads have 16 components, and keys and values in {kv_type} need a multiple of 32"
        );
        let hint = "hint: --kv-type f16, or f32, takes heads of every size";
        check_usage(&[command, &["--kv-type", value]].concat(), &[&fact, hint]);
    }
}

#[test]
fn a_bad_machine_file_is_named_with_its_line() {
    let folder = Folder::new();
    let llama = llama();
    let check = |machine: &Path, expected: &[&str]| {
        let args = ["fit".as_ref(), llama.as_os_str(), "--machine".as_ref(), machine.as_os_str()];
        let fact = format!("error: cannot use the machine file {}", machine.display());
        assert_eq!(frank(args).failed(2), [&[fact.as_str()], expected].concat());
    };
    check(Path::new("/no/such/machine.toml"), &["cause: No such file or directory (os error 2)"]);
    let unknown = folder.file("unknown.toml", "[host]\nram = 1\ncores = 1\ncolour = \"red\"\n");
    check(&unknown, &["cause: line 4: unknown field `colour`, expected `ram` or `cores`"]);
    let missing = folder.file("missing.toml", "[host]\nram = \"8GiB\"\n");
    check(&missing, &["cause: line 1: missing field `cores`"]);
}

#[test]
fn options_for_experts_are_refused_by_name_for_a_model_without_any() {
    let llama = llama();
    for option in [
        &["--expert-budget", "cpu:0=1GiB"][..],
        &["--stream-cache", "1GiB"],
        &["--placement", "owners.json"],
        &["--hotness", "usage.csv"],
        &["--protected-experts", "protected.json"],
        &["--router-bias", "bias.bin"],
        &["--io", "pread"],
        &["--no-prefetch"],
    ] {
        let mut args = vec!["fit", llama.to_str().unwrap()];
        args.extend(option);
        let name = option[0];
        let fact = format!("error: {name} has no effect: this llama model has no experts");
        assert_eq!(frank(&args).failed(2), [fact, format!("hint: leave out {name}")]);
    }
}

#[test]
fn cache_options_without_effect_are_refused_by_name() {
    let check = |command: &str, options: &[&str], expected: &str| {
        let model = llama();
        let args = [&[command, model.to_str().expect("UTF-8")], options].concat();
        let lines = frank(args).failed(2);
        assert!(lines[0].contains(expected), "{command} {options:?}: {lines:?}");
    };
    for command in ["serve", "fit"] {
        let off = ["--prefix-cache", "0", "--cache-dir", "kv"];
        check(command, &off, "--cache-dir has no effect beside --prefix-cache 0");
        check(command, &["--cache-dir-size", "1GiB"], "--cache-dir-size has no effect without");
        check(command, &["--prefix-cache", "lots"], "is not a size");
    }
    for command in ["run", "eval"] {
        check(command, &["--prefix-cache", "1GiB"], "unexpected argument '--prefix-cache'");
        check(command, &["--cache-dir", "kv"], "unexpected argument '--cache-dir'");
    }
}
