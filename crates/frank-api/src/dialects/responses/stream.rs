//! Writes a response as it grows. Each item is begun, filled and done before the next; the last frame has the response
//! as it would be in one piece.

use serde_json::{Value, json};

use super::echo::Echo;
use super::items::{self, Item};
use crate::error::{ApiError, ErrorKind};
use crate::event::{Delta, Event, FinishReason, Totals};
use crate::reply::{Call, Frame, ReplyHead, ReplyStream};

/// A response as far as it was sent.
pub(super) struct ItemStream {
    head: ReplyHead,
    echo: Echo,
    sequence: u64,
    items: Vec<Item>,
    /// Whether the last item is still growing.
    is_open: bool,
}

impl ItemStream {
    pub(super) fn new(head: ReplyHead) -> Self {
        let echo = Echo::of(&head);
        Self { head, echo, sequence: 0, items: Vec::new(), is_open: false }
    }

    fn frame(&mut self, kind: &'static str, mut data: Value) -> Frame {
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        Frame::named(kind, &data)
    }

    /// A frame about the whole response.
    fn response_frame(&mut self, kind: &'static str, response: &Value) -> Frame {
        self.frame(kind, json!({"response": response}))
    }

    /// A frame about the last item, with more fields.
    fn item_frame(&mut self, kind: &'static str, more: Value) -> Frame {
        let index = self.items.len().saturating_sub(1);
        let id = self.items.last().map(|item| item.id(&self.head, index));
        let mut data = json!({"item_id": id, "output_index": index});
        if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
            data.extend(more);
        }
        self.frame(kind, data)
    }

    /// A frame about the text of the last item.
    fn text_frame(&mut self, kind: &'static str, mut more: Value) -> Frame {
        let is_summary =
            self.echo.tells_summary && matches!(self.items.last(), Some(Item::Reasoning(_)));
        more[if is_summary { "summary_index" } else { "content_index" }] = 0.into();
        self.item_frame(kind, more)
    }

    /// Whether the last item is one that takes more of the same kind.
    fn is_open_as(&self, kind: impl Fn(&Item) -> bool) -> bool {
        self.is_open && self.items.last().is_some_and(kind)
    }

    /// Ends the item before, and begins `item`.
    fn begin(&mut self, item: Item, frames: &mut Vec<Frame>) {
        self.end("completed", frames);
        let index = self.items.len();
        let begun = item.begun(&self.head, &self.echo, index);
        let part = item.part(&self.echo);
        self.items.push(item);
        self.is_open = true;
        let added = json!({"output_index": index, "item": begun});
        frames.push(self.frame("response.output_item.added", added));
        if let Some(part) = part {
            let kind = self.names().part_added;
            frames.push(self.text_frame(kind, json!({"part": part})));
        }
    }

    /// Ends the item that is growing, if one is.
    fn end(&mut self, status: &'static str, frames: &mut Vec<Frame>) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let Some(item) = self.items.last().cloned() else { return };
        let names = self.names();
        match &item {
            Item::Reasoning(text) => {
                frames.push(self.text_frame(names.done, json!({"text": text})));
            }
            Item::Message { text, logprobs } => {
                let more = json!({"text": text, "logprobs": items::tokens(logprobs)});
                frames.push(self.text_frame(names.done, more));
            }
            Item::Call(call) => {
                let name = items::names(call, &self.echo)["name"].take();
                let more = json!({"name": name, "arguments": call.arguments});
                frames.push(self.item_frame(names.done, more));
            }
        }
        if let Some(part) = item.part(&self.echo) {
            frames.push(self.text_frame(names.part_done, json!({"part": part})));
        }
        let index = self.items.len() - 1;
        let value = item.value(&self.head, &self.echo, index, status);
        let done = json!({"output_index": index, "item": value});
        frames.push(self.frame("response.output_item.done", done));
    }

    /// What frames about the last item are called.
    fn names(&self) -> Names {
        match self.items.last() {
            Some(Item::Reasoning(_)) if self.echo.tells_summary => SUMMARY,
            Some(Item::Reasoning(_)) => REASONING,
            Some(Item::Call(_)) => CALL,
            Some(Item::Message { .. }) | None => MESSAGE,
        }
    }

    fn reasoning(&mut self, text: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        if text.is_empty() {
            return frames;
        }
        if !self.is_open_as(|item| matches!(item, Item::Reasoning(_))) {
            self.begin(Item::Reasoning(String::new()), &mut frames);
        }
        if let Some(Item::Reasoning(all)) = self.items.last_mut() {
            all.push_str(text);
        }
        let kind = self.names().delta;
        frames.push(self.text_frame(kind, json!({"delta": text})));
        frames
    }

    fn delta(&mut self, delta: &Delta) -> Vec<Frame> {
        let mut frames = Vec::new();
        let more = delta.logprobs.as_deref().unwrap_or_default();
        if delta.text.is_empty() && more.is_empty() {
            return frames;
        }
        if !self.is_open_as(|item| matches!(item, Item::Message { .. })) {
            self.begin(Item::empty_message(), &mut frames);
        }
        if let Some(Item::Message { text, logprobs }) = self.items.last_mut() {
            text.push_str(&delta.text);
            logprobs.extend(more.iter().cloned());
        }
        let told = json!({"delta": delta.text, "logprobs": items::tokens(more)});
        frames.push(self.text_frame(MESSAGE.delta, told));
        frames
    }

    fn call(&mut self, id: &str, name: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        let call = Call { id: id.to_owned(), name: name.to_owned(), arguments: String::new() };
        self.begin(Item::Call(call), &mut frames);
        frames
    }

    fn arguments(&mut self, fragment: &str) -> Vec<Frame> {
        if !self.is_open_as(|item| matches!(item, Item::Call(_))) {
            return Vec::new();
        }
        if let Some(Item::Call(call)) = self.items.last_mut() {
            call.arguments.push_str(fragment);
        }
        vec![self.item_frame(CALL.delta, json!({"delta": fragment}))]
    }

    fn finished(&mut self, reason: FinishReason, totals: &Totals) -> Vec<Frame> {
        let mut frames = Vec::new();
        let is_cut = reason == FinishReason::Length;
        let status = self.items.last().map_or("completed", |item| item.status(is_cut));
        self.end(status, &mut frames);
        if items::lacks_message(&self.items, reason) {
            self.begin(Item::empty_message(), &mut frames);
            self.end("completed", &mut frames);
        }
        let response = super::finished(&self.head, &self.echo, &self.items, reason, totals);
        let kind = if is_cut { "response.incomplete" } else { "response.completed" };
        frames.push(self.response_frame(kind, &response));
        frames
    }

    /// Tells an error twice: some clients read one of the two frames, some the other.
    fn failed(&mut self, error: &ApiError) -> Vec<Frame> {
        let code = error.code.unwrap_or_else(|| code_of(error.kind));
        let told = json!({"code": code, "message": error.message, "param": error.param});
        let output: Vec<Value> = self
            .items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let is_cut = self.is_open && index + 1 == self.items.len();
                let status = if is_cut { "incomplete" } else { "completed" };
                item.value(&self.head, &self.echo, index, status)
            })
            .collect();
        let mut response = super::response(&self.head, &self.echo, "failed", &output);
        response["error"] = json!({"code": code, "message": error.message});
        self.is_open = false;
        vec![self.frame("error", told), self.response_frame("response.failed", &response)]
    }
}

