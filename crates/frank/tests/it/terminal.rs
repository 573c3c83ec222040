//! `frank run` at a terminal: a chat, what ends it, and what an answer cannot do there.

use std::path::Path;
use std::process::Command;

use frank_gguf::Array;
use frank_hub::ModelFile;
use frank_testkit::assets;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::files::{Folder, llama, str};
use crate::program::{Run, frank};
use crate::run::served_by;

/// What a chat at a terminal said, after these steps.
fn chat(args: &[&str], steps: &Value) -> Run {
    let model = assets::smollm2();
    let fixed = ["run", str(&model), "-c", "256", "--temp", "0"];
    at_terminal(&[&fixed[..], args].concat(), steps)
}

/// What the program said at a terminal: see `tests/oracle/terminal.py`.
fn at_terminal(args: &[&str], steps: &Value) -> Run {
    let folder = Folder::new();
    let (steps, out) =
        (folder.file("steps.json", steps.to_string()), folder.path().join("out.json"));
    let output = Command::new(assets::python())
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/terminal.py"))
        .args([&out, &steps])
        .arg(env!("CARGO_BIN_EXE_frank"))
        .args(args)
        .output()
        .expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer = std::fs::read(out).expect("python wrote what it saw");
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    let text = |key: &str| answer[key].as_str().expect("a text").to_owned();
    let code = answer["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    Run { code: code.expect("a code"), stdout: text("stdout"), stderr: text("stderr") }
}

#[test]
fn a_chat_at_a_terminal_remembers_what_was_said() {
    let (first, second) = ("My name is Bob.", "What is my name?");
    let steps = json!([{"type": first}, {"type": ""}, {"type": second}, {"type": "/exit"}]);
    let run = chat(&["-n", "12"], &steps).ended(0);
    let endpoint = Endpoint::start(&assets::smollm2(), &["-c", "256"]);
    let mut messages = json!([{"role": "user", "content": first}]);
    let one = served_by(&endpoint, &messages, 12);
    messages.as_array_mut().expect("a list").extend([
        json!({"role": "assistant", "content": one}),
        json!({"role": "user", "content": second}),
    ]);
    let two = served_by(&endpoint, &messages, 12);
    assert_eq!(run.stdout, format!("{one}\n{two}\n"));
    assert_eq!(chat(&[], &json!([{"end": true}])).ended(0).stdout, "");
}

#[test]
fn ctrl_c_at_a_terminal_ends_the_answer_and_then_the_chat() {
    let steps = json!([{"interrupt": "Tell me a very long story."}, {"interrupt": null}]);
    let run = chat(&["--max-tokens", "200"], &steps);
    assert_eq!(run.code, 130, "{run:?}");
    assert!(run.stdout.ends_with('\n') && !run.stdout.trim().is_empty(), "{run:?}");
}

#[test]
fn a_line_that_the_template_refuses_is_told_and_forgotten() {
    let folder = Folder::new();
    let template = "{% for m in messages %}{% if 'secret' in m.content %}{{ raise_exception('not that') }}{% endif %}\
        {{ m.content }}{% endfor %}";
    let path = folder.file("template.jinja", template);
    let steps = json!([{"type": "a secret"}, {"type": "1 2 3"}, {"end": true}]);
    let run = chat(&["-n", "12", "--chat-template", str(&path)], &steps).ended(0);
    assert!(run.stderr.contains("not that"), "{run:?}");
    assert!(!run.stdout.trim().is_empty(), "{run:?}");
}

#[test]
fn half_a_character_does_not_end_a_chat() {
    let steps = json!([{"bytes": [0xc3, 0x0a]}, {"type": "/exit"}]);
    let run = chat(&["-n", "2"], &steps).ended(0);
    assert!(!run.stdout.is_empty(), "{run:?}");
}

#[test]
fn an_answer_cannot_command_the_terminal_and_is_not_changed_in_a_file() {
    let folder = Folder::new();
    let args = |model: &Path| {
        ["run", str(model), "--raw", "--temp", "0", "-n", "1", "th"].map(str::to_owned)
    };
    let answer = frank(args(&llama())).ended(0).stdout;
    // The token of the answer becomes the escape character, whose letter in byte-level vocabularies this is.
    const ESCAPE: &str = "\u{11b}";
    let file = ModelFile::open(&llama()).expect("the tiny model");
    let tokens = file.header.metadata.strings("tokenizer.ggml.tokens").expect("texts");
    let mut tokens = tokens.expect("the model has tokens").to_vec();
    let place = |text: &str| tokens.iter().position(|token| token == text).expect("a token");
    let (answered, escape) = (place(answer.trim_end_matches('\n')), place(ESCAPE));
    tokens.swap(answered, escape);
    let model = folder.llama_with("tokenizer.ggml.tokens", Array::String(tokens));
    assert_eq!(frank(args(&model)).ended(0).stdout, "\u{1b}\n");
    let args = args(&model);
    let shown = at_terminal(&args.each_ref().map(String::as_str), &Value::Null).ended(0);
    assert_eq!(shown.stdout, "\\u{1b}\r\n");
}

#[test]
fn a_raw_chat_is_refused_at_a_terminal() {
    let steps = json!([]);
    let run = chat(&["--raw"], &steps).ended(2);
    assert!(run.stderr.contains("--raw needs a PROMPT"), "{run:?}");
}
