//! What the metrics say of the prefix cache and the expert store. Counters get the difference since the last time, so
//! that they only rise.
//!
//! A model without experts has no series with a tier, and zeros elsewhere.

use std::time::Duration;

use frank_experts::StoreStatistics;
use frank_telemetry::{Metrics, TierLabels};

use crate::scheduler::{Scheduler, Totals};

const PRIMARY: TierLabels = TierLabels { tier: "primary" };
const SECONDARY: TierLabels = TierLabels { tier: "secondary" };
const STREAMED: TierLabels = TierLabels { tier: "streamed" };

/// What was told to the metrics so far.
#[derive(Debug, Default)]
pub(super) struct Counted {
    prefixes: Prefixes,
    experts: StoreStatistics,
}

/// Counts of the prefix cache.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Prefixes {
    n_looked_up: u64,
    n_found: u64,
    n_evicted: u64,
}

impl Prefixes {
    pub(super) fn of(scheduler: &Scheduler) -> Self {
        let Totals { n_looked_up, n_found, .. } = scheduler.totals();
        Self { n_looked_up, n_found, n_evicted: scheduler.kv().pages.n_evicted() }
    }
}

impl Counted {
    /// Adds to `metrics` what the prefix cache has done since the last time.
    pub(super) fn count_prefixes(&mut self, now: Prefixes, metrics: &Metrics) {
        let before = std::mem::replace(&mut self.prefixes, now);
        metrics.prefix_cache_lookup_tokens.inc_by(now.n_looked_up - before.n_looked_up);
        metrics.prefix_cache_hit_tokens.inc_by(now.n_found - before.n_found);
        metrics.prefix_cache_evictions.inc_by(now.n_evicted - before.n_evicted);
    }

    /// Adds to `metrics` what the expert store has done since the last time, and says what it holds.
    pub(super) fn count_experts(&mut self, now: StoreStatistics, metrics: &Metrics) {
        let before = std::mem::replace(&mut self.experts, now);
        for (now, before) in tiers(&now).into_iter().zip(tiers(&before)) {
            if now.n_experts > 0 {
                count_tier(now, before, metrics);
            }
        }
        metrics.expert_slots.set(gauge(now.n_slots));
        metrics.expert_slot_size.set(gauge(now.slot_bytes));
        for (counter, now, before) in [
            (&metrics.expert_evictions, now.evictions, before.evictions),
            (&metrics.expert_rereads, now.reread, before.reread),
            (&metrics.expert_waves, now.waves, before.waves),
            (&metrics.expert_warmed, now.warmed, before.warmed),
            (&metrics.expert_prefetches, now.prefetch_started, before.prefetch_started),
            (&metrics.expert_prefetch_useful, now.prefetch_useful, before.prefetch_useful),
            (&metrics.expert_prefetch_wasted, now.prefetch_wasted, before.prefetch_wasted),
            (&metrics.expert_prefetch_read, now.prefetch_bytes, before.prefetch_bytes),
            (
                &metrics.expert_prefetch_wasted_read,
                now.prefetch_wasted_bytes,
                before.prefetch_wasted_bytes,
            ),
            (&metrics.expert_predictions, now.predicted, before.predicted),
            (&metrics.expert_predictions_right, now.predicted_right, before.predicted_right),
        ] {
            counter.inc_by(now.saturating_sub(before));
        }
        let wait = now.demand_wait.saturating_sub(before.demand_wait);
        metrics.expert_demand_wait_seconds.inc_by(wait.as_secs_f64());
    }
}

/// What one tier has and has done.
#[derive(Debug, Clone, Copy)]
struct Tier {
    labels: TierLabels,
    n_experts: usize,
    n_in_memory: usize,
    hits: u64,
    misses: u64,
    bytes_read: u64,
    read_time: Duration,
}

fn tiers(store: &StoreStatistics) -> [Tier; 3] {
    let primary = Tier {
        labels: PRIMARY,
        n_experts: store.n_primary,
        n_in_memory: store.n_primary,
        hits: store.primary_visits,
        misses: 0,
        bytes_read: store.primary_bytes_read,
        read_time: store.primary_read_time,
    };
    let secondary = Tier {
        labels: SECONDARY,
        n_experts: store.n_secondary,
        n_in_memory: store.n_secondary,
        hits: store.secondary_visits,
        misses: 0,
        bytes_read: store.secondary_bytes_read,
        read_time: store.secondary_read_time,
    };
    let streamed = Tier {
        labels: STREAMED,
        n_experts: store.n_streamed,
        n_in_memory: store.slots_used,
        hits: store.hits,
        misses: store.misses,
        bytes_read: store.bytes_read,
        read_time: store.read_time,
    };
    [primary, secondary, streamed]
}

fn count_tier(now: Tier, before: Tier, metrics: &Metrics) {
    let labels = &now.labels;
    metrics.experts.get_or_create(labels).set(gauge(now.n_experts));
    metrics.experts_in_memory.get_or_create(labels).set(gauge(now.n_in_memory));
    metrics.expert_hits.get_or_create(labels).inc_by(now.hits.saturating_sub(before.hits));
    metrics.expert_misses.get_or_create(labels).inc_by(now.misses.saturating_sub(before.misses));
    let bytes = now.bytes_read.saturating_sub(before.bytes_read);
    metrics.expert_read.get_or_create(labels).inc_by(bytes);
    let time = now.read_time.saturating_sub(before.read_time);
    metrics.expert_read_seconds.get_or_create(labels).inc_by(time.as_secs_f64());
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
