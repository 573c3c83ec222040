//! Reads `logit_bias`: OpenAI's object of token ids, and llama.cpp's list of pairs.

use serde_json::Value;

use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::sampling::{BiasTarget, LogitBias};

const NAME: &str = "logit_bias";

/// Most entries.
const ENTRIES_MAX: usize = 1024;

/// Longest text whose tokens are changed.
const TEXT_BYTES_MAX: usize = 256;

/// Largest change, which makes a token all but certain or all but impossible.
const BIAS_MAX: f64 = 100.0;

/// Reads the changes of logits.
pub(super) fn read(fields: &mut Fields) -> Result<Vec<LogitBias>, ApiError> {
    let entries: Vec<(BiasTarget, Value, String)> = match fields.take(NAME) {
        None => return Ok(Vec::new()),
        Some(Value::Object(map)) => {
            check_count(map.len())?;
            map.into_iter()
                .map(|(key, bias)| (keyed(&key), bias, format!("{NAME}.{key}")))
                .collect()
        }
        Some(Value::Array(pairs)) => {
            check_count(pairs.len())?;
            let numbered = pairs.into_iter().enumerate();
            numbered
                .map(|(i, pair)| paired(pair, format!("{NAME}[{i}]")))
                .collect::<Result<_, _>>()?
        }
        Some(other) => {
            return Err(wrong_type(NAME.to_owned(), "an object or a list of pairs", &other));
        }
    };
    entries.into_iter().map(|(target, bias, path)| entry(target, &bias, path)).collect()
}

fn check_count(n: usize) -> Result<(), ApiError> {
    if n > ENTRIES_MAX {
        let message = format!("{NAME} must hold at most {ENTRIES_MAX} entries, not {n}");
        return Err(ApiError::invalid(NAME, message));
    }
    Ok(())
}

/// A key that is no number is a text. A number is a token id even if it is too large for any.
fn keyed(key: &str) -> BiasTarget {
    if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit()) {
        BiasTarget::Token(key.parse().unwrap_or(u32::MAX))
    } else {
        BiasTarget::Text(key.to_owned())
    }
}

fn paired(pair: Value, path: String) -> Result<(BiasTarget, Value, String), ApiError> {
    let Value::Array(items) = pair else {
        return Err(wrong_type(path, "a pair of a token and a number", &pair));
    };
    let Ok([target, bias]) = <[Value; 2]>::try_from(items) else {
        let message = format!("{path} must be a pair of a token and a number");
        return Err(ApiError::invalid(path, message));
    };
    let target = match target {
        Value::String(text) => BiasTarget::Text(text),
        other => match other.as_u64().and_then(|id| u32::try_from(id).ok()) {
            Some(id) => BiasTarget::Token(id),
            None => return Err(wrong_type(format!("{path}[0]"), "a token id or a text", &other)),
        },
    };
    Ok((target, bias, path))
}

fn entry(target: BiasTarget, bias: &Value, path: String) -> Result<LogitBias, ApiError> {
    if let BiasTarget::Text(text) = &target
        && !(1..=TEXT_BYTES_MAX).contains(&text.len())
    {
        let message =
            format!("{path}: a text must have 1 to {TEXT_BYTES_MAX} bytes, not {}", text.len());
        return Err(ApiError::invalid(path, message));
    }
    let bias = match bias {
        Value::Bool(false) => f32::NEG_INFINITY,
        other => number(other).ok_or_else(|| {
            let message =
                format!("{path} must be from -{BIAS_MAX} to {BIAS_MAX}, or false, not {other}");
            ApiError::invalid(&path, message)
        })?,
    };
    Ok(LogitBias { target, bias })
}

fn number(value: &Value) -> Option<f32> {
    let number = value.as_f64().filter(|number| number.abs() <= BIAS_MAX)?;
    #[expect(clippy::cast_possible_truncation, reason = "sampling works in f32")]
    Some(number as f32)
}
