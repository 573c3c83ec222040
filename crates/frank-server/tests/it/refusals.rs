//! Requests that cannot be answered: the right status, the dialect's envelope, and a server that goes on.

use frank_server::BODY_BYTES_MAX;
use reqwest::Response;
use serde_json::{Value, json};

use crate::script::{POISON, says};
use crate::server::{N_CTX, Setup, TestServer, ask, chunks_of, server_that_says};

/// Checks status, content type and envelope, and returns the `error` object.
async fn error_of(response: Response, status: u16) -> Value {
    assert_eq!(response.status(), status);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body: Value = response.json().await.expect("an error is JSON");
    let error = body["error"].clone();
    let keys: Vec<_> = error.as_object().expect("an envelope").keys().map(String::as_str).collect();
    assert_eq!(keys, ["message", "type", "param", "code"], "{body}");
    error
}

async fn is_alive(server: &TestServer) {
    let answer = server.chat_ok(&ask("Hi", json!({}))).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "Hello.");
}

#[tokio::test]
async fn a_prompt_of_one_token_too_many_is_a_400_with_both_numbers_streamed_or_not() {
    let server = server_that_says("Hello.").await;
    for stream in [false, true] {
        let body = json!({"prompt": vec![1; N_CTX], "stream": stream});
        let error =
            error_of(server.post("/v1/completions", &body).send().await.unwrap(), 400).await;
        assert_eq!(error["code"], "context_length_exceeded");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("256 tokens") && message.contains("holds 256"), "{message}");
        let fits = json!({"prompt": vec![1; N_CTX - 1], "stream": stream});
        assert_eq!(server.post("/v1/completions", &fits).send().await.unwrap().status(), 200);
        let chat = ask(&"long ".repeat(100), json!({"stream": stream}));
        assert_eq!(
            error_of(server.chat(&chat).await, 400).await["code"],
            "context_length_exceeded"
        );
    }
    is_alive(&server).await;
}

#[tokio::test]
async fn a_template_that_refuses_roles_that_do_not_alternate_is_a_400_with_its_words() {
    let template = "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
        {{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}";
    let server = Setup { template: Some(template.to_owned()), ..Setup::default() }.start().await;
    let message = |role: &str| json!({"role": role, "content": "x"});
    let messages = [message("user"), message("user"), message("assistant"), message("assistant")];
    for stream in [false, true] {
        let body = json!({"messages": messages, "stream": stream});
        let error = error_of(server.chat(&body).await, 400).await;
        assert_eq!(error["message"], "Conversation roles must alternate");
        assert_eq!(error["param"], "messages");
    }
}

#[tokio::test]
async fn a_template_that_fails_is_a_400_with_its_line() {
    let broken = "{{ bos_token }}\n{{ messages[0].content + messages[0].missing }}";
    let server = Setup { template: Some(broken.to_owned()), ..Setup::default() }.start().await;
    let error = error_of(server.chat(&ask("Hi", json!({}))).await, 400).await;
    assert_eq!(error["code"], "chat_template_refused");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("line 2 of the chat template: "), "{message}");
}

#[tokio::test]
async fn parts_null_and_empty_tool_calls_reach_the_template_as_texts() {
    let template = "{% for m in messages %}{{ '' if m.content is string else raise_exception('no text') }}\
        {{ raise_exception('calls') if m.tool_calls is defined }}{% endfor %}\
        {{ raise_exception(messages | map(attribute='content') | join('|')) }}";
    let server = Setup { template: Some(template.to_owned()), ..Setup::default() }.start().await;
    let body = json!({"messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "tool_calls": []},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": [{"type": "text", "text": "d"}]},
    ]});
    assert_eq!(error_of(server.chat(&body).await, 400).await["message"], "a\nb||c|d");
    let image = json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]});
    assert_eq!(
        error_of(server.chat(&image).await, 400).await["param"],
        "messages[0].content[0].type"
    );
}

