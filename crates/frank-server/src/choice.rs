//! One of the answers to a request as it grows: tokens become text, and a stop text ends it. Never waits.

use std::sync::Arc;

use frank_api::{Alternative, Choice, Delta, FinishReason, TokenLogprob};
use frank_engine::{Token, TokenLogprobs};
use frank_tokenizer::{Detokenizer, Tokenizer};

use crate::aligned_logprobs::AlignedLogprobs;
use crate::stop::{Passed, StopMatcher};

/// What a client wants of each answer, as far as it concerns the text.
#[derive(Clone, Debug)]
pub(crate) struct TextRules {
    /// Texts that end the answer.
    pub(crate) stop: Vec<String>,
    /// Tokens before which no stop text ends it.
    pub(crate) min_tokens: u64,
    /// Whether the client wants to know how likely the tokens were.
    pub(crate) tells_logprobs: bool,
}

/// One answer as it grows.
pub(crate) struct ChoiceText {
    choice: u32,
    tokenizer: Arc<Tokenizer>,
    detokenizer: Detokenizer,
    stops: StopMatcher,
    min_tokens: u64,
    n_tokens: u64,
    logprobs: Option<AlignedLogprobs>,
}

/// What became certain of an answer.
pub(crate) struct Grown {
    /// What is to be sent, if anything.
    pub(crate) delta: Option<Delta>,
    /// Whether a stop text ended the answer. Nothing more may be added then.
    pub(crate) stopped: bool,
}

impl ChoiceText {
    /// An answer without a token.
    pub(crate) fn new(choice: u32, tokenizer: &Arc<Tokenizer>, rules: &TextRules) -> Self {
        Self {
            choice,
            tokenizer: Arc::clone(tokenizer),
            detokenizer: Detokenizer::new(Arc::clone(tokenizer)),
            stops: StopMatcher::new(&rules.stop),
            min_tokens: rules.min_tokens,
            n_tokens: 0,
            logprobs: rules.tells_logprobs.then(AlignedLogprobs::default),
        }
    }

    /// The whole answer as long as nothing of it is certain.
    pub(crate) fn empty(&self) -> Choice {
        let logprobs = self.logprobs.as_ref().map(|_| Vec::new());
        Choice { text: String::new(), logprobs, reason: FinishReason::Length }
    }

    /// Adds a token.
    pub(crate) fn push(&mut self, token: &Token) -> Grown {
        self.n_tokens += 1;
        let text = self.detokenizer.push(token.token_id);
        if let (Some(aligned), Some(logprobs)) = (&mut self.logprobs, &token.logprobs) {
            aligned.push(told(&self.tokenizer, token.token_id, logprobs), &text);
        }
        self.pass(text)
    }

    /// Ends the answer where the model did.
    pub(crate) fn finish(&mut self) -> Grown {
        let tail = self.detokenizer.finish();
        let mut grown = self.pass(tail);
        if !grown.stopped {
            let held = self.stops.finish();
            let sent = self.delta(held, AlignedLogprobs::send_rest);
            grown.delta = joined(grown.delta, sent);
        }
        grown
    }

    /// Passes `text` on as far as no stop text may begin in it.
    fn pass(&mut self, text: String) -> Grown {
        let Passed { text, stopped } = if self.n_tokens < self.min_tokens {
            Passed { text, stopped: false }
        } else {
            self.stops.push(&text)
        };
        let n_bytes = text.len();
        Grown { delta: self.delta(text, |aligned| aligned.send(n_bytes)), stopped }
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

/// Two parts of a choice that follow each other.
fn joined(first: Option<Delta>, second: Option<Delta>) -> Option<Delta> {
    match (first, second) {
        (Some(mut first), Some(second)) => {
            first.text.push_str(&second.text);
            if let (Some(all), Some(more)) = (&mut first.logprobs, second.logprobs) {
                all.extend(more);
            }
            Some(first)
        }
        (first, second) => first.or(second),
    }
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
