//! The messages of gpt-oss: `<|channel|>analysis<|message|>…<|end|>` is thought, `<|channel|>commentary to=functions.NAME
//! <|constrain|>json<|message|>{…}<|call|>` is a call, and what stands in other channels is text.

use std::mem;

use super::{CallRules, CallSyntax, ChatFormat, OutputRules, ReasoningSyntax, any_call};
use crate::arguments::as_object;
use crate::conversation::Tool;
use crate::output::{OutputParser, OutputPart};
use crate::pattern::Pattern;
use crate::reader::{Block, CallWriter, Found, Step, Want, add_part, is_call};

const MESSAGE: &str = "<|message|>";
const CHANNEL: &str = "<|channel|>";

/// What ends the text of a message, well or badly.
const ENDS: [&str; 5] = ["<|end|>", "<|call|>", "<|return|>", "<|start|>", CHANNEL];

/// With what a header may begin.
const HEADER_STARTS: [&str; 9] = [
    "<|start|>",
    CHANNEL,
    "<|constrain|>",
    MESSAGE,
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "assistant",
    "to=",
];

/// Bytes of a header at most.
const HEADER_BYTES_MAX: usize = 512;

const OPENING: &str = "<|channel|>commentary to=functions.";

pub(super) const HARMONY: ChatFormat = ChatFormat {
    name: "harmony",
    answer_opening: "<|channel|>final<|message|>",
    speaks: |source| source.contains(CHANNEL) && source.contains(MESSAGE),
    controls: &[
        "<|start|>",
        "<|end|>",
        MESSAGE,
        CHANNEL,
        "<|constrain|>",
        "<|call|>",
        "<|return|>",
    ],
    parser: |rules| Box::new(HarmonyReader::new(rules)),
    calls: |rules: &CallRules| CallSyntax {
        opening: OPENING.to_owned(),
        // What follows a call ends the answer, so there is one.
        rest: any_call(rules, call),
        only_at_start: false,
    },
    // The answer's own channel follows, whether it is text or a call.
    reasoning: ReasoningSyntax {
        opening: "<|channel|>analysis<|message|>",
        closing: "<|end|><|start|>assistant",
    },
};

fn call(tool: &Tool) -> Pattern {
    let name = format!("{} ", tool.name);
    let mut parts = Pattern::literals(&[&name, "<|constrain|>", "json", MESSAGE]);
    parts.push(as_object(tool));
    Pattern::Sequence(parts)
}

/// Where the next character stands.
enum Place {
    Header,
    Body(Channel),
    Call(Box<Block>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Reasoning,
    Text,
}

struct HarmonyReader {
    rules: OutputRules,
    place: Place,
    header: String,
    /// The end of a message, while it may be the start of a mark.
    held: String,
    /// What was read of a call, header included.
    raw: String,
    told: Vec<OutputPart>,
    /// Whether a message of each channel was told, so that the next one begins in a paragraph of its own.
    has_thought: bool,
    has_text: bool,
    is_new_message: bool,
}

impl HarmonyReader {
    fn new(rules: &OutputRules) -> Self {
        let place = match rules.begins_in_reasoning {
            true => Place::Body(Channel::Reasoning),
            false => Place::Header,
        };
        Self {
            rules: rules.clone(),
            place,
            header: String::new(),
            held: String::new(),
            raw: String::new(),
            told: Vec::new(),
            has_thought: false,
            has_text: false,
            is_new_message: true,
        }
    }

    fn feed(&mut self, c: char) {
        match &self.place {
            Place::Header => self.feed_header(c),
            Place::Body(channel) => self.feed_body(c, *channel),
            Place::Call(_) => self.feed_call(c),
        }
    }

    fn feed_header(&mut self, c: char) {
        self.header.push(c);
        if self.header.ends_with(MESSAGE) {
            let header = mem::take(&mut self.header);
            return self.begin_message(header);
        }
        let start = self.header.trim_start();
        let may_be_header = self.header.len() < HEADER_BYTES_MAX
            && HEADER_STARTS.iter().any(|mark| start.starts_with(mark) || mark.starts_with(start));
        if !may_be_header {
            // A message without a header is what the model says.
            let text = mem::take(&mut self.header);
            self.begin_body(Channel::Text);
            text.chars().for_each(|c| self.feed_body(c, Channel::Text));
        }
    }

