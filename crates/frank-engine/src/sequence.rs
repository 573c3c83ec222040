//! One running request: its tokens, how far they are computed, its KV blocks and its sampler.

use async_channel::Sender;

use crate::kv_cache::BlockTable;
use crate::request::{EngineEvent, FinishReason, Request, Token, Usage};
use crate::sampler::Sampler;
use crate::scheduler::Progress;

/// A request that waits for a place.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) events: Sender<EngineEvent>,
}

/// A request that has its place: KV blocks for all that it may generate.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// Prompt and answer so far.
    tokens: Vec<u32>,
    n_prompt: usize,
    n_computed: usize,
    max_tokens: usize,
    end_tokens: Vec<u32>,
    sampler: Sampler,
    pub(crate) blocks: BlockTable,
    events: Sender<EngineEvent>,
}

/// Whether a sequence goes on after a token.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    Running,
    /// It ends with this event, which is sent when its place is free again.
    Ended(EngineEvent),
}

impl Sequence {
    pub(crate) fn new(waiting: Waiting, blocks: BlockTable, fallback_seed: u64) -> Self {
        let Waiting { request, events } = waiting;
        Self {
            n_prompt: request.prompt.len(),
            tokens: request.prompt,
            n_computed: 0,
            max_tokens: request.max_tokens,
            end_tokens: request.end_tokens,
            sampler: Sampler::new(request.sampling, fallback_seed),
            blocks,
            events,
        }
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.events.is_closed()
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress { known: self.tokens.len(), computed: self.n_computed }
    }

    /// The next `n` tokens to compute.
    pub(crate) fn uncomputed(&self, n: usize) -> &[u32] {
        &self.tokens[self.n_computed..self.n_computed + n]
    }

    /// Notes that the next `n` tokens are in the cache, and returns how many of them belong to the prompt.
    pub(crate) fn advance(&mut self, n: usize) -> usize {
        let n_prompt = n.min(self.n_prompt.saturating_sub(self.n_computed));
        self.n_computed += n;
        n_prompt
    }

    /// Draws the next token from the logits of the last one and reports it.
    pub(crate) fn sample(&mut self, logits: &mut [f32]) -> Outcome {
        match self.sampler.sample(logits, &self.tokens) {
            Ok(token_id) => self.accept(token_id),
            Err(error) => Outcome::Ended(EngineEvent::Failed(error.to_string())),
        }
    }

    fn accept(&mut self, token_id: u32) -> Outcome {
        if self.end_tokens.contains(&token_id) {
            return self.finish(FinishReason::Stop);
        }
        self.tokens.push(token_id);
        self.send(EngineEvent::Token(Token::plain(token_id)));
        if self.n_completion() == self.max_tokens {
            self.finish(FinishReason::Length)
        } else {
            Outcome::Running
        }
    }

    fn finish(&self, reason: FinishReason) -> Outcome {
        let usage = Usage {
            prompt_tokens: self.n_prompt,
            cached_tokens: 0,
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
