//! `frank.toml`: what is read, and what is refused where.

use frank_fleet::{DeviceFacts, LinkFacts};
use frank_fleet::{Fault, Fleet, FleetFile, HostFacts, InitHost, Located, Tables, check, init};

use crate::given::{FLEET, tables};

/// Line, column, code and words of everything that is wrong with `text`.
fn faults(text: &str) -> Vec<(usize, usize, &'static str, String)> {
    let told = |it: Located| (it.line, it.column, it.fault.code, it.fault.message);
    match Fleet::read(text) {
        Err(faults) => faults.into_iter().map(told).collect(),
        Ok(fleet) => {
            let faults = check(&fleet.file, &tables()).into_iter();
            faults.filter(Fault::is_error).map(|fault| told(fleet.locate(fault))).collect()
        }
    }
}

/// The only fault of the fleet with `old` written as `new`: where it stands, by a text at its begin, and its code.
fn check_one(old: &str, new: &str, begin: &str, code: &str) {
    assert!(FLEET.contains(old), "{old} is not in the fleet");
    let text = FLEET.replacen(old, new, 1);
    let faults = faults(&text);
    let [(line, column, got, _)] = faults.as_slice() else { panic!("{new}: {faults:?}") };
    let rest: String =
        text.lines().nth(line - 1).unwrap_or_default().chars().skip(column - 1).collect();
    assert!(rest.starts_with(begin), "{new}: {line}:{column} is before {rest:?}, not {begin:?}");
    assert_eq!(*got, code, "{new}");
}

#[test]
fn a_fleet_without_faults_is_read() {
    assert_eq!(faults(FLEET), []);
    let file = Fleet::read(FLEET).unwrap().file;
    assert_eq!(file.endpoints["chat"].port, 7770);
    assert_eq!(file.hosts["box"].folder(), "/var/lib/frank");
    assert_eq!(file.endpoints["chat"].address(), "127.0.0.1");
}

#[test]
fn every_fault_stands_at_its_line_and_column() {
    check_one("port = 7770", "prot = 7770", "prot", "unknown_key");
    check_one("port = 7770", "port = \"7770\"", "\"7770\"", "syntax");
    check_one("port = 7770", "port = 70000", "70000", "syntax");
    check_one("port = 7770", "port = ", "", "syntax");
    check_one("[models.qwen]", "[modles.qwen]", "modles.qwen", "unknown_key");
    check_one("host = \"box\"", "host = \"bocks\"", "\"bocks\"", "unknown_host");
    check_one("model = \"qwen\"", "model = \"qwem\"", "\"qwem\"", "unknown_model");
    check_one("runtime = \"plain\"", "runtime = \"ollama\"", "\"ollama\"", "unknown_runtime");
    check_one("target = \"files\"", "target = \"docker\"", "\"docker\"", "unknown_target");
    check_one("headroom = \"4GiB\"", "headroom = \"4 gigs\"", "\"4 gigs\"", "bad_size");
    check_one("headroom = \"4GiB\"", "headroom = \"4294967296\"", "\"4294967296\"", "bad_size");
    check_one("ssh = \"me@box.lan\"", "ssh = \"-oProxyCommand=x\"", "\"-oProxy", "bad_ssh");
    check_one("ssh = \"me@box.lan\"", "ssh = \"me@box lan\"", "\"me@box lan", "bad_ssh");
    check_one("slots = 2", "slots = 0", "0", "zero");
    check_one("[endpoints.chat]", "[endpoints.Chat]", "Chat", "bad_name");
    check_one("[endpoints.chat]", "[endpoints.\"a b\"]", "\"a b\"", "bad_name");
    check_one("alias = \"chat\"", "alias = \"\"", "\"\"", "empty");
    check_one("alias = \"chat\"", "alias = \"a\\nb\"", "\"a", "control_character");
    check_one(
        "ports = [\"127.0.0.1:9090:9090\"]",
        "ports = [\"9090\", \"x\"]",
        "\"x\"",
        "bad_port",
    );
    check_one("command = []", "mounts = [\"/a\"]", "\"/a\"", "bad_mount");
    check_one("command = []", "health = \"9090\"", "\"9090\"", "bad_health");
    check_one("template = \"qwen.jinja\"", "template = \"../x\"", "\"../x\"", "bad_path");
    check_one("template = \"qwen.jinja\"", "template = \"/x\"", "\"/x\"", "bad_path");
    check_one("ports = [\"127.0.0.1:9090:9090\"]", "ports = [\"7770\"]", "\"7770\"", "port_taken");
}

