//! Reads an answer character by character: thoughts, text, and calls in the grammar of a format. Since no step sees more
//! than one character, it makes no difference how an answer is cut into pieces.

mod argument;
mod block;
mod call_writer;
mod json_object;
mod relaxed;

use std::mem;

use serde_json::{Map, Value};

use crate::formats::{OutputRules, ReasoningSyntax};
use crate::output::{OutputParser, OutputPart};

pub(crate) use block::{Block, Found, Grammar, Step, Want};
pub(crate) use call_writer::CallWriter;
pub(crate) use relaxed::Relaxed;

/// How the calls of a format are found and read.
pub(crate) struct Syntax {
    /// What stands around thoughts.
    pub(crate) reasoning: ReasoningSyntax,
    /// With what a call may begin in an answer that is kept to nothing.
    pub(crate) openings: &'static [Opening],
    /// With what it begins in an answer that is kept to the format's own calls.
    pub(crate) kept: Opening,
    /// What follows.
    pub(crate) grammar: Grammar,
}

/// With what a call begins.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) text: &'static str,
    /// Whether it means anything only where the answer begins.
    only_at_start: bool,
    /// Whether the grammar reads it too.
    is_read: bool,
}

impl Opening {
    /// A text that begins a call wherever it stands.
    pub(crate) const fn mark(text: &'static str) -> Self {
        Self { text, only_at_start: false, is_read: false }
    }

    /// A text with which an answer begins that is a call, and which is part of it.
    pub(crate) const fn start(text: &'static str) -> Self {
        Self { text, only_at_start: true, is_read: true }
    }

    /// The same, wherever it stands.
    pub(crate) const fn tag(text: &'static str) -> Self {
        Self { text, only_at_start: false, is_read: true }
    }
}

/// What is being read.
enum Phase {
    Text,
    Reasoning,
    Calls(Box<Block>),
}

/// What a marker in the text begins.
#[derive(Clone, Copy)]
enum Marker {
    Reasoning,
    Calls(Opening),
}

/// The parser of every format whose answers are thoughts, text and calls in a row.
pub(crate) struct FormatReader {
    syntax: &'static Syntax,
    rules: OutputRules,
    phase: Phase,
    /// The end of what was read, while it may be the start of a marker.
    held: String,
    /// White space that is part of the text only if text follows.
    space: String,
    /// What was read of a call that may yet be no call.
    raw: String,
    told: Vec<OutputPart>,
    /// Nothing but white space and thoughts came before.
    is_start: bool,
    /// No thoughts came before either.
    may_think: bool,
    drops_space: bool,
    /// Whether a call of the block that is being read was told.
    has_called: bool,
}

impl FormatReader {
    pub(crate) fn boxed(syntax: &'static Syntax, rules: &OutputRules) -> Box<dyn OutputParser> {
        let begins_in_reasoning = rules.begins_in_reasoning;
        Box::new(Self {
            syntax,
            rules: rules.clone(),
            phase: if begins_in_reasoning { Phase::Reasoning } else { Phase::Text },
            held: String::new(),
            space: String::new(),
            raw: String::new(),
            told: Vec::new(),
            is_start: true,
            may_think: true,
            drops_space: begins_in_reasoning,
            has_called: false,
        })
    }

    fn feed(&mut self, c: char) {
        match &self.phase {
            Phase::Text => self.feed_text(c),
            Phase::Reasoning => self.feed_reasoning(c),
            Phase::Calls(_) => {
                let rest = self.feed_call(c);
                rest.chars().for_each(|c| self.feed(c));
            }
        }
    }

    fn feed_text(&mut self, c: char) {
        self.held.push(c);
        while !self.held.is_empty() {
            if let Some(marker) = self.marker_held() {
                self.held.clear();
                return self.begin(marker);
            }
            if self.may_become_marker() {
                return;
            }
            let first = self.held.remove(0);
            self.tell_char(first, OutputPart::Text);
        }
    }

