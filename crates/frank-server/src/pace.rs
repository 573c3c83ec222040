//! When the tokens of a request came: for the metrics, and for the timings that a client is told.

use std::time::{Duration, Instant};

use frank_api::Timings;
use frank_telemetry::Metrics;

/// The times of a request and of its choices.
pub(crate) struct Pace {
    metrics: Metrics,
    arrived: Instant,
    /// When its first choice got its place.
    started: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    /// Of each choice.
    last_tokens: Vec<Option<Instant>>,
}

impl Pace {
    /// The request `arrived` and wants so many choices.
    pub(crate) fn since(arrived: Instant, n_choices: usize, metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            arrived,
            started: None,
            first_token: None,
            last_token: None,
            last_tokens: vec![None; n_choices],
        }
    }

    /// A choice got its place.
    pub(crate) fn started(&mut self) {
        self.started.get_or_insert_with(Instant::now);
    }

    /// A choice got its next token.
    pub(crate) fn token(&mut self, choice: usize) {
        let now = Instant::now();
        if self.first_token.is_none() {
            self.first_token = Some(now);
            self.metrics.first_token_seconds.observe(seconds(self.arrived, now));
        }
        if let Some(last) = self.last_tokens[choice].replace(now) {
            self.metrics.inter_token_seconds.observe(seconds(last, now));
        }
        self.last_token = Some(now);
    }

    /// From the arrival of the request to its first token, once it has one.
    pub(crate) fn to_first_token(&self) -> Option<Duration> {
        Some(self.first_token? - self.arrived)
    }

    /// The times so far.
    pub(crate) fn timings(&self) -> Timings {
        let started = self.started.unwrap_or(self.arrived);
        let first = self.first_token.unwrap_or_else(Instant::now);
        let last = self.last_token.unwrap_or(first);
        Timings { prompt_ms: ms(first - started), completion_ms: ms(last - first) }
    }
}

fn seconds(from: Instant, to: Instant) -> f64 {
    to.duration_since(from).as_secs_f64()
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
