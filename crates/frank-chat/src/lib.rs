//! Conversation vocabulary and chat template rendering. Never speaks HTTP, vendor envelopes or token ids.

mod conversation;
mod guard;
mod prompt;
mod template;

pub use conversation::{Conversation, Message, Role, Tool, ToolCall};
pub use prompt::Prompt;
pub use template::{ChatTemplate, TemplateError};
