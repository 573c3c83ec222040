//! Reads a block of calls. A grammar says what it wants next and is told what was found.

use super::argument::ArgumentText;
use super::call_writer::CallWriter;
use super::json_object::{CallObject, Fed, JsonObject};
use super::relaxed::{Relaxed, RelaxedValue};

/// Bytes of a name at most.
const NAME_BYTES_MAX: usize = 256;

/// What a grammar wants next.
#[derive(Clone, Copy)]
pub(crate) enum Want {
    /// One of these texts. White space before it means nothing. None of them is the start of another.
    OneOf(&'static [&'static str]),
    /// Whatever the next character is that is not white space; it is read once more.
    Peek,
    /// A name of letters, digits and a few signs, up to one of these texts.
    Word(&'static [&'static str]),
    /// The name of an argument, up to this text.
    Key(&'static str),
    /// An argument as text, up to `end`.
    Argument {
        end: &'static str,
        /// Whether the line breaks at both ends are not part of it.
        trims: bool,
        /// Whether it is a string, where the format says so. The tool's schema knows otherwise.
        is_string: Option<bool>,
    },
    /// A JSON object with all arguments.
    Arguments {
        /// Whether its brace was read.
        has_begun: bool,
    },
    /// A JSON object that is the whole call.
    Call,
    /// One value in a notation other than JSON's. What ends it is read once more.
    Value(Relaxed),
    /// The block is over.
    Done,
    /// This is no call.
    Broken,
}

