//! What the dialects that OpenAI began have in common: parameters, usage, errors. The words of llama.cpp's server for
//! settings that OpenAI does not have are read too.

mod bias;
mod format;
pub(super) mod logprobs;
pub(super) mod reasoning;
mod sampling;
pub(super) mod tools;

use serde_json::{Value, json};

use crate::error::{ApiError, ErrorKind};
use crate::event::{FinishReason, Totals};
use crate::fields::{Fields, wrong_type};
use crate::reply::Frame;
use crate::request::{AnswerOptions, Delivery};

/// Tells clients which program and version made an answer.
pub(super) const SYSTEM_FINGERPRINT: &str = concat!("frank-", env!("CARGO_PKG_VERSION"));

/// Most stop texts of a request.
const STOPS_MAX: usize = 16;

/// Longest stop text.
const STOP_BYTES_MAX: usize = 4096;

/// Most answers to one request that any endpoint gives; what this one has may be less.
const CHOICES_MAX: i64 = 128;

/// Hints about billing, storage and caching on the vendor's side. Leaving them out would give the same answer.
const HINTS: [&str; 6] = [
    "user",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
];

/// Reads the parameters that all these dialects share. The token limit and the log probabilities are read by the
/// caller, who knows their names.
pub(super) fn answer_options(
    fields: &mut Fields,
    max_tokens: Option<u64>,
    n_logprobs: Option<u32>,
) -> Result<AnswerOptions, ApiError> {
    fields.ignore(&HINTS);
    fields.refuse_unless("store", " or send false", |value| value == false)?;
    let mut warnings = Vec::new();
    warn_of_token_ids(fields, &mut warnings)?;
    let options = AnswerOptions {
        model: fields.string("model")?,
        sampling: sampling::read(fields)?,
        max_tokens,
        min_tokens: min_tokens(fields, max_tokens)?,
        stop: stops(fields)?,
        ignore_end: fields.bool("ignore_eos")?.unwrap_or(false),
        n_choices: fields.integer("n", 1..=CHOICES_MAX)?.map(to_u32),
        n_logprobs,
        format: format::read(fields)?,
        use_cache: fields.bool("cache_prompt")?,
        delivery: delivery(fields, &mut warnings)?,
        warnings,
        echo: Value::Null,
    };
    check_ends(&options)?;
    Ok(options)
}

fn to_u32(number: i64) -> u32 {
    u32::try_from(number).expect("the range was checked when it was read")
}

fn min_tokens(fields: &mut Fields, max_tokens: Option<u64>) -> Result<u64, ApiError> {
    let most = max_tokens.map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX));
    let n = fields.integer("min_tokens", 0..=most)?.unwrap_or(0);
    Ok(u64::try_from(n).expect("the range was checked when it was read"))
}

/// An answer that is kept to a form ends where the form does.
fn check_ends(options: &AnswerOptions) -> Result<(), ApiError> {
    let Some(rule) = &options.format else { return Ok(()) };
    let refused = |name: &str| {
        let message = format!(
            "{name} cannot be kept beside {}: the answer ends where its form does",
            rule.param
        );
        Err(ApiError::invalid(name, message).with_code("unsupported_parameter"))
    };
    if options.ignore_end {
        return refused("ignore_eos");
    }
    if options.min_tokens > 0 {
        return refused("min_tokens");
    }
    Ok(())
}

fn stops(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    match fields.take("stop") {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => texts(items, "stop", STOPS_MAX, STOP_BYTES_MAX),
        Some(one @ Value::String(_)) => texts(vec![one], "stop", STOPS_MAX, STOP_BYTES_MAX),
        Some(other) => Err(wrong_type("stop".to_owned(), "a string or a list of strings", &other)),
    }
}

/// Texts of field `name`, none of which is empty or longer than `bytes_max`; `count_max` at most.
fn texts(
    items: Vec<Value>,
    name: &str,
    count_max: usize,
    bytes_max: usize,
) -> Result<Vec<String>, ApiError> {
    if items.len() > count_max {
        let message = format!("{name} must hold at most {count_max} texts, not {}", items.len());
        return Err(ApiError::invalid(name, message));
    }
    let numbered = items.into_iter().enumerate();
    numbered.map(|(i, item)| text(item, format!("{name}[{i}]"), bytes_max)).collect()
}

