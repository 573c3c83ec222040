//! What was said so far, in the words that every chat protocol shares.

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Standing instructions (`developer` in some protocols).
    System,
    /// The person or program that asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The word that templates compare with.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who wrote it.
    pub role: Role,
    /// Its text.
    pub content: String,
    /// The writer's name, where the client gave one.
    pub name: Option<String>,
}

impl Message {
    /// A message without a name.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), name: None }
    }
}

/// The messages that a model shall answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// In the order in which they were said.
    pub messages: Vec<Message>,
    /// Seconds since 1970 (UTC) for templates that write the date; without it they find no clock.
    pub now: Option<u64>,
}

impl Conversation {
    /// The strings that a stranger wrote.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.messages
            .iter()
            .flat_map(|m| std::iter::once(m.content.as_str()).chain(m.name.as_deref()))
    }

    /// Bytes of all texts together.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }
}
