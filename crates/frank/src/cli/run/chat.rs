//! A chat in the terminal: lines in, answers out, until somebody ends it. Never edits a line.

use std::io::Write;

use frank_chat::{ChatTemplate, Conversation, Message, Role};
use tokio::signal::unix::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::answer::{Answer, Speaker};
use crate::report::{Code, Failure, printable, tell};

/// Chats, with `messages` before the first line.
///
/// # Errors
/// Exit code 130 for Ctrl-C while nothing is answered; when the model or stdout fails.
pub(super) async fn run(
    speaker: &Speaker,
    template: &ChatTemplate,
    messages: Vec<Message>,
    interrupts: &mut Signal,
) -> anyhow::Result<()> {
    let mut conversation = Conversation { messages, ..Conversation::default() };
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
                break;
            }
            Some("/exit") => break,
            Some("") => {}
            Some(text) => turn(speaker, template, &mut conversation, text, interrupts).await?,
        }
    }
    tokio::task::block_in_place(|| speaker.engine.shutdown());
    Ok(())
}

/// Adds a line and its answer to the conversation. A line that cannot be answered is told and left out.
async fn turn(
    speaker: &Speaker,
    template: &ChatTemplate,
    conversation: &mut Conversation,
    text: &str,
    interrupts: &mut Signal,
) -> anyhow::Result<()> {
    conversation.messages.push(Message::new(Role::User, text));
    match answer(speaker, template, conversation, interrupts).await {
        Ok(answer) => {
            conversation.messages.push(Message::new(Role::Assistant, answer.text));
            Ok(())
        }
        Err(error) if error.is::<Failure>() => {
            conversation.messages.pop();
            tell(&printable(&format!("{error:#}")));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn answer(
    speaker: &Speaker,
    template: &ChatTemplate,
    conversation: &Conversation,
    interrupts: &mut Signal,
) -> anyhow::Result<Answer> {
    speaker.speak(speaker.prompt(template, conversation)?, interrupts).await
}

/// Lines as they are typed. The thread that waits for them ends with the process.
fn lines_of_stdin() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
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
