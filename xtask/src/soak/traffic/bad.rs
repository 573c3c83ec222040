//! Requests of a soak that have to be refused. Never one that a server may answer.

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::{CHAT, COMPLETIONS, CTX_SIZE, N_VOCAB};
use crate::http::Request;

/// A request, and the status of its refusal.
pub(super) fn request(rng: &mut ChaCha8Rng, api_key: &str) -> (Request, u16) {
    if rng.random_ratio(1, 8) {
        let (request, _) = chat("max_tokens", json!(8));
        return (request.with_key("wrong"), 401);
    }
    let too_long = CTX_SIZE + rng.random_range(0..500);
    let all = [
        (Request::post(CHAT, "{\"messages\": [{\"role\":"), 400),
        (Request::post(CHAT, "[".repeat(5_000)), 400),
        (Request::post(CHAT, "{}"), 400),
        chat("no_such_field", json!(1)),
        chat("temperature", json!("hot")),
        chat("max_tokens", json!(0)),
        chat("n", json!(0)),
        chat("n", json!(1_000_000)),
        chat("top_logprobs", json!(1_000_000)),
        chat("logit_bias", json!({"x": "y"})),
        chat("grammar", json!("root ::= (")),
        chat("grammar", json!("root ::= nothing")),
        chat("response_format", json!({"type": "poem"})),
        chat("response_format", schema(&json!({"type": "no such type"}))),
        chat("response_format", schema(&nested(500))),
        (chat("model", json!("no-such-model")).0, 404),
        tokens(too_long, 1_000),
        tokens(1, N_VOCAB),
        tokens(0, 0),
        (Request::post("/v1/nothing", "{}"), 404),
        (Request::get(CHAT), 405),
    ];
    let (request, status) = all.choose(rng).expect("there are bad requests").clone();
    (request.with_key(api_key), status)
}

/// A chat with one field that is wrong.
fn chat(field: &str, value: Value) -> (Request, u16) {
    let mut body = json!({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8});
    body[field] = value;
    (Request::post(CHAT, body.to_string()), 400)
}

fn tokens(n: usize, id: u32) -> (Request, u16) {
    let body = json!({"prompt": vec![id; n], "max_tokens": 8});
    (Request::post(COMPLETIONS, body.to_string()), 400)
}

fn schema(schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "bad", "schema": schema}})
}

/// Lists in lists, deeper than anything that is meant.
fn nested(depth: usize) -> Value {
    // `json!` would copy what it is given, level by level.
    let list = |inner| {
        let fields = [("type", Value::from("array")), ("items", inner)];
        Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
    };
    (0..depth).fold(Value::from(true), |inner, _| list(inner))
}
