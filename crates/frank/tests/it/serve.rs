//! `frank serve` from its first line to its exit code.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Command;

use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;
use serde_json::json;

use crate::endpoint::{Endpoint, Reply};
use crate::files::{Folder, llama, llama_keys};
use crate::hub_home::HubHome;
use crate::program::{frank, run};

#[test]
fn a_model_is_served_and_a_prompt_of_token_ids_is_continued() {
    let endpoint = Endpoint::start(&llama(), &["-c", "256", "--alias", "tiny,other"]);
    assert!(endpoint.preface.contains("kv_cache"), "the plan is shown first: {}", endpoint.preface);
    let models = endpoint.get("/v1/models", "").json();
    assert_eq!(models.pointer("/data/0/id"), Some(&json!("tiny")), "{models}");
    assert_eq!(models.pointer("/data/0/context_length"), Some(&json!(256)), "{models}");
    let body = r#"{"model":"other","prompt":[256,116,104],"max_tokens":5,"temperature":0,"ignore_eos":true}"#;
    let (first, second) =
        (endpoint.post("/v1/completions", body), endpoint.post("/v1/completions", body));
    let mut usage = first.json()["usage"].take();
    let timings = usage["timings"].take();
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(
        (&timings["cached_prefix_tokens"], &timings["prefilled_tokens"]),
        (&json!(0), &json!(3))
    );
    let counts = json!({
        "prompt_tokens": 3,
        "completion_tokens": 5,
        "total_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
        "timings": null,
    });
    assert_eq!(usage, counts, "{}", first.body);
    assert_eq!(first.json().pointer("/choices/0/text"), second.json().pointer("/choices/0/text"));
    assert_eq!(endpoint.get("/health", "").status, 200);
    let metrics = endpoint.get("/metrics", "").body;
    assert!(metrics.contains("frank_completion_tokens_total 10"), "{metrics}");
}

