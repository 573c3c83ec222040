//! A message in one piece, and what both forms of a reply say of its end.

use serde_json::{Map, Value, json};

use super::seal;
use crate::event::{FinishReason, Usage};
use crate::reply::{Answer, Call, Choice, Part, ReplyHead};

/// What a reply has to know of its request.
pub(super) fn echo(hides_thinking: bool) -> Value {
    if hides_thinking { json!({"hides_thinking": true}) } else { Value::Null }
}

/// Whether the client wants to see nothing of what the model thinks.
pub(super) fn hides_thinking(head: &ReplyHead) -> bool {
    head.echo["hides_thinking"] == true
}

pub(super) fn whole(head: &ReplyHead, answer: &Answer) -> Value {
    let nothing = Choice::default();
    let choice = answer.choices.first().unwrap_or(&nothing);
    let is_cut = choice.calls.iter().any(|call| input(&call.arguments).is_none());
    let end = End { reason: choice.reason, stop_text: choice.stop_text.as_deref(), is_cut };
    let mut message = message(head);
    message["content"] = content(choice, hides_thinking(head));
    message["stop_reason"] = end.stop_reason().into();
    message["stop_sequence"] = choice.stop_text.as_deref().into();
    message["usage"] = usage(&answer.totals.usage);
    message
}

/// A message of which nothing is known yet.
pub(super) fn message(head: &ReplyHead) -> Value {
    json!({
        "id": head.id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    })
}

/// Blocks in the order in which they were made.
fn content(choice: &Choice, hides_thinking: bool) -> Value {
    let blocks = choice.parts().into_iter().filter_map(|part| match part {
        Part::Reasoning(text) => {
            let thinking = if hides_thinking { "" } else { text };
            let signature = signature(text, hides_thinking);
            Some(json!({"type": "thinking", "thinking": thinking, "signature": signature}))
        }
        Part::Text { text: "", .. } => None,
        Part::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        Part::Call(call) => Some(tool_use(call)),
    });
    blocks.collect()
}

/// The signature of what the model thought.
pub(super) fn signature(thought: &str, is_hidden: bool) -> String {
    if is_hidden { seal::sealed(thought) } else { seal::OPEN.to_owned() }
}

fn tool_use(call: &Call) -> Value {
    let input = input(&call.arguments).unwrap_or_default();
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

/// The arguments of a call; none when the answer was cut off in them. A call without any has an empty object.
pub(super) fn input(arguments: &str) -> Option<Map<String, Value>> {
    if arguments.is_empty() { Some(Map::new()) } else { serde_json::from_str(arguments).ok() }
}

/// How an answer ended.
pub(super) struct End<'a> {
    pub(super) reason: FinishReason,
    pub(super) stop_text: Option<&'a str>,
    /// Whether it ended in the arguments of a call, which no client may run then.
    pub(super) is_cut: bool,
}

impl End<'_> {
    pub(super) fn stop_reason(&self) -> &'static str {
        match self.reason {
            FinishReason::Stop if self.stop_text.is_some() => "stop_sequence",
            FinishReason::Length => "max_tokens",
            FinishReason::Stop | FinishReason::ToolCalls if self.is_cut => "max_tokens",
            FinishReason::Stop => "end_turn",
            FinishReason::ToolCalls => "tool_use",
        }
    }
}

/// Tokens. Those of the prompt are told in two parts, which clients add up.
pub(super) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens.saturating_sub(usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    })
}
