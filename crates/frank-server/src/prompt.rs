//! From what a client sent to the tokens of a prompt.

use std::sync::Arc;

use frank_api::{ApiError, ChatRequest, CompletionPrompt, ToolChoice};
use frank_chat::{
    ChatTemplate, Conversation, Message, Prompt, Role, TemplateError, with_tools_as_text,
    without_billing_lines,
};

use crate::error;
use crate::served::{Loaded, Served, unix_seconds};
use crate::voice::Voice;

/// A prompt, and how the answer to it begins.
pub(crate) struct ChatPrompt {
    pub(crate) token_ids: Vec<u32>,
    /// Whether the prompt ends inside the model's thoughts.
    pub(crate) begins_in_reasoning: bool,
    /// How the model speaks.
    pub(crate) voice: Arc<Voice>,
}

/// The prompt of a conversation.
///
/// # Errors
/// The model has no chat template, or it refuses the conversation.
pub(crate) fn chat_prompt(loaded: &Loaded, chat: &ChatRequest) -> Result<ChatPrompt, ApiError> {
    let served = &loaded.served;
    let (Some(template), Some(voice)) = (&served.template, &loaded.voice) else {
        return Err(error::no_template());
    };
    let conversation = shown(&chat.conversation, &chat.tool_choice, voice);
    let prompt = rendered(served, template, &conversation).map_err(|e| error::not_rendered(&e))?;
    let begins_in_reasoning = voice.format.is_thinking_after(&prompt.text);
    let token_ids = served.tokenizer.encode_prompt(&prompt);
    Ok(ChatPrompt { token_ids, begins_in_reasoning, voice: Arc::clone(voice) })
}

/// The prompt of a text to continue.
pub(crate) fn completion_prompt(served: &Served, prompt: CompletionPrompt) -> Vec<u32> {
    match prompt {
        CompletionPrompt::Text(text) => served.tokenizer.encode_text(&text),
        CompletionPrompt::Tokens(tokens) => tokens,
    }
}

/// The conversation as the template gets it.
fn shown(conversation: &Conversation, choice: &ToolChoice, voice: &Voice) -> Conversation {
    let mut conversation = Conversation { now: Some(unix_seconds()), ..conversation.clone() };
    for message in conversation.messages.iter_mut().filter(|message| message.role == Role::System) {
        message.content = without_billing_lines(&message.content).to_owned();
    }
    // A model that shall call nothing is shown nothing to call.
    if *choice == ToolChoice::None {
        conversation.tools.clear();
    }
    let has_calls =
        |message: &Message| message.role == Role::Tool || !message.tool_calls.is_empty();
    let needs_text = !conversation.tools.is_empty() || conversation.messages.iter().any(has_calls);
    if needs_text && !voice.knows_tools { with_tools_as_text(&conversation) } else { conversation }
}

/// The prompt. A template that refuses the order of the messages gets them once more in the one that all take.
fn rendered(
    served: &Served,
    template: &ChatTemplate,
    conversation: &Conversation,
) -> Result<Prompt, TemplateError> {
    let control_texts = served.tokenizer.control_texts(template.source());
    match template.render(conversation, &control_texts) {
        Err(TemplateError::Raised(reason)) => match in_turns(conversation) {
            Some(conversation) => template
                .render(&conversation, &control_texts)
                .map_err(|_| TemplateError::Raised(reason)),
            None => Err(TemplateError::Raised(reason)),
        },
        outcome => outcome,
    }
}

/// The conversation with standing instructions at its head only, and no two messages of one role in a row. Coding agents
/// send instructions in the middle; what stands there keeps its place as words of the user. `None` where nothing changes.
fn in_turns(conversation: &Conversation) -> Option<Conversation> {
    let mut messages: Vec<Message> = Vec::new();
    for message in &conversation.messages {
        let mut message = message.clone();
        let is_head = messages.iter().all(|before| before.role == Role::System);
        if message.role == Role::System && !is_head {
            message.role = Role::User;
        }
        match messages.last_mut() {
            Some(last) if may_join(last, &message) => {
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            _ => messages.push(message),
        }
    }
    let turned = Conversation { messages, ..conversation.clone() };
    (turned != *conversation).then_some(turned)
}

fn may_join(before: &Message, after: &Message) -> bool {
    before.role == after.role && matches!(after.role, Role::System | Role::User)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(messages: &[(Role, &str)]) -> Option<Vec<(Role, String)>> {
        let messages = messages.iter().map(|(role, text)| Message::new(*role, *text)).collect();
        let conversation = Conversation { messages, ..Conversation::default() };
        let messages = in_turns(&conversation)?.messages;
        Some(messages.into_iter().map(|message| (message.role, message.content)).collect())
    }

    #[test]
    fn instructions_in_the_middle_become_words_of_the_user_in_their_place() {
        let turned = turned(&[
            (Role::System, "a"),
            (Role::System, "b"),
            (Role::User, "c"),
            (Role::System, "d"),
            (Role::Assistant, "e"),
            (Role::System, "f"),
            (Role::User, "g"),
        ]);
        let expected = [
            (Role::System, "a\n\nb"),
            (Role::User, "c\n\nd"),
            (Role::Assistant, "e"),
            (Role::User, "f\n\ng"),
        ];
        assert_eq!(turned, Some(expected.map(|(role, text)| (role, text.to_owned())).to_vec()));
    }

    #[test]
    fn a_conversation_in_turns_is_not_rendered_twice() {
        assert_eq!(turned(&[(Role::System, "a"), (Role::User, "b"), (Role::Assistant, "c")]), None);
    }
}
