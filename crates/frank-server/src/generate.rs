//! The journey of a request: prompt, tokens, engine, events, and the dialect's reply.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request};
use axum::response::{IntoResponse, Response};
use frank_api::{ApiError, ApiRequest, CountRoute, Delivery, Dialect};

use crate::answer_events::AnswerEvents;
use crate::app::App;
use crate::pace::Pace;
use crate::prepare::{Prepared, check_text, prepare};
use crate::prompt::{chat_prompt, completion_prompt};
use crate::request_id::RequestId;
use crate::summary::Summary;
use crate::{error, sse};

/// The header that tells what was left out of a request, once for each.
const WARNING: HeaderName = HeaderName::from_static("x-frank-warning");

/// Answers a request in the words of `dialect`.
///
/// # Errors
/// Whatever goes wrong before the first byte of the reply.
pub(crate) async fn answer(
    app: &Arc<App>,
    dialect: &'static Dialect,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let arrived = Instant::now();
    let loaded = app.model()?.clone();
    let scope = app.keys.cache_scope(request.headers());
    let request_id = request.extensions().get::<RequestId>().cloned();
    let place = app.keys.place(request.headers())?;
    let body = app.limits.read_json(request, loaded.body_bytes_max()).await?;
    let under_way = app.answers.begin(place);
    // The end may have begun while the body came in; it waits only for answers that began before it.
    app.model()?;
    let served = Arc::clone(&loaded.served);
    let store = app.store.clone();
    let work = move || prepare(dialect, &loaded, body, scope, store);
    let Prepared { requests, prompt_tokens, rules, delivery, head, warnings, keeper } =
        off_the_async_threads(app, work).await??;
    let pace = Pace::since(arrived, requests.len(), &app.metrics);
    let n_choices = requests.len();
    let request_id = request_id.as_ref().map_or("-", RequestId::as_str);
    let summary = Summary::begin(request_id, &head.id, &served.model_name, &served.engine);
    let generations = served.engine.submit_all(requests);
    let generations = generations.map_err(|e| error::not_submitted(&e, n_choices))?;
    let told = (pace, summary);
    let events = AnswerEvents::new(generations, &served, &rules, prompt_tokens, told, keeper);
    let response = match delivery {
        Delivery::Stream { usage } => {
            let reply = (dialect.stream)(head, usage);
            sse::response(Arc::clone(app), reply, events, under_way)
        }
        Delivery::Whole => {
            let answer = events.collect(app).await?;
            Json((dialect.whole)(&head, &answer)).into_response()
        }
    };
    Ok(with_warnings(response, &warnings))
}

/// How many tokens the prompt of a request has, in the words of its dialect.
///
/// # Errors
/// As [`answer`].
pub(crate) async fn count(
    app: &Arc<App>,
    route: &'static CountRoute,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let loaded = app.model()?.clone();
    let _place = app.keys.place(request.headers())?;
    let body = app.limits.read_json(request, loaded.body_bytes_max()).await?;
    let work = move || {
        let request = (route.parse)(&body.bytes)?;
        loaded.name_for(request.options().model.as_deref())?;
        check_text(&loaded, &request)?;
        let n_tokens = match request {
            ApiRequest::Chat(chat) => chat_prompt(&loaded, &chat)?.token_ids.len(),
            ApiRequest::Completion(one) => completion_prompt(&loaded.served, one.prompt).len(),
        };
        Ok((route.body)(n_tokens as u64))
    };
    Ok(Json(off_the_async_threads(app, work).await??).into_response())
}

/// A response that tells what was left out of the request.
fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        // A name that a client made up may hold what no header does.
        let plain: String = warning
            .chars()
            .map(|c| if c.is_ascii() && !c.is_ascii_control() { c } else { '?' })
            .collect();
        if let Ok(value) = HeaderValue::from_str(&plain) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// Runs work that parses, renders or tokenizes where it delays no other request.
pub(crate) async fn off_the_async_threads<T: Send + 'static>(
    app: &App,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let turn =
        Arc::clone(&app.preparing).acquire_owned().await.expect("the semaphore is never closed");
    let task = tokio::task::spawn_blocking(move || {
        let result = work();
        drop(turn);
        result
    });
    task.await.map_err(|error| {
        tracing::error!(%error, "preparing a request failed");
        error::internal()
    })
}
