//! Reads how a response is wanted: its form, its thoughts, its length, and what changes nothing.

use frank_chat::Conversation;
use serde_json::Value;

use crate::dialects::openai::{self, reasoning};
use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::request::{AnswerFormat, AnswerOptions, FormatRule};

/// Most alternatives that are told beside each token.
const TOP_MAX: i64 = 20;

/// Most pairs of `metadata`, which every reply repeats.
const METADATA_MAX: usize = 16;

/// What a response can tell beside itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Include {
    /// Log probabilities of its text.
    logprobs: bool,
    /// Thoughts in the form that clients send back unread.
    pub(super) sealed: bool,
}

/// Refuses what needs the vendor's machines, and the words of the older dialect.
pub(super) fn refuse_what_others_do(fields: &mut Fields) -> Result<(), ApiError> {
    fields.refuse_unless("background", " or send false", |value| value == false)?;
    fields.refuse_unless("conversation", " and send previous_response_id or input", |_| false)?;
    fields.refuse_unless("prompt", " and send instructions and input", |_| false)?;
    fields.refuse_unless("moderation", "", |_| false)?;
    fields.refuse_unless("response_format", " and send text.format", |_| false)?;
    fields.refuse_unless("n", " or send 1", |value| *value == 1)
}

/// Reads what changes nothing about the answer, and warns where a client could think it did.
pub(super) fn read_hints(fields: &mut Fields, warnings: &mut Vec<String>) -> Result<(), ApiError> {
    read_metadata(fields)?;
    for name in
        ["user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_retention"]
    {
        fields.string(name)?;
    }
    for name in ["client_metadata", "prompt_cache_options"] {
        if let Some(other) = fields.take(name).filter(|value| !value.is_object()) {
            return Err(wrong_type(fields.path(name), "an object", &other));
        }
    }
    // Bounds the calls of tools that a vendor runs; there are none.
    fields.amount("max_tool_calls")?;
    if word(fields, "truncation", &["auto", "disabled"])?.as_deref() == Some("auto") {
        warnings.push(
            "truncation: auto has no effect: a prompt that does not fit is refused".to_owned(),
        );
    }
    match fields.take("context_management") {
        Some(Value::Array(rules)) if !rules.is_empty() => warnings
            .push("context_management has no effect: no conversation is compacted".to_owned()),
        Some(Value::Array(_)) | None => {}
        Some(other) => {
            return Err(wrong_type(fields.path("context_management"), "a list", &other));
        }
    }
    Ok(())
}

fn read_metadata(fields: &mut Fields) -> Result<(), ApiError> {
    let path = fields.path("metadata");
    let map = match fields.take("metadata") {
        None => return Ok(()),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong_type(path, "an object", &other)),
    };
    if map.len() > METADATA_MAX {
        let message = format!("{path} must hold at most {METADATA_MAX} pairs, not {}", map.len());
        return Err(ApiError::invalid(path, message));
    }
    match map.iter().find(|(_, value)| !value.is_string()) {
        Some((name, other)) => Err(wrong_type(format!("{path}.{name}"), "a string", other)),
        None => Ok(()),
    }
}

/// One of `words`.
fn word(fields: &mut Fields, name: &str, words: &[&str]) -> Result<Option<String>, ApiError> {
    let path = fields.path(name);
    match fields.string(name)? {
        Some(word) if !words.contains(&word.as_str()) => {
            let message = format!("{path} must be one of {}, not {word:?}", words.join(", "));
            Err(ApiError::invalid(path, message))
        }
        word => Ok(word),
    }
}

/// Reads `reasoning`, and beside it the names under which chats say the same. Gives the budget, and whether thoughts are
/// told as their summary.
pub(super) fn read_reasoning(
    fields: &mut Fields,
    conversation: &mut Conversation,
    warnings: &mut Vec<String>,
) -> Result<(Option<u64>, bool), ApiError> {
    let object = fields.take("reasoning");
    let budget = reasoning::of_chat(fields, conversation)?;
    let Some(object) = object else { return Ok((budget, false)) };
    let mut object = Fields::of(object, "reasoning".to_owned())?;
    let mut said = reasoning::Reasoning::default();
    said.read_effort(&mut object, "effort")?;
    let mut asked = Conversation::default();
    said.finish(&mut asked)?;
    const LENGTHS: &[&str] = &["auto", "concise", "detailed", "none"];
    let summary = word(&mut object, "summary", LENGTHS)?;
    // The name that it had before.
    let summary = summary.or(word(&mut object, "generate_summary", LENGTHS)?);
    word(&mut object, "mode", &["standard", "pro"])?;
    let context = word(&mut object, "context", &["auto", "current_turn", "all_turns"])?;
    if context.is_some_and(|context| context != "auto") {
        warnings.push(
            "reasoning.context has no effect: the chat template says which thoughts stay"
                .to_owned(),
        );
    }
    object.finish()?;
    agree(conversation, asked)?;
    Ok((budget, summary.is_some_and(|length| length != "none")))
}

