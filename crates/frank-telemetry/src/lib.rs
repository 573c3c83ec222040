//! Catalogue of every metric, and its Prometheus text. Never decides what a number means for the program.

mod metrics;

pub use metrics::{
    CATALOGUE, Kind, MetricInfo, Metrics, ModelLabels, RequestLabels, TierLabels,
    catalogue_markdown,
};

/// Media type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