    /// Openings of calls that mean something here.
    fn openings(&self) -> &[Opening] {
        let kept = std::slice::from_ref(&self.syntax.kept);
        match (self.rules.tools.is_empty(), self.rules.is_kept) {
            (true, _) => &[],
            (false, true) => kept,
            (false, false) => self.syntax.openings,
        }
    }

    fn live_openings(&self) -> impl Iterator<Item = &Opening> {
        self.openings().iter().filter(|opening| self.is_start || !opening.only_at_start)
    }

    fn marker_held(&self) -> Option<Marker> {
        if self.may_think && self.held == self.syntax.reasoning.opening {
            return Some(Marker::Reasoning);
        }
        let found = self.live_openings().find(|opening| opening.text == self.held);
        found.map(|opening| Marker::Calls(*opening))
    }

    fn may_become_marker(&self) -> bool {
        (self.may_think && self.syntax.reasoning.opening.starts_with(&self.held))
            || self.live_openings().any(|opening| opening.text.starts_with(&self.held))
    }

    fn begin(&mut self, marker: Marker) {
        match marker {
            Marker::Reasoning => {
                self.space.clear();
                self.drops_space = true;
                self.phase = Phase::Reasoning;
            }
            Marker::Calls(opening) => {
                self.has_called = false;
                let calls = CallWriter::new(self.rules.tools.clone());
                let block = Block::new(self.syntax.grammar, opening.text, calls);
                self.phase = Phase::Calls(Box::new(block));
                self.raw.clear();
                if opening.is_read {
                    opening.text.chars().for_each(|c| self.feed(c));
                } else {
                    self.raw.push_str(opening.text);
                }
            }
        }
    }

    fn feed_reasoning(&mut self, c: char) {
        let ReasoningSyntax { opening, closing } = self.syntax.reasoning;
        self.held.push(c);
        while !self.held.is_empty() {
            if self.held == closing {
                self.held.clear();
                self.space.clear();
                self.drops_space = true;
                self.may_think = false;
                self.phase = Phase::Text;
                return;
            }
            // A model may open its thoughts though the prompt did so already.
            let may_open = self.may_think && self.rules.begins_in_reasoning;
            if may_open && self.held == opening {
                self.held.clear();
                self.may_think = false;
                return;
            }
            if closing.starts_with(&self.held) || may_open && opening.starts_with(&self.held) {
                return;
            }
            let first = self.held.remove(0);
            self.tell_char(first, OutputPart::Reasoning);
        }
    }

    /// Tells one character. White space waits for what comes after it.
    fn tell_char(&mut self, c: char, part: fn(String) -> OutputPart) {
        if c.is_whitespace() {
            if !self.drops_space {
                self.space.push(c);
            }
            return;
        }
        self.space.push(c);
        add_part(&mut self.told, part(mem::take(&mut self.space)));
        self.drops_space = false;
        self.may_think = false;
        self.is_start &= matches!(self.phase, Phase::Reasoning);
    }

    /// Reads on in a call, and gives what is to be read again as text.
    fn feed_call(&mut self, c: char) -> String {
        let Phase::Calls(block) = &mut self.phase else { return String::new() };
        self.raw.push(c);
        let step = block.feed(c);
        let is_refused = if self.rules.is_kept { self.tell_kept() } else { self.tell_whole() };
        match step {
            _ if is_refused => self.give_up(""),
            Step::More => {
                self.forget_marks();
                String::new()
            }
            Step::Done => {
                self.raw.clear();
                self.end_calls();
                String::new()
            }
            Step::Broken { rest } => self.give_up(&rest),
        }
    }

    /// Tells all there is of a call. Nothing is refused.
    fn tell_kept(&mut self) -> bool {
        let Phase::Calls(block) = &mut self.phase else { return false };
        let parts = mem::take(&mut block.calls.parts);
        if !parts.is_empty() {
            self.accept(parts);
        }
        false
    }

