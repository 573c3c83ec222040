//! What all handlers share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use frank_api::ApiError;
use frank_telemetry::Metrics;
use tokio::sync::{Semaphore, watch};

use crate::auth::ApiKeys;
use crate::error;
use crate::limits::Limits;
use crate::origin::HostRules;
use crate::served::{Loaded, ModelSlot};
use crate::stored::AnswerStore;
use crate::under_way::AnswersUnderWay;

/// Requests whose prompts are made at the same time. Each may use a core and some hundred MiB for a moment.
const PREPARED_AT_ONCE: usize = 2;

/// How far the endpoint is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Requests are taken.
    Running,
    /// Running answers end, and no request is taken.
    Draining,
    /// Running answers are cut off.
    Closing,
}

/// State of the endpoint.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) model: ModelSlot,
    pub(crate) keys: ApiKeys,
    pub(crate) hosts: HostRules,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
    /// How often a silent stream gets a comment, so that nobody between takes it for dead.
    pub(crate) keep_alive: Duration,
    pub(crate) started: Instant,
    pub(crate) phase: watch::Receiver<Phase>,
    /// What the end waits for.
    pub(crate) answers: AnswersUnderWay,
    /// A permit is needed to parse, render and tokenize.
    pub(crate) preparing: Arc<Semaphore>,
    /// Where answers are stored, if they are.
    pub(crate) store: Option<AnswerStore>,
}

impl App {
    pub(crate) fn new(
        model: ModelSlot,
        options: crate::serve::ServerOptions,
        hosts: HostRules,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        Self {
            model,
            keys: options.api_keys,
            hosts,
            metrics: options.metrics,
            limits: Limits::new(options.body_timeout),
            keep_alive: options.keep_alive,
            started: Instant::now(),
            phase,
            answers: AnswersUnderWay::none(),
            preparing: Arc::new(Semaphore::new(PREPARED_AT_ONCE)),
            store: options.store,
        }
    }

    /// The model, if requests are taken now.
    ///
    /// # Errors
    /// A 503 that says why not.
    pub(crate) fn model(&self) -> Result<&Loaded, ApiError> {
        if !self.is_running() {
            return Err(error::shutting_down());
        }
        self.model.get().ok_or_else(error::loading)
    }

    /// Whether requests are taken.
    pub(crate) fn is_running(&self) -> bool {
        *self.phase.borrow() == Phase::Running
    }

    /// Returns when running answers are to be cut off.
    pub(crate) async fn closing(&self) {
        let mut phase = self.phase.clone();
        // An error means that the sender is gone, which comes after the end.
        drop(phase.wait_for(|phase| *phase == Phase::Closing).await);
    }
}
