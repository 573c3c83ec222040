//! Reads how to think, how to draw tokens, where to stop and what an answer must look like.

use serde_json::Value;

use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::request::{AnswerFormat, FormatRule};
use crate::sampling::SamplingOverrides;

/// Most stop texts of a request.
const STOPS_MAX: usize = 16;

/// Longest stop text.
const STOP_BYTES_MAX: usize = 4096;

/// Whether and how the model thinks.
#[derive(Default)]
pub(super) struct Thinking {
    /// As the template likes where it is not said.
    pub(super) is_on: Option<bool>,
    /// Tokens of thought at most.
    pub(super) budget: Option<u64>,
    /// Whether the client wants to see none of it.
    pub(super) is_hidden: bool,
}

/// Reads `thinking`.
pub(super) fn thinking(fields: &mut Fields) -> Result<Thinking, ApiError> {
    let Some(value) = fields.take("thinking") else { return Ok(Thinking::default()) };
    let mut fields = Fields::of(value, "thinking".to_owned())?;
    // Checks of the vendor's signatures.
    fields.ignore(&["block_binding"]);
    let is_hidden = is_hidden(&mut fields)?;
    let thinking = match fields.required_string("type")?.as_str() {
        "enabled" => {
            let budget = fields.amount("budget_tokens")?.ok_or_else(|| {
                let path = "thinking.budget_tokens";
                ApiError::invalid(path, format!("{path} is required"))
                    .with_code("missing_required_parameter")
            })?;
            Thinking { is_on: Some(true), budget: Some(budget), is_hidden }
        }
        "adaptive" | "between_tools" => Thinking { is_hidden, ..Thinking::default() },
        "disabled" => Thinking { is_on: Some(false), ..Thinking::default() },
        other => {
            let message = format!(
                "thinking.type must be enabled, adaptive, between_tools or disabled, not {other:?}"
            );
            return Err(ApiError::invalid("thinking.type", message));
        }
    };
    fields.finish()?;
    Ok(thinking)
}

/// Nothing here sums up what a model thinks: it is shown as it is, or not.
fn is_hidden(fields: &mut Fields) -> Result<bool, ApiError> {
    match fields.string("display")?.as_deref() {
        None | Some("summarized" | "updates") => Ok(false),
        Some("omitted") => Ok(true),
        Some(other) => {
            let message =
                format!("thinking.display must be summarized, updates or omitted, not {other:?}");
            Err(ApiError::invalid("thinking.display", message))
        }
    }
}

/// What an answer is to be like.
#[derive(Default)]
pub(super) struct Output {
    pub(super) format: Option<FormatRule>,
    /// In the words of templates.
    pub(super) effort: Option<String>,
}

/// Reads `output_config`, and `output_format` as older libraries send it.
pub(super) fn output(fields: &mut Fields) -> Result<Output, ApiError> {
    let older = fields.take("output_format");
    let older = older.map(|value| format(value, "output_format", "output_format.schema"));
    let older = older.transpose()?;
    let Some(value) = fields.take("output_config") else {
        return Ok(Output { format: older, effort: None });
    };
    let mut fields = Fields::of(value, "output_config".to_owned())?;
    // A number that the vendor's models are told.
    fields.ignore(&["task_budget"]);
    let effort = effort(&mut fields)?;
    let newer = fields.take("format");
    let newer = newer
        .map(|value| format(value, "output_config.format", "output_config.format.schema"))
        .transpose()?;
    fields.finish()?;
    if older.is_some() && newer.is_some() {
        let message =
            "output_format cannot be kept beside output_config.format: send one of the two";
        return Err(ApiError::invalid("output_format", message).with_code("unsupported_parameter"));
    }
    Ok(Output { format: newer.or(older), effort })
}

/// Templates know three words.
fn effort(fields: &mut Fields) -> Result<Option<String>, ApiError> {
    let word = match fields.string("effort")?.as_deref() {
        None => return Ok(None),
        Some("low") => "low",
        Some("medium") => "medium",
        Some("high" | "xhigh" | "max") => "high",
        Some(other) => {
            let path = fields.path("effort");
            let message = format!("{path} must be low, medium, high, xhigh or max, not {other:?}");
            return Err(ApiError::invalid(path, message));
        }
    };
    Ok(Some(word.to_owned()))
}

fn format(value: Value, path: &str, schema_path: &'static str) -> Result<FormatRule, ApiError> {
    let mut fields = Fields::of(value, path.to_owned())?;
    let kind = fields.required_string("type")?;
    if kind != "json_schema" {
        let path = fields.path("type");
        let message = format!("{path} must be json_schema, not {kind:?}");
        return Err(ApiError::invalid(path, message).with_code("unsupported_parameter"));
    }
    let schema = fields.required("schema")?;
    // For people.
    fields.ignore(&["name", "description", "strict"]);
    fields.finish()?;
    if !(schema.is_object() || schema.is_boolean()) {
        return Err(wrong_type(schema_path.to_owned(), "a JSON schema", &schema));
    }
    Ok(FormatRule { format: AnswerFormat::JsonSchema(schema), param: schema_path })
}

/// Reads how tokens are drawn.
pub(super) fn sampling(fields: &mut Fields) -> Result<SamplingOverrides, ApiError> {
    let top_k = fields.integer("top_k", 0..=i64::from(u32::MAX))?;
    Ok(SamplingOverrides {
        temperature: fields.number("temperature", 0.0..=1.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        top_k: top_k.map(|k| u32::try_from(k).expect("the range was checked when it was read")),
        ..SamplingOverrides::default()
    })
}

/// Reads `stop_sequences`.
pub(super) fn stops(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let items = match fields.take("stop_sequences") {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => {
            return Err(wrong_type("stop_sequences".to_owned(), "a list of strings", &other));
        }
    };
    if items.len() > STOPS_MAX {
        let message =
            format!("stop_sequences must hold at most {STOPS_MAX} texts, not {}", items.len());
        return Err(ApiError::invalid("stop_sequences", message));
    }
    let numbered = items.into_iter().enumerate();
    numbered.map(|(i, item)| stop(item, format!("stop_sequences[{i}]"))).collect()
}

fn stop(item: Value, path: String) -> Result<String, ApiError> {
    match item {
        Value::String(text) if (1..=STOP_BYTES_MAX).contains(&text.len()) => Ok(text),
        Value::String(text) => {
            let n = text.len();
            let message = format!("{path} must have from 1 to {STOP_BYTES_MAX} bytes, not {n}");
            Err(ApiError::invalid(path, message))
        }
        other => Err(wrong_type(path, "a string", &other)),
    }
}
