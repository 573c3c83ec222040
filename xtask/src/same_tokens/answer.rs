//! Prompts of token ids, and greedy answers with all that their log probabilities say. Never judges one.

use std::net::SocketAddr;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::http::Request;

/// Tokens of each prompt. A chunk of the longer ones wants nearly all experts of a layer.
pub(super) const PROMPTS: [u64; 4] = [100, 7, 33, 150];
/// Token ids of SmolLM2's vocabulary that stand for text: so many from this on.
const TEXT_IDS: (u64, u64) = (1_000, 40_000);

/// Each token with its log probability and the likeliest ones at its place. Numbers are written so that no two floats look
/// alike.
#[derive(Debug, PartialEq)]
pub(super) struct Answer(Vec<[Value; 3]>);

impl Answer {
    /// Asks for exactly so many tokens, in events, so that a slow server is never silent for long.
    /// # Errors
    /// The server says no, or something else than that.
    pub(super) fn ask(address: SocketAddr, prompt: usize, n_tokens: usize) -> Result<Self> {
        let body = json!({
            "prompt": token_ids(prompt),
            "max_tokens": n_tokens,
            "ignore_eos": true,
            "temperature": 0,
            "cache_prompt": false,
            "logprobs": 2,
            "stream": true,
        });
        let reply = Request::post("/v1/completions", body.to_string()).reply(address)?;
        let status = reply.status;
        ensure!(status == 200, "status {status}: {}", reply.text()?);
        let mut tokens = Vec::with_capacity(n_tokens);
        for event in reply.events() {
            let event = event?;
            if event == "[DONE]" {
                break;
            }
            let event: Value = serde_json::from_str(&event).with_context(|| event.clone())?;
            tokens.extend(of_event(&event).with_context(|| event.to_string())?);
        }
        ensure!(tokens.len() == n_tokens, "{} tokens, not {n_tokens}", tokens.len());
        Ok(Self(tokens))
    }

    /// The first place where another answer was expected.
    pub(super) fn differs_from(&self, expected: &Self) -> Option<String> {
        let mut pairs = self.0.iter().zip(&expected.0);
        let at = pairs.position(|(token, expected)| token != expected)?;
        Some(format!("token {at}: {:?}, not {:?}", self.0[at], expected.0[at]))
    }
}

/// The answers to all prompts, asked at once.
pub(super) fn together(address: SocketAddr, n_tokens: usize) -> Result<Vec<Answer>> {
    thread::scope(|scope| {
        let ask = |prompt| scope.spawn(move || Answer::ask(address, prompt, n_tokens));
        let asked: Vec<_> = (0..PROMPTS.len()).map(ask).collect();
        asked.into_iter().map(|client| client.join().expect("a client returns")).collect()
    })
}

fn token_ids(prompt: usize) -> Vec<u64> {
    let (first, n_ids) = TEXT_IDS;
    let token_id = |i: u64| first + (i * 7919 + prompt as u64 * 104_729 + 13) % n_ids;
    (0..PROMPTS[prompt]).map(token_id).collect()
}

/// The tokens of an event; the last one has none.
fn of_event(event: &Value) -> Result<Vec<[Value; 3]>> {
    let logprobs = event.pointer("/choices/0/logprobs").filter(|logprobs| !logprobs.is_null());
    let Some(logprobs) = logprobs else { return Ok(Vec::new()) };
    let list = |key: &str| logprobs[key].as_array().with_context(|| format!("no {key}"));
    let (tokens, own, top) = (list("tokens")?, list("token_logprobs")?, list("top_logprobs")?);
    ensure!(tokens.len() == own.len() && own.len() == top.len(), "lists of different lengths");
    let tokens = tokens.iter().zip(own).zip(top);
    Ok(tokens.map(|((token, own), top)| [token, own, top].map(Value::clone)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_may_have_several_tokens_or_none() {
        let event = |logprobs| json!({"choices": [{"logprobs": logprobs}]});
        let lists =
            json!({"tokens": ["a", "b"], "token_logprobs": [-1, -2], "top_logprobs": [{}, {}]});
        let tokens = of_event(&event(lists)).unwrap();
        assert_eq!(
            tokens,
            [[json!("a"), json!(-1), json!({})], [json!("b"), json!(-2), json!({})]]
        );
        assert_eq!(of_event(&event(Value::Null)).unwrap(), [] as [[Value; 3]; 0]);
        assert!(of_event(&event(json!({"tokens": []}))).is_err());
    }

    #[test]
    fn the_first_token_that_differs_is_named() {
        let answer = |logprobs: &[f64]| {
            Answer(logprobs.iter().map(|x| [json!("a"), json!(x), json!({})]).collect())
        };
        assert_eq!(answer(&[-1.0, -2.0]).differs_from(&answer(&[-1.0, -2.0])), None);
        let said = answer(&[-1.0, -2.0]).differs_from(&answer(&[-1.0, -2.5])).unwrap();
        assert!(said.starts_with("token 1: "), "{said}");
    }
}
