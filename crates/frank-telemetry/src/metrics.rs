//! The catalogue: one entry for each metric makes its handle, its registration and its line in the docs.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// What kind of series a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises while the process lives; exposed with `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Exposed as `_bucket`, `_sum` and `_count`.
    Histogram,
}

impl Kind {
    /// The word for it in Prometheus.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What the catalogue says about one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// Name without the suffix that its unit adds.
    pub stem: &'static str,
    /// `seconds` or `bytes`, empty for plain counts.
    pub unit: &'static str,
    /// Which kind of series it is.
    pub kind: Kind,
    /// Names of its labels, separated by a comma and a space; may be empty.
    pub labels: &'static str,
    /// One sentence for people.
    pub help: &'static str,
}

impl MetricInfo {
    /// The name under which a scrape finds it. Histograms add `_bucket`, `_sum` and `_count` to it.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = self.stem.to_owned();
        if !self.unit.is_empty() {
            name.push('_');
            name.push_str(self.unit);
        }
        if self.kind == Kind::Counter {
            name.push_str("_total");
        }
        name
    }

    fn register(&self, registry: &mut Registry, metric: impl prometheus_client::registry::Metric) {
        // The registry ends each help text with a full stop of its own.
        let help = self.help.trim_end_matches('.');
        let unit = match self.unit {
            "" => return registry.register(self.stem, help, metric),
            "seconds" => Unit::Seconds,
            "bytes" => Unit::Bytes,
            other => Unit::Other(other.to_owned()),
        };
        registry.register_with_unit(self.stem, help, unit, metric);
    }
}

/// Labels of [`Metrics::http_requests`].
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    /// The route as the table of routes spells it, never the path that a client sent.
    pub route: &'static str,
    /// HTTP status code.
    pub status: u32,
}

/// Labels of [`Metrics::model_info`].
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ModelLabels {
    /// Name under which the model is served.
    pub model: String,
    /// Version of this program.
    pub version: &'static str,
}

/// Labels of [`Metrics::experts`] and of what is counted of them. A model has no series of tiers that it does not use.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct TierLabels {
    /// `primary` or `secondary`: in memory of the first device or of another one; `streamed` from a drive.
    pub tier: &'static str,
}

