//! OpenAI Responses, as coding agents speak it: items in, items out.

mod echo;
mod input;
mod items;
mod options;
mod stream;
mod tools;

use frank_chat::{Conversation, Message, Role};
use serde_json::{Value, json};

use self::echo::Echo;
use self::items::Item;
use self::tools::OfferedTools;
use super::Dialect;
use super::openai;
use crate::error::ApiError;
use crate::event::{FinishReason, Totals};
use crate::fields::Fields;
use crate::json;
use crate::reply::{Answer, ReplyHead};
use crate::request::{AnswerFormat, AnswerOptions, ApiRequest, ChatRequest, ToolChoice};

pub(super) const DIALECT: Dialect = Dialect {
    name: "responses",
    path: "/v1/responses",
    id_prefix: "resp_",
    parse,
    stream: |head, _usage| Box::new(stream::ItemStream::new(head)),
    whole,
    error: openai::error,
    call_id_prefix: "call_",
    count: None,
    stores: true,
};

/// What a client is told when it deleted a stored response.
#[must_use]
pub fn deleted_body(id: &str) -> Value {
    json!({"id": id, "object": "response", "deleted": true})
}

fn parse(body: &[u8]) -> Result<ApiRequest, ApiError> {
    let body = json::parse(body)?;
    let repeated = echo::repeated(&body);
    let mut fields = Fields::of_body(body)?;
    let mut warnings = Vec::new();
    options::refuse_what_others_do(&mut fields)?;
    options::read_hints(&mut fields, &mut warnings)?;
    let previous = fields.string("previous_response_id")?;
    let instructions = fields.string("instructions")?.filter(|text| !text.is_empty());
    let mut tools = OfferedTools::read(&mut fields)?;
    let said = input::read(&mut fields, previous.is_some(), &mut tools, &mut warnings)?;
    let tool_choice = tools.choice(&mut fields)?;
    let parallel_tool_calls = fields.bool("parallel_tool_calls")?.unwrap_or(true);
    let mut conversation = Conversation::default();
    let (thinking_budget, tells_summary) =
        options::read_reasoning(&mut fields, &mut conversation, &mut warnings)?;
    let include = options::read_include(&mut fields, &mut warnings)?;
    let store = fields.bool("store")?.unwrap_or(true);
    let mut options = options::answer_options(&mut fields, &include, &mut warnings)?;
    fields.finish()?;
    if !tools.list.is_empty() && tool_choice != ToolChoice::None {
        check_beside_tools(&options)?;
    }
    warnings.extend(tools.skipped.warning());
    options.warnings.extend(warnings);
    let echo = Echo {
        repeated,
        namespaced: tools.namespaced,
        tells_summary,
        tells_sealed: include.sealed,
    };
    options.echo = echo.into_value();
    let head = instructions.map(|text| Message::new(Role::System, text));
    let n_instructions = usize::from(head.is_some());
    conversation.messages = head.into_iter().chain(said).collect();
    conversation.tools = tools.list;
    Ok(ApiRequest::Chat(ChatRequest {
        n_instructions,
        tool_choice,
        parallel_tool_calls,
        thinking_budget,
        previous,
        store,
        ..ChatRequest::new(conversation, options)
    }))
}

/// A call ends where its form does, and no grammar knows how calls are written.
fn check_beside_tools(options: &AnswerOptions) -> Result<(), ApiError> {
    let refused = match options {
        AnswerOptions { format: Some(rule), .. }
            if matches!(rule.format, AnswerFormat::Gbnf(_)) =>
        {
            "grammar"
        }
        AnswerOptions { ignore_end: true, .. } => "ignore_eos",
        AnswerOptions { min_tokens: 1.., .. } => "min_tokens",
        _ => return Ok(()),
    };
    let message = format!("{refused} cannot be kept beside tools: leave out one of the two");
    Err(ApiError::invalid(refused, message).with_code("unsupported_parameter"))
}

fn whole(head: &ReplyHead, answer: &Answer) -> Value {
    let echo = Echo::of(head);
    let Some(choice) = answer.choices.first() else {
        return response(head, &echo, "completed", &[]);
    };
    let items = items::of_choice(choice);
    finished(head, &echo, &items, choice.reason, &answer.totals)
}

/// The response of an answer that is whole.
fn finished(
    head: &ReplyHead,
    echo: &Echo,
    items: &[Item],
    reason: FinishReason,
    totals: &Totals,
) -> Value {
    let is_cut = reason == FinishReason::Length;
    let statuses = items.iter().enumerate().map(|(index, item)| {
        let is_last = index + 1 == items.len();
        item.value(head, echo, index, item.status(is_cut && is_last))
    });
    let output: Vec<Value> = statuses.collect();
    let mut body = response(head, echo, if is_cut { "incomplete" } else { "completed" }, &output);
    if is_cut {
        body["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    body["usage"] = usage(totals);
    body["timings"] = openai::timings(totals);
    body
}

/// A response as far as it has come: what the request said, and what there is of the answer.
fn response(head: &ReplyHead, echo: &Echo, status: &str, output: &[Value]) -> Value {
    let mut body = echo.repeated.clone();
    let own = json!({
        "id": head.id,
        "object": "response",
        "created_at": head.created,
        "model": head.model,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "output": output,
        "usage": null,
    });
    if let (Value::Object(body), Value::Object(own)) = (&mut body, own) {
        body.extend(own);
    }
    body
}

/// The tokens of an answer, and beside them how long they took.
fn usage(totals: &Totals) -> Value {
    let mut usage = json!({
        "input_tokens": totals.usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": totals.usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": totals.usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": totals.usage.reasoning_tokens},
        "total_tokens": totals.usage.prompt_tokens + totals.usage.completion_tokens,
    });
    usage["timings"] = openai::usage(totals)["timings"].take();
    usage
}
