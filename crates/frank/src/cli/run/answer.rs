//! One answer on stdout as it grows. Never decides what is asked.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use frank_chat::{ChatTemplate, Conversation};
use frank_engine::{CacheScope, Engine, EngineEvent, Request, SamplingParams, SubmitError, Token};
use frank_tokenizer::{Detokenizer, Tokenizer};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::form::Form;
use crate::report::{Failure, print};

/// A loaded model with all that its answers need.
pub(super) struct Speaker {
    pub(super) engine: Engine,
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) sampling: SamplingParams,
    pub(super) max_tokens: usize,
    /// No end token is drawn before so many tokens.
    pub(super) min_tokens: usize,
    /// What every answer is kept to.
    pub(super) form: Option<Form>,
}

/// What was answered.
pub(super) struct Answer {
    pub(super) text: String,
    /// Whether Ctrl-C ended it.
    pub(super) interrupted: bool,
    n_prompt: usize,
    /// Tokens of the prompt that an earlier turn had computed.
    n_cached: usize,
    n_tokens: usize,
    first_after: Duration,
    rest_took: Duration,
}

/// Ctrl-C from now on, which no longer ends the process by itself.
pub(super) fn interrupts() -> anyhow::Result<Signal> {
    signal(SignalKind::interrupt()).context("cannot listen for signals")
}

/// The tokens that `template` makes of a conversation.
///
/// # Errors
/// The template's own words when it refuses the conversation.
pub(super) fn templated(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    conversation: &Conversation,
) -> anyhow::Result<Vec<u32>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|now| now.as_secs());
    let conversation = Conversation { now, ..conversation.clone() };
    let prompt = template
        .render(&conversation, &tokenizer.control_texts(template.source()))
        .with_context(|| Failure::usage("the chat template does not take this conversation"))?;
    Ok(tokenizer.encode_prompt(&prompt))
}

impl Speaker {
    /// Answers `prompt` on stdout, up to its end or Ctrl-C.
    ///
    /// # Errors
    /// When the prompt does not fit, the model fails, or stdout does.
    pub(super) async fn speak(
        &self,
        prompt: Vec<u32>,
        interrupts: &mut Signal,
    ) -> anyhow::Result<Answer> {
        let started = Instant::now();
        let mut answer = Answer::to(prompt.len());
        let request = Request {
            prompt,
            max_tokens: self.max_tokens,
            sampling: self.sampling.clone(),
            end_tokens: self.tokenizer.end_tokens().to_vec(),
            min_tokens: self.min_tokens,
            n_logprobs: None,
            constraint: self.form.as_ref().map(Form::constraint).transpose()?,
            cache_scope: Some(CacheScope::default()),
        };
        let mut generation = self.engine.submit(request).map_err(not_submitted)?;
        let mut detokenizer = Detokenizer::new(Arc::clone(&self.tokenizer));
        loop {
            let event = tokio::select! {
                event = generation.next() => event,
                _ = interrupts.recv() => {
                    answer.interrupted = true;
                    break;
                }
            };
            match event {
                Some(EngineEvent::Started { cached_tokens }) => answer.n_cached = cached_tokens,
                Some(EngineEvent::Token(Token { token_id, .. })) => {
                    answer.count(started);
                    answer.say(&detokenizer.push(token_id))?;
                }
                Some(EngineEvent::Finished(..)) => break,
                Some(EngineEvent::Failed(reason)) => bail!("the answer failed: {reason}"),
                None => bail!("the engine ended before the answer"),
            }
        }
        answer.say(&detokenizer.finish())?;
        if !answer.text.ends_with('\n') {
            print("\n")?;
        }
        Ok(answer)
    }
}

/// Why the engine does not take a prompt, and what to change.
pub(super) fn not_submitted(error: SubmitError) -> anyhow::Error {
    let failure = Failure::usage(error.to_string());
    match error {
        SubmitError::PromptTooLong { n_prompt, .. } => {
            failure.hint(format!("--ctx-size {} or more", n_prompt + 1)).into()
        }
        SubmitError::EmptyPrompt | SubmitError::UnknownToken { .. } | SubmitError::NoTokens => {
            failure.into()
        }
        SubmitError::QueueFull { .. } | SubmitError::ShuttingDown => error.into(),
    }
}

impl Answer {
    /// Nothing yet to a prompt of so many tokens.
    fn to(n_prompt: usize) -> Self {
        Self {
            text: String::new(),
            interrupted: false,
            n_prompt,
            n_cached: 0,
            n_tokens: 0,
            first_after: Duration::ZERO,
            rest_took: Duration::ZERO,
        }
    }

    fn count(&mut self, started: Instant) {
        self.n_tokens += 1;
        if self.n_tokens == 1 {
            self.first_after = started.elapsed();
        } else {
            self.rest_took = started.elapsed().saturating_sub(self.first_after);
        }
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.text.push_str(text);
        if std::io::stdout().is_terminal() { print(&tame(text)) } else { print(text) }
    }

    /// Token counts and speeds, on one line.
    pub(super) fn stats(&self) -> String {
        let Self { n_prompt, n_cached, n_tokens, first_after, rest_took, .. } = self;
        let cached =
            if *n_cached == 0 { String::new() } else { format!(" ({n_cached} from the cache)") };
        let first = format!(
            "prompt {n_prompt} tokens{cached}, first token after {:.2} s",
            first_after.as_secs_f64()
        );
        if rest_took.is_zero() {
            return format!("{first}, answer {n_tokens} tokens");
        }
        #[expect(clippy::cast_precision_loss, reason = "an answer has far fewer than 2^52 tokens")]
        let speed = (n_tokens - 1) as f64 / rest_took.as_secs_f64();
        format!("{first}, answer {n_tokens} tokens, {speed:.1} tok/s")
    }
}

/// `text` without control characters by which a model could command the terminal.
fn tame(text: &str) -> String {
    let mut tame = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() && !matches!(char, '\n' | '\t') {
            tame.extend(char.escape_default());
        } else {
            tame.push(char);
        }
    }
    tame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_cannot_command_the_terminal() {
        assert_eq!(tame("a\n\tb é"), "a\n\tb é");
        assert_eq!(tame("\x1b]0;x\x07\r"), "\\u{1b}]0;x\\u{7}\\r");
    }

    #[test]
    fn the_speed_is_that_of_the_tokens_after_the_first() {
        let first_after = Duration::from_millis(250);
        let answer = |n_tokens: usize, rest_took: Duration| Answer {
            n_tokens,
            first_after,
            rest_took,
            ..Answer::to(3)
        };
        assert_eq!(
            answer(21, Duration::from_secs(2)).stats(),
            "prompt 3 tokens, first token after 0.25 s, answer 21 tokens, 10.0 tok/s"
        );
        assert_eq!(
            answer(1, Duration::ZERO).stats(),
            "prompt 3 tokens, first token after 0.25 s, answer 1 tokens"
        );
        assert_eq!(
            Answer { n_cached: 2, ..answer(1, Duration::ZERO) }.stats(),
            "prompt 3 tokens (2 from the cache), first token after 0.25 s, answer 1 tokens"
        );
    }
}