#[test]
fn the_openai_package_streams_from_a_real_model() {
    let endpoint = Endpoint::start(&assets::smollm2(), &["-c", "512"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/openai_chat.py");
    let base_url = format!("{}/v1", endpoint.url());
    let output = Command::new(assets::python())
        .args([script, &base_url, "SmolLM2-135M-Instruct.Q4_1"])
        .output()
        .expect("python starts");
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("Paris"), "{stdout}");
}

#[test]
fn what_a_client_gets_wrong_is_a_400_in_the_envelope() {
    let endpoint = Endpoint::start(&assets::smollm2(), &["-c", "64"]);
    let check = |path: &str, body: &str, expected: &str| {
        let reply = endpoint.post(path, body);
        assert_eq!(reply.status, 400, "{body}: {}", reply.body);
        let message = reply.json().pointer("/error/message").expect("an envelope").to_string();
        assert!(message.contains(expected), "{body}: {message}");
    };
    let chat = "/v1/chat/completions";
    check(chat, "{\"messages\": [", "JSON");
    check(chat, "{}", "messages");
    check(
        chat,
        r#"{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 0}"#,
        "max_tokens",
    );
    check(chat, r#"{"messages": [{"role": "user", "content": "hi"}], "colour": "red"}"#, "colour");
    let long = "word ".repeat(100);
    let too_long =
        json!({"messages": [{"role": "user", "content": long}], "stream": true}).to_string();
    check(chat, &too_long, "64");
    check("/v1/completions", &json!({"prompt": long}).to_string(), "the context");
    assert_eq!(endpoint.get("/health", "").status, 200, "it lives on");
}

#[test]
fn a_model_without_a_chat_template_refuses_chat_and_says_the_way_out() {
    let endpoint = Endpoint::start(&llama(), &["-c", "64"]);
    let reply = endpoint
        .post("/v1/chat/completions", r#"{"messages": [{"role": "user", "content": "hi"}]}"#);
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert!(reply.body.contains("--chat-template"), "{}", reply.body);
}

#[test]
fn a_template_of_the_file_that_cannot_be_used_is_said_at_the_start() {
    let folder = Folder::new();
    let model = folder.llama_with("tokenizer.chat_template", "{% for %}");
    let endpoint = Endpoint::start(&model, &["-c", "64"]);
    assert!(endpoint.preface.contains("the chat template of the model"), "{}", endpoint.preface);
}

#[test]
fn requests_are_logged_by_route_and_status_when_asked() {
    let log = |level: &str| {
        let endpoint = Endpoint::start_logging(level, &llama(), &["-c", "64"]);
        assert_eq!(endpoint.get("/health", "").status, 200);
        assert_eq!(endpoint.get("/no/such/secret", "").status, 404);
        endpoint.signal("-TERM");
        let (code, log) = endpoint.end();
        assert_eq!(code, Some(0), "{log}");
        log
    };
    assert_eq!(log("warn"), "");
    let log = log("info");
    assert!(log.contains("/health") && log.contains("404") && !log.contains("secret"), "{log}");
}

#[test]
fn keys_of_a_file_guard_everything_but_health() {
    let folder = Folder::new();
    let keys = folder.file("keys", "# operators\nsecret-1\n\nsecret-2\n");
    let endpoint =
        Endpoint::start(&llama(), &["-c", "64", "--api-key-file", keys.to_str().expect("UTF-8")]);
    assert_eq!(endpoint.get("/v1/models", "").status, 401);
    assert_eq!(endpoint.get("/metrics", "authorization: Bearer wrong\r\n").status, 401);
    assert_eq!(endpoint.get("/v1/models", "authorization: Bearer secret-2\r\n").status, 200);
    assert_eq!(endpoint.get("/v1/models", "x-api-key: secret-1\r\n").status, 200);
    assert_eq!(endpoint.get("/health", "").status, 200);
}

#[test]
fn a_megabyte_of_text_is_refused_before_it_takes_memory_that_nobody_planned() {
    let endpoint = Endpoint::start(&assets::smollm2(), &["-c", "512"]);
    let idle = endpoint.peak_bytes();
    for n_bytes in [100_000, 1 << 20, 8 << 20] {
        let text = "a".repeat(n_bytes);
        let body = json!({"messages": [{"role": "user", "content": text}]}).to_string();
        let reply = endpoint.post("/v1/chat/completions", &body);
        assert!([400, 413].contains(&reply.status), "{n_bytes}: {}", reply.body);
        let reply = endpoint.post("/tokenize", &json!({"content": text}).to_string());
        assert!([400, 413].contains(&reply.status), "{n_bytes}: {}", reply.body);
    }
    let grown = endpoint.peak_bytes() - idle;
    assert!(grown < 8 << 20, "{grown} bytes more than idle");
}

#[test]
fn sigterm_lets_a_running_answer_end_and_exits_with_0() {
    let endpoint = Endpoint::start(&llama(), &["-c", "4096"]);
    let body =
        r#"{"prompt":[256],"max_tokens":3000,"temperature":0,"ignore_eos":true,"stream":true}"#;
    let stream = endpoint.send(&format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x.localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    ));
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    while !first.starts_with("data: ") {
        first.clear();
        assert!(reader.read_line(&mut first).expect("it answers") > 0, "the stream begins");
    }
    endpoint.signal("-TERM");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).expect("the stream goes on");
    assert!(rest.contains("[DONE]"), "the answer came to its end");
    assert_eq!(endpoint.end(), (Some(0), String::new()));
}

#[test]
fn a_port_in_use_is_said_with_the_way_out_before_a_weight_is_read() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    for args in [vec!["serve", llama().to_str().expect("UTF-8")], vec!["demo"]] {
        let port = port.to_string();
        let run = frank([args.clone(), vec!["--port", &port]].concat()).ended(1);
        let error = format!("error: cannot listen on 127.0.0.1:{port}\n");
        assert!(run.stderr.contains(&error), "{args:?}: {}", run.stderr);
        assert!(
            run.stderr.contains("hint: --port 0 picks a free port"),
            "{args:?}: {}",
            run.stderr
        );
    }
}

/// `frank serve ARGS` fails with `code`; the first line of its errors contains `expected`.
fn check_refused(args: &[&str], code: i32, expected: &str) {
    let lines = frank([&["serve", "--port", "0"], args].concat()).failed(code);
    assert!(lines[0].starts_with("error: ") && lines[0].contains(expected), "{args:?}: {lines:?}");
    assert!(
        lines[1..].iter().all(|l| l.starts_with("cause: ") || l.starts_with("hint: ")),
        "{args:?}: {lines:?}"
    );
}

#[test]
fn files_that_are_no_model_are_refused() {
    let folder = Folder::new();
    let text = folder.file("notes.gguf", "# Notes\nnothing here, and more of it\n");
    let cut = folder.cut_llama(300_000);
    let foreign = folder.gguf("rwkv.gguf", &llama_keys("rwkv9", 1));
    let check = |path: &std::path::Path, expected: &str| {
        check_refused(&[path.to_str().expect("UTF-8")], 2, expected);
    };
    check(std::path::Path::new("/no/such.gguf"), "no such file");
    check(folder.path(), "is a directory");
    check(&text, "not a GGUF file");
    check(&cut, "the file is cut off");
    check(&foreign, "architecture \"rwkv9\" is not known");
    let bare = folder.gguf("bare.gguf", &GgufWriter::new("llama"));
    check(&bare, "llama.embedding_length is missing");
}

