//! A rendered prompt: text in which only the template's own control tokens can be read as such.

use crate::guard::free_guard;

/// The text a chat template made of a conversation.
///
/// Wherever text that came from a message could be read as (part of) a control token, a `guard` stands
/// inside it. A tokenizer first cuts `text` at the control-token texts, which a guarded one no longer
/// equals, then removes every `guard` from the pieces between and encodes those as plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The rendered text, guards included.
    pub text: String,
    /// A Unicode noncharacter (U+FDD0 to U+FDEF) that stands in `text` only as a guard.
    pub guard: char,
}

impl Prompt {
    /// A text in which every control token is meant as one; `None` when it holds each character that could be a
    /// guard.
    #[must_use]
    pub fn unguarded(text: String) -> Option<Self> {
        free_guard(std::iter::once(text.as_str())).map(|guard| Self { text, guard })
    }

    /// The text as a reader sees it: every guard removed.
    #[must_use]
    pub fn plain_text(&self) -> String {
        self.text.replace(self.guard, "")
    }
}
