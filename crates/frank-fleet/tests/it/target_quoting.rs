//! Whatever an argument or a value is, the program gets exactly that: through units, quadlets, scripts and objects.

use std::fs;
use std::process::Command;

use frank_fleet::{Program, Workload};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use proptest::test_runner::Config;
use serde_json::Value;

use crate::target_files::generate;
use crate::target_workloads::{
    HOSTILE, container, facts, file, hostile_container, hostile_program, named, plain, put, texts,
};

/// Texts made of what has a meaning somewhere, and any others. No program can be given a zero byte.
fn word() -> impl Strategy<Value = String> {
    let pieces = [
        "%", "$", "${", "}", "$(", "\\", "\"", "'", "\n", "\t", " ", ";", "#", "-", "@", "=", "`",
        "x", "ü", "\u{1}",
    ];
    let meant = vec(select(pieces.to_vec()), 0..8).prop_map(|pieces| pieces.concat());
    let any_text = any::<String>().prop_map(|text| text.replace('\0', ""));
    prop_oneof![meant, any_text, select(HOSTILE.to_vec()).prop_map(str::to_owned)]
}

fn program(args: &[String], value: &str) -> Workload {
    let argv =
        std::iter::once("/usr/bin/env").chain(args.iter().map(String::as_str)).collect::<Vec<_>>();
    Workload {
        name: "frank-test".to_owned(),
        program: Program::Host { argv: texts(&argv) },
        env: vec![plain("VALUE", value)],
        ..Workload::default()
    }
}

fn the_container(args: &[String], value: &str) -> Workload {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Workload { program: container(None, &args), ..program(&[], value) }
}

/// What stands after `key=` in the lines of a unit.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix('=');
    text.lines().filter_map(value).collect()
}

/// The words of a value, as systemd's manual says that they are split, unquoted and unescaped.
fn words(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(escaped(&mut chars)),
            (c, Some(q)) if c == q => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (' ' | '\t', None) => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().extend(c.to_string().bytes()),
        }
    }
    assert_eq!(quote, None, "a quote has no end: {value}");
    words.extend(word);
    words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
}

fn escaped(chars: &mut std::str::Chars<'_>) -> Vec<u8> {
    match chars.next().unwrap() {
        'a' => vec![7],
        'b' => vec![8],
        'f' => vec![12],
        'n' => vec![b'\n'],
        'r' => vec![b'\r'],
        't' => vec![b'\t'],
        'v' => vec![11],
        's' => vec![b' '],
        'x' => {
            let digits: String = chars.by_ref().take(2).collect();
            vec![u8::from_str_radix(&digits, 16).unwrap()]
        }
        c @ ('\\' | '"' | '\'') => vec![c as u8],
        c => panic!("no escape: \\{c}"),
    }
}

/// The text behind doubled marks; a single one would have been expanded.
fn unexpanded(text: &str, marks: &[char]) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if marks.contains(&c) {
            assert_eq!(chars.next(), Some(c), "{c} would be expanded in {text:?}");
        }
        out.push(c);
    }
    out
}

/// The command line of a generated service as podman gets it, without the file for the container's id, which is podman's own.
fn generated_line(service: &str) -> Vec<String> {
    let mut line = words(values(service, "ExecStart")[0]);
    line.retain(|word| word != "--cidfile=%t/%N.cid");
    as_given(&line, &['%', '$'])
}

fn as_given(words: &[String], marks: &[char]) -> Vec<String> {
    words.iter().map(|word| unexpanded(word, marks)).collect()
}

proptest! {
    #![proptest_config(Config::with_cases(512))]

    #[test]
    fn a_unit_gives_a_program_what_it_was_given(args in vec(word(), 0..4), value in word()) {
        let text = file("systemd", &program(&args, &value), &facts()).content;
        let lines = values(&text, "ExecStart");
        prop_assert_eq!(lines.len(), 1);
        let found = as_given(&words(lines[0]), &['%', '$']);
        prop_assert_eq!(&found[1..], &args[..]);
        let lines = values(&text, "Environment");
        prop_assert_eq!(as_given(&words(lines[0]), &['%']), [format!("VALUE={value}")]);
        prop_assert!(text.lines().all(|line| !line.ends_with('\\')), "a line goes on: {}", text);
    }

    #[test]
    fn a_cluster_gives_a_program_what_it_was_given(args in vec(word(), 0..4), value in word()) {
        let (_, files) = put(named("kubernetes"), &the_container(&args, &value), &facts());
        let object: Value = serde_json::from_str(&files[0].content).unwrap();
        let found = &object["spec"]["template"]["spec"]["containers"][0];
        let found_args: Vec<String> = found["args"].as_array().unwrap().iter().map(expanded).collect();
        prop_assert_eq!(found_args, args);
        prop_assert_eq!(expanded(&found["env"][0]["value"]), value);
    }
}

/// A text as a cluster hands it over in which no variable is set: two `$` are one, `$(NAME)` would be a variable.
fn expanded(text: &Value) -> String {
    let mut rest = text.as_str().unwrap();
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        out.push('$');
        assert!(!after.starts_with('('), "a variable in {text}");
        rest = after.strip_prefix('$').unwrap_or(after);
    }
    out + rest
}

