//! What a server counts about experts, as the shares that say how well it guesses and keeps. Never runs one.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Result;

use crate::http::Request;

/// What metrics about experts begin with.
const EXPERTS: &str = "frank_expert";
const HITS: &str = "frank_expert_hits_total";
const MISSES: &str = "frank_expert_misses_total";
const PREDICTIONS: &str = "frank_expert_predictions_total";
const PREDICTIONS_RIGHT: &str = "frank_expert_predictions_right_total";
const PREFETCH_USEFUL: &str = "frank_expert_prefetch_useful_total";
const PREFETCH_WASTED: &str = "frank_expert_prefetch_wasted_total";

/// Counters about experts by name and labels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counters(BTreeMap<String, f64>);

impl Counters {
    /// What a server has counted since its start.
    /// # Errors
    /// It does not tell.
    pub(super) fn of(address: SocketAddr) -> Result<Self> {
        Ok(Self::read(&Request::get("/metrics").reply(address)?.text()?))
    }

    fn read(metrics: &str) -> Self {
        let counters = metrics.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let name = series.split('{').next()?;
            let is_counter = name.starts_with(EXPERTS) && name.ends_with("_total");
            is_counter.then_some((series.to_owned(), value.parse().ok()?))
        });
        Self(counters.collect())
    }

    /// What was counted since.
    pub(super) fn since(mut self, before: &Self) -> Self {
        for (series, value) in &mut self.0 {
            *value -= before.0.get(series).unwrap_or(&0.0);
        }
        self
    }

    /// Shares of what was wanted that lay in memory, of all tiers and of each; of experts that were predicted, those that
    /// were wanted; and of those that were read ahead. What nothing was counted of has none.
    pub(super) fn shares(&self) -> Vec<(String, f64)> {
        let hits = self.tiers().into_iter().map(|tier| {
            let of = |name| self.0.get(&format!("{name}{{tier=\"{tier}\"}}"));
            let of = |name| of(name).copied().unwrap_or_default();
            (format!("hit rate, {tier}"), of(HITS), of(MISSES))
        });
        let all = [
            ("hit rate".to_owned(), self.sum(HITS), self.sum(MISSES)),
            (
                "predictions that were right".to_owned(),
                self.sum(PREDICTIONS_RIGHT),
                self.sum(PREDICTIONS) - self.sum(PREDICTIONS_RIGHT),
            ),
            (
                "prefetches that were useful".to_owned(),
                self.sum(PREFETCH_USEFUL),
                self.sum(PREFETCH_WASTED),
            ),
        ];
        let shares = all.into_iter().chain(hits).filter(|(_, good, bad)| good + bad > 0.0);
        shares.map(|(name, good, bad)| (name, good / (good + bad))).collect()
    }

    fn sum(&self, name: &str) -> f64 {
        let series = self.0.iter().filter(|(series, _)| series.split('{').next() == Some(name));
        series.map(|(_, value)| value).sum()
    }

    /// The tiers by name.
    fn tiers(&self) -> Vec<&str> {
        let labels = self.0.keys().filter_map(|series| series.strip_prefix(HITS));
        labels.filter_map(|label| label.strip_prefix("{tier=\"")?.strip_suffix("\"}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
        # TYPE frank_expert_hits counter\n\
        frank_expert_hits_total{tier=\"primary\"} 60\n\
        frank_expert_hits_total{tier=\"streamed\"} 15\n\
        frank_expert_misses_total{tier=\"streamed\"} 25\n\
        frank_expert_predictions_total 50\n\
        frank_expert_predictions_right_total 40\n\
        frank_expert_slots 7\n\
        frank_tokens_total 9\n";

    fn shares(counters: &Counters) -> Vec<String> {
        let shares = counters.shares();
        shares.iter().map(|(name, share)| format!("{name} {:.1} %", 100.0 * share)).collect()
    }

    #[test]
    fn shares_are_those_of_what_was_counted() {
        let expected = [
            "hit rate 75.0 %",
            "predictions that were right 80.0 %",
            "hit rate, primary 100.0 %",
            "hit rate, streamed 37.5 %",
        ];
        assert_eq!(shares(&Counters::read(METRICS)), expected);
        assert!(shares(&Counters::read("")).is_empty());
    }

    #[test]
    fn what_was_counted_before_is_left_out() {
        let before = Counters::read("frank_expert_hits_total{tier=\"streamed\"} 5\n");
        let counters = Counters::read(METRICS).since(&before);
        assert_eq!(counters.0["frank_expert_hits_total{tier=\"streamed\"}"].to_string(), "10");
        assert_eq!(counters.0.len(), 5);
    }
}