fn text(item: Value, path: String, bytes_max: usize) -> Result<String, ApiError> {
    match item {
        Value::String(text) if text.is_empty() => {
            Err(ApiError::invalid(&path, format!("{path} must not be empty")))
        }
        Value::String(text) if text.len() > bytes_max => {
            let message = format!("{path} must have at most {bytes_max} bytes, not {}", text.len());
            Err(ApiError::invalid(path, message))
        }
        Value::String(text) => Ok(text),
        other => Err(wrong_type(path, "a string", &other)),
    }
}

fn delivery(fields: &mut Fields, warnings: &mut Vec<String>) -> Result<Delivery, ApiError> {
    let stream = fields.bool("stream")?.unwrap_or(false);
    let Some(options) = fields.take("stream_options") else {
        return Ok(if stream { Delivery::Stream { usage: false } } else { Delivery::Whole });
    };
    let mut options = Fields::of(options, "stream_options".to_owned())?;
    let usage = options.bool("include_usage")?.unwrap_or(false);
    // Of vLLM. Load generators send it and do without.
    if options.bool("continuous_usage_stats")? == Some(true) {
        let warning =
            "stream_options.continuous_usage_stats has no effect: usage comes once, at the end";
        warnings.push(warning.to_owned());
    }
    // Padding against traffic analysis; there is none either way.
    options.ignore(&["include_obfuscation"]);
    options.finish()?;
    Ok(if stream { Delivery::Stream { usage } } else { Delivery::Whole })
}

/// Load generators ask for token ids and do without where there are none.
fn warn_of_token_ids(fields: &mut Fields, warnings: &mut Vec<String>) -> Result<(), ApiError> {
    if fields.bool("return_token_ids")? == Some(true) {
        warnings.push("return_token_ids has no effect: answers have no token ids".to_owned());
    }
    Ok(())
}

/// The word of these dialects for why an answer ended.
pub(super) fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
    }
}

/// The tokens of an answer, and beside them how long they took.
pub(super) fn usage(totals: &Totals) -> Value {
    let Totals { usage, timings } = totals;
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "timings": {
            "cached_prefix_tokens": usage.cached_tokens,
            "prefilled_tokens": usage.prompt_tokens.saturating_sub(usage.cached_tokens),
            "prefill_ms": timings.prompt_ms,
            "decode_ms": timings.completion_ms,
        },
    })
}

/// The speeds of an answer, in the form of llama.cpp's server.
pub(super) fn timings(totals: &Totals) -> Value {
    let Totals { usage, timings } = totals;
    let prompt_n = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
    json!({
        "cache_n": usage.cached_tokens,
        "prompt_n": prompt_n,
        "prompt_ms": timings.prompt_ms,
        "prompt_per_token_ms": ratio(timings.prompt_ms, prompt_n),
        "prompt_per_second": per_second(prompt_n, timings.prompt_ms),
        "predicted_n": usage.completion_tokens,
        "predicted_ms": timings.completion_ms,
        "predicted_per_token_ms": ratio(timings.completion_ms, usage.completion_tokens),
        "predicted_per_second": per_second(usage.completion_tokens, timings.completion_ms),
    })
}

fn as_f64(n_tokens: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an answer has far fewer than 2^52 tokens")]
    let number = n_tokens as f64;
    number
}

/// 0 where there are no tokens.
fn ratio(ms: f64, n_tokens: u64) -> f64 {
    if n_tokens == 0 { 0.0 } else { ms / as_f64(n_tokens) }
}

/// 0 where no time passed that could be measured.
fn per_second(n_tokens: u64, ms: f64) -> f64 {
    if ms > 0.0 { as_f64(n_tokens) * 1000.0 / ms } else { 0.0 }
}

/// The envelope of an error.
pub(super) fn error(error: &ApiError) -> Value {
    let kind = match error.kind {
        ErrorKind::Authentication => "authentication_error",
        ErrorKind::RateLimited => "rate_limit_error",
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

/// The frames that end a choice, of which `last` says why. `totals` come with the last choice of a stream and end that
/// too: then `usage_chunk` follows where it was asked for, a chunk without choices.
pub(super) fn last_frames(
    last: Value,
    usage_chunk: Option<Value>,
    totals: Option<Totals>,
) -> Vec<Frame> {
    let Some(totals) = totals else { return vec![Frame::json(&last)] };
    let usage_chunk = usage_chunk.map(|mut chunk| {
        chunk["usage"] = usage(&totals);
        chunk
    });
    let mut chunks: Vec<Value> = std::iter::once(last).chain(usage_chunk).collect();
    if let Some(chunk) = chunks.last_mut() {
        chunk["timings"] = timings(&totals);
    }
    chunks.iter().map(Frame::json).chain([Frame::done()]).collect()
}
