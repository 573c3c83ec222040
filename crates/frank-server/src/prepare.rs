//! What is done before a request is queued: it is read, its prompt is made, and what its answer is kept to is compiled.
//! Runs where it delays no other request.

use std::sync::Arc;

use frank_api::{
    AnswerOptions, ApiError, ApiRequest, ChatRequest, Choice, CompletionPrompt, CompletionRequest,
    Delivery, Dialect, ErrorKind, ReplyHead, ToolChoice, Totals,
};
use frank_chat::OutputRules;
use frank_engine::{CacheScope, SamplingParams};

use crate::answer_form::{Kept, answer_form};
use crate::choice::{Reading, TextRules, new_id};
use crate::error;
use crate::keeper::Keeper;
use crate::limits::JsonBody;
use crate::prompt::{chat_prompt, completion_prompt};
use crate::sampling::sampling_params;
use crate::served::{Loaded, unix_seconds};
use crate::stored::{AnswerStore, not_stored};
use crate::thinking_budget::ThinkingBudget;
use crate::voice::Voice;

/// A request in the engine's terms, and what is needed to reply.
pub(crate) struct Prepared {
    /// One for each choice.
    pub(crate) requests: Vec<frank_engine::Request>,
    pub(crate) prompt_tokens: u64,
    pub(crate) rules: TextRules,
    pub(crate) delivery: Delivery,
    pub(crate) head: ReplyHead,
    pub(crate) warnings: Vec<String>,
    pub(crate) keeper: Option<Keeper>,
}

/// Reads a request, makes its prompt and says what its answer is kept to.
///
/// # Errors
/// What of the request cannot be honoured.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the body's memory is given back when its tokens are made"
)]
pub(crate) fn prepare(
    dialect: &'static Dialect,
    loaded: &Loaded,
    body: JsonBody,
    scope: CacheScope,
    store: Option<AnswerStore>,
) -> Result<Prepared, ApiError> {
    let request = (dialect.parse)(&body.bytes)?;
    let model = loaded.name_for(request.options().model.as_deref())?.to_owned();
    let request = match request {
        ApiRequest::Chat(chat) => ApiRequest::Chat(after_previous(chat, scope, store.as_ref())?),
        completion @ ApiRequest::Completion(_) => completion,
    };
    check_text(loaded, &request)?;
    let (prompt, form, reading) = match &request {
        ApiRequest::Chat(chat) => chat_parts(dialect, loaded, chat)?,
        ApiRequest::Completion(completion) => completion_parts(loaded, completion)?,
    };
    let head = ReplyHead {
        id: new_id(dialect.id_prefix),
        created: unix_seconds(),
        model,
        echo: request.options().echo.clone(),
    };
    let keeper = match (&request, store) {
        (ApiRequest::Chat(chat), Some(store)) if dialect.stores && chat.store => {
            Some(keeper(dialect, &head, chat, scope, store))
        }
        _ => None,
    };
    let requests = choices(loaded, &prompt, request.options(), form.as_ref(), scope)?;
    let shall_be_stored = matches!(&request, ApiRequest::Chat(chat) if chat.store);
    let AnswerOptions { min_tokens, stop, n_logprobs, delivery, mut warnings, .. } =
        request.into_options();
    if shall_be_stored && dialect.stores && keeper.is_none() {
        warnings.push("the answer is not stored: this endpoint stores none".to_owned());
    }
    let rules = TextRules { stop, min_tokens, tells_logprobs: n_logprobs.is_some(), reading };
    let prompt_tokens = prompt.len() as u64;
    Ok(Prepared { requests, prompt_tokens, rules, delivery, head, warnings, keeper })
}

/// The prompt of a chat, what the answer is kept to, and how its parts are told.
type Parts = (Vec<u32>, Option<Kept>, Option<Reading>);

