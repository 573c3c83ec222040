//! The two shapes of a reply: a stream of frames, or one body.

use frank_chat::{Message, Role, ToolCall};
use serde_json::Value;

use crate::event::{Event, FinishReason, TokenLogprob, Totals};

/// What every part of a reply repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplyHead {
    /// Identifies the reply, with the dialect's prefix.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The model's name as it is served.
    pub model: String,
    /// What the dialect kept of the request to tell it again: [`AnswerOptions::echo`](crate::AnswerOptions::echo).
    pub echo: Value,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// At least one.
    pub choices: Vec<Choice>,
    /// What they took together.
    pub totals: Totals,
}

/// One of several answers to the same request.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What the model thought.
    pub reasoning: String,
    /// Its text.
    pub text: String,
    /// Its tokens, where the client asked for them.
    pub logprobs: Option<Vec<TokenLogprob>>,
    /// The tools that it calls.
    pub calls: Vec<Call>,
    /// Why it ended.
    pub reason: FinishReason,
    /// The stop text that ended it, where one did.
    pub stop_text: Option<String>,
    /// How thoughts, text and calls follow each other. Read it as [`Choice::parts`].
    pub runs: Vec<Run>,
}

/// How long a choice is of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// It thinks.
    Reasoning {
        /// Of its reasoning.
        bytes: usize,
    },
    /// It says something.
    Text {
        /// Of its text.
        bytes: usize,
        /// Tokens that begin in it, where the client asked for them.
        n_logprobs: usize,
    },
    /// It calls a tool.
    Call,
}