#[test]
fn a_missing_key_is_told_with_the_entry_that_lacks_it() {
    let faults = faults("\n\n[hosts.box]\nnotes = \"x\"\n");
    let [(3, _, "syntax", message)] = faults.as_slice() else { panic!("{faults:?}") };
    assert!(message.contains("missing field `ssh`"), "{message}");
}

#[test]
fn all_faults_are_told_together_in_the_order_of_the_file() {
    let text = FLEET.replacen("prot", "port", 1).replacen("alias", "alais", 1);
    let text = text.replacen("payload", "paylaod", 1).replacen("ssh", "shs", 1);
    let faults = faults(&text);
    let lines: Vec<usize> = faults.iter().map(|it| it.0).collect();
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(lines.is_sorted(), "{lines:?}");
    let texts = FLEET.replacen("\"box\"", "\"bix\"", 1).replacen("\"qwen\"", "\"qwan\"", 1);
    assert_eq!(self::faults(&texts).len(), 2);
}

#[test]
fn a_mistyped_name_gets_the_one_that_is_meant() {
    let text = FLEET.replacen("host = \"box\"", "host = \"bxo\"", 1);
    let fleet = Fleet::read(&text).unwrap();
    let faults = check(&fleet.file, &tables());
    let hint = faults.iter().find(|fault| fault.code == "unknown_host").unwrap().hint.clone();
    assert_eq!(hint.unwrap(), "did you mean `box`?");
}

#[test]
fn no_secret_stands_in_a_fleet_and_none_is_repeated() {
    let secret = "hunter2-hunter2-hunter2";
    for line in [
        format!("env = {{ HF_TOKEN = \"{secret}\" }}"),
        format!("env = {{ OPENAI_API_KEY = \"{secret}\" }}"),
        format!("env = {{ DB_PASSWORD = \"{secret}\" }}"),
        format!("options = {{ api-key = \"{secret}\" }}"),
        format!("options = {{ args = [\"--api-key\", \"{secret}\"] }}"),
        format!("options = {{ args = [\"--api-key={secret}\"] }}"),
        format!("options = {{ nested = {{ password = \"{secret}\" }} }}"),
        format!("api-keys = \"{secret}\""),
        format!("env = {{ URL = \"http://me:{secret}@box/\" }}"),
        format!("env = {{ ANY = \"hf_{secret}\" }}"),
        // In the wrong place, where the reader itself refuses it.
        format!("env = \"{secret}\""),
        format!("verify = \"{secret}\""),
        format!("context = \"{secret}\""),
    ] {
        let text = FLEET.replacen("slots = 2", &line, 1);
        let faults = faults(&text);
        assert_eq!(faults.len(), 1, "{line}: {faults:?}");
        assert!(!faults[0].3.contains("hunter2"), "{line}: {}", faults[0].3);
    }
    for line in [
        "env = { HF_TOKEN = \"env:HF_TOKEN\" }",
        "env = { HF_TOKEN = \"credential:hf\" }",
        "env = { HF_TOKEN = \"file:/etc/frank/hf\" }",
        "api-keys = \"file:/etc/frank/keys\"",
        "options = { max-tokens = 5, api-key-file = \"/etc/frank/keys\" }",
    ] {
        assert_eq!(faults(&FLEET.replacen("slots = 2", line, 1)), [], "{line}");
    }
}