/// Takes over what `reasoning` asks, unless another parameter asks for something else.
fn agree(conversation: &mut Conversation, asked: Conversation) -> Result<(), ApiError> {
    let differ = |one: bool| {
        if one {
            let message = "reasoning.effort and another parameter about thinking contradict each other: send one";
            return Err(ApiError::invalid("reasoning.effort", message));
        }
        Ok(())
    };
    differ(matches!((conversation.thinking, asked.thinking), (Some(a), Some(b)) if a != b))?;
    differ(matches!((&conversation.effort, &asked.effort), (Some(a), Some(b)) if a != b))?;
    conversation.thinking = conversation.thinking.or(asked.thinking);
    conversation.effort = conversation.effort.take().or(asked.effort);
    Ok(())
}

/// Reads `include`.
pub(super) fn read_include(
    fields: &mut Fields,
    warnings: &mut Vec<String>,
) -> Result<Include, ApiError> {
    let mut include = Include::default();
    let path = fields.path("include");
    let items = match fields.take("include") {
        None => return Ok(include),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong_type(path, "a list of strings", &other)),
    };
    let mut ignores = false;
    for (i, item) in items.iter().enumerate() {
        match item.as_str() {
            Some("message.output_text.logprobs") => include.logprobs = true,
            Some("reasoning.encrypted_content") => include.sealed = true,
            Some(_) => ignores = true,
            None => return Err(wrong_type(format!("{path}[{i}]"), "a string", item)),
        }
    }
    if ignores {
        warnings.push(
            "include has no effect but for message.output_text.logprobs and reasoning.encrypted_content"
                .to_owned(),
        );
    }
    Ok(include)
}

/// Reads `text`, `max_output_tokens`, `top_logprobs`, and what all dialects of OpenAI share.
pub(super) fn answer_options(
    fields: &mut Fields,
    include: &Include,
    warnings: &mut Vec<String>,
) -> Result<AnswerOptions, ApiError> {
    let form = text(fields, warnings)?;
    let max_tokens = fields.amount("max_output_tokens")?;
    let top = fields.integer("top_logprobs", 0..=TOP_MAX)?.unwrap_or(0);
    let top = u32::try_from(top).expect("the range was checked when it was read");
    let n_logprobs = (include.logprobs || top > 0).then_some(top);
    let mut options = openai::answer_options(fields, max_tokens, n_logprobs)?;
    if form.is_some() {
        check_alone(&options)?;
        options.format = form;
    }
    Ok(options)
}

/// An answer has one form, and ends where that does.
fn check_alone(options: &AnswerOptions) -> Result<(), ApiError> {
    let other = match options {
        AnswerOptions { format: Some(rule), .. } => {
            rule.param.split('.').next().unwrap_or_default()
        }
        AnswerOptions { ignore_end: true, .. } => "ignore_eos",
        AnswerOptions { min_tokens: 1.., .. } => "min_tokens",
        _ => return Ok(()),
    };
    let message = format!("{other} cannot be kept beside text.format: send one of the two");
    Err(ApiError::invalid(other, message).with_code("unsupported_parameter"))
}

fn text(fields: &mut Fields, warnings: &mut Vec<String>) -> Result<Option<FormatRule>, ApiError> {
    let Some(text) = fields.take("text") else { return Ok(None) };
    let mut text = Fields::of(text, "text".to_owned())?;
    let verbosity = word(&mut text, "verbosity", &["low", "medium", "high"])?;
    if verbosity.is_some_and(|verbosity| verbosity != "medium") {
        warnings.push("text.verbosity has no effect: say it in the instructions".to_owned());
    }
    let rule = text.take("format").map(|format| form(format, text.path("format"))).transpose()?;
    text.finish()?;
    Ok(rule.flatten())
}

fn form(format: Value, path: String) -> Result<Option<FormatRule>, ApiError> {
    let mut format = Fields::of(format, path)?;
    let rule = match format.required_string("type")?.as_str() {
        "text" => None,
        "json_object" => {
            Some(FormatRule { format: AnswerFormat::JsonObject, param: "text.format" })
        }
        "json_schema" => Some(schema_rule(&mut format)?),
        other => {
            let path = format.path("type");
            let message = format!("{path} must be text, json_object or json_schema, not {other:?}");
            return Err(ApiError::invalid(path, message).with_code("unsupported_parameter"));
        }
    };
    format.finish()?;
    Ok(rule)
}

fn schema_rule(format: &mut Fields) -> Result<FormatRule, ApiError> {
    // Strict or not, the answer is kept to the schema; name and description are for vendors' models.
    format.string("name")?;
    format.string("description")?;
    format.bool("strict")?;
    let path = format.path("schema");
    let schema = format.required("schema")?;
    if !(schema.is_object() || schema.is_boolean()) {
        return Err(wrong_type(path, "a JSON schema", &schema));
    }
    Ok(FormatRule { format: AnswerFormat::JsonSchema(schema), param: "text.format.schema" })
}