/// A part of a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// It thinks.
    Reasoning(&'a str),
    /// It says something.
    Text {
        /// What it says.
        text: &'a str,
        /// The tokens that begin in it, where the client asked for them.
        logprobs: Option<&'a [TokenLogprob]>,
    },
    /// It calls a tool.
    Call(&'a Call),
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Names the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// A JSON object, unless the answer was cut off in it.
    pub arguments: String,
}

impl Default for Choice {
    /// As long as nothing of it is certain.
    fn default() -> Self {
        Self {
            reasoning: String::new(),
            text: String::new(),
            logprobs: None,
            calls: Vec::new(),
            reason: FinishReason::Length,
            stop_text: None,
            runs: Vec::new(),
        }
    }
}

impl Choice {
    /// Adds what an event of this choice tells.
    pub fn push(&mut self, event: Event) {
        self.runs_on(&event);
        match event {
            Event::Reasoning { text, .. } => self.reasoning.push_str(&text),
            Event::Delta(delta) => {
                self.text.push_str(&delta.text);
                if let Some(more) = delta.logprobs {
                    self.logprobs.get_or_insert_default().extend(more);
                }
            }
            Event::ToolCall { id, name, .. } => {
                self.calls.push(Call { id, name, arguments: String::new() });
            }
            Event::ToolArguments { fragment, .. } => {
                if let Some(call) = self.calls.last_mut() {
                    call.arguments.push_str(&fragment);
                }
            }
            Event::Finished { reason, stop_text, .. } => {
                self.reason = reason;
                self.stop_text = stop_text;
            }
            Event::Started(_) | Event::Failed(_) => {}
        }
    }

    fn runs_on(&mut self, event: &Event) {
        let more = match event {
            Event::Reasoning { text, .. } => Run::Reasoning { bytes: text.len() },
            Event::Delta(delta) => {
                let n_logprobs = delta.logprobs.as_ref().map_or(0, Vec::len);
                Run::Text { bytes: delta.text.len(), n_logprobs }
            }
            Event::ToolCall { .. } => Run::Call,
            Event::ToolArguments { .. }
            | Event::Finished { .. }
            | Event::Started(_)
            | Event::Failed(_) => return,
        };
        match (self.runs.last_mut(), more) {
            (_, Run::Reasoning { bytes: 0 } | Run::Text { bytes: 0, n_logprobs: 0 }) => {}
            (Some(Run::Reasoning { bytes }), Run::Reasoning { bytes: more }) => *bytes += more,
            (Some(Run::Text { bytes, n_logprobs }), Run::Text { bytes: more, n_logprobs: n }) => {
                *bytes += more;
                *n_logprobs += n;
            }
            (_, run) => self.runs.push(run),
        }
    }

    /// What the choice is made of, in its order: two neighbours of one kind are calls. Of a choice that no events made it is
    /// thoughts, text, calls.
    #[must_use]
    pub fn parts(&self) -> Vec<Part<'_>> {
        self.parts_by(&self.runs).or_else(|| self.parts_by(&self.usual_runs())).unwrap_or_default()
    }

    fn usual_runs(&self) -> Vec<Run> {
        let n_logprobs = self.logprobs.as_ref().map_or(0, Vec::len);
        let thoughts =
            (!self.reasoning.is_empty()).then_some(Run::Reasoning { bytes: self.reasoning.len() });
        let text = (!self.text.is_empty() || n_logprobs > 0)
            .then_some(Run::Text { bytes: self.text.len(), n_logprobs });
        let calls = self.calls.iter().map(|_| Run::Call);
        thoughts.into_iter().chain(text).chain(calls).collect()
    }

    /// The parts that `runs` cut, if they cut all of the choice and no more.
    fn parts_by(&self, runs: &[Run]) -> Option<Vec<Part<'_>>> {
        let (mut reasoning, mut text) = (self.reasoning.as_str(), self.text.as_str());
        let mut logprobs = self.logprobs.as_deref();
        let mut calls = self.calls.iter();
        let mut parts = Vec::new();
        for run in runs {
            parts.push(match run {
                Run::Reasoning { bytes } => {
                    let (part, rest) = reasoning.split_at_checked(*bytes)?;
                    reasoning = rest;
                    Part::Reasoning(part)
                }
                Run::Text { bytes, n_logprobs } => {
                    let (part, rest) = text.split_at_checked(*bytes)?;
                    text = rest;
                    let (head, tail) =
                        logprobs.unwrap_or_default().split_at_checked(*n_logprobs)?;
                    let part = Part::Text { text: part, logprobs: logprobs.map(|_| head) };
                    logprobs = logprobs.map(|_| tail);
                    part
                }
                Run::Call => Part::Call(calls.next()?),
            });
        }
        let is_all = reasoning.is_empty()
            && text.is_empty()
            && logprobs.is_none_or(<[_]>::is_empty)
            && calls.next().is_none();
        is_all.then_some(parts)
    }

    /// The choice as a message of the conversation that goes on after it.
    #[must_use]
    pub fn message(&self) -> Message {
        let call = |call: &Call| ToolCall {
            id: Some(call.id.clone()),
            name: call.name.clone(),
            arguments: serde_json::from_str(&call.arguments)
                .unwrap_or_else(|_| Value::String(call.arguments.clone())),
        };
        Message {
            reasoning: (!self.reasoning.is_empty()).then(|| self.reasoning.clone()),
            tool_calls: self.calls.iter().map(call).collect(),
            ..Message::new(Role::Assistant, self.text.clone())
        }
    }
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the event, where the dialect has names.
    pub event: Option<&'static str>,
    /// One line of data.
    pub data: String,
}

impl Frame {
    /// A frame with a name.
    pub(crate) fn named(event: &'static str, data: &Value) -> Self {
        Self { event: Some(event), data: data.to_string() }
    }

    /// A frame without a name.
    pub(crate) fn json(data: &Value) -> Self {
        Self { event: None, data: data.to_string() }
    }

    /// The frame that says that no other follows.
    pub(crate) fn done() -> Self {
        Self { event: None, data: "[DONE]".to_owned() }
    }
}

/// Writes an answer as a dialect's frames.
pub trait ReplyStream: Send {
    /// Frames before the first event.
    fn start(&mut self) -> Vec<Frame>;

    /// Frames for an event. Those of the last event end the stream.
    fn event(&mut self, event: &Event) -> Vec<Frame>;

    /// A frame for a time without events, where the dialect has one. Without it a comment keeps the connection alive.
    fn idle(&mut self) -> Option<Frame> {
        None
    }
}
