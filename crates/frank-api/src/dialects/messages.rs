//! Anthropic Messages, as coding agents and that vendor's libraries speak it, and the count of a request's tokens.

mod blocks;
mod prompt;
mod reply;
mod seal;
mod settings;
mod stream;
mod tools;

use frank_chat::{Conversation, Role};
use serde_json::{Value, json};

use super::{CountRoute, Dialect};
use crate::error::{ApiError, ErrorKind};
use crate::fields::Fields;
use crate::json;
use crate::request::{AnswerOptions, ApiRequest, ChatRequest, Delivery};

pub(super) const DIALECT: Dialect = Dialect {
    name: "messages",
    path: "/v1/messages",
    id_prefix: "msg_",
    parse: |body| read(body, Wanted::Answer),
    stream: |head, _| Box::new(stream::MessageStream::new(head)),
    whole: reply::whole,
    error,
    call_id_prefix: "toolu_",
    count: Some(CountRoute {
        path: "/v1/messages/count_tokens",
        parse: |body| read(body, Wanted::Count),
        body: |n_tokens| json!({"input_tokens": n_tokens}),
    }),
    stores: false,
};

/// Libraries that keep conversations on the vendor's servers ask first, and look for this word to go on without.
const UNTHREADED: &str = "thread_unsupported_request";

/// What a client wants of a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Answer,
    Count,
}

/// What changes nothing here: billing, caching and placing on the vendor's side, what it does when its models decline,
/// clearing of old context that it does for clients, and what libraries for its partners' clouds move from headers into
/// the body.
pub(crate) const HINTS: [&str; 15] = [
    "anthropic_beta",
    "anthropic_version",
    "betas",
    "billing_policy",
    "cache_control",
    "context_management",
    "diagnostics",
    "fallback_credit_token",
    "fallbacks",
    "inference_geo",
    "metadata",
    "service_tier",
    "speed",
    "user_profile_id",
    "workspace_id",
];

fn read(body: &[u8], wanted: Wanted) -> Result<ApiRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    fields.ignore(&HINTS);
    refuse_unsupported(&mut fields)?;
    let prompt = prompt::read(&mut fields)?;
    if wanted == Wanted::Answer {
        refuse_prefill(&prompt.messages)?;
    }
    let offered = tools::offered(&mut fields)?;
    let (tool_choice, parallel_tool_calls) = tools::choice(&mut fields, &offered.tools)?;
    let thinking = settings::thinking(&mut fields)?;
    let output = settings::output(&mut fields)?;
    let options = AnswerOptions {
        model: fields.string("model")?,
        sampling: settings::sampling(&mut fields)?,
        max_tokens: max_tokens(&mut fields, wanted)?,
        stop: settings::stops(&mut fields)?,
        format: output.format,
        delivery: delivery(&mut fields)?,
        warnings: offered.warning.into_iter().chain(prompt.warning).collect(),
        echo: reply::echo(thinking.is_hidden),
        ..AnswerOptions::default()
    };
    fields.finish()?;
    let conversation = Conversation {
        messages: prompt.messages,
        tools: offered.tools,
        thinking: thinking.is_on,
        effort: output.effort,
        ..Conversation::default()
    };
    Ok(ApiRequest::Chat(ChatRequest {
        tool_choice,
        parallel_tool_calls,
        thinking_budget: thinking.budget,
        ..ChatRequest::new(conversation, options)
    }))
}

/// What would need the vendor's servers: tools and files there, conversations kept there.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    let empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    fields.refuse_unless("mcp_servers", " or send an empty list", empty_list)?;
    fields.refuse_unless("container", "", |_| false)?;
    fields.refuse_unless("compaction", "", |_| false)?;
    let kept_there = fields.refuse_unless("thread", "", |_| false);
    kept_there.map_err(|error| error.with_code(UNTHREADED))
}

/// The vendor's newer models do not take it either, and a template has no way to leave an answer open.
fn refuse_prefill(messages: &[frank_chat::Message]) -> Result<(), ApiError> {
    if messages.last().is_some_and(|message| message.role == Role::Assistant) {
        let message = "messages ends with an assistant message, and this model cannot continue one: \
                       let a user message be the last";
        return Err(ApiError::invalid("messages", message).with_code("prefill_not_supported"));
    }
    Ok(())
}

/// An answer needs it; a count may have it.
fn max_tokens(fields: &mut Fields, wanted: Wanted) -> Result<Option<u64>, ApiError> {
    let max_tokens = fields.amount("max_tokens")?;
    if max_tokens.is_none() && wanted == Wanted::Answer {
        let error = ApiError::invalid("max_tokens", "max_tokens is required");
        return Err(error.with_code("missing_required_parameter"));
    }
    Ok(max_tokens)
}

fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let stream = fields.bool("stream")?.unwrap_or(false);
    Ok(if stream { Delivery::Stream { usage: true } } else { Delivery::Whole })
}

/// The envelope of an error.
fn error(error: &ApiError) -> Value {
    let kind = match error.kind {
        ErrorKind::InvalidRequest
        | ErrorKind::MethodNotAllowed
        | ErrorKind::UnsupportedMediaType => "invalid_request_error",
        ErrorKind::Authentication => "authentication_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::NotFound => "not_found_error",
        ErrorKind::RequestTimeout => "timeout_error",
        ErrorKind::PayloadTooLarge => "request_too_large",
        ErrorKind::RateLimited => "rate_limit_error",
        ErrorKind::Internal => "api_error",
        ErrorKind::Unavailable => "overloaded_error",
    };
    let mut body = json!({"type": "error", "error": {"type": kind, "message": message(error)}});
    if error.code == Some(UNTHREADED) {
        body["error"]["details"] = json!({"error_code": UNTHREADED, "unsupported": ["thread"]});
    }
    body
}

/// Agents look for these words to know that they must shorten the conversation.
fn message(error: &ApiError) -> String {
    if error.code == Some("context_length_exceeded") {
        format!("prompt is too long: {error}")
    } else {
        error.message.clone()
    }
}
