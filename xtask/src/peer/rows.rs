//! What is compared: each row is one number of a server that is asked with token ids. Never knows which server.

use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::http::Request;

/// The context of one request; every row fits into it.
pub(super) const CTX_SIZE: usize = 1024;
/// Requests that a server answers at the same time.
pub(super) const PARALLEL: usize = 4;
/// Token ids of the model that stand for text.
const TEXT_IDS: std::ops::Range<u32> = 1_000..40_000;

/// A number that is compared.
pub(super) struct Row {
    /// With its unit.
    pub(super) name: &'static str,
    n_streams: usize,
    n_prompt: usize,
    n_answer: usize,
    value: fn(&[Timing]) -> f64,
}

pub(super) const ROWS: [Row; 3] = [
    Row {
        name: "decode, 1 stream, tok/s",
        n_streams: 1,
        n_prompt: 128,
        n_answer: 128,
        value: |timings| timings[0].decode_rate(),
    },
    Row {
        name: "prompt and decode, 4 streams together, tok/s",
        n_streams: PARALLEL,
        n_prompt: 128,
        n_answer: 128,
        value: together,
    },
    Row {
        name: "first token of a prompt of 512 (less is better), ms",
        n_streams: 1,
        n_prompt: 512,
        n_answer: 8,
        value: |timings| timings[0].first_ms(),
    },
];

/// The value of each row, after an answer that warms the server up. `seed` decides the prompts.
/// # Errors
/// The server does not answer what it was asked.
pub(super) fn measure(address: SocketAddr, seed: u64) -> Result<[f64; ROWS.len()]> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut prompt = |n: usize| (0..n).map(|_| rng.random_range(TEXT_IDS)).collect::<Vec<_>>();
    ask(address, &prompt(32), 16)?;
    let mut values = [0.0; ROWS.len()];
    for (row, value) in ROWS.iter().zip(&mut values) {
        let prompts: Vec<_> = (0..row.n_streams).map(|_| prompt(row.n_prompt)).collect();
        let timings = ask_together(address, &prompts, row.n_answer);
        *value = (row.value)(&timings.with_context(|| row.name)?);
    }
    Ok(values)
}

/// When the tokens of an answer came.
#[derive(Debug, Clone, Copy)]
struct Timing {
    start: Instant,
    first: Instant,
    last: Instant,
    n_tokens: usize,
}

impl Timing {
    /// Tokens in a second, from the first token on.
    fn decode_rate(&self) -> f64 {
        (self.n_tokens - 1) as f64 / (self.last - self.first).as_secs_f64()
    }

    fn first_ms(&self) -> f64 {
        (self.first - self.start).as_secs_f64() * 1e3
    }
}

/// Tokens of all answers in a second, from the first request to the last token.
fn together(timings: &[Timing]) -> f64 {
    let n_tokens: usize = timings.iter().map(|timing| timing.n_tokens).sum();
    let start = timings.iter().map(|timing| timing.start).min();
    let last = timings.iter().map(|timing| timing.last).max();
    let seconds = start.zip(last).map_or(0.0, |(start, last)| (last - start).as_secs_f64());
    n_tokens as f64 / seconds
}

fn ask_together(address: SocketAddr, prompts: &[Vec<u32>], n: usize) -> Result<Vec<Timing>> {
    thread::scope(|scope| {
        let clients: Vec<_> =
            prompts.iter().map(|prompt| scope.spawn(move || ask(address, prompt, n))).collect();
        let timings = clients.into_iter().map(|client| client.join().expect("a client returns"));
        timings.collect()
    })
}

/// Streams an answer of exactly `n` tokens.
fn ask(address: SocketAddr, prompt: &[u32], n: usize) -> Result<Timing> {
    let body = json!({
        "prompt": prompt,
        "max_tokens": n,
        "ignore_eos": true,
        "temperature": 0,
        "cache_prompt": false,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let start = Instant::now();
    let reply = Request::post("/v1/completions", body.to_string()).reply(address)?;
    if reply.status != 200 {
        let status = reply.status;
        bail!("status {status}: {}", reply.text()?);
    }
    let mut times = Vec::with_capacity(n);
    let mut usage = None;
    for event in reply.events() {
        let event = event?;
        let now = Instant::now();
        if event == "[DONE]" {
            break;
        }
        let chunk: Value = serde_json::from_str(&event).with_context(|| event.clone())?;
        if chunk.pointer("/choices/0").is_some() {
            times.push(now);
        }
        usage = counts(&chunk).or(usage);
    }
    ensure!(usage == Some((prompt.len(), n)), "{usage:?} tokens, not {:?}", (prompt.len(), n));
    let (first, last) = times.first().zip(times.last()).context("no token")?;
    Ok(Timing { start, first: *first, last: *last, n_tokens: n })
}

/// Tokens of the prompt and of the answer, where a chunk says them.
fn counts(chunk: &Value) -> Option<(usize, usize)> {
    let count = |place: &str| usize::try_from(chunk.pointer(place)?.as_u64()?).ok();
    Some((count("/usage/prompt_tokens")?, count("/usage/completion_tokens")?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn timing(base: Instant, start_ms: u64, first_ms: u64, last_ms: u64) -> Timing {
        let at = |ms| base + Duration::from_millis(ms);
        Timing { start: at(start_ms), first: at(first_ms), last: at(last_ms), n_tokens: 11 }
    }

    #[test]
    fn a_rate_counts_from_the_first_token_and_the_first_token_from_the_request() {
        let timing = timing(Instant::now(), 100, 300, 800);
        assert!((timing.decode_rate() - 20.0).abs() < 1e-9);
        assert!((timing.first_ms() - 200.0).abs() < 1e-9);
    }

    #[test]
    fn streams_together_count_from_the_first_request_to_the_last_token() {
        let base = Instant::now();
        let rate = together(&[timing(base, 50, 60, 1000), timing(base, 0, 600, 900)]);
        assert!((rate - 22.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn every_row_fits_into_the_context() {
        for row in &ROWS {
            assert!(row.n_prompt + row.n_answer <= CTX_SIZE && row.n_streams <= PARALLEL);
        }
    }
}