/// The word of the specification for a failure.
fn code_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::RateLimited => "rate_limit_exceeded",
        ErrorKind::InvalidRequest | ErrorKind::PayloadTooLarge => "invalid_prompt",
        ErrorKind::Authentication
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::MethodNotAllowed
        | ErrorKind::RequestTimeout
        | ErrorKind::UnsupportedMediaType
        | ErrorKind::Internal
        | ErrorKind::Unavailable => "server_error",
    }
}

impl ReplyStream for ItemStream {
    fn start(&mut self) -> Vec<Frame> {
        let response = super::response(&self.head, &self.echo, "in_progress", &[]);
        let created = self.response_frame("response.created", &response);
        vec![created, self.response_frame("response.in_progress", &response)]
    }

    fn event(&mut self, event: &Event) -> Vec<Frame> {
        match event {
            Event::Reasoning { choice: 0, text } => self.reasoning(text),
            Event::Delta(delta) if delta.choice == 0 => self.delta(delta),
            Event::ToolCall { choice: 0, id, name, .. } => self.call(id, name),
            Event::ToolArguments { choice: 0, fragment, .. } => self.arguments(fragment),
            Event::Finished { reason, totals: Some(totals), .. } => self.finished(*reason, totals),
            Event::Failed(error) => self.failed(error),
            // A response has one choice.
            Event::Started(_)
            | Event::Reasoning { .. }
            | Event::Delta(_)
            | Event::ToolCall { .. }
            | Event::ToolArguments { .. }
            | Event::Finished { .. } => Vec::new(),
        }
    }
}

/// What the frames about an item of one kind are called.
#[derive(Clone, Copy)]
struct Names {
    part_added: &'static str,
    delta: &'static str,
    done: &'static str,
    part_done: &'static str,
}

const MESSAGE: Names = Names {
    part_added: "response.content_part.added",
    delta: "response.output_text.delta",
    done: "response.output_text.done",
    part_done: "response.content_part.done",
};

const REASONING: Names = Names {
    part_added: "response.content_part.added",
    delta: "response.reasoning_text.delta",
    done: "response.reasoning_text.done",
    part_done: "response.content_part.done",
};

const SUMMARY: Names = Names {
    part_added: "response.reasoning_summary_part.added",
    delta: "response.reasoning_summary_text.delta",
    done: "response.reasoning_summary_text.done",
    part_done: "response.reasoning_summary_part.done",
};

/// A call has no parts.
const CALL: Names = Names {
    part_added: "",
    delta: "response.function_call_arguments.delta",
    done: "response.function_call_arguments.done",
    part_done: "",
};
