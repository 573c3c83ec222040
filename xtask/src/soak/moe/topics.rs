//! Prompts about one part of the vocabulary, then about another, asked by one client to four. Never watches memory.

use std::net::SocketAddr;
use std::ops::Range;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::http::Request;

/// Clients that ask at the same time at most.
pub(super) const STREAMS_MAX: usize = 4;
/// Parts that the vocabulary is cut into; no two have a token in common.
const N_TOPICS: u32 = 8;
/// Token ids of SmolLM2's vocabulary that stand for text.
const TEXT_IDS: Range<u32> = 1_000..41_000;
/// Turns about a topic before the next one.
const TOPIC_TURNS: usize = 6;
/// Tokens of a prompt and of an answer whose answer is known.
const KNOWN: (usize, usize) = (40, 12);
/// The same of others.
const OTHERS: (Range<usize>, Range<usize>) = (4..200, 1..24);
/// A gauge that every scrape has.
const GAUGE: &str = "frank_requests_running ";
/// What metrics about experts begin with.
const EXPERTS: &str = "frank_expert";

/// A prompt about a topic, and what a server that holds everything answers.
#[derive(Debug)]
pub(super) struct Question {
    prompt: Vec<u32>,
    answer: Value,
}

/// One for each topic, with no answer yet.
pub(super) fn questions(rng: &mut ChaCha8Rng) -> Vec<Question> {
    (0..N_TOPICS)
        .map(|topic| Question { prompt: prompt(rng, topic, KNOWN.0), answer: Value::Null })
        .collect()
}

impl Question {
    /// Asks a server that is right.
    pub(super) fn learn(&mut self, address: SocketAddr) -> Result<()> {
        self.answer = ask(address, &self.prompt, KNOWN.1)?;
        Ok(())
    }
}

/// Lets one to four clients ask at once: the first what it knows the answer to, the others anything about the topic.
/// Returns how many asked, and what broke.
pub(super) fn take_turn(
    address: SocketAddr,
    turn: usize,
    questions: &[Question],
    rng: &mut ChaCha8Rng,
) -> (usize, Vec<String>) {
    let (topic, n_streams) = plan(turn);
    let question = &questions[topic as usize];
    let others: Vec<_> = (1..n_streams)
        .map(|_| {
            let n_prompt = rng.random_range(OTHERS.0);
            (prompt(rng, topic, n_prompt), rng.random_range(OTHERS.1))
        })
        .collect();
    let broken = thread::scope(|scope| {
        let asked: Vec<_> = others
            .iter()
            .map(|(prompt, n_answer)| scope.spawn(|| ask(address, prompt, *n_answer)))
            .collect();
        let known = ask(address, &question.prompt, KNOWN.1).and_then(|answer| {
            ensure!(
                answer == question.answer,
                "{answer}, but held in memory it answers {}",
                question.answer
            );
            Ok(answer)
        });
        let others = asked.into_iter().map(|client| client.join().expect("a client returns"));
        let all = std::iter::once(known).chain(others);
        all.filter_map(|answer| Some(format!("turn {turn}, topic {topic}: {:#}", answer.err()?)))
            .collect()
    });
    (n_streams, broken)
}

/// The topic of a turn, and how many clients ask.
fn plan(turn: usize) -> (u32, usize) {
    let topic = (turn / TOPIC_TURNS) as u32 % N_TOPICS;
    (topic, turn % STREAMS_MAX + 1)
}

fn prompt(rng: &mut ChaCha8Rng, topic: u32, n_tokens: usize) -> Vec<u32> {
    let ids = ids(topic);
    (0..n_tokens).map(|_| rng.random_range(ids.clone())).collect()
}

/// Token ids of a topic.
fn ids(topic: u32) -> Range<u32> {
    let n_ids = (TEXT_IDS.end - TEXT_IDS.start) / N_TOPICS;
    let start = TEXT_IDS.start + topic * n_ids;
    start..start + n_ids
}

/// The greedy answer of exactly `n_answer` tokens with its log probabilities, never out of a cache.
fn ask(address: SocketAddr, prompt: &[u32], n_answer: usize) -> Result<Value> {
    let body = json!({
        "prompt": prompt,
        "max_tokens": n_answer,
        "ignore_eos": true,
        "temperature": 0,
        "cache_prompt": false,
        "logprobs": 1,
    });
    let reply = Request::post("/v1/completions", body.to_string()).reply(address)?;
    let (status, text) = (reply.status, reply.text()?);
    ensure!(status == 200, "status {status}: {text}");
    let reply: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
    let usage = reply.pointer("/usage/completion_tokens").and_then(Value::as_u64);
    ensure!(usage == Some(n_answer as u64), "{usage:?} tokens, not {n_answer}");
    reply.pointer("/choices/0").cloned().with_context(|| format!("no answer: {text}"))
}

/// Asks for health and metrics, and returns what is wrong with them.
pub(super) fn watch(address: SocketAddr) -> Vec<String> {
    let get = |path| -> Result<String> {
        let reply = Request::get(path).reply(address)?;
        let (status, text) = (reply.status, reply.text()?);
        ensure!(status == 200, "status {status}: {text}");
        Ok(text)
    };
    let health = get("/health").err().map(|error| format!("/health: {error:#}"));
    let metrics = match get("/metrics") {
        Ok(text) if text.lines().any(|line| line.starts_with(GAUGE)) => None,
        Ok(text) => Some(format!("/metrics without {GAUGE}: {text}")),
        Err(error) => Some(format!("/metrics: {error:#}")),
    };
    health.into_iter().chain(metrics).collect()
}

/// Prints what the server counts about experts.
pub(super) fn print_expert_metrics(address: SocketAddr) {
    let metrics = Request::get("/metrics").reply(address).and_then(|reply| reply.text());
    let metrics = metrics.unwrap_or_default();
    for line in metrics.lines().filter(|line| line.starts_with(EXPERTS)) {
        println!("  {line}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_topics_share_a_token() {
        let all: BTreeSet<u32> = (0..N_TOPICS).flat_map(ids).collect();
        assert_eq!(all.len(), (TEXT_IDS.end - TEXT_IDS.start) as usize);
        assert!(all.first() >= Some(&TEXT_IDS.start) && all.last() < Some(&TEXT_IDS.end));
    }

    #[test]
    fn every_topic_is_asked_about_by_one_client_and_by_four() {
        let plans: BTreeSet<_> = (0..TOPIC_TURNS * N_TOPICS as usize).map(plan).collect();
        for topic in 0..N_TOPICS {
            assert!(plans.contains(&(topic, 1)) && plans.contains(&(topic, STREAMS_MAX)));
        }
    }
}
