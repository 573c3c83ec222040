//! One client of a soak: asks, reads as it was told to, and checks what comes. Never decides what to ask.

use std::io::BufRead;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};

use super::traffic::{Choice, Expected, Reading, Turn};
use crate::http::Reply;

/// The last event of a stream.
const DONE: &str = "[DONE]";
/// More choices than anybody asks for.
const N_CHOICES_MAX: usize = 8;

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
    let answer = Answer::of(&reply);
    answer.and_then(|answer| answer.check(expected)).with_context(|| format!("reply {body}"))
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
pub(super) struct Answer {
    pub(super) choices: Vec<Choice>,
    /// Why each choice ended.
    reasons: Vec<Option<String>>,
    /// Tokens of the prompt and of all choices.
    usage: Option<(usize, usize)>,
}

impl Answer {
    /// What a whole reply says.
    pub(super) fn of(reply: &Value) -> Result<Self> {
        let mut answer = Self::default();
        answer.take(reply)?;
        Ok(answer)
    }

    /// Takes a whole reply or a chunk of one, in either dialect.
    fn take(&mut self, reply: &Value) -> Result<()> {
        ensure!(reply.get("error").is_none(), "an error in a reply with status 200");
        for choice in reply.get("choices").and_then(Value::as_array).into_iter().flatten() {
            self.take_choice(choice)?;
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

    fn take_choice(&mut self, said: &Value) -> Result<()> {
        let index = said.get("index").and_then(Value::as_u64).context("a choice without index")?;
        let index = usize::try_from(index)?;
        ensure!(index < N_CHOICES_MAX, "choice {index}");
        if index >= self.choices.len() {
            self.choices.resize_with(index + 1, Choice::default);
            self.reasons.resize(index + 1, None);
        }
        let (choice, reason) = (&mut self.choices[index], &mut self.reasons[index]);
        for place in ["/text", "/message/content", "/delta/content"] {
            choice.text.push_str(said.pointer(place).and_then(Value::as_str).unwrap_or_default());
        }
        let logprobs = said.pointer("/logprobs/token_logprobs").and_then(Value::as_array);
        choice.logprobs.extend(logprobs.into_iter().flatten().filter_map(Value::as_f64));
        if let Some(said) = said.pointer("/finish_reason").and_then(Value::as_str) {
            ensure!(reason.is_none(), "choice {index} ends twice");
            *reason = Some(said.to_owned());
        }
        Ok(())
    }

    /// Checks an answer that ended.
    fn check(&self, expected: &Expected) -> Result<()> {
        let (prompt_tokens, n_tokens) = self.usage.context("no usage")?;
        ensure!(prompt_tokens > 0, "no prompt tokens");
        let n_choices = expected.n_choices();
        ensure!(self.choices.len() == n_choices, "{} choices", self.choices.len());
        match expected {
            Expected::Continuation {
                answer, prompt_tokens: n_prompt, completion_tokens, ..
            } => {
                for choice in &self.choices {
                    ensure!(choice == answer, "alone it was {answer:?}, now {choice:?}");
                }
                let counts = (*n_prompt, *completion_tokens);
                ensure!((prompt_tokens, n_tokens) == counts, "{:?}, not {counts:?}", self.usage);
                self.check_ends(|reason| reason == "length")
            }
            Expected::Message { max_tokens, .. } => self.check_limit(n_tokens, *max_tokens),
            Expected::Object { max_tokens } => {
                let ended = self.reasons[0].as_deref() == Some("stop");
                let object = serde_json::from_str::<Map<String, Value>>(&self.choices[0].text);
                ensure!(!ended || object.is_ok(), "no JSON object: {object:?}");
                self.check_limit(n_tokens, *max_tokens)
            }
            Expected::Refusal(status) => bail!("an answer where {status} was expected"),
        }
    }

    /// Checks that every choice ended, for a reason that `fits`.
    fn check_ends(&self, fits: impl Fn(&str) -> bool) -> Result<()> {
        let all = self.reasons.iter().all(|reason| reason.as_deref().is_some_and(&fits));
        ensure!(all, "it ended for the reasons {:?}", self.reasons);
        Ok(())
    }

    /// Checks that so many tokens in all are possible when each choice has `max_tokens` at most.
    fn check_limit(&self, n_tokens: usize, max_tokens: usize) -> Result<()> {
        self.check_ends(|reason| matches!(reason, "length" | "stop"))?;
        let cut = self.reasons.iter().filter(|reason| reason.as_deref() == Some("length"));
        let possible = cut.count() * max_tokens..=self.choices.len() * max_tokens;
        ensure!(possible.contains(&n_tokens), "{n_tokens} tokens, not {possible:?}");
        Ok(())
    }

    /// Checks an answer that we left.
    fn check_beginning(&self, expected: &Expected) -> Result<()> {
        let Expected::Continuation { answer, .. } = expected else { return Ok(()) };
        for choice in &self.choices {
            ensure!(
                answer.text.starts_with(&choice.text)
                    && answer.logprobs.starts_with(&choice.logprobs),
                "alone it was {answer:?}, now it begins {choice:?}"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const USAGE: &str = r#"{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}"#;

    fn expected() -> Expected {
        let answer = Choice { text: "ab".to_owned(), logprobs: vec![-1.0, -2.0] };
        Expected::Continuation { answer, n_choices: 1, prompt_tokens: 3, completion_tokens: 2 }
    }

    fn text(text: &str, logprobs: &[f64], reason: Option<&str>) -> String {
        let logprobs = json!({"token_logprobs": logprobs});
        let choice =
            json!({"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason});
        json!({"choices": [choice]}).to_string()
    }

    fn read(events: &[String], n_events: usize) -> Result<()> {
        let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let reply = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
        check_stream(Reply::read(reply.as_bytes())?, &expected(), n_events, Duration::ZERO)
    }

    fn good() -> [String; 5] {
        let (a, b) = (text("a", &[-1.0], None), text("b", &[-2.0], None));
        [a, b, text("", &[], Some("length")), USAGE.into(), DONE.into()]
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
    fn a_wrong_text_or_log_probability_fails_even_when_it_is_cut() {
        assert!(read(&[text("b", &[-1.0], None), DONE.into()], 1).is_err());
        assert!(read(&[text("a", &[-1.5], None), DONE.into()], 1).is_err());
    }

    #[test]
    fn an_error_and_an_event_after_the_end_fail() {
        let [a, b, c, usage, done] = good();
        let error = json!({"error": {"message": "broken"}}).to_string();
        assert!(read(&[a.clone(), error], usize::MAX).is_err());
        assert!(read(&[a, b, c, usage.clone(), done, usage], usize::MAX).is_err());
    }

    fn whole(contents: &[&str], reason: &str, n: usize, expected: &Expected) -> Result<()> {
        let choices: Vec<_> = (0..)
            .zip(contents)
            .map(|(index, text): (u64, _)| {
                json!({"index": index, "message": {"content": text}, "finish_reason": reason})
            })
            .collect();
        let usage = json!({"prompt_tokens": 1, "completion_tokens": n, "total_tokens": n + 1});
        check_whole(&json!({"choices": choices, "usage": usage}).to_string(), expected)
    }

    #[test]
    fn a_message_keeps_to_its_limit() {
        let check = |n_choices: usize, reason: &str, n: usize, passes: bool| {
            let expected = Expected::Message { n_choices, max_tokens: 4 };
            let outcome = whole(&["x", "y"][..n_choices], reason, n, &expected);
            assert_eq!(outcome.is_ok(), passes, "{n_choices}, {reason}, {n}: {outcome:?}");
        };
        check(1, "length", 4, true);
        check(1, "stop", 2, true);
        check(1, "length", 3, false);
        check(1, "stop", 5, false);
        check(1, "weather", 4, false);
        check(2, "length", 8, true);
        check(2, "length", 7, false);
        check(2, "stop", 9, false);
    }

    #[test]
    fn as_many_choices_come_as_were_asked_for() {
        let expected = Expected::Message { n_choices: 2, max_tokens: 4 };
        assert!(whole(&["x"], "stop", 2, &expected).is_err());
        assert!(whole(&["x", "y", "z"], "stop", 2, &expected).is_err());
    }

    #[test]
    fn an_object_that_ended_is_whole() {
        let expected = Expected::Object { max_tokens: 4 };
        whole(&["{\"a\": 1}"], "stop", 3, &expected).unwrap();
        whole(&["{\"a"], "length", 4, &expected).unwrap();
        assert!(whole(&["{\"a"], "stop", 3, &expected).is_err());
        assert!(whole(&["[1]"], "stop", 3, &expected).is_err());
    }

    #[test]
    fn a_refusal_says_why() {
        check_whole(r#"{"error": {"message": "no"}}"#, &Expected::Refusal(400)).unwrap();
        assert!(check_whole("{}", &Expected::Refusal(400)).is_err());
    }
}
