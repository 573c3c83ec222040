//! One line of the log for each request: what it took, however it ended. Never holds what a client or the model wrote.

use std::time::Duration;

use frank_api::{FinishReason, Totals};
use frank_engine::Engine;
use frank_experts::StoreStatistics;

/// What the line says of a request before it has ended.
pub(crate) struct Summary {
    /// As in the access log.
    request_id: String,
    request: String,
    model: String,
    engine: Engine,
    /// What the expert store had done before.
    experts: Option<StoreStatistics>,
    is_told: bool,
}

/// How far a request came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    pub(crate) totals: Totals,
    /// From its arrival to its first token.
    pub(crate) first_token: Option<Duration>,
}

impl Summary {
    /// Of the request `request_id` that is answered under the id `request`.
    pub(crate) fn begin(request_id: &str, request: &str, model: &str, engine: &Engine) -> Self {
        Self {
            request_id: request_id.to_owned(),
            request: request.to_owned(),
            model: model.to_owned(),
            engine: engine.clone(),
            experts: engine.expert_statistics(),
            is_told: false,
        }
    }

    /// Says that all choices are whole; `reason` is that of the last.
    pub(crate) fn finished(&mut self, reason: FinishReason, progress: Progress) {
        let finish = match reason {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
        };
        self.tell(finish, progress);
    }

    /// Says that the answer could not be finished.
    pub(crate) fn failed(&mut self, progress: Progress) {
        self.tell("failed", progress);
    }

    /// Says that the client left, unless something was said already.
    pub(crate) fn dropped(&mut self, progress: Progress) {
        if !self.is_told {
            self.tell("cancelled", progress);
        }
    }

    fn tell(&mut self, finish: &'static str, progress: Progress) {
        self.is_told = true;
        let Self { request_id, request, model, .. } = &*self;
        let Totals { usage, timings } = progress.totals;
        let prompt_tokens = usage.prompt_tokens;
        let cached_tokens = usage.cached_tokens;
        let reasoning_tokens = usage.reasoning_tokens;
        let generated_tokens = usage.completion_tokens;
        let prefilled = prompt_tokens.saturating_sub(cached_tokens);
        let ttft_ms = progress.first_token.map(|time| time.as_secs_f64() * 1000.0);
        let started = ttft_ms.is_some();
        let prefill_tok_s = started.then(|| per_second(prefilled, timings.prompt_ms));
        // The first token came with the prompt.
        let decoded = generated_tokens.saturating_sub(1);
        let decode_tok_s = started.then(|| per_second(decoded, timings.completion_ms));
        let experts = self.streamed();
        let batch = |count: fn(&StoreStatistics) -> u64| {
            experts.map(|(before, now)| count(&now).saturating_sub(count(&before)))
        };
        let waited =
            experts.map(|(before, now)| now.demand_wait.saturating_sub(before.demand_wait));
        // Requests that run together share steps, and so what is called batch; a model that streams nothing has none of it.
        tracing::info!(
            request_id,
            request,
            model,
            prompt_tokens,
            cached_tokens,
            generated_tokens,
            reasoning_tokens,
            ttft_ms,
            prefill_tok_s,
            decode_tok_s,
            finish,
            batch_expert_hits = batch(|counts| counts.hits),
            batch_expert_misses = batch(|counts| counts.misses),
            batch_bytes_read = batch(|counts| counts.bytes_read),
            batch_demand_wait_ms = waited.map(|waited| waited.as_secs_f64() * 1000.0),
            batch_prefetch_useful = batch(|counts| counts.prefetch_useful),
            batch_prefetch_wasted = batch(|counts| counts.prefetch_wasted),
            "answered"
        );
    }

    /// What the expert store had done before and has done now, where it streams.
    fn streamed(&self) -> Option<(StoreStatistics, StoreStatistics)> {
        let (before, now) = (self.experts?, self.engine.expert_statistics()?);
        (now.n_streamed > 0).then_some((before, now))
    }
}

fn per_second(n_tokens: u64, ms: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an answer has far fewer than 2^52 tokens")]
    let n_tokens = n_tokens as f64;
    if ms > 0.0 { n_tokens * 1000.0 / ms } else { 0.0 }
}
