//! What the endpoint answers when nothing else runs, before the traffic and after it. Never measures.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::client::{self, Answer};
use super::traffic::{self, API_KEYS, Asking, Question, Reading, Turn};

/// One whole answer with log probabilities, for the first client.
const ASKING: Asking = Asking { api_key: API_KEYS[0], n_choices: 1, logprobs: true, stream: false };

/// Asks each question, and whether a client finds what another one left in the prefix cache.
pub(super) fn answered(address: SocketAddr, rng: &mut ChaCha8Rng) -> Result<Vec<Question>> {
    let mut questions = traffic::questions(rng);
    for question in &mut questions {
        question.answer = whole(address, question, API_KEYS[0])?.0;
    }
    let longest = questions.last().context("there are questions")?;
    let cached = [API_KEYS[0], API_KEYS[1]]
        .map(|api_key| whole(address, longest, api_key).map(|(_, cached_tokens)| cached_tokens));
    let [own, other] = cached;
    ensure!(own? > 0, "a client does not find its own prompt in the prefix cache");
    ensure!(other? == 0, "a client finds the prompt of another one in the prefix cache");
    Ok(questions)
}

/// Asks each question once more, and returns those that are answered otherwise.
pub(super) fn answered_otherwise(address: SocketAddr, questions: &[Question]) -> Vec<String> {
    let asked_again = questions.iter().map(|question| {
        let (request, expected) = (question.request(ASKING), question.expected(ASKING));
        client::take(&Turn { request, reading: Reading::Whole, expected }, address)
    });
    asked_again.filter_map(|taken| Some(format!("after the traffic: {:#}", taken.err()?))).collect()
}

/// An answer, and how many tokens of its prompt were cached.
fn whole(
    address: SocketAddr,
    question: &Question,
    api_key: &'static str,
) -> Result<(traffic::Choice, u64)> {
    let reply = question.request(Asking { api_key, ..ASKING }).reply(address)?.text()?;
    let reply: Value = serde_json::from_str(&reply).with_context(|| format!("{reply:?}"))?;
    let cached =
        reply.pointer("/usage/prompt_tokens_details/cached_tokens").and_then(Value::as_u64);
    let cached = cached.with_context(|| format!("no cached tokens: {reply}"))?;
    let answer = Answer::of(&reply)?;
    let choice =
        answer.choices.into_iter().next().with_context(|| format!("no answer: {reply}"))?;
    Ok((choice, cached))
}