proptest! {
    #![proptest_config(Config::with_cases(48))]

    #[test]
    fn the_generated_service_gives_a_container_what_it_was_given(args in vec(word(), 0..4), value in word()) {
        // The generator writes what an empty argument and a lone semicolon are without quotes: a quadlet with one is refused.
        // U+0080 it writes as a byte that is no text.
        let spoilt = |text: &String| text.contains('\u{80}');
        let args: Vec<String> = args.into_iter().filter(|arg| !arg.is_empty() && arg != ";" && !spoilt(arg)).collect();
        let value = value.replace('\u{80}', "");
        let text = file("quadlet", &the_container(&args, &value), &facts()).content;
        let output = generate("x.container", &text);
        prop_assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let service = String::from_utf8(output.stdout).unwrap();
        let line = generated_line(&service);
        prop_assert_eq!(&line[line.len() - args.len()..], &args[..]);
        prop_assert!(line.contains(&format!("VALUE={value}")), "{:?}", line);
    }

    #[test]
    fn a_script_gives_a_program_what_it_was_given(args in vec(word(), 0..4), value in word()) {
        let (found, env) = run_script(&args, &value);
        prop_assert_eq!(found, args);
        prop_assert!(env.contains(&format!("VALUE={value}")), "{:?}", env);
    }
}

/// Runs the script of a program that tells its arguments and its environment.
fn run_script(args: &[String], value: &str) -> (Vec<String>, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let tell = ["sh", "-c", "printf '%s\\0' \"$@\" | od -An -v -tx1; echo ENV; env -0", "sh"];
    let argv: Vec<String> = texts(&tell).into_iter().chain(args.iter().cloned()).collect();
    let script = home.path().join("script");
    fs::write(&script, file("process", &program(&argv, value), &facts()).content).unwrap();
    let mut shell = Command::new("sh");
    let shell =
        shell.arg(&script).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = fs::read(home.path().join(".local/state/frank/frank-test.log")).unwrap();
    let log = String::from_utf8(log).unwrap();
    let (hex, env) = log.split_once("ENV\n").unwrap();
    let bytes = hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let found = String::from_utf8(bytes).unwrap();
    let mut found: Vec<String> = found.split('\0').map(str::to_owned).collect();
    found.pop();
    // printf writes one empty text where there is no argument.
    if args.is_empty() {
        found.clear();
    }
    (found, env.split('\0').map(str::to_owned).collect())
}

#[test]
fn the_process_of_a_script_is_the_program_and_its_secret_comes_from_its_file() {
    let home = tempfile::tempdir().unwrap();
    let mut workload = program(&texts(&["sh", "-c", "echo \"$$ $TOKEN\""]), "v");
    workload.env.push(crate::target_workloads::secret("TOKEN", "env:T"));
    let script = file("process", &workload, &facts());
    assert_eq!((script.mode, script.path.as_str()), (0o755, "~/.config/frank/process/frank-test"));
    let path = home.path().join("script");
    fs::write(&path, script.content).unwrap();
    let run = || {
        Command::new("sh")
            .arg(&path)
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap()
    };
    assert!(!run().status.success(), "the secret is missing");
    let secrets = home.path().join(".config/frank/secrets/frank-test");
    fs::create_dir_all(&secrets).unwrap();
    fs::write(secrets.join("TOKEN"), "it's $secret\n").unwrap();
    assert!(run().status.success());
    let state = home.path().join(".local/state/frank");
    let pid = fs::read_to_string(state.join("frank-test.pid")).unwrap();
    let log = fs::read_to_string(state.join("frank-test.log")).unwrap();
    assert_eq!(log.lines().last().unwrap(), format!("{} it's $secret", pid.trim()));
}

#[test]
fn a_hostile_description_or_label_adds_no_line_to_a_unit() {
    for (target, workload) in [("systemd", hostile_program()), ("quadlet", hostile_container())] {
        let text = file(target, &workload, &facts()).content;
        assert_eq!(values(&text, "ExecStart").len(), usize::from(target == "systemd"), "{text}");
        assert_eq!(values(&text, "Restart"), ["always"], "{text}");
        let sections = text.lines().filter(|line| *line == "[Service]").count();
        assert_eq!(sections, 1, "{text}");
    }
    let text = file("process", &hostile_program(), &facts()).content;
    let commands =
        text.lines().filter(|line| line.starts_with("ExecStart") || line.starts_with("Restart"));
    assert_eq!(commands.count(), 0, "{text}");
}

#[test]
fn a_hostile_path_is_mounted_as_it_is() {
    let workload = hostile_container();
    let text = file("quadlet", &workload, &facts()).content;
    let output = generate("x.container", &text);
    let service = String::from_utf8(output.stdout).unwrap();
    let line = generated_line(&service);
    let mount = &workload.mounts[0];
    let volume = format!("{}:{}:ro", mount.source, mount.target);
    assert!(line.windows(2).any(|pair| pair[0] == "-v" && pair[1] == volume), "{line:?}");
    let at = |option: &str| {
        line.iter().position(|word| word == option).map(|at| line[at + 1].clone()).unwrap()
    };
    assert_eq!(at("--entrypoint"), "/bin/entry point");
    let health: Vec<String> = serde_json::from_str(&at("--health-cmd")).unwrap();
    assert_eq!(Some(health), workload.readiness.command);
}
