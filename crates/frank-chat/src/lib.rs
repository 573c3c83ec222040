//! Conversation vocabulary, chat template rendering, and reading what models write. Never speaks HTTP, vendor envelopes or token ids.

mod arguments;
mod billing_line;
mod conversation;
mod formats;
mod guard;
mod history;
mod output;
mod pattern;
mod prompt;
mod reader;
mod schema;
mod template;
mod tools_as_text;

pub use billing_line::without_billing_lines;
pub use conversation::{Conversation, Message, Role, Tool, ToolCall};
pub use formats::{
    CallRules, CallSyntax, ChatFormat, FORMATS, OutputRules, ReasoningSyntax, format_of,
    knows_tools,
};
pub use output::{OutputParser, OutputPart};
pub use pattern::Pattern;
pub use prompt::Prompt;
pub use template::{ChatTemplate, TemplateError, switches_thinking};
pub use tools_as_text::with_tools_as_text;
