//! One question to an endpoint over HTTP, as any client would ask it, with its timing.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures_util::StreamExt;
use serde_json::{Value, json};

/// Tokens of the answer at most.
const MAX_TOKENS: u32 = 128;

/// How fast an answer came, as its client saw it.
pub(crate) struct Timing {
    first_token: Duration,
    last_token: Duration,
    n_tokens: u64,
}

impl Timing {
    /// Time to first token and speed after it.
    pub(crate) fn line(&self) -> String {
        let first_ms = self.first_token.as_secs_f64() * 1000.0;
        let decode = (self.last_token - self.first_token).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "an answer has few tokens")]
        let rate = (self.n_tokens.saturating_sub(1)) as f64 / decode.max(f64::EPSILON);
        format!("{} tokens, first after {first_ms:.0} ms, then {rate:.1} tok/s", self.n_tokens)
    }
}

/// Asks `question` and hands out the answer piece by piece.
///
/// # Errors
/// When the endpoint does not answer with a whole stream, or `write` fails.
pub(crate) async fn stream(
    address: SocketAddr,
    model: &str,
    question: &str,
    mut write: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Timing> {
    let body = json!({
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    // Loopback: a proxy of the environment has no part in it.
    let client =
        reqwest::Client::builder().no_proxy().build().context("cannot make an HTTP client")?;
    let started = Instant::now();
    let url = format!("http://{address}/v1/chat/completions");
    let response =
        client.post(url).json(&body).send().await.context("the endpoint does not answer")?;
    let status = response.status();
    if !status.is_success() {
        bail!("the endpoint answers {status}: {}", response.text().await.unwrap_or_default());
    }
    let mut answer = Answer { started, first: None, last: started, n_tokens: 0, is_done: false };
    let (mut bytes, mut line) = (response.bytes_stream(), Vec::new());
    while let Some(chunk) = bytes.next().await {
        for byte in chunk.context("the stream broke")? {
            if byte == b'\n' {
                answer.take_line(&line, &mut write)?;
                line.clear();
            } else {
                line.push(byte);
            }
        }
    }
    answer.timing()
}

/// An answer as it comes in.
struct Answer {
    started: Instant,
    first: Option<Instant>,
    last: Instant,
    n_tokens: u64,
    is_done: bool,
}

impl Answer {
    fn take_line(
        &mut self,
        line: &[u8],
        write: &mut impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(data) = line.strip_prefix(b"data: ") else { return Ok(()) };
        if data == b"[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let chunk: Value = serde_json::from_slice(data).context("a chunk is not JSON")?;
        if let Some(error) = chunk.pointer("/error/message") {
            bail!("the endpoint gave up: {error}");
        }
        if let Some(text) = chunk.pointer("/choices/0/delta/content").and_then(Value::as_str)
            && !text.is_empty()
        {
            self.last = Instant::now();
            self.first.get_or_insert(self.last);
            write(text)?;
        }
        if let Some(n_tokens) = chunk.pointer("/usage/completion_tokens").and_then(Value::as_u64) {
            self.n_tokens = n_tokens;
        }
        Ok(())
    }

    fn timing(&self) -> anyhow::Result<Timing> {
        ensure!(self.is_done, "the answer was cut off");
        let first = self.first.context("the answer is empty")?;
        ensure!(self.n_tokens > 0, "the endpoint counted no tokens");
        Ok(Timing {
            first_token: first - self.started,
            last_token: self.last - self.started,
            n_tokens: self.n_tokens,
        })
    }
}
