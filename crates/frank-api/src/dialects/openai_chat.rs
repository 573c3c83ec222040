//! OpenAI Chat Completions, as clients of many programs speak it.

use frank_chat::{Conversation, Message, Role};
use serde_json::{Value, json};

use super::Dialect;
use super::openai::{self, SYSTEM_FINGERPRINT, logprobs};
use crate::error::ApiError;
use crate::event::{Delta, Event, FinishReason, Totals};
use crate::fields::{Fields, wrong_type};
use crate::json;
use crate::reply::{Answer, Choice, Frame, ReplyHead, ReplyStream};
use crate::request::{ApiRequest, ChatRequest};

pub(super) const DIALECT: Dialect = Dialect {
    name: "openai_chat",
    path: "/v1/chat/completions",
    id_prefix: "chatcmpl-",
    parse,
    stream: |head, usage| Box::new(ChatStream { head, usage, begun: Vec::new() }),
    whole,
    error: openai::error,
};

fn parse(body: &[u8]) -> Result<ApiRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let conversation = conversation(&mut fields)?;
    let max_tokens = max_tokens(&mut fields)?;
    let n_logprobs = logprobs::of_chat(&mut fields)?;
    let options = openai::answer_options(&mut fields, max_tokens, n_logprobs)?;
    let text_only = |value: &Value| *value == json!(["text"]);
    fields.refuse_unless("modalities", " or send [\"text\"]", text_only)?;
    fields.refuse_unless("audio", "", |_| false)?;
    fields.refuse_unless("prediction", "", |_| false)?;
    fields.refuse_unless("web_search_options", "", |_| false)?;
    fields.refuse_unless("verbosity", " or send \"medium\"", |value| value == "medium")?;
    fields.finish()?;
    Ok(ApiRequest::Chat(ChatRequest { conversation, options }))
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

fn conversation(fields: &mut Fields) -> Result<Conversation, ApiError> {
    let items = fields.required_list("messages")?;
    if items.is_empty() {
        return Err(ApiError::invalid("messages", "messages must hold at least one message"));
    }
    let messages =
        items.into_iter().enumerate().map(|(i, item)| message(item, format!("messages[{i}]")));
    Ok(Conversation { messages: messages.collect::<Result<_, _>>()?, ..Conversation::default() })
}

fn message(item: Value, path: String) -> Result<Message, ApiError> {
    let mut fields = Fields::of(item, path)?;
    let role = role(&mut fields)?;
    let empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    fields.refuse_unless("tool_calls", " or send an empty list", empty_list)?;
    fields.refuse_unless("annotations", " or send an empty list", empty_list)?;
    fields.refuse_unless("refusal", " or send an empty text", |value| value == "")?;
    let content = content(&mut fields, role)?;
    let name = fields.string("name")?;
    let reasoning = reasoning(&mut fields)?;
    fields.finish()?;
    Ok(Message { name, reasoning, ..Message::new(role, content) })
}

/// What the model thought, under either of the names in use.
fn reasoning(fields: &mut Fields) -> Result<Option<String>, ApiError> {
    let (one, other) = (fields.string("reasoning_content")?, fields.string("reasoning")?);
    Ok(one.or(other).filter(|text| !text.is_empty()))
}

fn role(fields: &mut Fields) -> Result<Role, ApiError> {
    match fields.required_string("role")?.as_str() {
        "system" | "developer" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        other => {
            let path = fields.path("role");
            let message =
                format!("{path} must be system, developer, user or assistant, not {other:?}");
            Err(ApiError::invalid(path, message))
        }
    }
}

/// A text, or a list of text parts. Parts are joined by line breaks. An answer of the model may have none.
fn content(fields: &mut Fields, role: Role) -> Result<String, ApiError> {
    let path = fields.path("content");
    let content = match role {
        Role::Assistant => fields.take("content").unwrap_or_else(|| Value::from("")),
        Role::System | Role::User | Role::Tool => fields.required("content")?,
    };
    match content {
        Value::String(text) => Ok(text),
        Value::Array(parts) => {
            let texts = parts
                .into_iter()
                .enumerate()
                .map(|(i, part)| text_part(part, format!("{path}[{i}]")));
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        other => Err(wrong_type(path, "a string or a list of text parts", &other)),
    }
}

fn text_part(part: Value, path: String) -> Result<String, ApiError> {
    let mut fields = Fields::of(part, path)?;
    let kind = fields.string("type")?.unwrap_or_default();
    if kind != "text" {
        let path = fields.path("type");
        let message = format!("{path} must be \"text\", not {kind:?}: this model reads only text");
        return Err(ApiError::invalid(path, message).with_code("unsupported_parameter"));
    }
    let text = fields.required_string("text")?;
    // Where a vendor's cache should end a prefix.
    fields.ignore(&["cache_control"]);
    fields.finish()?;
    Ok(text)
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
        "message": {"role": "assistant", "content": choice.text, "refusal": null},
        "logprobs": logprobs::chat(choice.logprobs.as_deref()),
        "finish_reason": openai::finish_reason(choice.reason),
    })
}

/// Writes chunks: for each choice one with the role, one for each text, one with the reason of the end; then the usage
/// if asked. The last chunk has the timings.
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

    fn delta(&self, delta: &Delta) -> Frame {
        let logprobs = logprobs::chat(delta.logprobs.as_deref());
        Frame::json(&self.one(delta.choice, &json!({"content": delta.text}), &logprobs, None))
    }
}

impl ReplyStream for ChatStream {
    fn start(&mut self) -> Vec<Frame> {
        self.begin(0).into_iter().collect()
    }

    fn event(&mut self, event: &Event) -> Vec<Frame> {
        match event {
            Event::Delta(delta) => {
                let begin = self.begin(delta.choice);
                begin.into_iter().chain([self.delta(delta)]).collect()
            }
            Event::Finished { choice, reason, totals } => {
                let begin = self.begin(*choice);
                begin.into_iter().chain(self.finished(*choice, *reason, *totals)).collect()
            }
            Event::Failed(error) => vec![Frame::json(&openai::error(error))],
        }
    }
}