#[tokio::test]
async fn a_template_without_end_is_a_400() {
    let hostile = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";
    let server = Setup { template: Some(hostile.to_owned()), ..Setup::default() }.start().await;
    assert_eq!(
        error_of(server.chat(&ask("Hi", json!({}))).await, 400).await["code"],
        "chat_template_refused"
    );
    assert_eq!(server.get("/health").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn chat_with_a_model_without_a_template_says_the_way_out() {
    let server = Setup { template: None, ..Setup::default() }.start().await;
    let error = error_of(server.chat(&ask("Hi", json!({}))).await, 400).await;
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("/v1/completions"), "{message}");
    assert!(message.contains("--chat-template FILE"), "{message}");
    let body = json!({"prompt": "Once"});
    assert_eq!(server.post("/v1/completions", &body).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn mistakes_in_a_request_are_named_before_any_byte_of_a_stream() {
    let server = server_that_says("Hello.").await;
    for (extra, param) in [
        (json!({"temperature": 9}), "temperature"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"tools": "none"}), "tools"),
        (json!({"verbosity": "low"}), "verbosity"),
        (json!({"top_logprobs": 3}), "top_logprobs"),
        (json!({"mirostat": 1, "samplers": "k"}), "samplers"),
        (json!({"made_up": 1}), "made_up"),
        (json!({"messages": []}), "messages"),
    ] {
        let mut body = ask("Hi", json!({"stream": true}));
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        assert_eq!(error_of(server.chat(&body).await, 400).await["param"], param);
    }
    let unknown =
        server.post("/v1/completions", &json!({"prompt": [1, 999_999]})).send().await.unwrap();
    assert_eq!(error_of(unknown, 400).await["param"], "prompt");
    let empty = server.post("/v1/completions", &json!({"prompt": ""})).send().await.unwrap();
    assert_eq!(error_of(empty, 400).await["param"], "prompt");
    let model = server.chat(&ask("Hi", json!({"model": "gpt-9"}))).await;
    assert_eq!(error_of(model, 404).await["code"], "model_not_found");
    is_alive(&server).await;
}

#[tokio::test]
async fn bodies_that_are_no_json_or_not_declared_as_such_are_refused() {
    let server = server_that_says("Hello.").await;
    let url = server.url("/v1/chat/completions");
    let post = |content_type: &str, body: &str| {
        server.client.post(&url).header("content-type", content_type).body(body.to_owned()).send()
    };
    let ok = ask("Hi", json!({})).to_string();
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonl", ""]
    {
        error_of(post(content_type, &ok).await.unwrap(), 415).await;
    }
    assert_eq!(post("Application/JSON; charset=utf-8", &ok).await.unwrap().status(), 200);
    for malformed in ["", "{", "{]", "null", "\"x\"", "{\"messages\": nan}"] {
        error_of(post("application/json", malformed).await.unwrap(), 400).await;
    }
    let deep = format!("{{\"messages\": {}}}", "[".repeat(100_000));
    error_of(post("application/json", &deep).await.unwrap(), 400).await;
    is_alive(&server).await;
}

#[tokio::test]
async fn a_body_that_is_too_long_is_a_413_declared_or_not() {
    let server = server_that_says("Hello.").await;
    let post = || {
        server
            .client
            .post(server.url("/v1/chat/completions"))
            .header("content-type", "application/json")
    };
    let long = " ".repeat(BODY_BYTES_MAX + 1);
    error_of(post().body(long).send().await.unwrap(), 413).await;
    let chunk = vec![b' '; 1 << 20];
    let chunks = (0..=BODY_BYTES_MAX >> 20).map(move |_| Ok::<_, std::io::Error>(chunk.clone()));
    let chunked = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
    match post().body(chunked).send().await {
        Ok(response) => drop(error_of(response, 413).await),
        // The server answered and closed before the client had sent everything.
        Err(error) => assert!(error.is_request(), "{error}"),
    }
    is_alive(&server).await;
}

#[tokio::test]
async fn unknown_routes_and_wrong_methods_answer_in_the_envelope() {
    let server = server_that_says("Hello.").await;
    let missing = server.get("/v1/nothing").send().await.unwrap();
    assert_eq!(error_of(missing, 404).await["code"], "unknown_route");
    for path in ["/v1/chat/completions", "/v1/completions", "/tokenize"] {
        let response = server.get(path).send().await.unwrap();
        assert_eq!(response.headers()["allow"], "POST");
        error_of(response, 405).await;
    }
    error_of(server.post("/v1/models", &json!({})).send().await.unwrap(), 405).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_a_503_that_says_when_to_come_back() {
    let setup = Setup { held: true, n_parallel: 1, n_queue: 1, ..Setup::default() };
    let mut server = setup.start().await;
    let waiting: Vec<_> = (0..2)
        .map(|_| tokio::spawn(server.post("/v1/chat/completions", &ask("Hi", json!({}))).send()))
        .collect();
    server.wait_for("a full queue", |stats| stats.running == 1 && stats.waiting == 1).await;
    for stream in [false, true] {
        let response = server.chat(&ask("Hi", json!({"stream": stream}))).await;
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(error_of(response, 503).await["code"], "queue_full");
    }
    server.controls.release();
    for answer in waiting {
        assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_step_that_panics_fails_its_requests_and_not_the_server() {
    let server =
        Setup { answer: [says("a")[0], POISON].to_vec(), ..Setup::default() }.start().await;
    let error = error_of(server.chat(&ask("Hi", json!({}))).await, 500).await;
    assert_eq!(error["type"], "server_error");
    // In a stream that has begun, the error is its last frame.
    let response = server.chat(&ask("Hi", json!({"stream": true}))).await;
    assert_eq!(response.status(), 200);
    let text = response.text().await.unwrap();
    let chunks = chunks_of(&text);
    assert_eq!(chunks[1]["choices"][0]["delta"]["content"], "a");
    assert_eq!(chunks.last().unwrap()["error"]["type"], "server_error", "{text}");
    let one = server.chat_ok(&ask("Hi", json!({"max_tokens": 1}))).await;
    assert_eq!(one["choices"][0]["message"]["content"], "a");
}
