//! An answer as it grows: the engine's tokens become text, and text becomes events.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use frank_api::{Answer, ApiError, ErrorKind, Event, FinishReason, Usage};
use frank_engine::{EngineEvent, Generation, Token};
use frank_telemetry::Metrics;
use frank_tokenizer::Detokenizer;
use futures_util::FutureExt;

use crate::app::App;
use crate::error;
use crate::served::Served;
use crate::stop::StopMatcher;

/// An answer as it grows: tokens become text, and stop texts cut it. Dropping it cancels the answer.
pub(crate) struct AnswerEvents {
    /// Gone once the answer has ended, so that a slow reader holds no place in the batch.
    generation: Option<Generation>,
    detokenizer: Detokenizer,
    stops: StopMatcher,
    /// As of the last token.
    usage: Usage,
    ready: VecDeque<Event>,
    pace: Pace,
}

impl AnswerEvents {
    pub(crate) fn new(
        generation: Generation,
        served: &Served,
        stop: &[String],
        prompt_tokens: u64,
        pace: Pace,
    ) -> Self {
        Self {
            generation: Some(generation),
            detokenizer: Detokenizer::new(Arc::clone(&served.tokenizer)),
            stops: StopMatcher::new(stop),
            usage: Usage { prompt_tokens, completion_tokens: 0 },
            ready: VecDeque::new(),
            pace,
        }
    }

    /// The next event. A failure of ours is one too. May be dropped and called again without losing anything; not
    /// to be called after `Finished` or `Failed`.
    pub(crate) async fn next(&mut self, app: &App) -> Event {
        let next = AssertUnwindSafe(self.next_unguarded(app)).catch_unwind().await;
        next.unwrap_or_else(|_| Event::Failed(error::internal()))
    }

    async fn next_unguarded(&mut self, app: &App) -> Event {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            let generation =
                self.generation.as_mut().expect("an answer that ended is not asked again");
            tokio::select! {
                event = generation.next() => self.take(event, app),
                () = app.closing() => return Event::Failed(error::shutting_down()),
            }
        }
    }

    fn take(&mut self, event: Option<EngineEvent>, app: &App) {
        match event {
            Some(EngineEvent::Started { .. }) => {}
            Some(EngineEvent::Token(Token { token_id, .. })) => {
                self.usage.completion_tokens += 1;
                self.pace.token();
                let text = self.detokenizer.push(token_id);
                self.pass(&text);
            }
            Some(EngineEvent::Finished(reason, _)) => self.finish(reason),
            Some(EngineEvent::Failed(reason)) => {
                tracing::error!(reason, "an answer failed");
                self.end(Event::Failed(ApiError::new(ErrorKind::Internal, reason)));
            }
            None => self.end(Event::Failed(engine_gone(app))),
        }
    }

    /// Queues `text` as far as no stop text may begin in it. True when one was found, which ends the answer.
    fn pass(&mut self, text: &str) -> bool {
        let passed = self.stops.push(text);
        self.queue_text(passed.text);
        if passed.stopped {
            self.end(Event::Finished { reason: FinishReason::Stop, usage: self.usage });
        }
        passed.stopped
    }

    fn finish(&mut self, reason: frank_engine::FinishReason) {
        let tail = self.detokenizer.finish();
        if self.pass(&tail) {
            return;
        }
        let held = self.stops.finish();
        self.queue_text(held);
        let reason = match reason {
            frank_engine::FinishReason::Stop => FinishReason::Stop,
            frank_engine::FinishReason::Length => FinishReason::Length,
        };
        self.end(Event::Finished { reason, usage: self.usage });
    }

    fn end(&mut self, event: Event) {
        self.generation = None;
        self.ready.push_back(event);
    }

    fn queue_text(&mut self, text: String) {
        if !text.is_empty() {
            self.ready.push_back(Event::Text(text));
        }
    }

    /// The whole answer.
    ///
    /// # Errors
    /// Why it could not be finished.
    pub(crate) async fn collect(mut self, app: &App) -> Result<Answer, ApiError> {
        let mut text = String::new();
        loop {
            match self.next(app).await {
                Event::Text(more) => text.push_str(&more),
                Event::Finished { reason, usage } => return Ok(Answer { text, reason, usage }),
                Event::Failed(error) => return Err(error),
            }
        }
    }
}

/// The engine ended before the answer did.
fn engine_gone(app: &App) -> ApiError {
    if app.is_running() {
        tracing::error!("the engine ended while answers were running");
        error::internal()
    } else {
        error::shutting_down()
    }
}

/// Measures the waits between tokens.
pub(crate) struct Pace {
    metrics: Metrics,
    last: Instant,
    any: bool,
}

impl Pace {
    /// The first wait began when the request arrived.
    pub(crate) fn since(arrived: Instant, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), last: arrived, any: false }
    }

    fn token(&mut self) {
        let now = Instant::now();
        let seconds = now.duration_since(self.last).as_secs_f64();
        let histogram = if self.any {
            &self.metrics.inter_token_seconds
        } else {
            &self.metrics.first_token_seconds
        };
        histogram.observe(seconds);
        (self.last, self.any) = (now, true);
    }
}
