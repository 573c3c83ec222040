//! Log probabilities: how many are asked for, and the two forms in which they are told.

use serde_json::{Map, Value, json};

use super::to_u32;
use crate::error::ApiError;
use crate::event::{Alternative, TokenLogprob};
use crate::fields::Fields;

/// Most tokens that are told beside each token of an answer.
const TOP_MAX: i64 = 20;

/// The same for the older of the two dialects.
const COMPLETION_TOP_MAX: i64 = 5;

/// What OpenAI tells of a token that is next to impossible; JSON has no infinity.
const LOGPROB_MIN: f32 = -9999.0;

/// Reads `logprobs` and `top_logprobs` of a chat.
pub(in crate::dialects) fn of_chat(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let asked = fields.bool("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=TOP_MAX)?.map(to_u32);
    if !asked && top.is_some_and(|n| n > 0) {
        let message = "top_logprobs has no effect without logprobs: true";
        return Err(ApiError::invalid("top_logprobs", message));
    }
    or_n_probs(asked.then_some(top.unwrap_or(0)), fields)
}

/// Reads `logprobs` of a completion.
pub(in crate::dialects) fn of_completion(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let asked = fields.integer("logprobs", 0..=COMPLETION_TOP_MAX)?.map(to_u32);
    or_n_probs(asked, fields)
}

/// llama.cpp's name for the same in every dialect; 0 is off.
fn or_n_probs(asked: Option<u32>, fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let n_probs = fields.integer("n_probs", 0..=TOP_MAX)?.map(to_u32).filter(|n| *n > 0);
    match (asked, n_probs) {
        (Some(a), Some(b)) if a != b => {
            Err(ApiError::invalid("n_probs", "n_probs and logprobs differ; send one"))
        }
        _ => Ok(asked.or(n_probs)),
    }
}

/// The object of a chat's choice, or null where none was asked for.
pub(in crate::dialects) fn chat(logprobs: Option<&[TokenLogprob]>) -> Value {
    logprobs.map_or(Value::Null, |tokens| {
        let content: Vec<Value> = tokens.iter().map(chat_token).collect();
        json!({"content": content, "refusal": null})
    })
}

fn chat_token(token: &TokenLogprob) -> Value {
    let mut entry = chat_alternative(&token.token);
    entry["top_logprobs"] = token.top.iter().map(chat_alternative).collect();
    entry
}

fn chat_alternative(token: &Alternative) -> Value {
    json!({"token": text("", &token.bytes), "logprob": number(token.logprob), "bytes": token.bytes})
}

/// The object of a completion's choice, or null where none was asked for.
pub(in crate::dialects) fn completion(logprobs: Option<&[TokenLogprob]>) -> Value {
    let Some(tokens) = logprobs else { return Value::Null };
    let each = |part: fn(&TokenLogprob) -> Value| tokens.iter().map(part).collect::<Vec<_>>();
    json!({
        "tokens": each(|token| completion_text(&token.token).into()),
        "token_logprobs": each(|token| number(token.token.logprob).into()),
        "top_logprobs": each(top_of_completion),
        "text_offset": each(|token| token.text_offset.into()),
    })
}

/// The most likely tokens and the one that was drawn. `null` where none was asked for.
fn top_of_completion(token: &TokenLogprob) -> Value {
    if token.top.is_empty() {
        return Value::Null;
    }
    let all = token.top.iter().chain([&token.token]);
    Value::Object(
        all.map(|t| (completion_text(t), number(t.logprob).into())).collect::<Map<_, _>>(),
    )
}

fn completion_text(token: &Alternative) -> String {
    text("bytes:", &token.bytes)
}

/// A token as text; one that is a part of a character is spelled byte by byte, after `mark`.
fn text(mark: &str, bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(
        |_| {
            let spelled = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
            std::iter::once(mark.to_owned()).chain(spelled).collect()
        },
        str::to_owned,
    )
}

fn number(logprob: f32) -> f32 {
    logprob.max(LOGPROB_MIN)
}
