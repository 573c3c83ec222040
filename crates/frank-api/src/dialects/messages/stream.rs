//! A message as it grows: blocks with rising numbers, each ended before the next begins.

use serde_json::{Value, json};

use super::error;
use super::reply::{self, End, usage};
use crate::event::{Event, FinishReason, Usage};
use crate::reply::{Frame, ReplyHead, ReplyStream};

/// Writes the events of one message.
pub(super) struct MessageStream {
    head: ReplyHead,
    /// As far as it is known.
    usage: Usage,
    has_begun: bool,
    /// The block that grows, which is the last that began.
    open: Option<Block>,
    /// Blocks that began.
    n_blocks: usize,
    /// Whether the answer ended in the arguments of a call.
    is_cut: bool,
}

/// A block that grows.
enum Block {
    /// With the text so far, where the client does not see it.
    Thinking(String),
    Text,
    /// With the arguments so far.
    ToolUse(String),
}

impl MessageStream {
    pub(super) fn new(head: ReplyHead) -> Self {
        Self {
            head,
            usage: Usage::default(),
            has_begun: false,
            open: None,
            n_blocks: 0,
            is_cut: false,
        }
    }

    /// The frames that begin the message, where it has not begun. The ping is what clients of the vendor get there too.
    fn begin(&mut self, frames: &mut Vec<Frame>) {
        if self.has_begun {
            return;
        }
        self.has_begun = true;
        let mut message = reply::message(&self.head);
        message["usage"] = usage(&self.usage);
        let start = json!({"type": "message_start", "message": message});
        frames.extend([Frame::named("message_start", &start), ping()]);
    }

    /// Begins a block, after the end of the one that grows.
    fn open(&mut self, block: Block, content: &Value, frames: &mut Vec<Frame>) {
        self.close(frames);
        let index = self.n_blocks;
        let start =
            json!({"type": "content_block_start", "index": index, "content_block": content});
        frames.push(Frame::named("content_block_start", &start));
        self.open = Some(block);
        self.n_blocks += 1;
    }

    /// Ends the block that grows. A call without arguments gets those that every client can parse.
    fn close(&mut self, frames: &mut Vec<Frame>) {
        match self.open.take() {
            None => return,
            Some(Block::Text) => {}
            Some(Block::Thinking(hidden)) => {
                let signature = reply::signature(&hidden, reply::hides_thinking(&self.head));
                frames
                    .push(self.delta(&json!({"type": "signature_delta", "signature": signature})));
            }
            Some(Block::ToolUse(arguments)) => {
                if arguments.is_empty() {
                    frames.push(self.fragment("{}"));
                }
                self.is_cut |= reply::input(&arguments).is_none();
            }
        }
        let stop = json!({"type": "content_block_stop", "index": self.index()});
        frames.push(Frame::named("content_block_stop", &stop));
    }

    /// The number of the last block.
    fn index(&self) -> usize {
        self.n_blocks.saturating_sub(1)
    }

    /// More of the last block.
    fn delta(&self, delta: &Value) -> Frame {
        let data = json!({"type": "content_block_delta", "index": self.index(), "delta": delta});
        Frame::named("content_block_delta", &data)
    }

    fn fragment(&self, json: &str) -> Frame {
        self.delta(&json!({"type": "input_json_delta", "partial_json": json}))
    }

    fn thinking(&mut self, text: &str, frames: &mut Vec<Frame>) {
        if !matches!(self.open, Some(Block::Thinking(_))) {
            let content = json!({"type": "thinking", "thinking": "", "signature": ""});
            self.open(Block::Thinking(String::new()), &content, frames);
        }
        match &mut self.open {
            Some(Block::Thinking(hidden)) if reply::hides_thinking(&self.head) => {
                hidden.push_str(text);
            }
            _ => frames.push(self.delta(&json!({"type": "thinking_delta", "thinking": text}))),
        }
    }

    fn text(&mut self, text: &str, frames: &mut Vec<Frame>) {
        if !matches!(self.open, Some(Block::Text)) {
            self.open(Block::Text, &json!({"type": "text", "text": ""}), frames);
        }
        frames.push(self.delta(&json!({"type": "text_delta", "text": text})));
    }

    fn call(&mut self, id: &str, name: &str, frames: &mut Vec<Frame>) {
        let content = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        self.open(Block::ToolUse(String::new()), &content, frames);
    }

    fn arguments(&mut self, fragment: &str, frames: &mut Vec<Frame>) {
        if let Some(Block::ToolUse(arguments)) = &mut self.open {
            arguments.push_str(fragment);
            frames.push(self.fragment(fragment));
        }
    }

    fn finish(&mut self, reason: FinishReason, stop_text: Option<&str>, frames: &mut Vec<Frame>) {
        self.close(frames);
        let end = End { reason, stop_text, is_cut: self.is_cut };
        let delta = json!({"stop_reason": end.stop_reason(), "stop_sequence": stop_text});
        let last = json!({"type": "message_delta", "delta": delta, "usage": usage(&self.usage)});
        frames.push(Frame::named("message_delta", &last));
        frames.push(Frame::named("message_stop", &json!({"type": "message_stop"})));
    }
}

fn ping() -> Frame {
    Frame::named("ping", &json!({"type": "ping"}))
}

impl ReplyStream for MessageStream {
    /// None: the first one tells how long the prompt is.
    fn start(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    fn event(&mut self, event: &Event) -> Vec<Frame> {
        match event {
            Event::Failed(failure) => return vec![Frame::named("error", &error(failure))],
            Event::Started(usage) => self.usage = *usage,
            Event::Finished { totals: Some(totals), .. } => self.usage = totals.usage,
            _ => {}
        }
        let mut frames = Vec::new();
        self.begin(&mut frames);
        match event {
            Event::Reasoning { text, .. } if !text.is_empty() => self.thinking(text, &mut frames),
            Event::Delta(delta) if !delta.text.is_empty() => self.text(&delta.text, &mut frames),
            Event::ToolCall { id, name, .. } => self.call(id, name, &mut frames),
            Event::ToolArguments { fragment, .. } if !fragment.is_empty() => {
                self.arguments(fragment, &mut frames);
            }
            Event::Finished { reason, stop_text, .. } => {
                self.finish(*reason, stop_text.as_deref(), &mut frames);
            }
            _ => {}
        }
        frames
    }

    fn idle(&mut self) -> Option<Frame> {
        self.has_begun.then(ping)
    }
}
