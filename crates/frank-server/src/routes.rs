//! The table of routes, and the handlers that are a line or two.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use frank_api::{
    ApiError, DIALECTS, DetokenizeRequest, ErrorKind, TokenizeRequest, detokenize_body, model_body,
    models_body, tokenize_body,
};
use frank_chat::{Prompt, TemplateError};
use frank_tokenizer::{Detokenizer, Specials, Tokenizer};

use crate::app::App;
use crate::gate::gate;
use crate::generate::{answer, off_the_async_threads};
use crate::{error, health, page};

const MODELS: &str = "/v1/models";
const MODEL: &str = "/v1/models/{id}";
const TOKENIZE: &str = "/tokenize";
const DETOKENIZE: &str = "/detokenize";
const HEALTH: &str = "/health";
const METRICS: &str = "/metrics";
const PAGE: &str = "/";

/// Everything that is served.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route(MODELS, get(list_models))
        .route(MODEL, get(get_model))
        .route(TOKENIZE, post(tokenize))
        .route(DETOKENIZE, post(detokenize))
        .route(HEALTH, get(health::health))
        .route(METRICS, get(health::metrics))
        .route(PAGE, get(page::page));
    for dialect in DIALECTS {
        let handler = async move |State(app): State<Arc<App>>, request: Request| {
            let outcome = answer(&app, dialect, request).await;
            outcome.unwrap_or_else(|error| error::response(dialect.path, &error))
        };
        router = router.route(dialect.path, post(handler));
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), gate))
        .with_state(app)
}

/// Whether a path is served without a key.
pub(crate) fn is_public(path: &str) -> bool {
    path == HEALTH || path == PAGE
}

/// The name of a path in metrics: one of a fixed set, whatever clients send.
pub(crate) fn route_label(path: &str) -> &'static str {
    let fixed = [MODELS, TOKENIZE, DETOKENIZE, HEALTH, METRICS, PAGE];
    let mut known = fixed.into_iter().chain(DIALECTS.iter().map(|dialect| dialect.path));
    match known.find(|route| *route == path) {
        Some(route) => route,
        None if path.starts_with("/v1/models/") => MODEL,
        None => "other",
    }
}

async fn not_found(request: Request) -> Response {
    let path = request.uri().path();
    let message = format!("there is nothing at {path}; GET / lists what there is");
    error::response(path, &ApiError::new(ErrorKind::NotFound, message).with_code("unknown_route"))
}

async fn method_not_allowed(request: Request) -> Response {
    let path = request.uri().path();
    let message = format!("{path} does not answer {}", request.method());
    error::response(path, &ApiError::new(ErrorKind::MethodNotAllowed, message))
}

async fn list_models(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let asks_for_catalogue = query.is_some_and(|query| {
        query.split('&').any(|pair| pair == "client_version" || pair.starts_with("client_version="))
    });
    match app.model() {
        Ok(loaded) => Json(models_body(&loaded.cards(), asks_for_catalogue)).into_response(),
        Err(error) => error::response(MODELS, &error),
    }
}

async fn get_model(State(app): State<Arc<App>>, Path(id): Path<String>) -> Response {
    let card = app.model().and_then(|loaded| {
        let name = loaded.name_for(Some(&id))?;
        Ok(loaded.cards().into_iter().find(|card| card.id == name))
    });
    match card {
        Ok(card) => Json(card.as_ref().map(model_body)).into_response(),
        Err(error) => error::response(MODEL, &error),
    }
}

async fn tokenize(State(app): State<Arc<App>>, request: Request) -> Response {
    let bounds = app.model().map(|loaded| (loaded.text_bytes_max, loaded.served.engine.n_ctx()));
    let outcome = with_tokenizer(&app, request, move |tokenizer, body| {
        let ((bytes_max, n_ctx), request) = (bounds?, TokenizeRequest::parse(body)?);
        if request.content.len() > bytes_max {
            return Err(error::text_too_long(request.content.len(), n_ctx));
        }
        Ok(tokenize_body(&tokens_of(tokenizer, request)?))
    });
    outcome.await.unwrap_or_else(|error| error::response(TOKENIZE, &error))
}

fn tokens_of(tokenizer: &Tokenizer, request: TokenizeRequest) -> Result<Vec<u32>, ApiError> {
    let TokenizeRequest { content, add_special, parse_special } = request;
    Ok(match (add_special, parse_special) {
        (false, true) => tokenizer.encode(&content, Specials::Parse),
        (false, false) => tokenizer.encode(&content, Specials::Literal),
        (true, false) => tokenizer.encode_text(&content),
        (true, true) => {
            let prompt = Prompt::unguarded(content)
                .ok_or_else(|| error::not_rendered(&TemplateError::NoGuard))?;
            tokenizer.encode_prompt(&prompt)
        }
    })
}

async fn detokenize(State(app): State<Arc<App>>, request: Request) -> Response {
    let outcome = with_tokenizer(&app, request, |tokenizer, body| {
        let request = DetokenizeRequest::parse(body)?;
        let mut detokenizer = Detokenizer::new(Arc::clone(tokenizer));
        let mut text: String = request.tokens.iter().map(|id| detokenizer.push(*id)).collect();
        text.push_str(&detokenizer.finish());
        Ok(detokenize_body(&text))
    });
    outcome.await.unwrap_or_else(|error| error::response(DETOKENIZE, &error))
}

/// Answers a request that only the tokenizer is needed for.
async fn with_tokenizer(
    app: &App,
    request: Request,
    work: impl FnOnce(&Arc<Tokenizer>, &[u8]) -> Result<serde_json::Value, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let loaded = app.model()?;
    let tokenizer = Arc::clone(&loaded.served.tokenizer);
    let body = app.limits.read_json(request, loaded.body_bytes_max()).await?;
    let answer = off_the_async_threads(app, move || work(&tokenizer, &body.bytes)).await??;
    Ok(Json(answer).into_response())
}
