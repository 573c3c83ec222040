//! OpenAI Chat Completions, as clients of many programs speak it.

mod messages;

use frank_chat::Conversation;
use serde_json::{Value, json};

use super::Dialect;
use super::openai::{self, SYSTEM_FINGERPRINT, logprobs, reasoning, tools};
use crate::error::ApiError;
use crate::event::{Delta, Event, FinishReason, Totals};
use crate::fields::Fields;
use crate::json;
use crate::reply::{Answer, Call, Choice, Frame, ReplyHead, ReplyStream};
use crate::request::{
    AnswerFormat, AnswerOptions, ApiRequest, ChatRequest, FormatRule, ToolChoice,
};

pub(super) const DIALECT: Dialect = Dialect {
    name: "openai_chat",
    path: "/v1/chat/completions",
    id_prefix: "chatcmpl-",
    parse,
    stream: |head, usage| Box::new(ChatStream { head, usage, begun: Vec::new() }),
    whole,
    error: openai::error,
    call_id_prefix: "call_",
    count: None,
    stores: false,
};

fn parse(body: &[u8]) -> Result<ApiRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let mut conversation =
        Conversation { messages: messages::read(&mut fields)?, ..Conversation::default() };
    let tool_use = tools::of_chat(&mut fields)?;
    refuse_functions(&mut fields)?;
    let thinking_budget = reasoning::of_chat(&mut fields, &mut conversation)?;
    let max_tokens = max_tokens(&mut fields)?;
    let n_logprobs = logprobs::of_chat(&mut fields)?;
    let mut options = openai::answer_options(&mut fields, max_tokens, n_logprobs)?;
    let text_only = |value: &Value| *value == json!(["text"]);
    fields.refuse_unless("modalities", " or send [\"text\"]", text_only)?;
    fields.refuse_unless("audio", "", |_| false)?;
    fields.refuse_unless("prediction", "", |_| false)?;
    fields.refuse_unless("web_search_options", "", |_| false)?;
    fields.refuse_unless("verbosity", " or send \"medium\"", |value| value == "medium")?;
    fields.finish()?;
    if !tool_use.tools.is_empty() && tool_use.choice != ToolChoice::None {
        check_beside_tools(&options)?;
    }
    options.warnings.extend(tool_use.warnings);
    conversation.tools = tool_use.tools;
    Ok(ApiRequest::Chat(ChatRequest {
        tool_choice: tool_use.choice,
        parallel_tool_calls: tool_use.parallel,
        thinking_budget,
        ..ChatRequest::new(conversation, options)
    }))
}

/// The newer of the two names is the older one's replacement; both at once must agree.
fn max_tokens(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    let (old, new) = (fields.amount("max_tokens")?, fields.amount("max_completion_tokens")?);
    match (old, new) {
        (Some(a), Some(b)) if a != b => Err(ApiError::invalid(
            "max_tokens",
            "max_tokens and max_completion_tokens differ; send one",
        )),
        _ => Ok(old.or(new)),
    }
}

/// The older way to offer tools and to call one. The replies to it had a form of their own.
fn refuse_functions(fields: &mut Fields) -> Result<(), ApiError> {
    let empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let none_or_auto = |value: &Value| value == "none" || value == "auto";
    fields.refuse_unless("functions", " and send tools", empty_list)?;
    fields.refuse_unless("function_call", " and send tool_choice", none_or_auto)
}

/// A call ends where its form does, and no grammar knows how calls are written.
fn check_beside_tools(options: &AnswerOptions) -> Result<(), ApiError> {
    let is_grammar = |rule: &FormatRule| matches!(rule.format, AnswerFormat::Gbnf(_));
    let refused = match options {
        _ if options.format.as_ref().is_some_and(is_grammar) => "grammar",
        _ if options.ignore_end => "ignore_eos",
        _ if options.min_tokens > 0 => "min_tokens",
        _ => return Ok(()),
    };
    let message = format!("{refused} cannot be kept beside tools: leave out one of the two");
    Err(ApiError::invalid(refused, message).with_code("unsupported_parameter"))
}

fn whole(head: &ReplyHead, answer: &Answer) -> Value {
    let choices: Vec<Value> =
        answer.choices.iter().enumerate().map(|(index, one)| whole_choice(index, one)).collect();
    json!({
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": SYSTEM_FINGERPRINT,
        "choices": choices,
        "usage": openai::usage(&answer.totals),
        "timings": openai::timings(&answer.totals),
    })
}