fn chat_parts(
    dialect: &'static Dialect,
    loaded: &Loaded,
    chat: &ChatRequest,
) -> Result<Parts, ApiError> {
    let prompt = chat_prompt(loaded, chat)?;
    let form = answer_form(loaded, chat, &prompt)?;
    let voice = &prompt.voice;
    // Where nothing but text can come, nothing has to be told from it.
    let is_plain = form.is_text || (form.tools.is_empty() && !voice.thinks && !voice.knows_tools);
    let reading = (!is_plain).then(|| Reading {
        voice: Arc::clone(voice),
        rules: OutputRules {
            tools: form.tools.into(),
            begins_in_reasoning: prompt.begins_in_reasoning,
            is_kept: form.keeps_calls,
        },
        parallel: chat.parallel_tool_calls,
        is_calls_only: matches!(chat.tool_choice, ToolChoice::Required | ToolChoice::Named(_)),
        call_id_prefix: dialect.call_id_prefix,
    });
    let kept = within_budget(loaded, chat, prompt.begins_in_reasoning, voice, form.constraint);
    Ok((prompt.token_ids, kept, reading))
}

fn completion_parts(loaded: &Loaded, completion: &CompletionRequest) -> Result<Parts, ApiError> {
    let prompt = completion_prompt(&loaded.served, completion.prompt.clone());
    let rule = completion.options.format.as_ref();
    let constraint = rule.map(|rule| loaded.constraint(rule)).transpose()?;
    Ok((prompt, constraint.map(Kept::new), None))
}

/// What an answer is kept to, with a budget for its thoughts where one is wanted. A model that cannot be told not to
/// think gets a budget of nothing when it shall not.
fn within_budget(
    loaded: &Loaded,
    chat: &ChatRequest,
    begins_in_reasoning: bool,
    voice: &Voice,
    kept: Option<Kept>,
) -> Option<Kept> {
    let shall_not_think = chat.conversation.thinking == Some(false);
    let budget = if shall_not_think { Some(0) } else { chat.thinking_budget };
    match budget {
        Some(tokens) if voice.thinks => {
            let tokenizer = Arc::clone(&loaded.served.tokenizer);
            let marks = voice.format.reasoning;
            Some(Kept::of(move || {
                let inner = kept.as_ref().map(Kept::constraint);
                let marks = (marks.opening, marks.closing);
                Box::new(ThinkingBudget::new(&tokenizer, marks, tokens, begins_in_reasoning, inner))
            }))
        }
        _ => kept,
    }
}

/// The request behind the conversation that a stored answer ended, where it goes on after one.
fn after_previous(
    chat: ChatRequest,
    scope: CacheScope,
    store: Option<&AnswerStore>,
) -> Result<ChatRequest, ApiError> {
    let Some(id) = &chat.previous else { return Ok(chat) };
    let stored = store.ok_or_else(|| not_stored(id)).and_then(|store| store.get(id, scope));
    let stored = stored.map_err(|error| ApiError {
        kind: ErrorKind::InvalidRequest,
        param: Some("previous_response_id".to_owned()),
        ..error.with_code("previous_response_not_found")
    })?;
    Ok(chat.after(stored.messages))
}

fn keeper(
    dialect: &'static Dialect,
    head: &ReplyHead,
    chat: &ChatRequest,
    scope: CacheScope,
    store: AnswerStore,
) -> Keeper {
    Keeper {
        store,
        dialect,
        head: head.clone(),
        scope,
        messages: chat.said().to_vec(),
        choice: Choice::default(),
        totals: Totals::default(),
    }
}

/// A request for each choice.
fn choices(
    loaded: &Loaded,
    prompt: &[u32],
    options: &AnswerOptions,
    kept: Option<&Kept>,
    scope: CacheScope,
) -> Result<Vec<frank_engine::Request>, ApiError> {
    let served = &loaded.served;
    let n_choices = options.n_choices.unwrap_or(1);
    let sampling = sampling_params(&served.tokenizer, &served.sampling, &options.sampling)?;
    // An answer that must not end never has enough tokens.
    let min_tokens = if options.ignore_end { u64::MAX } else { options.min_tokens };
    let request = |choice: u32| frank_engine::Request {
        prompt: prompt.to_vec(),
        max_tokens: options.max_tokens.map_or(usize::MAX, saturated),
        sampling: SamplingParams { seed: seed_of(choice, sampling.seed), ..sampling.clone() },
        end_tokens: served.tokenizer.end_tokens().to_vec(),
        min_tokens: saturated(min_tokens),
        n_logprobs: options.n_logprobs.map(|n| n as usize),
        constraint: kept.map(Kept::constraint),
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
pub(crate) fn check_text(loaded: &Loaded, request: &ApiRequest) -> Result<(), ApiError> {
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
