//! The journey of a request: prompt, tokens, engine, events, and the dialect's reply.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use frank_api::{
    AnswerOptions, ApiError, ApiRequest, CompletionPrompt, Delivery, Dialect, ReplyHead,
    SamplingOverrides,
};
use frank_chat::Conversation;
use frank_engine::SamplingParams;

use crate::answer_events::{AnswerEvents, Pace};
use crate::app::App;
use crate::limits::JsonBody;
use crate::served::{Loaded, Served, unix_seconds};
use crate::{error, sse};

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
    let body = app.limits.read_json(request, loaded.body_bytes_max()).await?;
    let under_way = app.answers.begin();
    // The end may have begun while the body came in; it waits only for answers that began before it.
    app.model()?;
    let served = Arc::clone(&loaded.served);
    let prepared = off_the_async_threads(app, move || prepare(dialect, &loaded, body)).await??;
    let prompt_tokens = prepared.request.prompt.len() as u64;
    let generation =
        served.engine.submit(prepared.request).map_err(|e| error::not_submitted(&e))?;
    let events = AnswerEvents::new(
        generation,
        &served,
        &prepared.stop,
        prompt_tokens,
        Pace::since(arrived, &app.metrics),
    );
    let head = ReplyHead {
        id: format!("{}{:032x}", dialect.id_prefix, rand::random::<u128>()),
        created: unix_seconds(),
        model: prepared.model,
    };
    match prepared.delivery {
        Delivery::Stream { usage } => {
            let reply = (dialect.stream)(head, usage);
            Ok(sse::response(Arc::clone(app), reply, events, under_way))
        }
        Delivery::Whole => {
            let answer = events.collect(app).await?;
            Ok(Json((dialect.whole)(&head, &answer)).into_response())
        }
    }
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

/// A request in the engine's terms, and what is needed to reply.
struct Prepared {
    request: frank_engine::Request,
    stop: Vec<String>,
    delivery: Delivery,
    /// The name that the client used.
    model: String,
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the body's memory is given back when its tokens are made"
)]
fn prepare(dialect: &Dialect, loaded: &Loaded, body: JsonBody) -> Result<Prepared, ApiError> {
    let request = (dialect.parse)(&body.bytes)?;
    let model = loaded.name_for(request.options().model.as_deref())?.to_owned();
    let served = &loaded.served;
    check_text(loaded, &request)?;
    let (prompt, options) = match request {
        ApiRequest::Chat(chat) => (chat_prompt(served, chat.conversation)?, chat.options),
        ApiRequest::Completion(completion) => {
            (completion_prompt(served, completion.prompt), completion.options)
        }
    };
    let AnswerOptions { sampling, max_tokens, stop, ignore_end, delivery, .. } = options;
    let request = frank_engine::Request {
        prompt,
        max_tokens: max_tokens.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)),
        sampling: merged(&served.sampling, &sampling),
        end_tokens: if ignore_end { Vec::new() } else { served.tokenizer.end_tokens().to_vec() },
        ..frank_engine::Request::default()
    };
    Ok(Prepared { request, stop, delivery, model })
}

/// Refuses a text that no tokens of the context can hold.
fn check_text(loaded: &Loaded, request: &ApiRequest) -> Result<(), ApiError> {
    let bytes = match request {
        ApiRequest::Chat(chat) => chat.conversation.text_bytes(),
        ApiRequest::Completion(completion) => match &completion.prompt {
            CompletionPrompt::Text(text) => text.len(),
            CompletionPrompt::Tokens(_) => 0,
        },
    };
    if bytes <= loaded.text_bytes_max {
        return Ok(());
    }
    let n_ctx = loaded.served.engine.n_ctx();
    Err(error::text_too_long(bytes, n_ctx))
}

fn chat_prompt(served: &Served, conversation: Conversation) -> Result<Vec<u32>, ApiError> {
    let conversation = Conversation { now: Some(unix_seconds()), ..conversation };
    let template = served.template.as_ref().ok_or_else(error::no_template)?;
    let control_texts = served.tokenizer.control_texts(template.source());
    let prompt =
        template.render(&conversation, &control_texts).map_err(|e| error::not_rendered(&e))?;
    Ok(served.tokenizer.encode_prompt(&prompt))
}

fn completion_prompt(served: &Served, prompt: CompletionPrompt) -> Vec<u32> {
    match prompt {
        CompletionPrompt::Text(text) => served.tokenizer.encode_text(&text),
        CompletionPrompt::Tokens(tokens) => tokens,
    }
}

/// The model's own sampling, changed where the client says so.
fn merged(defaults: &SamplingParams, overrides: &SamplingOverrides) -> SamplingParams {
    SamplingParams {
        temperature: overrides.temperature.unwrap_or(defaults.temperature),
        top_k: overrides.top_k.unwrap_or(defaults.top_k),
        top_p: overrides.top_p.unwrap_or(defaults.top_p),
        min_p: overrides.min_p.unwrap_or(defaults.min_p),
        repeat_penalty: overrides.repeat_penalty.unwrap_or(defaults.repeat_penalty),
        repeat_last_n: overrides.repeat_last_n.map_or(defaults.repeat_last_n, |n| n as usize),
        presence_penalty: overrides.presence_penalty.unwrap_or(defaults.presence_penalty),
        frequency_penalty: overrides.frequency_penalty.unwrap_or(defaults.frequency_penalty),
        seed: overrides.seed.or(defaults.seed),
    }
}
