//! One of the answers to a request as it grows: tokens become text, text becomes thoughts, words and calls, and a stop
//! text ends it. Never waits.

use std::sync::Arc;

use frank_api::{Alternative, Choice, Delta, Event, TokenLogprob};
use frank_chat::{OutputParser, OutputPart, OutputRules};
use frank_engine::{Token, TokenLogprobs};
use frank_tokenizer::{Detokenizer, Tokenizer};

use crate::aligned_logprobs::AlignedLogprobs;
use crate::stop::{Passed, StopMatcher};
use crate::voice::Voice;

/// What a client wants of each answer, as far as it concerns the text.
#[derive(Clone, Debug)]
pub(crate) struct TextRules {
    /// Texts that end the answer.
    pub(crate) stop: Vec<String>,
    /// Tokens before which no stop text ends it.
    pub(crate) min_tokens: u64,
    /// Whether the client wants to know how likely the tokens were.
    pub(crate) tells_logprobs: bool,
    /// How thoughts and calls are told from text; without it all is text.
    pub(crate) reading: Option<Reading>,
}

/// How the parts of an answer are told from each other.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) voice: Arc<Voice>,
    pub(crate) rules: OutputRules,
    /// Whether an answer may call more than one tool.
    pub(crate) parallel: bool,
    /// Whether it can be nothing but calls: text in it is the start of one that was cut off.
    pub(crate) is_calls_only: bool,
    /// What the dialect's ids of calls start with.
    pub(crate) call_id_prefix: &'static str,
}

impl Reading {
    fn parser(&self) -> Box<dyn OutputParser> {
        (self.voice.format.parser)(&self.rules)
    }
}

/// One answer as it grows.
pub(crate) struct ChoiceText {
    choice: u32,
    tokenizer: Arc<Tokenizer>,
    detokenizer: Detokenizer,
    parts: Option<Parts>,
    stops: StopMatcher,
    min_tokens: u64,
    n_tokens: u64,
    logprobs: Option<AlignedLogprobs>,
}

/// An answer that is read part by part.
struct Parts {
    parser: Box<dyn OutputParser>,
    parallel: bool,
    is_calls_only: bool,
    call_id_prefix: &'static str,
    /// Calls that have begun.
    n_calls: u32,
    is_reasoning: bool,
    reasoning_tokens: u64,
}

/// What became certain of an answer.
#[derive(Default)]
pub(crate) struct Grown {
    /// What is to be sent.
    pub(crate) events: Vec<Event>,
    /// Why the answer ends here, where it does. Nothing more may be added then.
    pub(crate) ended: Option<Ended>,
}

/// The end of an answer, other than that of its tokens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// This stop text appeared.
    Stopped(String),
    /// It made the one call that it may.
    Called,
}

impl ChoiceText {
    /// An answer without a token.
    pub(crate) fn new(choice: u32, tokenizer: &Arc<Tokenizer>, rules: &TextRules) -> Self {
        let reading = rules.reading.as_ref();
        let detokenizer = reading.map_or_else(
            || Detokenizer::new(Arc::clone(tokenizer)),
            |reading| reading.voice.detokenizer(tokenizer),
        );
        Self {
            choice,
            tokenizer: Arc::clone(tokenizer),
            detokenizer,
            parts: reading.map(Parts::new),
            stops: StopMatcher::new(&rules.stop),
            min_tokens: rules.min_tokens,
            n_tokens: 0,
            logprobs: rules.tells_logprobs.then(AlignedLogprobs::default),
        }
    }

    /// The whole answer as long as nothing of it is certain.
    pub(crate) fn empty(&self) -> Choice {
        let logprobs = self.logprobs.as_ref().map(|_| Vec::new());
        Choice { logprobs, ..Choice::default() }
    }