/// Makes [`Metrics`], its registration and [`CATALOGUE`] from one list.
macro_rules! catalogue {
    ($($(#[doc = $help:literal])+ $field:ident: $handle:ty = $make:expr, $kind:ident, $stem:literal, $unit:literal, $labels:literal;)+) => {
        /// A handle for each metric of this process. Clones share the numbers.
        #[derive(Clone, Debug)]
        pub struct Metrics {
            $($(#[doc = $help])+ pub $field: $handle,)+
            registry: Arc<Registry>,
        }

        /// Every metric, in the order in which a scrape lists them.
        pub static CATALOGUE: &[MetricInfo] = &[$(MetricInfo {
            stem: $stem,
            unit: $unit,
            kind: Kind::$kind,
            labels: $labels,
            help: concat!($($help),+).trim_ascii(),
        },)+];

        impl Metrics {
            /// All metrics at zero.
            #[must_use]
            pub fn new() -> Self {
                let mut registry = Registry::default();
                let mut infos = CATALOGUE.iter();
                $(
                    let $field: $handle = $make;
                    let info = infos.next().expect("the list made both");
                    info.register(&mut registry, $field.clone());
                )+
                Self { $($field,)+ registry: Arc::new(registry) }
            }
        }
    };
}

/// Bounds in seconds of one step: a small model decodes in a millisecond, a streamed one takes seconds.
const STEP_SECONDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Bounds in seconds of the wait for a first token: prefill of a long prompt on a CPU takes minutes.
const FIRST_TOKEN_SECONDS: [f64; 14] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

catalogue! {
    /// HTTP requests answered, by route and status.
    http_requests: Family<RequestLabels, Counter> = Family::default(), Counter, "frank_http_requests", "", "route, status";
    /// Requests that hold a place in the batch.
    requests_running: Gauge = Gauge::default(), Gauge, "frank_requests_running", "", "";
    /// Requests that wait for a place.
    requests_waiting: Gauge = Gauge::default(), Gauge, "frank_requests_waiting", "", "";
    /// Prompt tokens computed.
    prompt_tokens: Counter = Counter::default(), Counter, "frank_prompt_tokens", "", "";
    /// Tokens generated.
    completion_tokens: Counter = Counter::default(), Counter, "frank_completion_tokens", "", "";
    /// From the arrival of a request to its first token (TTFT).
    first_token_seconds: Histogram = Histogram::new(FIRST_TOKEN_SECONDS), Histogram, "frank_first_token", "seconds", "";
    /// From one token of an answer to its next (TPOT).
    inter_token_seconds: Histogram = Histogram::new(STEP_SECONDS), Histogram, "frank_inter_token", "seconds", "";
    /// Length of one step of the engine.
    step_seconds: Histogram = Histogram::new(STEP_SECONDS), Histogram, "frank_step", "seconds", "";
    /// Blocks of the KV cache.
    kv_blocks: Gauge = Gauge::default(), Gauge, "frank_kv_blocks", "", "";
    /// Blocks of the KV cache that running requests hold.
    kv_blocks_used: Gauge = Gauge::default(), Gauge, "frank_kv_blocks_used", "", "";
    /// Blocks of the KV cache that no running request holds and whose prefix can still be found.
    kv_blocks_cached: Gauge = Gauge::default(), Gauge, "frank_kv_blocks_cached", "", "";
    /// Prompt tokens that were looked for in the prefix cache.
    prefix_cache_lookup_tokens: Counter = Counter::default(), Counter, "frank_prefix_cache_lookup_tokens", "", "";
    /// Prompt tokens that were taken from the prefix cache.
    prefix_cache_hit_tokens: Counter = Counter::default(), Counter, "frank_prefix_cache_hit_tokens", "", "";
    /// Blocks that were taken out of the prefix cache for their memory.
    prefix_cache_evictions: Counter = Counter::default(), Counter, "frank_prefix_cache_evictions", "", "";
    /// Routed experts of the model, by where they are.
    experts: Family<TierLabels, Gauge> = Family::default(), Gauge, "frank_experts", "", "tier";
    /// Routed experts that are in memory now.
    experts_in_memory: Family<TierLabels, Gauge> = Family::default(), Gauge, "frank_experts_in_memory", "", "tier";
    /// Slots of the stream cache, each for one expert.
    expert_slots: Gauge = Gauge::default(), Gauge, "frank_expert_slots", "", "";
    /// Memory of a slot of the stream cache.
    expert_slot_size: Gauge = Gauge::default(), Gauge, "frank_expert_slot_size", "bytes", "";
    /// Experts that a layer of a step needed and that lay in memory.
    expert_hits: Family<TierLabels, Counter> = Family::default(), Counter, "frank_expert_hits", "", "tier";
    /// Experts that a layer of a step needed and that had to be read from a drive, ahead of it or then.
    expert_misses: Family<TierLabels, Counter> = Family::default(), Counter, "frank_expert_misses", "", "tier";
    /// Bytes of experts read from a drive, at the start and later.
    expert_read: Family<TierLabels, Counter> = Family::default(), Counter, "frank_expert_read", "bytes", "tier";
    /// Time for which reads of those bytes were under way, one or more at once.
    expert_read_seconds: Family<TierLabels, Counter<f64, AtomicU64>> = Family::default(), Counter, "frank_expert_read", "seconds", "tier";
    /// Reads of experts that failed and were done again.
    expert_rereads: Counter = Counter::default(), Counter, "frank_expert_rereads", "", "";
    /// Time for which steps computed nothing and waited for experts.
    expert_demand_wait_seconds: Counter<f64, AtomicU64> = Counter::default(), Counter, "frank_expert_demand_wait", "seconds", "";
    /// Experts that gave their slot to another.
    expert_evictions: Counter = Counter::default(), Counter, "frank_expert_evictions", "", "";
    /// Parts in which the experts of layers were computed; what is in memory, and what has come from the drive meanwhile.
    expert_waves: Counter = Counter::default(), Counter, "frank_expert_waves", "", "";
    /// Experts that were brought into free slots while nothing ran.
    expert_warmed: Counter = Counter::default(), Counter, "frank_expert_warmed", "", "";
    /// Reads ahead of experts that the next layer was predicted to need.
    expert_prefetches: Counter = Counter::default(), Counter, "frank_expert_prefetches", "", "";
    /// Experts read ahead that the next layer needed.
    expert_prefetch_useful: Counter = Counter::default(), Counter, "frank_expert_prefetch_useful", "", "";
    /// Experts read ahead that the next layer did not need.
    expert_prefetch_wasted: Counter = Counter::default(), Counter, "frank_expert_prefetch_wasted", "", "";
    /// Bytes of experts read ahead.
    expert_prefetch_read: Counter = Counter::default(), Counter, "frank_expert_prefetch_read", "bytes", "";
    /// Bytes of experts read ahead that the next layer did not need.
    expert_prefetch_wasted_read: Counter = Counter::default(), Counter, "frank_expert_prefetch_wasted_read", "bytes", "";
    /// Experts that predictions named, in memory or not.
    expert_predictions: Counter = Counter::default(), Counter, "frank_expert_predictions", "", "";
    /// Experts that predictions named and that the next layer needed.
    expert_predictions_right: Counter = Counter::default(), Counter, "frank_expert_predictions_right", "", "";
    /// Memory that the plan allows itself, on all devices together.
    memory_budget: Gauge = Gauge::default(), Gauge, "frank_memory_budget", "bytes", "";
    /// Memory of this process that is in RAM.
    resident_memory: Gauge = Gauge::default(), Gauge, "frank_resident_memory", "bytes", "";
    /// The most memory of this process that was in RAM at any time.
    resident_memory_peak: Gauge = Gauge::default(), Gauge, "frank_resident_memory_peak", "bytes", "";
    /// Time since the endpoint started.
    uptime: Gauge<f64, AtomicU64> = Gauge::default(), Gauge, "frank_uptime", "seconds", "";
    /// Always 1; its labels say what is served.
    model_info: Family<ModelLabels, Gauge> = Family::default(), Gauge, "frank_model_info", "", "model, version";
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// The numbers as OpenMetrics text, which Prometheus scrapes.
    ///
    /// # Panics
    /// Never: writing to a string does not fail.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

/// The catalogue as the Markdown of `docs/metrics.md`.
///
/// # Panics
/// Never: writing to a string does not fail.
#[must_use]
pub fn catalogue_markdown() -> String {
    let mut text = String::from(
        "# Metrics\n\nWhat `GET /metrics` answers, in OpenMetrics text. Generated from `frank-telemetry/src/metrics.rs`; a test says how\nto write it anew when it differs.\n\n| name | kind | labels | meaning |\n| --- | --- | --- | --- |\n",
    );
    for info in CATALOGUE {
        writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            info.name(),
            info.kind.as_str(),
            info.labels,
            info.help
        )
        .expect("writing to a string does not fail");
    }
    text
}
