//! What the dialects that OpenAI began have in common: parameters, usage, errors.

use serde_json::{Value, json};

use crate::error::{ApiError, ErrorKind};
use crate::event::{FinishReason, Usage};
use crate::fields::{Fields, wrong_type};
use crate::request::{AnswerOptions, Delivery, SamplingOverrides};

/// Tells clients which program and version made an answer.
pub(super) const SYSTEM_FINGERPRINT: &str = concat!("frank-", env!("CARGO_PKG_VERSION"));

/// Most stop texts of a request.
const STOPS_MAX: usize = 16;

/// Longest stop text.
const STOP_BYTES_MAX: usize = 4096;

/// Hints about billing, storage and caching on the vendor's side, and about reasoning and tools that an answer
/// without either does not have. Leaving them out would give the same answer.
const HINTS: [&str; 9] = [
    "user",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "parallel_tool_calls",
    "cache_prompt",
];

/// Reads the parameters that all these dialects share. The token limit is read by the caller, who knows its
/// names.
pub(super) fn answer_options(
    fields: &mut Fields,
    max_tokens: Option<u64>,
) -> Result<AnswerOptions, ApiError> {
    fields.ignore(&HINTS);
    refuse_unsupported(fields)?;
    let options = AnswerOptions {
        model: fields.string("model")?,
        sampling: sampling(fields)?,
        max_tokens,
        stop: stops(fields)?,
        ignore_end: fields.bool("ignore_eos")?.unwrap_or(false),
        delivery: delivery(fields)?,
    };
    check_min_tokens(fields, &options)?;
    Ok(options)
}

fn sampling(fields: &mut Fields) -> Result<SamplingOverrides, ApiError> {
    Ok(SamplingOverrides {
        temperature: fields.number("temperature", 0.0..=2.0)?,
        top_k: top_k(fields)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        min_p: fields.number("min_p", 0.0..=1.0)?,
        repeat_penalty: repeat_penalty(fields)?,
        repeat_last_n: fields.integer("repeat_last_n", 0..=i64::from(u32::MAX))?.map(to_u32),
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?,
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?,
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?.map(i64::cast_unsigned),
    })
}

/// Some clients turn top-k off with -1, others with 0.
fn top_k(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    Ok(fields.integer("top_k", -1..=i64::from(u32::MAX))?.map(|k| to_u32(k.max(0))))
}

fn to_u32(number: i64) -> u32 {
    u32::try_from(number).expect("the range was checked when it was read")
}

/// One setting with two names in use.
fn repeat_penalty(fields: &mut Fields) -> Result<Option<f32>, ApiError> {
    let range = 0.01..=100.0;
    let one = fields.number("repeat_penalty", range.clone())?;
    let other = fields.number("repetition_penalty", range)?;
    match (one, other) {
        (Some(a), Some(b)) if a.to_bits() != b.to_bits() => Err(ApiError::invalid(
            "repetition_penalty",
            "repetition_penalty and repeat_penalty differ; send one",
        )),
        _ => Ok(one.or(other)),
    }
}

fn stops(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let items = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(one @ Value::String(_)) => vec![one],
        Some(other) => {
            return Err(wrong_type("stop".to_owned(), "a string or a list of strings", &other));
        }
    };
    if items.len() > STOPS_MAX {
        let message = format!("stop must hold at most {STOPS_MAX} texts, not {}", items.len());
        return Err(ApiError::invalid("stop", message));
    }
    items.into_iter().enumerate().map(|(i, item)| stop(item, format!("stop[{i}]"))).collect()
}

fn stop(item: Value, path: String) -> Result<String, ApiError> {
    match item {
        Value::String(text) if text.is_empty() => {
            Err(ApiError::invalid(&path, format!("{path} must not be empty")))
        }
        Value::String(text) if text.len() > STOP_BYTES_MAX => {
            let message =
                format!("{path} must have at most {STOP_BYTES_MAX} bytes, not {}", text.len());
            Err(ApiError::invalid(path, message))
        }
        Value::String(text) => Ok(text),
        other => Err(wrong_type(path, "a string", &other)),
    }
}

fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let stream = fields.bool("stream")?.unwrap_or(false);
    let Some(options) = fields.take("stream_options") else {
        return Ok(if stream { Delivery::Stream { usage: false } } else { Delivery::Whole });
    };
    let mut options = Fields::of(options, "stream_options".to_owned())?;
    let usage = options.bool("include_usage")?.unwrap_or(false);
    // Padding against traffic analysis; there is none either way.
    options.ignore(&["include_obfuscation"]);
    options.finish()?;
    Ok(if stream { Delivery::Stream { usage } } else { Delivery::Whole })
}

/// `min_tokens` holds by itself when nothing but the token limit ends the answer, which is how load generators
/// send it.
fn check_min_tokens(fields: &mut Fields, options: &AnswerOptions) -> Result<(), ApiError> {
    let only_limit_ends = options.ignore_end && options.stop.is_empty();
    let limit = options.max_tokens.unwrap_or(u64::MAX);
    let allowed = ", or send it with ignore_eos, without stop, and not above the token limit";
    fields.refuse_unless("min_tokens", allowed, |value| {
        value.as_u64().is_some_and(|n| n == 0 || (only_limit_ends && n <= limit))
    })
}

fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    let empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let empty_object = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    let none_or_auto = |value: &Value| value == "none" || value == "auto";
    fields.refuse_unless("tools", " or send an empty list", empty_list)?;
    fields.refuse_unless("tool_choice", " or send \"none\" or \"auto\"", none_or_auto)?;
    fields.refuse_unless("functions", " or send an empty list", empty_list)?;
    fields.refuse_unless("function_call", " or send \"none\" or \"auto\"", none_or_auto)?;
    fields.refuse_unless("response_format", " or send {\"type\": \"text\"}", |v| {
        *v == json!({"type": "text"})
    })?;
    fields.refuse_unless("logit_bias", " or send an empty object", empty_object)?;
    fields.refuse_unless("n", " or send 1", |value| value == 1)?;
    fields.refuse_unless("store", " or send false", |value| value == false)?;
    fields.refuse_unless("return_token_ids", " or send false", |value| value == false)
}

/// The word of these dialects for why an answer ended.
pub(super) fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

pub(super) fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    })
}

/// The envelope of an error.
pub(super) fn error(error: &ApiError) -> Value {
    let kind = match error.kind {
        ErrorKind::Authentication => "authentication_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::Internal | ErrorKind::Unavailable => "server_error",
        ErrorKind::InvalidRequest
        | ErrorKind::NotFound
        | ErrorKind::MethodNotAllowed
        | ErrorKind::RequestTimeout
        | ErrorKind::PayloadTooLarge
        | ErrorKind::UnsupportedMediaType => "invalid_request_error",
    };
    json!({"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}})
}
