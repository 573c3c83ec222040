//! How the model that is served speaks: which chat format its template belongs to, and which of its control tokens that
//! format reads. Found once, when the model is loaded.

use std::sync::Arc;

use frank_chat::{ChatFormat, ChatTemplate, format_of, knows_tools};
use frank_tokenizer::{Detokenizer, Tokenizer};

/// How a model with a chat template speaks.
#[derive(Clone)]
pub(crate) struct Voice {
    /// How it writes what it thinks, says and calls.
    pub(crate) format: &'static ChatFormat,
    /// Whether its template shows it tools.
    pub(crate) knows_tools: bool,
    /// Whether it may think before it answers.
    pub(crate) thinks: bool,
    /// Control tokens that the format reads.
    shown: Arc<[u32]>,
}

impl std::fmt::Debug for Voice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Voice({})", self.format.name)
    }
}

impl Voice {
    /// The voice of a model with this template and vocabulary.
    pub(crate) fn of(template: &ChatTemplate, tokenizer: &Tokenizer) -> Self {
        let source = template.source();
        let format = format_of(source);
        let thoughts = [format.reasoning.opening, format.reasoning.closing];
        let thoughts = thoughts.into_iter().filter(|text| !text.trim().is_empty());
        // A family that always may, or a template that writes of it.
        let thinks = thoughts.clone().any(|text| source.contains(text.trim()));
        let read = format.controls.iter().copied().chain(thoughts);
        let shown = read.filter_map(|text| tokenizer.control_token(text)).collect();
        Self { format, knows_tools: knows_tools(source), thinks, shown }
    }

    /// What makes text of an answer's tokens, with the control tokens that the format reads.
    pub(crate) fn detokenizer(&self, tokenizer: &Arc<Tokenizer>) -> Detokenizer {
        Detokenizer::new(Arc::clone(tokenizer)).showing(Arc::clone(&self.shown))
    }
}
