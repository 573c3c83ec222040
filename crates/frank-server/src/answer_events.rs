//! An answer as it grows: what the engine reports of each choice becomes one row of events.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;

use frank_api::{Answer, ApiError, Choice, ErrorKind, Event, FinishReason, Totals, Usage};
use frank_engine::{EngineEvent, Generation};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinHandle;

use crate::app::App;
use crate::choice::{ChoiceText, Ended, Grown, TextRules};
use crate::error;
use crate::keeper::Keeper;
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
    /// What keeps the answer for later, where the client wants that.
    keeper: Option<Keeper>,
    /// The last event while the answer is being stored.
    stored_first: Option<(Event, JoinHandle<()>)>,
}

impl AnswerEvents {
    /// The answer whose choices are `generations`, to a prompt of so many tokens, and what is told of its times.
    pub(crate) fn new(
        generations: Vec<Generation>,
        served: &Served,
        rules: &TextRules,
        prompt_tokens: u64,
        (pace, summary): (Pace, Summary),
        keeper: Option<Keeper>,
    ) -> Self {
        let choices = (0u32..).take(generations.len());
        Self {
            choices: choices.map(|i| ChoiceText::new(i, &served.tokenizer, rules)).collect(),
            running: generations.into_iter().enumerate().map(next_event).collect(),
            usage: Usage { prompt_tokens, ..Usage::default() },
            ready: VecDeque::new(),
            pace,
            summary,
            keeper,
            stored_first: None,
        }
    }

    fn progress(&self) -> Progress {
        let totals = Totals { usage: self.usage, timings: self.pace.timings() };
        Progress { totals, first_token: self.pace.to_first_token() }
    }

    /// The next event. A failure of ours is one too. May be dropped and called again without losing anything; not
    /// to be called after the last event.
    pub(crate) async fn next(&mut self, app: &App) -> Event {
        if self.stored_first.is_some() {
            return self.once_stored().await;
        }
        let next = AssertUnwindSafe(self.next_unguarded(app)).catch_unwind().await;
        let event = next.unwrap_or_else(|_| self.broken(error::internal()));
        let is_whole = self.keeper.as_mut().is_some_and(|keeper| keeper.take(&event));
        let Some(keeper) = self.keeper.take_if(|_| is_whole) else { return event };
        // A client that has the end of its answer may ask to go on after it at once, so it is stored before.
        self.stored_first = Some((event, keeper.keep()));
        self.once_stored().await
    }

    /// The last event, once the answer is stored.
    async fn once_stored(&mut self) -> Event {
        let (_, storing) = self.stored_first.as_mut().expect("an answer is being stored");
        if let Err(error) = storing.await {
            tracing::error!(%error, "storing an answer failed");
        }
        let (event, _) = self.stored_first.take().expect("an answer was being stored");
        event
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
                    self.ready.push_back(Event::Started(self.usage));
                }
                true
            }
            Some(EngineEvent::Token(token)) => {
                self.usage.completion_tokens += 1;
                self.pace.token(choice);
                let grown = self.choices[choice].push(&token);
                self.usage.reasoning_tokens =
                    self.choices.iter().map(ChoiceText::reasoning_tokens).sum();
                !self.queue(choice, grown)
            }
            Some(EngineEvent::Finished(reason, _)) => {
                let grown = self.choices[choice].finish();
                if !self.queue(choice, grown) {
                    let reason = reason_of(reason, &self.choices[choice]);
                    self.end(choice, reason, None);
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

    /// Queues what became certain of a choice. True when that ends it.
    fn queue(&mut self, choice: usize, grown: Grown) -> bool {
        self.ready.extend(grown.events);
        let (reason, stop_text) = match grown.ended {
            None => return false,
            Some(Ended::Called) => (FinishReason::ToolCalls, None),
            Some(Ended::Stopped(text)) => (FinishReason::Stop, Some(text)),
        };
        self.end(choice, reason, stop_text);
        true
    }

    /// Ends a choice. The last one to end brings the totals.
    fn end(&mut self, choice: usize, reason: FinishReason, stop_text: Option<String>) {
        let progress = self.progress();
        let totals = self.running.is_empty().then_some(progress.totals);
        if totals.is_some() {
            self.summary.finished(reason, progress);
        }
        let choice = u32::try_from(choice).expect("choices are counted in u32");
        self.ready.push_back(Event::Finished { choice, reason, stop_text, totals });
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
                Event::Failed(error) => return Err(error),
                event => {
                    let end = totals_of(&event);
                    if let Some(choice) = choice_of(&event) {
                        choices[choice as usize].push(event);
                    }
                    if let Some(totals) = end {
                        return Ok(Answer { choices, totals });
                    }
                }
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

/// What all choices took, where this event is the last.
fn totals_of(event: &Event) -> Option<Totals> {
    match event {
        Event::Finished { totals, .. } => *totals,
        _ => None,
    }
}

/// The choice that an event is about.
fn choice_of(event: &Event) -> Option<u32> {
    match event {
        Event::Reasoning { choice, .. }
        | Event::ToolCall { choice, .. }
        | Event::ToolArguments { choice, .. }
        | Event::Finished { choice, .. } => Some(*choice),
        Event::Delta(delta) => Some(delta.choice),
        Event::Started(_) | Event::Failed(_) => None,
    }
}

fn next_event((choice, mut generation): (usize, Generation)) -> NextEvent {
    async move {
        let event = generation.next().await;
        (choice, generation, event)
    }
    .boxed()
}

/// An answer that ends by itself and has called tools waits for their results.
fn reason_of(reason: frank_engine::FinishReason, choice: &ChoiceText) -> FinishReason {
    match reason {
        frank_engine::FinishReason::Stop if choice.has_called() => FinishReason::ToolCalls,
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