#[test]
fn options_that_cannot_be_are_refused() {
    let folder = Folder::new();
    let model = llama();
    let model = model.to_str().expect("UTF-8");
    let empty = folder.file("empty", "# nobody\n");
    let binary = folder.file("binary", [0xff, 0xfe, 0x00]);
    check_refused(&[model, "--api-key-file", "/no/such/keys"], 2, "key file /no/such/keys");
    check_refused(&[model, "--api-key-file", empty.to_str().expect("UTF-8")], 2, "holds no key");
    check_refused(&[model, "--api-key-file", binary.to_str().expect("UTF-8")], 2, "key file");
    check_refused(
        &[model, "--api-key-file", folder.path().to_str().expect("UTF-8")],
        2,
        "key file",
    );
    check_refused(&[model, "--alias", "a,,b"], 2, "--alias");
    check_refused(&[model, "--colour", "red"], 2, "unexpected argument '--colour'");
    check_refused(&[model, "--allow-origin", "not an origin"], 2, "--allow-origin");
    check_refused(&[model, "--chat-template", "/no/such.jinja"], 2, "cannot use the chat template");
    let broken = folder.file("broken.jinja", "{% for %}");
    check_refused(
        &[model, "--chat-template", broken.to_str().expect("UTF-8")],
        2,
        "cannot use the chat template",
    );
    check_refused(&[model, "--host", "256.1.1.1"], 1, "cannot listen on 256.1.1.1");
}

#[test]
fn a_budget_that_cannot_hold_the_model_is_exit_3_before_a_weight_is_read() {
    /// The header with its vocabulary is 2 MB, the weights are 96.
    const READ_BYTES_MAX: u64 = 10_000_000;
    let model = assets::smollm2();
    let model = model.to_str().expect("UTF-8");
    let args = ["serve", model, "--memory-budget", "50MiB", "--port", "0"];
    let lines = frank(args).failed(3);
    assert!(lines[0].contains("cpu:0") && lines[0].contains("50.00 MiB"), "{lines:?}");
    assert!(lines[1].starts_with("hint: "), "{lines:?}");
    // A shell counts the bytes that its ended children have read.
    let script = r#""$@" 2>&1; code=$?; grep rchar "/proc/$$/io"; exit $code"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_frank")]).args(args);
    let run = run(&mut shell).ended(3);
    let rchar =
        run.stdout.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("Linux counts");
    let read_bytes: u64 = rchar.parse().expect("a number");
    assert!((1_000_000..READ_BYTES_MAX).contains(&read_bytes), "{read_bytes} bytes were read");
}

#[test]
fn a_streamed_completion_ends_with_done() {
    let endpoint = Endpoint::start(&llama(), &["-c", "64"]);
    let body = r#"{"prompt":[256],"max_tokens":3,"temperature":0,"ignore_eos":true,"stream":true}"#;
    let Reply { status, body } = endpoint.post("/v1/completions", body);
    assert_eq!(status, 200);
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
}

#[test]
fn an_alias_that_spells_a_repository_asks_no_hub() {
    let home = HubHome::tiny();
    let (hub, data) = (home.hub.endpoint(), home.folder.path().display().to_string());
    let variables = [("HF_ENDPOINT", hub), ("XDG_DATA_HOME", &*data)];
    for alias in ["org/tiny-GGUF", "hf:org/tiny-GGUF"] {
        let endpoint = Endpoint::start_with(&variables, &llama(), &["--alias", alias, "-c", "64"]);
        let body = json!({"model": alias, "prompt": [1, 2], "max_tokens": 1}).to_string();
        let reply = endpoint.post("/v1/completions", &body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.json()["model"], alias);
    }
    assert_eq!(home.hub.requests().len(), 0, "a name is no address");
}

#[test]
fn a_small_model_that_knows_no_tools_calls_one_whenever_it_must() {
    let endpoint = Endpoint::start(&assets::smollm2(), &["-c", "1024"]);
    let parameters = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
        },
        "required": ["city", "unit"],
        "additionalProperties": false,
    });
    let function = json!({"name": "weather", "description": "The weather of a city.", "parameters": parameters});
    for (seed, question) in [
        (1, "Is it warm in Rome?"),
        (2, "Tell me a story."),
        (3, "2 + 2?"),
        (4, "What will Oslo be like?"),
    ] {
        let body = json!({
            "messages": [{"role": "user", "content": question}],
            "tools": [{"type": "function", "function": function}],
            "tool_choice": "required",
            "parallel_tool_calls": false,
            "temperature": 1.0,
            "seed": seed,
            "max_tokens": 400,
        });
        let reply = endpoint.post("/v1/chat/completions", &body.to_string());
        assert_eq!(reply.status, 200, "{}", reply.body);
        let choice = reply.json()["choices"][0].take();
        assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
        let call = &choice["message"]["tool_calls"][0]["function"];
        assert_eq!(call["name"], "weather");
        let arguments = call["arguments"].as_str().expect("arguments are a text");
        let arguments: serde_json::Value = serde_json::from_str(arguments).expect("they are JSON");
        assert!(
            arguments["city"].as_str().is_some_and(|city| city.chars().count() <= 20),
            "{arguments}"
        );
        assert!(arguments["unit"] == "celsius" || arguments["unit"] == "fahrenheit", "{arguments}");
    }
}
