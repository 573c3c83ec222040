//! OpenAI Completions: continue a text or token ids, without a chat template.

use serde_json::{Value, json};

use super::Dialect;
use super::openai::{self, SYSTEM_FINGERPRINT, logprobs};
use crate::error::ApiError;
use crate::event::{Event, FinishReason, TokenLogprob, Totals};
use crate::fields::{Fields, token_ids, wrong_type};
use crate::json;
use crate::reply::{Answer, Frame, ReplyHead, ReplyStream};
use crate::request::{ApiRequest, CompletionPrompt, CompletionRequest};

pub(super) const DIALECT: Dialect = Dialect {
    name: "completions",
    path: "/v1/completions",
    id_prefix: "cmpl-",
    parse,
    stream: |head, usage| Box::new(CompletionStream { head, usage }),
    whole,
    error: openai::error,
    call_id_prefix: "call_",
    count: None,
    stores: false,
};

fn parse(body: &[u8]) -> Result<ApiRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let prompt = prompt(fields.required("prompt")?, "prompt")?;
    let max_tokens = fields.amount("max_tokens")?;
    let n_logprobs = logprobs::of_completion(&mut fields)?;
    let options = openai::answer_options(&mut fields, max_tokens, n_logprobs)?;
    let n = options.n_choices.unwrap_or(1);
    fields.refuse_unless("echo", " or send false", |value| value == false)?;
    fields.refuse_unless("best_of", " or send what n says", |value| *value == n)?;
    fields.refuse_unless("suffix", " or send an empty text", |value| value == "")?;
    refuse_what_a_chat_has(&mut fields)?;
    fields.finish()?;
    Ok(ApiRequest::Completion(CompletionRequest { prompt, options }))
}

/// A text that is continued calls no tools and has no thoughts apart.
fn refuse_what_a_chat_has(fields: &mut Fields) -> Result<(), ApiError> {
    let empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let none_or_auto = |value: &Value| value == "none" || value == "auto";
    fields.refuse_unless("tools", " or send an empty list", empty_list)?;
    fields.refuse_unless("tool_choice", " or send \"none\" or \"auto\"", none_or_auto)?;
    fields.ignore(&["reasoning_effort", "parallel_tool_calls"]);
    Ok(())
}

/// A text, token ids, or a list of one of either.
fn prompt(value: Value, path: &str) -> Result<CompletionPrompt, ApiError> {
    const EXPECTED: &str = "a string, a list of token ids, or a list of one of these";
    match value {
        Value::String(text) => Ok(CompletionPrompt::Text(text)),
        Value::Array(items) if items.iter().all(Value::is_number) => {
            token_ids(&items, path).map(CompletionPrompt::Tokens)
        }
        Value::Array(mut items) if items.len() == 1 && path == "prompt" => {
            prompt(items.remove(0), "prompt[0]")
        }
        Value::Array(items)
            if path == "prompt" && items.iter().all(|item| item.is_string() || item.is_array()) =>
        {
            let message = format!(
                "prompt must hold one prompt, not {}: send a request for each",
                items.len()
            );
            Err(ApiError::invalid("prompt", message).with_code("unsupported_parameter"))
        }
        Value::Array(_) => Err(ApiError::invalid(path, format!("{path} must be {EXPECTED}"))),
        other => Err(wrong_type(path.to_owned(), EXPECTED, &other)),
    }
}

fn body(head: &ReplyHead, choices: &Value) -> Value {
    json!({
        "id": head.id,
        "object": "text_completion",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": SYSTEM_FINGERPRINT,
        "choices": choices,
    })
}

fn choice(
    index: usize,
    text: &str,
    logprobs: Option<&[TokenLogprob]>,
    reason: Option<FinishReason>,
) -> Value {
    let (logprobs, reason) = (logprobs::completion(logprobs), reason.map(openai::finish_reason));
    json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason})
}

fn whole(head: &ReplyHead, answer: &Answer) -> Value {
    let choices: Vec<Value> = answer
        .choices
        .iter()
        .enumerate()
        .map(|(i, one)| choice(i, &one.text, one.logprobs.as_deref(), Some(one.reason)))
        .collect();
    let mut whole = body(head, &choices.into());
    whole["usage"] = openai::usage(&answer.totals);
    whole["timings"] = openai::timings(&answer.totals);
    whole
}

/// Writes chunks: one for each text, for each choice one with the reason of the end, then the usage if asked. The last
/// chunk has the timings.
struct CompletionStream {
    head: ReplyHead,
    usage: bool,
}

impl CompletionStream {
    fn chunk(&self, choices: &Value) -> Value {
        let mut chunk = body(&self.head, choices);
        if self.usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn finished(&self, index: u32, reason: FinishReason, totals: Option<Totals>) -> Vec<Frame> {
        let last = self.chunk(&json!([choice(index as usize, "", None, Some(reason))]));
        openai::last_frames(last, self.usage.then(|| self.chunk(&json!([]))), totals)
    }
}

impl ReplyStream for CompletionStream {
    fn start(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    fn event(&mut self, event: &Event) -> Vec<Frame> {
        match event {
            Event::Delta(delta) => {
                let logprobs = delta.logprobs.as_deref();
                let one = choice(delta.choice as usize, &delta.text, logprobs, None);
                vec![Frame::json(&self.chunk(&json!([one])))]
            }
            Event::Finished { choice, reason, totals, .. } => {
                self.finished(*choice, *reason, *totals)
            }
            // A text that is continued has no parts.
            Event::Started(_)
            | Event::Reasoning { .. }
            | Event::ToolCall { .. }
            | Event::ToolArguments { .. } => Vec::new(),
            Event::Failed(error) => vec![Frame::json(&openai::error(error))],
        }
    }
}
