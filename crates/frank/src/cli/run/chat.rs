//! A chat in the terminal: lines in, answers out, until somebody ends it. Never edits a line.

use std::io::{BufRead, Write};

use frank_chat::{ChatTemplate, Conversation, Message, Role};
use tokio::signal::unix::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::answer::{Answer, Speaker, templated};
use crate::report::{Code, Failure, printable, tell};

/// A chat and what was said in it.
pub(super) struct Chat {
    template: ChatTemplate,
    conversation: Conversation,
}

impl Chat {
    /// A chat with `messages` before the first line.
    pub(super) fn new(template: ChatTemplate, messages: Vec<Message>) -> Self {
        Self { template, conversation: Conversation { messages, ..Conversation::default() } }
    }

    /// Chats at the terminal.
    ///
    /// # Errors
    /// Exit code 130 for Ctrl-C while nothing is answered; when the model or stdout fails.
    pub(super) async fn run(
        mut self,
        speaker: &Speaker,
        interrupts: &mut Signal,
    ) -> anyhow::Result<()> {
        let mut lines = lines_of_stdin();
        tell("/exit or Ctrl-D ends the chat, Ctrl-C an answer");
        loop {
            show_prompt();
            let line = tokio::select! {
                line = lines.recv() => line,
                _ = interrupts.recv() => {
                    tell("");
                    return Err(Failure::new(Code::Interrupted, "interrupted").into());
                }
            };
            match line.as_deref().map(str::trim) {
                None => {
                    tell("");
                    return Ok(());
                }
                Some("/exit") => return Ok(()),
                Some("") => {}
                Some(text) => self.turn(speaker, text, interrupts).await?,
            }
        }
    }

    /// Adds a line and its answer to the conversation. A line that cannot be answered is told and left out.
    async fn turn(
        &mut self,
        speaker: &Speaker,
        text: &str,
        interrupts: &mut Signal,
    ) -> anyhow::Result<()> {
        self.conversation.messages.push(Message::new(Role::User, text));
        match self.answer(speaker, interrupts).await {
            Ok(answer) => {
                tell(&answer.stats());
                self.conversation.messages.push(Message::new(Role::Assistant, answer.text));
                Ok(())
            }
            Err(error) if error.is::<Failure>() => {
                self.conversation.messages.pop();
                tell(&printable(&format!("{error:#}")));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn answer(&self, speaker: &Speaker, interrupts: &mut Signal) -> anyhow::Result<Answer> {
        let prompt = templated(&self.template, &speaker.tokenizer, &self.conversation)?;
        speaker.speak(prompt, interrupts).await
    }
}

/// Lines as they are typed. The thread that waits for them ends with the process.
fn lines_of_stdin() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        // A terminal may give half a character where the other half was erased: no reason to end the chat.
        for line in std::io::stdin().lock().split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    lines
}

fn show_prompt() {
    // When nobody reads stderr, there is nobody to show it to.
    let _unseen = std::io::stderr().lock().write_all(b"> ");
}
