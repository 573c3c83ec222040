//! Why a template gave no prompt.

use minijinja::{Error, ErrorKind};
use thiserror::Error;

/// Why a chat template could not be compiled or rendered.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// The template is longer than any that is taken.
    #[error("the chat template has {bytes} bytes, {limit} are taken at most")]
    SourceTooLong {
        /// Its length.
        bytes: usize,
        /// The longest length that is taken.
        limit: usize,
    },
    /// The template is not Jinja.
    #[error("line {line} of the chat template: {detail}")]
    Syntax {
        /// Line of the template, from 1.
        line: usize,
        /// What the parser found.
        detail: String,
    },
    /// The template called `raise_exception`: it does not take such a conversation.
    #[error("{0}")]
    Raised(String),
    /// The template used up the work that a conversation of this size may cost.
    #[error("the chat template takes too much work for this conversation")]
    TooMuchWork,
    /// Macros or loops of the template call themselves without an end.
    #[error("the chat template calls itself too deeply")]
    TooDeep,
    /// The template wrote more than a conversation of this size may become.
    #[error("the chat template wrote more than {limit} bytes")]
    OutputTooLong {
        /// Bytes that it may write.
        limit: usize,
    },
    /// The template did something that cannot be done, such as calling an unknown function.
    #[error("line {line} of the chat template: {detail}")]
    Failed {
        /// Line of the template, from 1.
        line: usize,
        /// What went wrong.
        detail: String,
    },
    /// The template neither ended nor ran out of fuel in time, or an earlier run of it still goes on.
    #[error("the chat template did not end in time")]
    Overtime,
    /// The template engine itself failed.
    #[error("the chat template engine failed")]
    EngineFailed,
    /// The system gave no thread to run the template on.
    #[error("no thread for the chat template: {0}")]
    NoThread(#[source] std::io::Error),
    /// Messages and template use all 32 noncharacters that could guard message text.
    #[error("the messages hold every Unicode noncharacter from U+FDD0 to U+FDEF")]
    NoGuard,
    /// A message holds a control token of one character, which no guard can part.
    #[error("a message holds {text:?}, which this model always reads as a control token")]
    UnguardableControl {
        /// The control token's text.
        text: String,
    },
}

/// What `raise_exception` throws.
#[derive(Debug, Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

impl TemplateError {
    /// Sorts an error of the template engine. It wraps what a function threw, so the whole chain counts.
    pub(super) fn from_engine(error: &Error) -> Self {
        let mut link: Option<&(dyn std::error::Error + 'static)> = Some(error);
        let mut innermost = error;
        while let Some(cause) = link {
            if let Some(Raised(message)) = cause.downcast_ref() {
                return Self::Raised(message.clone());
            }
            if let Some(engine) = cause.downcast_ref::<Error>() {
                innermost = engine;
            }
            link = cause.source();
        }
        let line = error.line().unwrap_or(1);
        match innermost.kind() {
            ErrorKind::OutOfFuel => Self::TooMuchWork,
            ErrorKind::SyntaxError => Self::Syntax { line, detail: detail_of(innermost) },
            // The engine has no kind of its own for this one.
            _ if innermost.detail() == Some("recursion limit exceeded") => Self::TooDeep,
            _ => Self::Failed { line, detail: detail_of(innermost) },
        }
    }

    /// The same error with `guard` removed from what it quotes.
    pub(super) fn without_guards(self, guard: char) -> Self {
        match self {
            Self::Raised(message) => Self::Raised(message.replace(guard, "")),
            Self::Failed { line, detail } => {
                Self::Failed { line, detail: detail.replace(guard, "") }
            }
            other => other,
        }
    }
}

fn detail_of(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}
