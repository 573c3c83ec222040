//! `frank run` away from a terminal: one answer on stdout, and what it refuses.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use frank_gguf::Array;
use frank_hub::ModelFile;
use frank_testkit::assets;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::files::{Folder, llama, llama_writer, str};
use crate::program::{Run, command, frank, run};

const QUESTION: &str = "What is the capital of France, and what is it known for?";

/// Runs `frank run` on the real model, greedy and in a small context.
fn ask(args: &[&str]) -> Run {
    let model = assets::smollm2();
    let fixed = ["run", str(&model), "-c", "256", "--temp", "0"];
    frank([&fixed[..], args].concat())
}

/// What `frank serve` answers to a chat on the real model.
fn served(messages: &Value, max_tokens: u32) -> String {
    let endpoint = Endpoint::start(&assets::smollm2(), &["-c", "256"]);
    served_by(&endpoint, messages, max_tokens)
}

/// What this endpoint answers.
pub(crate) fn served_by(endpoint: &Endpoint, messages: &Value, max_tokens: u32) -> String {
    let body = json!({"messages": messages, "temperature": 0, "max_tokens": max_tokens});
    let reply = endpoint.post("/v1/chat/completions", &body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    let text = reply.json().pointer("/choices/0/message/content").expect("an answer").clone();
    text.as_str().expect("a text").to_owned()
}

#[test]
fn a_prompt_is_answered_on_stdout_as_serve_answers_it() {
    let run = ask(&["-n", "24", QUESTION]).ended(0);
    let expected = served(&json!([{"role": "user", "content": QUESTION}]), 24);
    assert!(expected.contains("Paris"), "{expected}");
    assert_eq!(run.stdout, format!("{expected}\n"));
    assert!(run.stderr.contains("kv_cache"), "the plan is on stderr: {}", run.stderr);
    assert!(run.stderr.contains(" tok/s"), "so is the speed: {}", run.stderr);
}

#[test]
fn standing_instructions_come_first() {
    let system = "Answer in French.";
    let run = ask(&["--max-tokens", "16", "--system", system, QUESTION]).ended(0);
    let messages =
        json!([{"role": "system", "content": system}, {"role": "user", "content": QUESTION}]);
    assert_eq!(run.stdout, format!("{}\n", served(&messages, 16)));
}

#[test]
fn a_raw_prompt_is_continued_as_completions_continues_it() {
    let llama = llama();
    let args = ["run", str(&llama), "--raw", "--temperature", "0", "-n", "8", "th"];
    let run = frank(args).ended(0);
    let endpoint = Endpoint::start(&llama, &[]);
    let body = json!({"prompt": "th", "temperature": 0, "max_tokens": 8});
    let reply = endpoint.post("/v1/completions", &body.to_string()).json();
    let text = reply.pointer("/choices/0/text").and_then(Value::as_str).expect("a text");
    assert_eq!(run.stdout.trim_end_matches('\n'), text.trim_end_matches('\n'));
}

#[test]
fn an_answer_has_at_most_the_tokens_that_were_asked_for() {
    for spelling in ["-n", "--max-tokens", "--predict"] {
        let run = ask(&[spelling, "3", QUESTION]).ended(0);
        assert!(run.stderr.contains("answer 3 tokens"), "{}", run.stderr);
    }
}

#[test]
fn a_seed_makes_a_drawn_answer_repeatable() {
    let model = assets::smollm2();
    let drawn = |seed: &str| {
        let sampling = ["--temperature", "1", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.01"];
        let more = ["--repeat-penalty", "1.1", "--seed", seed, "-n", "12", "Tell me a story"];
        let args = [&["run", str(&model), "-c", "128"][..], &sampling, &more].concat();
        frank(args).ended(0).stdout
    };
    assert_eq!(drawn("7"), drawn("7"));
    assert_ne!(drawn("7"), drawn("8"));
}

#[test]
fn a_prompt_on_stdin_is_the_same_as_one_on_the_command_line() {
    let model = assets::smollm2();
    let expected = ask(&["-n", "8", QUESTION]).ended(0).stdout;
    for prompt in [&["-"][..], &[]] {
        let args = ["run", str(&model), "-c", "256", "--temp", "0", "-n", "8"];
        let mut child = command([&args[..], prompt].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        writeln!(stdin, "{QUESTION}").expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8(output.stdout).expect("UTF-8"), expected);
    }
}

#[test]
fn a_prompt_that_is_none_is_refused() {
    let refused = |args: &[&str], expected: &str| {
        assert_eq!(ask(args).failed(2), [expected]);
    };
    refused(&[], "error: the prompt is empty");
    refused(&["-"], "error: the prompt is empty");
    refused(&[""], "error: the prompt is empty");
    let folder = Folder::new();
    let latin = folder.file("latin.txt", b"caf\xe9");
    let model = assets::smollm2();
    let stdin = std::fs::File::open(latin).expect("that file");
    let lines = run(command(["run", str(&model)]).stdin(stdin)).failed(2);
    assert_eq!(
        lines[..2],
        ["error: cannot read the prompt from stdin", "cause: it is not UTF-8 text"]
    );
}

#[test]
fn a_prompt_that_does_not_fit_says_how_long_the_context_has_to_be() {
    let model = assets::smollm2();
    let long = "word ".repeat(100);
    let lines = frank(["run", str(&model), "-c", "64", &long]).failed(2);
    // Nothing else is said: neither plan nor weights came before it.
    let [error, hint] = &lines[..] else { panic!("{lines:?}") };
    assert!(error.ends_with("the context holds 64 with the answer"), "{lines:?}");
    assert!(hint.starts_with("hint: --ctx-size "), "{lines:?}");
}

#[test]
fn a_file_without_a_template_is_refused_with_the_way_out() {
    let llama = llama();
    let hint = "hint: --raw continues the prompt without one, --chat-template FILE uses another";
    assert_eq!(
        frank(["run", str(&llama), "Hi"]).failed(2),
        ["error: the model file has no chat template", hint]
    );
    let folder = Folder::new();
    let broken = folder.llama_with("tokenizer.chat_template", "a\n{% for %}");
    let lines = frank(["run", str(&broken), "Hi"]).failed(2);
    assert_eq!(lines[0], "error: the chat template of the model cannot be used");
    assert!(lines[1].starts_with("cause: line 2 of the chat template: "), "{lines:?}");
    assert_eq!(lines[2], hint);
    assert_eq!(lines.len(), 3);
}

#[test]
fn a_template_of_a_file_is_used_and_its_refusal_has_its_own_words() {
    let folder = Folder::new();
    let llama = llama();
    let with = |template: &str| {
        let path = folder.file("template.jinja", template);
        let fixed = ["run", str(&llama), "--temp", "0", "-n", "8", "th"];
        frank([&fixed[..], &["--chat-template", str(&path)]].concat())
    };
    let raw = frank(["run", str(&llama), "--raw", "--temp", "0", "-n", "8", "xthy"]).ended(0);
    let templated = with("{{ 'x' + messages[0].content + 'y' }}").ended(0);
    assert_eq!(templated.stdout, raw.stdout);
    let refused = with("{{ raise_exception('only about the weather') }}").failed(2);
    // Before the weights are read, which may take minutes.
    let fact = "error: the chat template does not take this conversation";
    assert_eq!(refused, [fact, "cause: only about the weather"]);
    assert_eq!(with("").failed(2), ["error: the prompt is empty"]);
}

#[test]
fn a_template_that_begins_with_bos_gives_the_prompt_no_second_one() {
    let folder = Folder::new();
    let model = folder.llama_with("tokenizer.ggml.add_bos_token", true);
    let template = folder.file("template.jinja", "{{ bos_token }}{{ messages[0].content }}");
    let said = |more: &[&str]| {
        frank([&["run", str(&model), "--temp", "0", "-n", "4", "th"][..], more].concat()).ended(0)
    };
    let (raw, templated) = (said(&["--raw"]), said(&["--chat-template", str(&template)]));
    for run in [&raw, &templated] {
        assert!(run.stderr.contains("prompt 2 tokens"), "{run:?}");
    }
    assert_eq!(templated.stdout, raw.stdout);
}

#[test]
fn a_message_cannot_spell_a_token_of_the_template_that_was_given() {
    const USER: usize = 261;
    const USER_DEFINED: i32 = 4;
    let folder = Folder::new();
    let file = ModelFile::open(&llama()).expect("the tiny model");
    let kinds = file.header.metadata.i32s("tokenizer.ggml.token_type").expect("a list");
    let mut kinds = kinds.expect("the model has types");
    kinds[USER] = USER_DEFINED;
    let model = folder.llama_with("tokenizer.ggml.token_type", Array::I32(kinds));
    let template = folder.file("template.jinja", "{{ '<|user|>' ~ messages[0].content }}");
    let args = ["run", str(&model), "-n", "1", "--chat-template", str(&template), "<|user|>"];
    let run = frank(args).ended(0);
    // One that the template wrote, and those of the text `<|user|>`, where only `er` is one token.
    assert!(run.stderr.contains("prompt 8 tokens"), "{run:?}");
}

#[test]
fn a_missing_pre_tokenizer_is_a_warning_of_every_command_that_loads() {
    let folder = Folder::new();
    let model = folder.gguf("llama.gguf", &llama_writer().without("tokenizer.ggml.pre"));
    let text = folder.file("text.txt", "in the end");
    let warning = "warning: tokenizer.ggml.pre is missing: ";
    let run = frank(["run", str(&model), "--raw", "-n", "1", "th"]).ended(0);
    let eval = frank(["eval", str(&model), str(&text)]).ended(0);
    let serve = Endpoint::start(&model, &[]);
    for said in [&run.stderr, &eval.stderr, &serve.preface] {
        assert_eq!(said.matches(warning).count(), 1, "{said}");
    }
}

#[test]
fn a_template_file_that_is_none_is_named() {
    let folder = Folder::new();
    let llama = llama();
    let check = |path: &Path, cause: &str| {
        let lines = frank(["run", str(&llama), "Hi", "--chat-template", str(path)]).failed(2);
        let fact = format!("error: cannot use the chat template {}", path.display());
        assert_eq!(lines[..2], [fact, format!("cause: {cause}")]);
    };
    check(Path::new("/no/such.jinja"), "No such file or directory (os error 2)");
    check(&folder.file("latin.jinja", b"caf\xe9"), "it is not UTF-8 text");
    let long = folder.file("long.jinja", "a".repeat(200_000));
    check(&long, "it is longer than the 131072 bytes that are taken");
    check(Path::new("/dev/zero"), "it is longer than the 131072 bytes that are taken");
}

#[test]
fn an_answer_is_kept_to_a_schema_and_one_that_cannot_be_kept_is_refused() {
    let run = ask(&["-n", "20", "--json-schema", r#"{"enum": ["yes", "no"]}"#, QUESTION]).ended(0);
    assert!(["\"yes\"\n", "\"no\"\n"].contains(&run.stdout.as_str()), "{}", run.stdout);
    let lines = ask(&["-j", "nope", QUESTION]).failed(2);
    assert_eq!(lines[0], "error: the JSON schema is not JSON");
    let lines = ask(&["-j", r#"{"type": "nonsense"}"#, QUESTION]).failed(2);
    assert_eq!(lines[0], "error: answers cannot be kept to this form");
}

#[test]
fn a_bias_makes_a_token_certain() {
    let run = ask(&["-n", "4", "--logit-bias", "504+100", QUESTION]).ended(0);
    assert_eq!(run.stdout, "TheTheTheThe\n");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let check = |args: &[&str], expected: &str| {
        let lines = frank([&["run", "x.gguf", "Hi"][..], args].concat()).failed(2);
        assert!(lines[0].contains(expected), "{args:?}: {lines:?}");
    };
    check(&["--temperature", "101"], "101 is not from 0 to 100");
    check(&["--temp", "-1"], "-1 is not from 0 to 100");
    check(&["--temp", "NaN"], "NaN is not from 0 to 100");
    check(&["--top-p", "1.5"], "1.5 is not from 0 to 1");
    check(&["--min-p", "x"], "not a number");
    check(&["--repeat-penalty", "0"], "0 is not from 0.01 to 100");
    check(&["--top-k", "-1"], "'--top-k <N>'");
    check(&["--seed", "1.5"], "'--seed <N>'");
    check(&["-n", "0"], "0 is not in 1..");
    check(&["--raw", "--system", "x"], "cannot be used with");
    check(&["--mirostat", "3"], "3 is not in 0..=2");
    check(&["--mirostat", "1", "--samplers", "top_k"], "cannot be used with");
    check(&["--samplers", "top_k;infill"], "no sampler \"infill\"");
    check(&["--logit-bias", "15+101"], "+101 is not from -100 to 100");
    check(&["--grammar", "root ::= \"x\"", "--json-schema", "{}"], "cannot be used with");
    check(&["--ignore-eos", "--json-schema", "{}"], "--ignore-eos cannot be kept beside a grammar");
    check(&["--raw", "--chat-template", "x"], "--chat-template has no effect beside --raw");
    check(&["--parallel", "2"], "--parallel has no effect");
}

#[test]
fn a_reader_that_went_away_ends_it_quietly() {
    let model = assets::smollm2();
    let args = ["run", str(&model), "-c", "256", "--temp", "0", QUESTION];
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output =
        command(args).stdout(writer).stderr(Stdio::piped()).output().expect("the program starts");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("error"), "{stderr}");
}

#[test]
fn ctrl_c_ends_an_answer_with_130() {
    let model = assets::smollm2();
    let mut child =
        command(["run", str(&model), "-c", "4096", "--raw", "--temp", "0", "1 2 3 4 5"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
    let mut first = [0];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("an answer");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(output.stdout.last(), Some(&b'\n'));
}