/// What a grammar is told.
#[derive(Clone, Copy)]
pub(crate) enum Found<'a> {
    /// The text with which the block began.
    Opening(&'a str),
    Literal(&'static str),
    Next(char),
    /// A word and the text that ended it.
    Word(&'a str, &'static str),
    Key(&'a str),
    Argument,
    Arguments,
    Call,
    Value,
}

/// What comes after what was found.
pub(crate) type Grammar = fn(Found<'_>, &mut CallWriter) -> Want;

/// What became of a character.
pub(crate) enum Step {
    More,
    Done,
    /// This is no call. `rest` is the end of what was read; it may begin something else.
    Broken {
        rest: String,
    },
}

enum State {
    OneOf { texts: &'static [&'static str], held: String },
    Peek,
    Name { ends: Vec<&'static str>, is_key: bool, name: String, held: String },
    Argument(ArgumentText),
    Arguments(JsonObject),
    Call(Box<CallObject>),
    Value(RelaxedValue),
    Done,
    Broken,
}

/// A block of calls that is being read.
pub(crate) struct Block {
    grammar: Grammar,
    state: State,
    pub(crate) calls: CallWriter,
}

impl Block {
    pub(crate) fn new(grammar: Grammar, opening: &str, mut calls: CallWriter) -> Self {
        let want = grammar(Found::Opening(opening), &mut calls);
        let state = State::of(want, &mut calls);
        Self { grammar, state, calls }
    }

    /// Whether nothing is missing but a mark.
    pub(super) fn awaits_mark(&self) -> bool {
        matches!(self.state, State::OneOf { .. } | State::Peek) && !self.calls.is_open()
    }

    /// Whether a mark may begin with the next character.
    pub(super) fn is_between_marks(&self) -> bool {
        let has_begun = matches!(&self.state, State::OneOf { held, .. } if !held.is_empty());
        self.awaits_mark() && !has_begun
    }

    pub(crate) fn feed(&mut self, c: char) -> Step {
        match &mut self.state {
            State::OneOf { texts, held } => {
                if held.is_empty() && c.is_whitespace() {
                    return Step::More;
                }
                held.push(c);
                if let Some(text) = texts.iter().find(|text| *text == held) {
                    return self.advance(Found::Literal(text));
                }
                let may_follow = texts.iter().any(|text| text.starts_with(&*held));
                if may_follow { Step::More } else { broken(std::mem::take(held)) }
            }
            State::Peek if c.is_whitespace() => Step::More,
            State::Peek => match self.advance(Found::Next(c)) {
                Step::More => self.feed(c),
                Step::Done => Step::Done,
                Step::Broken { .. } => broken(c.to_string()),
            },
            State::Name { .. } => self.feed_name(c),
            State::Argument(argument) => match argument.feed(c, &mut self.calls) {
                true => self.advance(Found::Argument),
                false => Step::More,
            },
            State::Arguments(object) => {
                let mut json = String::new();
                let fed = object.feed(c, &mut json);
                self.calls.add(&json);
                self.after(fed, c, Found::Arguments)
            }
            State::Call(object) => {
                let fed = object.feed(c, &mut self.calls);
                self.after(fed, c, Found::Call)
            }
            State::Value(value) => {
                let mut json = String::new();
                let fed = value.feed(c, &mut json);
                self.calls.add(&json);
                match fed {
                    Fed::More => Step::More,
                    Fed::Broken => broken(c.to_string()),
                    Fed::End => match self.advance(Found::Value) {
                        Step::More => self.feed(c),
                        other => other,
                    },
                }
            }
            State::Done | State::Broken => broken(c.to_string()),
        }
    }

    fn feed_name(&mut self, c: char) -> Step {
        let State::Name { ends, is_key, name, held } = &mut self.state else { return Step::More };
        held.push(c);
        while !held.is_empty() {
            if let Some(end) = ends.iter().find(|end| *end == held) {
                let (word, end, is_key) = (name.trim().to_owned(), *end, *is_key);
                if word.is_empty() {
                    return broken(held.clone());
                }
                let found = if is_key { Found::Key(&word) } else { Found::Word(&word, end) };
                return self.advance(found);
            }
            if ends.iter().any(|end| end.starts_with(&*held)) {
                return Step::More;
            }
            let first = held.remove(0);
            let fits = if *is_key { fits_in_key(first) } else { fits_in_word(name, first) };
            name.push(first);
            if !fits || name.len() > NAME_BYTES_MAX {
                return broken(format!("{name}{held}"));
            }
        }
        Step::More
    }

    fn after(&mut self, fed: Fed, c: char, found: Found<'_>) -> Step {
        match fed {
            Fed::More => Step::More,
            Fed::End => self.advance(found),
            Fed::Broken => broken(c.to_string()),
        }
    }

    fn advance(&mut self, found: Found<'_>) -> Step {
        let want = (self.grammar)(found, &mut self.calls);
        self.state = State::of(want, &mut self.calls);
        match self.state {
            State::Done => Step::Done,
            State::Broken => broken(String::new()),
            _ => Step::More,
        }
    }
}

impl State {
    fn of(want: Want, calls: &mut CallWriter) -> Self {
        let name = |ends: &[&'static str], is_key| Self::Name {
            ends: ends.to_vec(),
            is_key,
            name: String::new(),
            held: String::new(),
        };
        match want {
            Want::OneOf(texts) => Self::OneOf { texts, held: String::new() },
            Want::Peek => Self::Peek,
            Want::Word(ends) => name(ends, false),
            Want::Key(end) => name(&[end], true),
            Want::Argument { end, trims, is_string } => {
                Self::Argument(ArgumentText::new(end, trims, is_string, calls))
            }
            Want::Arguments { has_begun: false } => Self::Arguments(JsonObject::default()),
            Want::Arguments { has_begun: true } => {
                calls.add("{");
                Self::Arguments(JsonObject::begun())
            }
            Want::Call => Self::Call(Box::new(CallObject::new())),
            Want::Value(relaxed) => Self::Value(RelaxedValue::new(relaxed)),
            Want::Done => Self::Done,
            Want::Broken => Self::Broken,
        }
    }
}

fn broken(rest: String) -> Step {
    Step::Broken { rest }
}

/// Whether a character may follow in the name of an argument. What opens marks of all formats may not.
fn fits_in_key(c: char) -> bool {
    c != '<' && c != '\n'
}

/// Whether a character may follow in a word. White space stands only around it.
fn fits_in_word(word: &str, c: char) -> bool {
    if c.is_whitespace() {
        return true;
    }
    let is_sign = matches!(c, '_' | '-' | '.' | ':' | '/' | '@' | '$');
    let has_ended = !word.trim_start().is_empty() && word.ends_with(char::is_whitespace);
    !has_ended && (is_sign || c.is_alphanumeric())
}
