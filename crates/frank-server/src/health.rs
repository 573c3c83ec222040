//! Whether a token can be made, and what the endpoint measures.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use frank_engine::Health;
use frank_telemetry::ModelLabels;
use serde_json::json;

use crate::app::App;

/// `GET /health`: 200 only when a token can be made; otherwise 503 and why.
pub(crate) async fn health(State(app): State<Arc<App>>) -> Response {
    match trouble(&app) {
        None => Json(json!({"status": "ok"})).into_response(),
        Some((status, reason)) => {
            let body = Json(json!({"status": status, "reason": reason}));
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], body).into_response()
        }
    }
}

fn trouble(app: &App) -> Option<(&'static str, String)> {
    if !app.is_running() {
        return Some(("stopping", "the server is shutting down".to_owned()));
    }
    let Some(loaded) = app.model.get() else {
        return Some(("loading", "the model is being loaded".to_owned()));
    };
    match loaded.served.engine.health() {
        Health::Ok => None,
        Health::Stuck(idle) => {
            let reason = format!("a request waits and no step has ended for {} s", idle.as_secs());
            Some(("stuck", reason))
        }
        Health::Failing(reason) => Some(("failing", reason)),
        Health::Stopped => Some(("stopped", "the engine has ended".to_owned())),
    }
}

/// `GET /metrics`: the catalogue of `docs/metrics.md`.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    update_gauges(&app);
    let content_type = HeaderValue::from_static(frank_telemetry::CONTENT_TYPE);
    ([(CONTENT_TYPE, content_type)], app.metrics.encode()).into_response()
}

/// Brings what is not counted where it happens up to date.
fn update_gauges(app: &App) {
    let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let metrics = &app.metrics;
    metrics.uptime.set(app.started.elapsed().as_secs_f64());
    if let Ok(memory) = frank_os::process_memory() {
        metrics.resident_memory.set(i64::try_from(memory.rss).unwrap_or(i64::MAX));
        metrics.resident_memory_peak.set(i64::try_from(memory.rss_peak).unwrap_or(i64::MAX));
    }
    if let Some(loaded) = app.model.get() {
        let stats = loaded.served.engine.stats();
        metrics.requests_running.set(gauge(stats.running));
        metrics.requests_waiting.set(gauge(stats.waiting));
        metrics.kv_blocks.set(gauge(stats.kv_blocks_total));
        metrics.kv_blocks_used.set(gauge(stats.kv_blocks_used));
        metrics.kv_blocks_cached.set(gauge(stats.kv_blocks_cached));
        let labels = ModelLabels {
            model: loaded.served.model_name.clone(),
            version: env!("CARGO_PKG_VERSION"),
        };
        metrics.model_info.get_or_create(&labels).set(1);
    }
}
