//! Real models of other families than the demo's, from their file to an answer. Each skips when its packages are gone.

use std::path::Path;

use frank_testkit::assets;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;

/// The text at `pointer` of a greedy reply of at most 24 tokens.
fn answer(model: &Path, path: &str, mut body: Value, pointer: &str) -> String {
    let endpoint = Endpoint::start(model, &["-c", "256", "--parallel", "1"]);
    body["temperature"] = json!(0);
    body["max_tokens"] = json!(24);
    let reply = endpoint.post(path, &body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    let text = reply.json().pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    text.unwrap_or_else(|| panic!("no text at {pointer}: {}", reply.body))
}

#[test]
fn qwen2_answers_a_question_through_the_template_of_its_file() {
    let Some(model) = assets::qwen2() else { return };
    let body = json!({"messages": [{"role": "user", "content": "What is the capital of France?"}]});
    let text = answer(&model, "/v1/chat/completions", body, "/choices/0/message/content");
    assert!(text.contains("Paris"), "{text}");
}

#[test]
fn gemma3_continues_a_text_with_what_is_known() {
    let Some(model) = assets::gemma3() else { return };
    let body = json!({"prompt": "Paris is the capital city of"});
    let text = answer(&model, "/v1/completions", body, "/choices/0/text");
    assert!(text.contains("France"), "{text}");
}
