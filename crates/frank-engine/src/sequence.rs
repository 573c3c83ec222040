//! The answer to one running request: its tokens, how the next one is drawn, and who hears of it. Never knows blocks.

use async_channel::Sender;

use crate::constraint::{Constraint, ConstraintError};
use crate::request::{EngineEvent, FinishReason, Request, Usage};
use crate::sampler::{SampleContext, Sampler};

/// A request that waits for a place.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) events: Sender<EngineEvent>,
}

/// A request that has its place.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// Prompt and answer so far.
    tokens: Vec<u32>,
    n_prompt: usize,
    /// Tokens of the prompt that were found in the cache.
    pub(crate) n_cached: usize,
    max_tokens: usize,
    min_tokens: usize,
    end_tokens: Vec<u32>,
    n_logprobs: Option<usize>,
    sampler: Sampler,
    constraint: Option<Constrained>,
    events: Sender<EngineEvent>,
}

/// A constraint and the mask that it fills.
#[derive(Debug)]
struct Constrained {
    constraint: Box<dyn Constraint>,
    mask: Vec<u32>,
}

impl Constrained {
    /// Fills the mask without `banned` tokens, and says whether anything is left in it.
    fn allows(&mut self, n_vocab: usize, banned: &[u32]) -> Result<bool, ConstraintError> {
        self.mask.resize(n_vocab.div_ceil(32), 0);
        self.constraint.allowed(&mut self.mask)?;
        for &token_id in banned {
            if let Some(word) = self.mask.get_mut(token_id as usize / 32) {
                *word &= !(1 << (token_id % 32));
            }
        }
        Ok(self.mask.iter().any(|&word| word != 0))
    }
}

/// Whether a sequence goes on after a token.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It does, after this token.
    Running(u32),
    /// It ends with this event, which is sent when its place is free again.
    Ended(EngineEvent),
}

impl Sequence {
    pub(crate) fn new(waiting: Waiting, fallback_seed: u64) -> Self {
        let Waiting { request, events } = waiting;
        let constraint = request.constraint;
        Self {
            n_prompt: request.prompt.len(),
            tokens: request.prompt,
            n_cached: 0,
            max_tokens: request.max_tokens,
            min_tokens: request.min_tokens,
            end_tokens: request.end_tokens,
            n_logprobs: request.n_logprobs,
            sampler: Sampler::new(request.sampling, fallback_seed),
            constraint: constraint.map(|constraint| Constrained { constraint, mask: Vec::new() }),
            events,
        }
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.events.is_closed()
    }

    /// Draws the next token from the logits of the last one and reports it.
    pub(crate) fn sample(&mut self, logits: &mut [f32]) -> Outcome {
        let failed = |reason: String| Outcome::Ended(EngineEvent::Failed(reason));
        let must_go_on = self.n_completion() < self.min_tokens;
        let banned = if must_go_on { self.end_tokens.as_slice() } else { &[] };
        if let Some(constrained) = &mut self.constraint {
            match constrained.allows(logits.len(), banned) {
                Ok(true) => {}
                Ok(false) => return self.finish(FinishReason::Stop),
                Err(error) => return failed(error.to_string()),
            }
        }
        let context = SampleContext {
            history: &self.tokens,
            banned,
            allowed: self.constraint.as_ref().map(|constrained| constrained.mask.as_slice()),
            n_logprobs: self.n_logprobs,
        };
        let token = match self.sampler.sample(logits, &context) {
            Ok(token) => token,
            Err(error) => return failed(error.to_string()),
        };
        let token_id = token.token_id;
        if self.end_tokens.contains(&token_id) {
            return self.finish(FinishReason::Stop);
        }
        if let Some(constrained) = &mut self.constraint
            && let Err(error) = constrained.constraint.accept(token_id)
        {
            return failed(error.to_string());
        }
        self.tokens.push(token_id);
        self.send(EngineEvent::Token(token));
        if self.n_completion() == self.max_tokens {
            self.finish(FinishReason::Length)
        } else {
            Outcome::Running(token_id)
        }
    }

    fn finish(&self, reason: FinishReason) -> Outcome {
        let usage = Usage {
            prompt_tokens: self.n_prompt,
            cached_tokens: self.n_cached,
            completion_tokens: self.n_completion(),
        };
        Outcome::Ended(EngineEvent::Finished(reason, usage))
    }

    /// Tokens of the answer so far.
    pub(crate) fn n_completion(&self) -> usize {
        self.tokens.len() - self.n_prompt
    }

    /// Reports an event to whoever listens.
    pub(crate) fn send(&self, event: EngineEvent) {
        // Only a listener who left refuses an event; the step loop sees that by `is_cancelled`.
        drop(self.events.try_send(event));
    }
}
