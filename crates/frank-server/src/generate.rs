//! The journey of a request: prompt, tokens, engine, events, and the dialect's reply.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use frank_api::{
    AnswerOptions, ApiError, ApiRequest, CompletionPrompt, Delivery, Dialect, ReplyHead,
};
use frank_chat::Conversation;
use frank_engine::{CacheScope, Constraint, SamplingParams};

use crate::answer_events::AnswerEvents;
use crate::app::App;
use crate::choice::TextRules;
use crate::limits::JsonBody;
use crate::pace::Pace;
use crate::sampling::sampling_params;
use crate::served::{Loaded, Served, unix_seconds};
use crate::summary::Summary;
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
    let scope = app.keys.cache_scope(request.headers());
    let body = app.limits.read_json(request, loaded.body_bytes_max()).await?;
    let under_way = app.answers.begin();
    // The end may have begun while the body came in; it waits only for answers that began before it.
    app.model()?;
    let served = Arc::clone(&loaded.served);
    let work = move || prepare(dialect, &loaded, body, scope);
    let Prepared { requests, prompt_tokens, rules, delivery, model } =
        off_the_async_threads(app, work).await??;
    let pace = Pace::since(arrived, requests.len(), &app.metrics);
    let n_choices = requests.len();
    let head = ReplyHead {
        id: format!("{}{:032x}", dialect.id_prefix, rand::random::<u128>()),
        created: unix_seconds(),
        model,
    };
    let summary = Summary::begin(&head.id, &served.model_name, &served.engine);
    let generations = served.engine.submit_all(requests);
    let generations = generations.map_err(|e| error::not_submitted(&e, n_choices))?;
    let told = (pace, summary);
    let events = AnswerEvents::new(generations, &served, &rules, prompt_tokens, told);
    match delivery {
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
    /// One for each choice.
    requests: Vec<frank_engine::Request>,
    prompt_tokens: u64,
    rules: TextRules,
    delivery: Delivery,
    /// The name that the client used.
    model: String,
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the body's memory is given back when its tokens are made"
)]
fn prepare(
    dialect: &Dialect,
    loaded: &Loaded,
    body: JsonBody,
    scope: CacheScope,
) -> Result<Prepared, ApiError> {
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
    let prompt_tokens = prompt.len() as u64;
    let requests = choices(loaded, &prompt, &options, scope)?;
    let AnswerOptions { min_tokens, stop, n_logprobs, delivery, .. } = options;
    let rules = TextRules { stop, min_tokens, tells_logprobs: n_logprobs.is_some() };
    Ok(Prepared { requests, prompt_tokens, rules, delivery, model })
}

/// A request for each choice.
fn choices(
    loaded: &Loaded,
    prompt: &[u32],
    options: &AnswerOptions,
    scope: CacheScope,
) -> Result<Vec<frank_engine::Request>, ApiError> {
    let served = &loaded.served;
    let n_choices = options.n_choices.unwrap_or(1);
    let sampling = sampling_params(&served.tokenizer, &served.sampling, &options.sampling)?;
    // An answer that must not end never has enough tokens.
    let min_tokens = if options.ignore_end { u64::MAX } else { options.min_tokens };
    let constraint = options.format.as_ref().map(|rule| loaded.constraint(rule)).transpose()?;
    let request = |choice: u32| frank_engine::Request {
        prompt: prompt.to_vec(),
        max_tokens: options.max_tokens.map_or(usize::MAX, saturated),
        sampling: SamplingParams { seed: seed_of(choice, sampling.seed), ..sampling.clone() },
        end_tokens: served.tokenizer.end_tokens().to_vec(),
        min_tokens: saturated(min_tokens),
        n_logprobs: options.n_logprobs.map(|n| n as usize),
        constraint: constraint.clone().map(|one| Box::new(one) as Box<dyn Constraint>),
        cache_scope: options.use_cache.unwrap_or(true).then_some(scope),
    };
    Ok((0..n_choices).map(request).collect())
}

fn saturated(n_tokens: u64) -> usize {
    usize::try_from(n_tokens).unwrap_or(usize::MAX)
}

/// Choices with one seed would all be the same.
fn seed_of(choice: u32, seed: Option<u64>) -> Option<u64> {
    seed.map(|seed| seed.wrapping_add(u64::from(choice)))
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
