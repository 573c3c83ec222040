//! One client of a soak: asks, reads as it was told to, and checks what comes. Never decides what to ask.

use std::io::BufRead;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::traffic::{Expected, Reading, Turn};
use crate::http::Reply;

/// The last event of a stream.
const DONE: &str = "[DONE]";

/// Takes one turn.
/// # Errors
/// The reply is not what has to come.
pub(super) fn take(turn: &Turn, address: SocketAddr) -> Result<()> {
    match turn.reading {
        Reading::Leave { after } => {
            let connection = turn.request.send(address)?;
            thread::sleep(after);
            drop(connection);
            return Ok(());
        }
        Reading::HalfAsked => {
            drop(turn.request.send_half(address)?);
            return Ok(());
        }
        Reading::Whole | Reading::Stream { .. } | Reading::Cut { .. } => {}
    }
    let reply = turn.request.reply(address)?;
    let wanted = if let Expected::Refusal(status) = turn.expected { status } else { 200 };
    let status = reply.status;
    if status != wanted {
        bail!("status {status}, {wanted} expected: {}", reply.text()?);
    }
    match turn.reading {
        Reading::Stream { pause } => check_stream(reply, &turn.expected, usize::MAX, pause),
        Reading::Cut { n_events } => check_stream(reply, &turn.expected, n_events, Duration::ZERO),
        Reading::Whole | Reading::Leave { .. } | Reading::HalfAsked => {
            check_whole(&reply.text()?, &turn.expected)
        }
    }
}

fn check_whole(body: &str, expected: &Expected) -> Result<()> {
    let reply: Value = serde_json::from_str(body).with_context(|| format!("reply {body:?}"))?;
    if let Expected::Refusal(_) = expected {
        let message = reply.pointer("/error/message").and_then(Value::as_str);
        ensure!(message.is_some_and(|message| !message.is_empty()), "no reason: {body}");
        return Ok(());
    }
    let mut answer = Answer::default();
    answer
        .take(&reply)
        .and_then(|()| answer.check(expected))
        .with_context(|| format!("reply {body}"))
}

/// Reads a stream up to its end or to `n_events`, whichever comes first.
fn check_stream(
    reply: Reply<impl BufRead>,
    expected: &Expected,
    n_events: usize,
    pause: Duration,
) -> Result<()> {
    let mut answer = Answer::default();
    let mut events = reply.events();
    for _ in 0..n_events {
        let event = events.next().context("the stream ended without [DONE]")??;
        if event == DONE {
            ensure!(events.next().is_none(), "the stream goes on after [DONE]");
            return answer.check(expected);
        }
        let chunk = serde_json::from_str(&event).with_context(|| format!("event {event:?}"))?;
        answer.take(&chunk).with_context(|| format!("event {event}"))?;
        thread::sleep(pause);
    }
    answer.check_beginning(expected)
}

/// What a reply said so far.
#[derive(Debug, Default)]
struct Answer {
    text: String,
    reason: Option<String>,
    /// Tokens of the prompt and of the answer.
    usage: Option<(usize, usize)>,
}

impl Answer {
    /// Takes a whole reply or a chunk of one, in either dialect.
    fn take(&mut self, reply: &Value) -> Result<()> {
        ensure!(reply.get("error").is_none(), "an error in a reply with status 200");
        let choice = reply.pointer("/choices/0").unwrap_or(&Value::Null);
        for place in ["/text", "/message/content", "/delta/content"] {
            self.text.push_str(choice.pointer(place).and_then(Value::as_str).unwrap_or_default());
        }
        if let Some(reason) = choice.pointer("/finish_reason").and_then(Value::as_str) {
            ensure!(self.reason.is_none(), "it ends twice");
            self.reason = Some(reason.to_owned());
        }
        if let Some(usage) = reply.get("usage").filter(|usage| !usage.is_null()) {
            let count = |name: &str| -> Result<usize> {
                let count = usage.get(name).and_then(Value::as_u64);
                Ok(usize::try_from(count.with_context(|| format!("no {name}"))?)?)
            };
            let (prompt, answer) = (count("prompt_tokens")?, count("completion_tokens")?);
            ensure!(count("total_tokens")? == prompt + answer, "the sum of the tokens is wrong");
            self.usage = Some((prompt, answer));
        }
        Ok(())
    }

