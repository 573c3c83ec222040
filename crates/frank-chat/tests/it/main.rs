//! What a chat template makes of a conversation, and what it cannot do.

mod calls;
mod conversations;
mod formats;
mod guards;
mod hostile;
mod oracle;
mod rendering;

use frank_chat::{ChatTemplate, Conversation, Message, Role, TemplateError};

/// The template of the ChatML family, as small instruction models carry it.
const CHATML: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
    {{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}\
    {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

const CHATML_CONTROLS: [&str; 3] = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"];

fn conversation(messages: &[(Role, &str)]) -> Conversation {
    let messages = messages.iter().map(|(role, content)| Message::new(*role, *content)).collect();
    Conversation { messages, ..Conversation::default() }
}

/// What `source` makes of one user message, guards removed.
fn render(source: &str, content: &str) -> Result<String, TemplateError> {
    let template = ChatTemplate::new(source, "<s>", "</s>")?;
    template
        .render(&conversation(&[(Role::User, content)]), &CHATML_CONTROLS)
        .map(|prompt| prompt.plain_text())
}