    /// Whether it called a tool.
    pub(crate) fn has_called(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.n_calls > 0)
    }

    /// Tokens that were thoughts.
    pub(crate) fn reasoning_tokens(&self) -> u64 {
        self.parts.as_ref().map_or(0, |parts| parts.reasoning_tokens)
    }

    /// Adds a token.
    pub(crate) fn push(&mut self, token: &Token) -> Grown {
        self.n_tokens += 1;
        let text = self.detokenizer.push(token.token_id);
        if let (Some(aligned), Some(logprobs)) = (&mut self.logprobs, &token.logprobs) {
            let told = told(&self.tokenizer, token.token_id, logprobs);
            // The text of a part is not that of its tokens: they go with the text that is sent next.
            aligned.push(told, if self.parts.is_some() { "" } else { &text });
        }
        let mut grown = Grown::default();
        self.read(&text, &mut grown);
        if let Some(parts) = &mut self.parts {
            parts.reasoning_tokens += u64::from(parts.is_reasoning);
        }
        grown
    }

    /// Ends the answer where the model did.
    pub(crate) fn finish(&mut self) -> Grown {
        let mut grown = Grown::default();
        let tail = self.detokenizer.finish();
        self.read(&tail, &mut grown);
        let rest = match &mut self.parts {
            Some(parts) if grown.ended.is_none() => parts.parser.finish(),
            _ => Vec::new(),
        };
        self.take_all(rest, &mut grown);
        if grown.ended.is_none() {
            self.say_held(&mut grown);
        }
        grown
    }

    /// Takes more of the raw text of the answer.
    fn read(&mut self, text: &str, grown: &mut Grown) {
        match &mut self.parts {
            None => self.say(text, grown),
            Some(parts) => {
                let parts = parts.parser.push(text);
                self.take_all(parts, grown);
            }
        }
    }

    fn take_all(&mut self, parts: Vec<OutputPart>, grown: &mut Grown) {
        for part in parts {
            if grown.ended.is_none() {
                self.take(part, grown);
            }
        }
    }

    fn take(&mut self, part: OutputPart, grown: &mut Grown) {
        if let OutputPart::Text(text) = part {
            if let Some(parts) = &mut self.parts {
                parts.is_reasoning = false;
                if parts.is_calls_only {
                    return;
                }
            }
            return self.say(&text, grown);
        }
        // Text that may still become a stop text comes before whatever follows it; tokens of no text are told with none.
        let held = self.stops.finish();
        let waiting = self.logprobs.as_mut().map(|aligned| aligned.send_last(held.len()));
        if !held.is_empty() {
            grown.add(Some(Delta { choice: self.choice, text: held, logprobs: waiting }));
        }
        let Some(parts) = &mut self.parts else { return };
        let (event, ended) = parts.take(self.choice, part);
        grown.events.extend(event);
        grown.ended = ended;
    }

    /// Passes `text` on as far as no stop text may begin in it.
    fn say(&mut self, text: &str, grown: &mut Grown) {
        let Passed { text, stop } = if self.n_tokens < self.min_tokens {
            Passed { text: text.to_owned(), stop: None }
        } else {
            self.stops.push(text)
        };
        let (n_bytes, is_parted) = (text.len(), self.parts.is_some());
        // Beside thoughts and calls the place of a token in the text is not known: the last ones make up what is sent.
        let send = |aligned: &mut AlignedLogprobs| match (is_parted, n_bytes) {
            (true, 0) => Vec::new(),
            (true, _) => aligned.send_last(n_bytes),
            (false, _) => aligned.send(n_bytes),
        };
        grown.add(self.delta(text, send));
        grown.ended = stop.map(Ended::Stopped);
    }

    /// Passes on what was held back: no stop text began in it after all.
    fn say_held(&mut self, grown: &mut Grown) {
        let held = self.stops.finish();
        grown.add(self.delta(held, AlignedLogprobs::send_rest));
    }

    fn delta(
        &mut self,
        text: String,
        send: impl FnOnce(&mut AlignedLogprobs) -> Vec<TokenLogprob>,
    ) -> Option<Delta> {
        let logprobs = self.logprobs.as_mut().map(send);
        let is_empty = text.is_empty() && logprobs.as_ref().is_none_or(Vec::is_empty);
        (!is_empty).then_some(Delta { choice: self.choice, text, logprobs })
    }
}

impl Parts {
    fn new(reading: &Reading) -> Self {
        Self {
            parser: reading.parser(),
            parallel: reading.parallel,
            is_calls_only: reading.is_calls_only,
            call_id_prefix: reading.call_id_prefix,
            n_calls: 0,
            is_reasoning: reading.rules.begins_in_reasoning,
            reasoning_tokens: 0,
        }
    }

    /// The event of a part that is no text, and whether the answer ends with it.
    fn take(&mut self, choice: u32, part: OutputPart) -> (Option<Event>, Option<Ended>) {
        self.is_reasoning = matches!(part, OutputPart::Reasoning(_));
        match part {
            OutputPart::Reasoning(text) => (Some(Event::Reasoning { choice, text }), None),
            OutputPart::Text(_) => (None, None),
            OutputPart::CallStart { id, name } => {
                let index = self.n_calls;
                self.n_calls += 1;
                let id = id.unwrap_or_else(|| new_id(self.call_id_prefix));
                (Some(Event::ToolCall { choice, index, id, name }), None)
            }
            OutputPart::CallArguments(fragment) => {
                let index = self.n_calls.saturating_sub(1);
                (Some(Event::ToolArguments { choice, index, fragment }), None)
            }
            OutputPart::CallEnd => (None, (!self.parallel).then_some(Ended::Called)),
        }
    }
}

impl Grown {
    /// Adds text, to that before it where it follows text.
    fn add(&mut self, delta: Option<Delta>) {
        let Some(more) = delta else { return };
        match self.events.last_mut() {
            Some(Event::Delta(last)) => {
                last.text.push_str(&more.text);
                if let (Some(all), Some(more)) = (&mut last.logprobs, more.logprobs) {
                    all.extend(more);
                }
            }
            _ => self.events.push(Event::Delta(more)),
        }
    }
}

/// A new id that starts with `prefix`.
pub(crate) fn new_id(prefix: &str) -> String {
    format!("{prefix}{:032x}", rand::random::<u128>())
}

/// A token and its alternatives as what they stand for.
fn told(tokenizer: &Tokenizer, token_id: u32, logprobs: &TokenLogprobs) -> TokenLogprob {
    let alternative = |token_id: u32, logprob: f32| Alternative {
        bytes: tokenizer.token_bytes(token_id).to_vec(),
        logprob,
    };
    TokenLogprob {
        token: alternative(token_id, logprobs.logprob),
        text_offset: 0,
        top: logprobs.top.iter().map(|(id, logprob)| alternative(*id, *logprob)).collect(),
    }
}
