//! The table of routes, and the handlers that are a line or two.

use std::sync::{Arc, LazyLock};

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use frank_api::{
    ApiError, DIALECTS, DetokenizeRequest, Dialect, ErrorKind, TokenizeRequest,
    anthropic_model_body, anthropic_models_body, deleted_body, detokenize_body, model_body,
    models_body, openapi_document, tokenize_body,
};
use frank_chat::{Prompt, TemplateError};
use frank_engine::CacheScope;
use frank_tokenizer::{Detokenizer, Specials, Tokenizer};
use serde_json::Value;

use crate::app::App;
use crate::gate::gate;
use crate::generate::{answer, count, off_the_async_threads};
use crate::stored::{AnswerStore, not_stored};
use crate::{error, health, page};

const MODELS: &str = "/v1/models";
const MODEL: &str = "/v1/models/{id}";
const TOKENIZE: &str = "/tokenize";
const DETOKENIZE: &str = "/detokenize";
const HEALTH: &str = "/health";
const METRICS: &str = "/metrics";
const OPENAPI: &str = "/openapi.json";
const PAGE: &str = "/";

/// Clients that send it expect another form of the list of models.
const ANTHROPIC_VERSION: &str = "anthropic-version";

/// Everything that is served.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route(MODELS, get(list_models))
        .route(MODEL, get(get_model))
        .route(TOKENIZE, post(tokenize))
        .route(DETOKENIZE, post(detokenize))
        .route(HEALTH, get(health::health))
        .route(METRICS, get(health::metrics))
        .route(OPENAPI, get(openapi))
        .route(PAGE, get(page::page));
    for dialect in DIALECTS {
        let handler = async move |State(app): State<Arc<App>>, request: Request| {
            let outcome = answer(&app, dialect, request).await;
            outcome.unwrap_or_else(|error| error::response(dialect.path, &error))
        };
        router = router.route(dialect.path, post(handler));
        router = with_count(router, dialect);
        router = with_store(router, dialect);
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), gate))
        .with_state(app)
}

/// Adds where a dialect counts tokens.
fn with_count(router: Router<Arc<App>>, dialect: &'static Dialect) -> Router<Arc<App>> {
    let Some(route) = &dialect.count else { return router };
    let handler = async move |State(app): State<Arc<App>>, request: Request| {
        let outcome = count(&app, route, request).await;
        outcome.unwrap_or_else(|error| error::response(route.path, &error))
    };
    router.route(route.path, post(handler))
}

/// Adds where stored answers of a dialect are read and deleted.
fn with_store(router: Router<Arc<App>>, dialect: &'static Dialect) -> Router<Arc<App>> {
    if !dialect.stores {
        return router;
    }
    let read = async move |State(app): State<Arc<App>>, headers: HeaderMap, id: NamedInPath| {
        reply_of_store(&app, dialect, &headers, id, |store, id, scope| {
            Ok(store.get(id, scope)?.body)
        })
        .await
    };
    let delete = async move |State(app): State<Arc<App>>, headers: HeaderMap, id: NamedInPath| {
        reply_of_store(&app, dialect, &headers, id, |store, id, scope| {
            store.remove(id, scope).map(|()| deleted_body(id))
        })
        .await
    };
    router.route(&format!("{}/{{id}}", dialect.path), get(read).delete(delete))
}

/// What stands in a path where a name is expected.
type NamedInPath = Result<Path<String>, PathRejection>;

/// The name in a path.
fn named_in_path(name: NamedInPath) -> Result<String, ApiError> {
    let not_text = |_| ApiError::new(ErrorKind::InvalidRequest, "the path is not UTF-8 text");
    name.map(|Path(name)| name).map_err(not_text)
}

