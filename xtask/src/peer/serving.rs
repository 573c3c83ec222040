//! Speed of a server: how soon it is ready, and answers to prompts of token ids. Never asks for the same prompt twice,
//! so that no cache has seen one.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::engines::Engine;
use crate::http::Request;
use crate::server_process::ServerProcess;

/// The context of one request; everything that is asked fits into it.
pub(super) const CTX_SIZE: usize = 1024;
/// Requests that a server answers at the same time.
pub(super) const PARALLEL: usize = 4;
/// Token ids of every model that stand for text.
const TEXT_IDS: std::ops::Range<u32> = 1_000..40_000;

/// Milliseconds until it is ready; decoding of one stream, then all streams together, in tokens a second; milliseconds
/// to the first token of a prompt of 512. `seed` decides the prompts.
/// # Errors
/// The server does not start, or does not answer what it was asked.
pub(super) fn measure(engine: &Engine, model: &Path, seed: u64) -> Result<[f64; 4]> {
    let address = free_address()?;
    let mut command = engine.server(model, address);
    let (server, load) = ServerProcess::start_on(&mut command, address)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut prompt = |n: usize| (0..n).map(|_| rng.random_range(TEXT_IDS)).collect::<Vec<_>>();
    // The first answer pays for what a server does once.
    ask(address, &prompt(32), 16)?;
    let one = ask(address, &prompt(128), 128)?.decode_rate();
    let prompts: Vec<_> = (0..PARALLEL).map(|_| prompt(128)).collect();
    let all = together(&ask_together(address, &prompts, 128)?);
    let first = ask(address, &prompt(512), 8)?.first_ms();
    server.terminate()?;
    Ok([load.as_secs_f64() * 1e3, one, all, first])
}

/// An address that nobody listens on.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("find a free port")?;
    Ok(listener.local_addr()?)
}

/// When the tokens of an answer came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    start: Instant,
    first: Instant,
    last: Instant,
    n_tokens: usize,
}

impl Timing {
    /// Tokens in a second, from the first token on.
    pub(super) fn decode_rate(&self) -> f64 {
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
pub(super) fn ask(address: SocketAddr, prompt: &[u32], n: usize) -> Result<Timing> {
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
}