#[test]
fn who_answers_other_machines_without_a_key_is_told() {
    let text = FLEET.replacen("slots = 2", "bind = \"0.0.0.0\"", 1);
    let fleet = Fleet::read(&text).unwrap();
    let codes: Vec<&str> = check(&fleet.file, &tables()).iter().map(|it| it.code).collect();
    assert_eq!(codes, ["open_endpoint"]);
}

#[test]
fn the_schema_names_what_is_read_and_takes_what_is_read() {
    let schema = FleetFile::schema();
    let text = serde_json::to_string_pretty(&schema).unwrap();
    for key in ["hosts", "memory-budget", "api-keys", "log-must-not", "start-period", "headroom"] {
        assert!(text.contains(&format!("\"{key}\"")), "{key} is not in the schema");
    }
    assert_eq!(schema["additionalProperties"], serde_json::Value::Bool(false));
    insta::assert_snapshot!(text);
}

#[test]
fn hostile_texts_are_refused_and_never_end_the_program() {
    for text in [
        "",
        "\u{feff}",
        "[",
        "a = ",
        "hosts = 3",
        "[hosts]\nx = 3",
        "\0",
        "[[hosts]]\n",
        "[hosts.\"\"]\nssh=\"x\"",
    ] {
        let _told = faults(text);
    }
    let deep =
        format!("[endpoints.x]\noptions = {{ a = {}{} }}", "[".repeat(5000), "]".repeat(5000));
    assert!(!faults(&deep).is_empty());
}

fn facts() -> HostFacts {
    HostFacts {
        hostname: "box\n[evil]".to_owned(),
        platform: "Linux x86_64".to_owned(),
        ram: 128 << 30,
        ram_free: 100 << 30,
        cores: 16,
        systemd: Some(257),
        podman: Some("5.4.2".to_owned()),
        devices: vec![DeviceFacts {
            id: "rocm:0".to_owned(),
            kind: "rocm".to_owned(),
            name: "Radeon AI PRO R9700".to_owned(),
            arch: Some("gfx1201".to_owned()),
            total: 34_208_743_424,
            free: 34_000_000_000,
            link: Some(LinkFacts { width: 16, speed_tenth_gts: 320, atomics: Some(true) }),
            ..DeviceFacts::default()
        }],
        unknown: vec!["rocm-smi is not there".to_owned()],
        ..HostFacts::default()
    }
}

#[test]
fn a_first_file_has_comments_and_is_read_without_faults() {
    let facts = facts();
    let hosts = [
        InitHost { name: "box", ssh: "local", facts: &facts },
        InitHost { name: "other", ssh: "me@\"other\"", facts: &HostFacts::default() },
    ];
    let text = init(&hosts);
    let fleet = Fleet::read(&text).unwrap();
    assert_eq!(fleet.file.hosts["box"].devices[0].id, "rocm:0");
    assert_eq!(fleet.file.hosts["other"].ssh, "me@\"other\"");
    let told = check(&fleet.file, &Tables::all());
    assert_eq!(told, [], "a first file has no fault");
    insta::assert_snapshot!(text);
}

#[test]
fn the_examples_of_a_first_file_are_read_when_their_marks_go() {
    let facts = facts();
    let text = init(&[InitHost { name: "box", ssh: "local", facts: &facts }]);
    let is_example = |line: &&str| {
        let line = line.trim_start_matches("# ");
        line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
    };
    let lines = text.lines().filter(is_example).map(|line| line.trim_start_matches("# "));
    let text: Vec<&str> = lines.collect();
    let fleet =
        Fleet::read(&text.join("\n")).unwrap_or_else(|faults| panic!("{faults:?}\n{text:?}"));
    assert_eq!(fleet.file.endpoints["chat"].alias, "chat");
    let all = Tables::all();
    let told = check(&fleet.file, &all);
    assert!(all.runtimes.is_empty() || told.is_empty(), "{told:?}");
}