/// What the store says of an answer, to the key that made it.
async fn reply_of_store(
    app: &App,
    dialect: &'static Dialect,
    headers: &HeaderMap,
    id: NamedInPath,
    ask: impl FnOnce(&AnswerStore, &str, CacheScope) -> Result<Value, ApiError> + Send + 'static,
) -> Response {
    let scope = app.keys.cache_scope(headers);
    let asked = named_in_path(id).and_then(|id| {
        let store = app.store.clone().ok_or_else(|| not_stored(&id))?;
        Ok((store, id))
    });
    let outcome = match asked {
        Ok((store, id)) => {
            off_the_async_threads(app, move || ask(&store, &id, scope)).await.flatten()
        }
        Err(error) => Err(error),
    };
    outcome.map_or_else(
        |error| error::response(dialect.path, &error),
        |body| Json(body).into_response(),
    )
}

/// Whether a path is served without a key.
pub(crate) fn is_public(path: &str) -> bool {
    path == HEALTH || path == PAGE
}

/// The name of a path in metrics: one of a fixed set, whatever clients send.
pub(crate) fn route_label(path: &str) -> &'static str {
    let fixed = [MODELS, TOKENIZE, DETOKENIZE, HEALTH, METRICS, OPENAPI, PAGE];
    let mut known = fixed.into_iter().chain(DIALECTS.iter().map(|dialect| dialect.path));
    match known.find(|route| *route == path) {
        Some(route) => route,
        None if path.starts_with("/v1/models/") => MODEL,
        None => DIALECTS.iter().find_map(|dialect| below(dialect, path)).unwrap_or("other"),
    }
}

/// The name of a path under that of a dialect.
fn below(dialect: &Dialect, path: &str) -> Option<&'static str> {
    let count = dialect.count.as_ref().map(|route| route.path);
    let rest = path.strip_prefix(dialect.path)?.strip_prefix('/')?;
    match count {
        Some(count) if count == path => Some(count),
        // One label for all answers.
        _ if dialect.stores && !rest.is_empty() => Some("stored answer"),
        _ => None,
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

/// Everything that is served, for programs. It is made once.
async fn openapi() -> Json<&'static Value> {
    static DOCUMENT: LazyLock<Value> =
        LazyLock::new(|| openapi_document(env!("CARGO_PKG_VERSION")));
    Json(&DOCUMENT)
}

async fn list_models(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let asks_for_catalogue = query.is_some_and(|query| {
        query.split('&').any(|pair| pair == "client_version" || pair.starts_with("client_version="))
    });
    match app.model() {
        Ok(loaded) if headers.contains_key(ANTHROPIC_VERSION) => {
            Json(anthropic_models_body(&loaded.cards())).into_response()
        }
        Ok(loaded) => Json(models_body(&loaded.cards(), asks_for_catalogue)).into_response(),
        Err(error) => error::response(envelope_of(&headers, MODELS), &error),
    }
}

/// The path in whose words an error about models is told: clients of another vendor expect its own.
fn envelope_of(headers: &HeaderMap, path: &'static str) -> &'static str {
    let counting = DIALECTS.iter().find(|dialect| dialect.count.is_some());
    match counting {
        Some(dialect) if headers.contains_key(ANTHROPIC_VERSION) => dialect.path,
        _ => path,
    }
}

async fn get_model(State(app): State<Arc<App>>, headers: HeaderMap, id: NamedInPath) -> Response {
    let body =
        if headers.contains_key(ANTHROPIC_VERSION) { anthropic_model_body } else { model_body };
    let card = named_in_path(id).and_then(|id| {
        let loaded = app.model()?;
        let name = loaded.name_for(Some(&id))?;
        Ok(loaded.cards().into_iter().find(|card| card.id == name))
    });
    match card {
        Ok(card) => Json(card.as_ref().map(body)).into_response(),
        Err(error) => error::response(envelope_of(&headers, MODEL), &error),
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
    let _place = app.keys.place(request.headers())?;
    let body = app.limits.read_json(request, loaded.body_bytes_max()).await?;
    let answer = off_the_async_threads(app, move || work(&tokenizer, &body.bytes)).await??;
    Ok(Json(answer).into_response())
}