fn whole_choice(index: usize, choice: &Choice) -> Value {
    json!({
        "index": index,
        "message": whole_message(choice),
        "logprobs": logprobs::chat(choice.logprobs.as_deref()),
        "finish_reason": openai::finish_reason(choice.reason),
    })
}

/// What an answer does not have is not there, except for its text.
fn whole_message(choice: &Choice) -> Value {
    let is_only_calls = choice.text.is_empty() && !choice.calls.is_empty();
    let content = if is_only_calls { Value::Null } else { Value::from(choice.text.as_str()) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !choice.reasoning.is_empty() {
        message["reasoning_content"] = choice.reasoning.as_str().into();
    }
    if !choice.calls.is_empty() {
        message["tool_calls"] = choice.calls.iter().map(whole_call).collect();
    }
    message
}

fn whole_call(call: &Call) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": call.id, "type": "function", "function": function})
}

/// Writes chunks: for each choice one with the role, one for each piece of it, one with the reason of the end; then the
/// usage if asked. The last chunk has the timings.
struct ChatStream {
    head: ReplyHead,
    usage: bool,
    /// The choices that have told their role.
    begun: Vec<u32>,
}

impl ChatStream {
    fn chunk(&self, choices: &Value) -> Value {
        let mut chunk = json!({
            "id": self.head.id,
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
            "system_fingerprint": SYSTEM_FINGERPRINT,
            "choices": choices,
        });
        if self.usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn one(
        &self,
        choice: u32,
        delta: &Value,
        logprobs: &Value,
        reason: Option<FinishReason>,
    ) -> Value {
        let reason = reason.map(openai::finish_reason);
        self.chunk(
            &json!([{"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": reason}]),
        )
    }

    /// The frame that tells a choice's role, where it was not told yet.
    fn begin(&mut self, choice: u32) -> Option<Frame> {
        if self.begun.contains(&choice) {
            return None;
        }
        self.begun.push(choice);
        let delta = json!({"role": "assistant", "content": ""});
        Some(Frame::json(&self.one(choice, &delta, &Value::Null, None)))
    }

    fn finished(&self, choice: u32, reason: FinishReason, totals: Option<Totals>) -> Vec<Frame> {
        let last = self.one(choice, &json!({}), &Value::Null, Some(reason));
        openai::last_frames(last, self.usage.then(|| self.chunk(&json!([]))), totals)
    }

    /// The frame of a piece of a choice, after that of the role where it was not told yet.
    fn piece(&mut self, choice: u32, delta: &Value, logprobs: &Value) -> Vec<Frame> {
        let begin = self.begin(choice);
        let piece = Frame::json(&self.one(choice, delta, logprobs, None));
        begin.into_iter().chain([piece]).collect()
    }

    fn text(&mut self, delta: &Delta) -> Vec<Frame> {
        let logprobs = logprobs::chat(delta.logprobs.as_deref());
        self.piece(delta.choice, &json!({"content": delta.text}), &logprobs)
    }
}

/// A delta of one call.
fn call_delta(call: &Value) -> Value {
    json!({"tool_calls": [call]})
}

impl ReplyStream for ChatStream {
    fn start(&mut self) -> Vec<Frame> {
        self.begin(0).into_iter().collect()
    }

    fn event(&mut self, event: &Event) -> Vec<Frame> {
        match event {
            Event::Started(_) => Vec::new(),
            Event::Reasoning { choice, text } => {
                self.piece(*choice, &json!({"reasoning_content": text}), &Value::Null)
            }
            Event::Delta(delta) => self.text(delta),
            // Only the first delta of a call tells what it is; the others are found by the index.
            Event::ToolCall { choice, index, id, name } => {
                let function = json!({"name": name, "arguments": ""});
                let call =
                    json!({"index": index, "id": id, "type": "function", "function": function});
                self.piece(*choice, &call_delta(&call), &Value::Null)
            }
            Event::ToolArguments { choice, index, fragment } => {
                let call = json!({"index": index, "function": {"arguments": fragment}});
                self.piece(*choice, &call_delta(&call), &Value::Null)
            }
            Event::Finished { choice, reason, totals, .. } => {
                let begin = self.begin(*choice);
                begin.into_iter().chain(self.finished(*choice, *reason, *totals)).collect()
            }
            Event::Failed(error) => vec![Frame::json(&openai::error(error))],
        }
    }
}