    /// Checks an answer that ended.
    fn check(&self, expected: &Expected) -> Result<()> {
        let reason = self.reason.as_deref().context("no reason why it ended")?;
        let (prompt_tokens, completion_tokens) = self.usage.context("no usage")?;
        match expected {
            Expected::Continuation { answer, prompt_tokens: n_prompt, completion_tokens: n } => {
                ensure!(self.text == *answer, "alone it was {answer:?}, now {:?}", self.text);
                ensure!(
                    prompt_tokens == *n_prompt,
                    "{prompt_tokens} prompt tokens, not {n_prompt}"
                );
                ensure!(completion_tokens == *n, "{completion_tokens} tokens, not {n}");
                ensure!(reason == "length", "it ended for the reason {reason}");
            }
            Expected::Message { max_tokens } => {
                ensure!(prompt_tokens > 0, "no prompt tokens");
                let fits = match reason {
                    "length" => completion_tokens == *max_tokens,
                    "stop" => completion_tokens <= *max_tokens,
                    _ => bail!("it ended for the reason {reason}"),
                };
                ensure!(fits, "{completion_tokens} of {max_tokens} tokens, ended by {reason}");
            }
            Expected::Refusal(status) => bail!("an answer where {status} was expected"),
        }
        Ok(())
    }

    /// Checks an answer that we left.
    fn check_beginning(&self, expected: &Expected) -> Result<()> {
        match expected {
            Expected::Continuation { answer, .. } if !answer.starts_with(&self.text) => {
                bail!("alone it was {answer:?}, now it begins {:?}", self.text)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const USAGE: &str = r#"{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}"#;

    fn expected() -> Expected {
        Expected::Continuation { answer: "ab".to_owned(), prompt_tokens: 3, completion_tokens: 2 }
    }

    fn text(text: &str, reason: Option<&str>) -> String {
        json!({"choices": [{"text": text, "finish_reason": reason}]}).to_string()
    }

    fn read(events: &[String], n_events: usize) -> Result<()> {
        let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let reply = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
        check_stream(Reply::read(reply.as_bytes())?, &expected(), n_events, Duration::ZERO)
    }

    fn good() -> [String; 5] {
        [text("a", None), text("b", None), text("", Some("length")), USAGE.into(), DONE.into()]
    }

    #[test]
    fn a_right_stream_passes_whole_and_cut() {
        for n_events in [0, 1, 2, 4, 5, usize::MAX] {
            read(&good(), n_events).unwrap();
        }
    }

    #[test]
    fn a_stream_that_lacks_an_event_fails() {
        for missing in 0..good().len() {
            let mut events = good().to_vec();
            events.remove(missing);
            assert!(read(&events, usize::MAX).is_err(), "{}", good()[missing]);
        }
    }

    #[test]
    fn a_wrong_text_fails_even_when_it_is_cut() {
        assert!(read(&[text("b", None), DONE.into()], 1).is_err());
    }

    #[test]
    fn an_error_and_an_event_after_the_end_fail() {
        let [a, b, c, usage, done] = good();
        let error = json!({"error": {"message": "broken"}}).to_string();
        assert!(read(&[a.clone(), error], usize::MAX).is_err());
        assert!(read(&[a, b, c, usage.clone(), done, usage], usize::MAX).is_err());
    }

    #[test]
    fn a_message_keeps_to_its_limit() {
        let check = |reason: &str, n: usize, passes: bool| {
            let usage = json!({"prompt_tokens": 1, "completion_tokens": n, "total_tokens": n + 1});
            let choices = json!([{"message": {"content": "x"}, "finish_reason": reason}]);
            let body = json!({"choices": choices, "usage": usage}).to_string();
            let outcome = check_whole(&body, &Expected::Message { max_tokens: 4 });
            assert_eq!(outcome.is_ok(), passes, "{body}");
        };
        check("length", 4, true);
        check("stop", 2, true);
        check("length", 3, false);
        check("stop", 5, false);
        check("weather", 4, false);
    }

    #[test]
    fn a_refusal_says_why() {
        check_whole(r#"{"error": {"message": "no"}}"#, &Expected::Refusal(400)).unwrap();
        assert!(check_whole("{}", &Expected::Refusal(400)).is_err());
    }
}
