//! Tokens become text one by one, and only ever whole characters.

use std::sync::Arc;

use crate::tokenizer::Tokenizer;

/// The text of an answer while it is made. A token may end inside a character; its bytes wait for the next one.
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    /// Control tokens that are told as their texts.
    shown: Arc<[u32]>,
    /// The start of a character: at most three bytes between calls.
    pending: Vec<u8>,
}

impl Detokenizer {
    /// A detokenizer at the start of an answer.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>) -> Detokenizer {
        Detokenizer { tokenizer, shown: Arc::default(), pending: Vec::new() }
    }

    /// The same, for a reader who has to see the control tokens `shown`: each is told as the vocabulary spells it.
    #[must_use]
    pub fn showing(self, shown: Arc<[u32]>) -> Detokenizer {
        Detokenizer { shown, ..self }
    }

    /// Adds a token and returns the text that is complete by now, which may be none.
    ///
    /// Bytes that can no longer become a character are one U+FFFD for each maximal part, as in the Unicode standard.
    /// Control tokens have no text, unless they are shown.
    pub fn push(&mut self, token_id: u32) -> String {
        if self.shown.contains(&token_id) {
            let before = self.finish();
            return before + self.tokenizer.token_text(token_id);
        }
        self.pending.extend_from_slice(self.tokenizer.token_bytes(token_id));
        let mut text = String::new();
        let mut waiting = 0;
        let mut chunks = self.pending.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let is_last = chunks.peek().is_none();
            if is_last && may_continue(chunk.invalid()) {
                waiting = chunk.invalid().len();
            } else if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.pending.drain(..self.pending.len() - waiting);
        text
    }

    /// Ends the answer. A character that was begun and not completed is one U+FFFD.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

/// Whether bytes are the start of a character that more bytes may complete.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