    fn begin_message(&mut self, header: String) {
        let word_after = |mark: &str| {
            let rest = &header[header.find(mark)? + mark.len()..];
            rest.split(|c: char| c.is_whitespace() || c == '<').next()
        };
        if let Some(recipient) = word_after("to=") {
            let name = recipient.strip_prefix("functions.").unwrap_or(recipient);
            let mut calls = CallWriter::new(self.rules.tools.clone());
            calls.start(None, name.to_owned());
            self.place = Place::Call(Box::new(Block::new(arguments, "", calls)));
            self.raw = header;
            return;
        }
        let is_thought = word_after(CHANNEL) == Some("analysis");
        self.begin_body(if is_thought { Channel::Reasoning } else { Channel::Text });
    }

    fn begin_body(&mut self, channel: Channel) {
        self.is_new_message = true;
        self.place = Place::Body(channel);
    }

    fn feed_body(&mut self, c: char, channel: Channel) {
        self.held.push(c);
        while !self.held.is_empty() {
            if let Some(end) = ENDS.iter().find(|end| **end == self.held) {
                self.held.clear();
                self.place = Place::Header;
                // These two are the beginning of the next message.
                if matches!(*end, "<|start|>" | CHANNEL) {
                    self.header.push_str(end);
                }
                return;
            }
            if ENDS.iter().any(|end| end.starts_with(&self.held)) {
                return;
            }
            let first = self.held.remove(0);
            self.tell_char(first, channel);
        }
    }

    fn tell_char(&mut self, c: char, channel: Channel) {
        let (has_told, part): (_, fn(String) -> OutputPart) = match channel {
            Channel::Reasoning => (&mut self.has_thought, OutputPart::Reasoning),
            Channel::Text => (&mut self.has_text, OutputPart::Text),
        };
        let is_new = mem::take(&mut self.is_new_message);
        if mem::replace(has_told, true) && is_new {
            add_part(&mut self.told, part("\n\n".to_owned()));
        }
        add_part(&mut self.told, part(c.to_string()));
    }

    fn feed_call(&mut self, c: char) {
        let Place::Call(block) = &mut self.place else { return };
        self.raw.push(c);
        let step = block.feed(c);
        if self.rules.is_kept {
            let parts = mem::take(&mut block.calls.parts);
            parts.into_iter().for_each(|part| add_part(&mut self.told, part));
        }
        match step {
            Step::More => {}
            Step::Done => self.end_call(),
            Step::Broken { .. } => self.give_up(),
        }
    }

    fn end_call(&mut self) {
        let Place::Call(block) = &mut self.place else { return };
        let parts = mem::take(&mut block.calls.parts);
        if !self.rules.is_kept && !is_call(&parts, &self.rules) {
            return self.give_up();
        }
        self.told.extend(parts);
        self.place = Place::Header;
    }

    /// Makes text of what is no call.
    fn give_up(&mut self) {
        let raw = mem::take(&mut self.raw);
        self.begin_body(Channel::Text);
        raw.chars().for_each(|c| self.tell_char(c, Channel::Text));
    }
}

/// The body of a call is its arguments.
fn arguments(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening(_) => Want::Arguments { has_begun: false },
        _ => {
            calls.end();
            Want::Done
        }
    }
}

impl OutputParser for HarmonyReader {
    fn push(&mut self, piece: &str) -> Vec<OutputPart> {
        piece.chars().for_each(|c| self.feed(c));
        mem::take(&mut self.told)
    }

    fn finish(&mut self) -> Vec<OutputPart> {
        let held = mem::take(&mut self.held);
        match &self.place {
            Place::Body(channel) => {
                let channel = *channel;
                held.chars().for_each(|c| self.tell_char(c, channel));
            }
            Place::Call(_) if self.rules.is_kept => {}
            Place::Call(_) => self.give_up(),
            // Marks alone say nothing; words are what the model says.
            Place::Header if self.header.contains('<') || self.has_text || self.has_thought => {}
            Place::Header => {
                let text = mem::take(&mut self.header);
                text.chars().for_each(|c| self.tell_char(c, Channel::Text));
            }
        }
        mem::take(&mut self.told)
    }
}
