//! What every request passes on its way in and every response on its way out: host and origin, key, panics,
//! cross-origin headers, counting, the log.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD,
    CONNECTION, VARY,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use frank_telemetry::RequestLabels;
use futures_util::FutureExt;

use crate::app::App;
use crate::error;
use crate::request_id::RequestId;
use crate::routes::{is_public, route_label};

/// Lets a request through, or answers it here.
pub(crate) async fn gate(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let arrived = Instant::now();
    let (route, method) = (route_label(request.uri().path()), request.method().clone());
    let id = RequestId::of(request.headers());
    let key = app.keys.name_of(request.headers()).unwrap_or("-").to_owned();
    let has_body = !request.body().is_end_stream();
    request.extensions_mut().insert(id.clone());
    let mut response = admit(&app, request, next).await;
    let status = response.status().as_u16();
    let ms = arrived.elapsed().as_millis();
    // The route and not the path: what a client sends is not for the log.
    tracing::info!(request_id = id.as_str(), key, %method, route, status, head_ms = ms, "request");
    id.tell(response.headers_mut());
    if has_body && is_early(response.status()) {
        // What was sent and not read would be taken for the next request, so the connection ends; a client is told.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let labels = RequestLabels { route, status: u32::from(status) };
    app.metrics.http_requests.get_or_create(&labels).inc();
    response
}

/// Whether a status may come before the body of its request was read.
fn is_early(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 404 | 405 | 413 | 415 | 429 | 503)
}

async fn admit(app: &App, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let origin = match app.hosts.check(request.uri(), request.headers()) {
        Ok(origin) => origin,
        Err(error) => return error::response(&path, &error),
    };
    let response = if origin.is_some() && is_preflight(&request) {
        preflight(&request)
    } else if is_public(&path) || app.keys.admit(request.headers()) {
        run(&path, request, next).await
    } else {
        error::response(&path, &error::unauthorized())
    };
    with_cors(response, origin)
}

/// Runs the handler. A panic in it is this request's failure and nobody else's.
async fn run(path: &str, request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(path, "a request panicked");
        error::response(path, &error::internal())
    })
}

/// Whether a browser asks if a page may send a request. It sends no key with that.
fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(request: &Request) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, DELETE, OPTIONS"),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    // The origin was allowed, so it may send whatever headers its client library adds.
    if let Some(wanted) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    response
}

fn with_cors(mut response: Response, origin: Option<HeaderValue>) -> Response {
    if let Some(origin) = origin {
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().append(VARY, HeaderValue::from_static("origin"));
    }
    response
}
