//! The items of a response: thoughts, messages and calls, in the form that clients get and send back.

use serde_json::{Value, json};

use super::echo::Echo;
use crate::dialects::openai::logprobs;
use crate::event::{FinishReason, TokenLogprob};
use crate::reply::{Call, Choice, Part, ReplyHead};

/// What thoughts begin with that clients send back unread. They are told to the client anyway, so that they need no key.
const SEAL: &str = "frank-thoughts:";

/// One item.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// What the model thinks.
    Reasoning(String),
    /// What it says.
    Message {
        text: String,
        /// Its tokens, where the client asked for them.
        logprobs: Vec<TokenLogprob>,
    },
    /// A tool that it calls.
    Call(Call),
}

/// The items of a choice that is whole.
pub(super) fn of_choice(choice: &Choice) -> Vec<Item> {
    let item = |part: Part<'_>| match part {
        Part::Reasoning(text) => Item::Reasoning(text.to_owned()),
        Part::Text { text, logprobs } => {
            Item::Message { text: text.to_owned(), logprobs: logprobs.unwrap_or_default().to_vec() }
        }
        Part::Call(call) => Item::Call(call.clone()),
    };
    let mut items: Vec<Item> = choice.parts().into_iter().map(item).collect();
    if lacks_message(&items, choice.reason) {
        items.push(Item::empty_message());
    }
    items
}

/// Whether an answer that came to its end said and called nothing. Clients look for a message then.
pub(super) fn lacks_message(items: &[Item], reason: FinishReason) -> bool {
    let is_thought = |item: &Item| matches!(item, Item::Reasoning(_));
    reason != FinishReason::Length && items.iter().all(is_thought)
}

impl Item {
    pub(super) fn empty_message() -> Self {
        Self::Message { text: String::new(), logprobs: Vec::new() }
    }

    /// The id of the item at `index`: the response's, with another head and the place.
    pub(super) fn id(&self, head: &ReplyHead, index: usize) -> String {
        let prefix = match self {
            Self::Reasoning(_) => "rs",
            Self::Message { .. } => "msg",
            Self::Call(_) => "fc",
        };
        let response = head.id.strip_prefix("resp_").unwrap_or(&head.id);
        format!("{prefix}_{response}_{index}")
    }

    /// Whether the item is whole, if the answer was cut off in it or just after it.
    pub(super) fn status(&self, is_cut: bool) -> &'static str {
        let is_whole_call = match self {
            Self::Call(call) => serde_json::from_str::<Value>(&call.arguments).is_ok(),
            Self::Reasoning(_) | Self::Message { .. } => false,
        };
        if is_cut && !is_whole_call { "incomplete" } else { "completed" }
    }

    /// The item at `index` with all that there is of it.
    pub(super) fn value(&self, head: &ReplyHead, echo: &Echo, index: usize, status: &str) -> Value {
        let mut item = self.begun(head, echo, index);
        item["status"] = status.into();
        match self {
            Self::Reasoning(text) => {
                let part = self.part(echo).unwrap_or_default();
                item[if echo.tells_summary { "summary" } else { "content" }] = json!([part]);
                if echo.tells_sealed {
                    item["encrypted_content"] = format!("{SEAL}{text}").into();
                }
            }
            Self::Message { .. } => item["content"] = self.part(echo).into_iter().collect(),
            Self::Call(call) => item["arguments"] = call.arguments.as_str().into(),
        }
        item
    }

    /// The item at `index` as it begins, with nothing in it.
    pub(super) fn begun(&self, head: &ReplyHead, echo: &Echo, index: usize) -> Value {
        let id = self.id(head, index);
        let status = "in_progress";
        match self {
            Self::Reasoning(_) => {
                json!({"type": "reasoning", "id": id, "status": status, "summary": [], "content": []})
            }
            Self::Message { .. } => json!({
                "type": "message", "id": id, "status": status, "role": "assistant", "content": [],
            }),
            Self::Call(call) => {
                let mut item = json!({
                    "type": "function_call", "id": id, "status": status, "call_id": call.id, "arguments": "",
                });
                if let (Value::Object(item), Value::Object(names)) = (&mut item, names(call, echo))
                {
                    item.extend(names);
                }
                item
            }
        }
    }

    /// The part that holds all of the item's text; a call has none.
    pub(super) fn part(&self, echo: &Echo) -> Option<Value> {
        match self {
            Self::Reasoning(text) => {
                let kind = if echo.tells_summary { "summary_text" } else { "reasoning_text" };
                Some(json!({"type": kind, "text": text}))
            }
            Self::Message { text, logprobs } => Some(json!({
                "type": "output_text", "text": text, "annotations": [], "logprobs": tokens(logprobs),
            })),
            Self::Call(_) => None,
        }
    }
}

/// What the client calls the tool: its name, and its namespace where it has one.
pub(super) fn names(call: &Call, echo: &Echo) -> Value {
    echo.namespaced.get(&call.name).cloned().unwrap_or_else(|| json!({"name": call.name}))
}

/// The tokens in the form of this dialect, which is that of a chat without its frame.
pub(super) fn tokens(tokens: &[TokenLogprob]) -> Value {
    logprobs::chat(Some(tokens))["content"].take()
}

/// The thoughts in what a client sends back unread, where it is from here.
pub(super) fn unsealed(sealed: &str) -> Option<&str> {
    sealed.strip_prefix(SEAL)
}
