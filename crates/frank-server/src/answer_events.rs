//! An answer as it grows: what the engine reports of each choice becomes one row of events.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;

use frank_api::{Answer, ApiError, Choice, ErrorKind, Event, FinishReason, Totals, Usage};
use frank_engine::{EngineEvent, Generation};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use crate::app::App;
use crate::choice::{ChoiceText, Grown, TextRules};
use crate::error;
use crate::pace::Pace;
use crate::served::Served;
use crate::summary::{Progress, Summary};

/// The next event of one choice. It owns the choice's generation and gives it back.
type NextEvent = BoxFuture<'static, (usize, Generation, Option<EngineEvent>)>;

/// An answer as it grows. Dropping it cancels all its choices.
pub(crate) struct AnswerEvents {
    /// One for each choice that has not ended. That of an ended one is gone, so that a slow reader holds no place in
    /// the batch.
    running: FuturesUnordered<NextEvent>,
    choices: Vec<ChoiceText>,
    /// As of the last token.
    usage: Usage,
    ready: VecDeque<Event>,
    pace: Pace,
    summary: Summary,
}

impl AnswerEvents {
    /// The answer whose choices are `generations`, to a prompt of so many tokens, and what is told of its times.
    pub(crate) fn new(
        generations: Vec<Generation>,
        served: &Served,
        rules: &TextRules,
        prompt_tokens: u64,
        (pace, summary): (Pace, Summary),
    ) -> Self {
        let choices = (0u32..).take(generations.len());
        Self {
            choices: choices.map(|i| ChoiceText::new(i, &served.tokenizer, rules)).collect(),
            running: generations.into_iter().enumerate().map(next_event).collect(),
            usage: Usage { prompt_tokens, ..Usage::default() },
            ready: VecDeque::new(),
            pace,
            summary,
        }
    }

    fn progress(&self) -> Progress {
        let totals = Totals { usage: self.usage, timings: self.pace.timings() };
        Progress { totals, first_token: self.pace.to_first_token() }
    }

    /// The next event. A failure of ours is one too. May be dropped and called again without losing anything; not
    /// to be called after the last event.
    pub(crate) async fn next(&mut self, app: &App) -> Event {
        let next = AssertUnwindSafe(self.next_unguarded(app)).catch_unwind().await;
        next.unwrap_or_else(|_| self.broken(error::internal()))
    }

    async fn next_unguarded(&mut self, app: &App) -> Event {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            tokio::select! {
                next = self.running.next() => {
                    let (choice, generation, event) =
                        next.expect("an answer that ended is not asked again");
                    self.take(choice, generation, event, app);
                }
                () = app.closing() => return self.broken(error::shutting_down()),
            }
        }
    }

    /// The last event of an answer that is cut off.
    fn broken(&mut self, error: ApiError) -> Event {
        self.running.clear();
        self.summary.failed(self.progress());
        Event::Failed(error)
    }

    fn take(
        &mut self,
        choice: usize,
        generation: Generation,
        event: Option<EngineEvent>,
        app: &App,
    ) {
        let goes_on = match event {
            Some(EngineEvent::Started { cached_tokens }) => {
                self.pace.started();
                if choice == 0 {
                    self.usage.cached_tokens = cached_tokens as u64;
                }
                true
            }
            Some(EngineEvent::Token(token)) => {
                self.usage.completion_tokens += 1;
                self.pace.token(choice);
                let grown = self.choices[choice].push(&token);
                !self.queue(choice, grown)
            }
            Some(EngineEvent::Finished(reason, _)) => {
                let grown = self.choices[choice].finish();
                if !self.queue(choice, grown) {
                    self.end(choice, reason_of(reason));
                }
                false
            }
            Some(EngineEvent::Failed(reason)) => {
                tracing::error!(reason, "an answer failed");
                return self.fail(ApiError::new(ErrorKind::Internal, reason));
            }
            None => return self.fail(engine_gone(app)),
        };
        if goes_on {
            self.running.push(next_event((choice, generation)));
        }
    }

    /// Queues what became certain of a choice. True when a stop text ended it.
    fn queue(&mut self, choice: usize, grown: Grown) -> bool {
        self.ready.extend(grown.delta.map(Event::Delta));
        if grown.stopped {
            self.end(choice, FinishReason::Stop);
        }
        grown.stopped
    }

    /// Ends a choice. The last one to end brings the totals.
    fn end(&mut self, choice: usize, reason: FinishReason) {
        let progress = self.progress();
        let totals = self.running.is_empty().then_some(progress.totals);
        if totals.is_some() {
            self.summary.finished(reason, progress);
        }
        let choice = u32::try_from(choice).expect("choices are counted in u32");
        self.ready.push_back(Event::Finished { choice, reason, totals });
    }

    /// Ends all choices: an answer with one missing is none.
    fn fail(&mut self, error: ApiError) {
        self.running.clear();
        self.summary.failed(self.progress());
        self.ready.push_back(Event::Failed(error));
    }

    /// The whole answer.
    ///
    /// # Errors
    /// Why it could not be finished.
    pub(crate) async fn collect(mut self, app: &App) -> Result<Answer, ApiError> {
        let mut choices: Vec<Choice> = self.choices.iter().map(ChoiceText::empty).collect();
        loop {
            match self.next(app).await {
                Event::Delta(delta) => {
                    let choice = &mut choices[delta.choice as usize];
                    choice.text.push_str(&delta.text);
                    if let Some(more) = delta.logprobs {
                        choice.logprobs.get_or_insert_default().extend(more);
                    }
                }
                Event::Finished { choice, reason, totals } => {
                    choices[choice as usize].reason = reason;
                    if let Some(totals) = totals {
                        return Ok(Answer { choices, totals });
                    }
                }
                Event::Failed(error) => return Err(error),
            }
        }
    }
}

impl Drop for AnswerEvents {
    /// Says that a client left before the end.
    fn drop(&mut self) {
        self.summary.dropped(self.progress());
    }
}

fn next_event((choice, mut generation): (usize, Generation)) -> NextEvent {
    async move {
        let event = generation.next().await;
        (choice, generation, event)
    }
    .boxed()
}

fn reason_of(reason: frank_engine::FinishReason) -> FinishReason {
    match reason {
        frank_engine::FinishReason::Stop => FinishReason::Stop,
        frank_engine::FinishReason::Length => FinishReason::Length,
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