    /// Tells a call if it just became whole, and whether it is to be refused.
    fn tell_whole(&mut self) -> bool {
        let Phase::Calls(block) = &mut self.phase else { return false };
        if block.calls.parts.last() != Some(&OutputPart::CallEnd) {
            return false;
        }
        let parts = mem::take(&mut block.calls.parts);
        if !is_call(&parts, &self.rules) {
            return true;
        }
        self.accept(parts);
        false
    }

    fn accept(&mut self, parts: Vec<OutputPart>) {
        parts.into_iter().for_each(|part| add_part(&mut self.told, part));
        self.raw.clear();
        self.space.clear();
        self.drops_space = true;
        self.has_called = true;
    }

    /// Marks between calls that were told are no text, whatever follows.
    fn forget_marks(&mut self) {
        if let Phase::Calls(block) = &self.phase
            && self.has_called
            && block.is_between_marks()
        {
            self.raw.clear();
        }
    }

    fn end_calls(&mut self) {
        self.phase = Phase::Text;
        self.is_start = false;
        self.may_think = false;
    }

    /// Makes text of what is no call, but for `rest` at its end, which is given back.
    fn give_up(&mut self, rest: &str) -> String {
        let raw = mem::take(&mut self.raw);
        self.end_calls();
        let text = raw.strip_suffix(rest).unwrap_or(&raw);
        text.chars().for_each(|c| self.tell_char(c, OutputPart::Text));
        rest.to_owned()
    }
}

impl OutputParser for FormatReader {
    fn push(&mut self, piece: &str) -> Vec<OutputPart> {
        piece.chars().for_each(|c| self.feed(c));
        mem::take(&mut self.told)
    }

    fn finish(&mut self) -> Vec<OutputPart> {
        let held = mem::take(&mut self.held);
        match &self.phase {
            Phase::Text => held.chars().for_each(|c| self.tell_char(c, OutputPart::Text)),
            Phase::Reasoning => {
                held.chars().for_each(|c| self.tell_char(c, OutputPart::Reasoning));
                self.space.clear();
            }
            // A mark that would only have closed what was told is missed by nobody.
            Phase::Calls(block) if self.has_called && block.awaits_mark() => {}
            // What began is a call and can be nothing else, whether its name came or not.
            Phase::Calls(_) if self.rules.is_kept => {}
            Phase::Calls(_) => {
                self.give_up("");
            }
        }
        if !self.space.is_empty() {
            let space = mem::take(&mut self.space);
            add_part(&mut self.told, OutputPart::Text(space));
        }
        mem::take(&mut self.told)
    }
}

/// Adds a part, to the last one if both are of one kind.
pub(crate) fn add_part(parts: &mut Vec<OutputPart>, part: OutputPart) {
    match (parts.last_mut(), &part) {
        (Some(OutputPart::Text(text)), OutputPart::Text(more))
        | (Some(OutputPart::Reasoning(text)), OutputPart::Reasoning(more))
        | (Some(OutputPart::CallArguments(text)), OutputPart::CallArguments(more)) => {
            text.push_str(more);
        }
        _ => parts.push(part),
    }
}

/// Whether the parts of one call name a tool and hold a JSON object.
pub(crate) fn is_call(parts: &[OutputPart], rules: &OutputRules) -> bool {
    let mut arguments = String::new();
    let mut is_known = false;
    for part in parts {
        match part {
            OutputPart::CallStart { name, .. } => {
                is_known = rules.tools.iter().any(|tool| tool.name == *name);
            }
            OutputPart::CallArguments(text) => arguments.push_str(text),
            OutputPart::Text(_) | OutputPart::Reasoning(_) | OutputPart::CallEnd => {}
        }
    }
    is_known && serde_json::from_str::<Map<String, Value>>(&arguments).is_ok()
}
