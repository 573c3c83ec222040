//! A budget of thought: after so many tokens the model's thoughts are closed, and the answer follows. Whatever else the
//! answer is kept to goes on.

use std::collections::VecDeque;
use std::sync::Arc;

use frank_engine::{Constraint, ConstraintError};
use frank_tokenizer::{Specials, Tokenizer};

/// How thoughts are written, in bytes.
#[derive(Clone, Debug)]
struct Marks {
    opening: Vec<u8>,
    closing: Vec<u8>,
    /// The tokens of `closing`.
    closing_ids: Vec<u32>,
}

/// Where an answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// At its start: it may yet begin with thoughts. What came so far is white space or a part of the opening.
    Start,
    /// In its thoughts.
    Thinking,
    /// The thoughts are being closed; these tokens are left.
    Closing(VecDeque<u32>),
    /// After its thoughts, or without any.
    Answering,
}

/// Lets the model think for so many tokens.
pub(crate) struct ThinkingBudget {
    tokenizer: Arc<Tokenizer>,
    marks: Marks,
    tokens_left: u64,
    place: Place,
    /// What may become a mark, or is a part of a character.
    tail: Vec<u8>,
    /// The last tokens, as many as the closing has.
    last_ids: Vec<u32>,
    /// What else the answer is kept to.
    inner: Option<Box<dyn Constraint>>,
}

impl std::fmt::Debug for ThinkingBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ThinkingBudget({:?}, {} left, {:?})", self.place, self.tokens_left, self.inner)
    }
}

impl ThinkingBudget {
    /// A budget for an answer that begins in thoughts or may do so, written between `opening` and `closing`.
    pub(crate) fn new(
        tokenizer: &Arc<Tokenizer>,
        (opening, closing): (&str, &str),
        tokens: u64,
        begins_in_reasoning: bool,
        inner: Option<Box<dyn Constraint>>,
    ) -> Self {
        let marks = Marks {
            opening: opening.as_bytes().to_vec(),
            closing: closing.as_bytes().to_vec(),
            closing_ids: tokenizer.encode(closing, Specials::Parse),
        };
        let place = if begins_in_reasoning { Place::Thinking } else { Place::Start };
        let tokenizer = Arc::clone(tokenizer);
        Self {
            tokenizer,
            marks,
            tokens_left: tokens,
            place,
            tail: Vec::new(),
            last_ids: Vec::new(),
            inner,
        }
    }

    /// The token that must come next, where one must.
    fn forced(&mut self) -> Option<u32> {
        if self.place == Place::Thinking && self.tokens_left == 0 && self.is_between_characters() {
            self.place = Place::Closing(self.missing());
        }
        match &self.place {
            Place::Closing(left) => left.front().copied(),
            Place::Start | Place::Thinking | Place::Answering => None,
        }
    }

    /// Whether the last character is whole. The tail may begin inside one.
    fn is_between_characters(&self) -> bool {
        let is_begun = |byte: &u8| (*byte & 0b1100_0000) != 0b1000_0000;
        let start = self.tail.iter().position(is_begun).unwrap_or(self.tail.len());
        let rest = &self.tail[start..];
        std::str::from_utf8(rest).map_or_else(|error| error.error_len().is_some(), |_| true)
    }

    /// The tokens of the closing that are still to come: the model may have begun it by itself.
    fn missing(&self) -> VecDeque<u32> {
        let ids = &self.marks.closing_ids;
        let longest = ids.len().saturating_sub(1).min(self.last_ids.len());
        let begun = (1..=longest).rev().find(|n| self.last_ids.ends_with(&ids[..*n]));
        ids[begun.unwrap_or(0)..].iter().copied().collect()
    }

    /// Follows the marks in what was written.
    fn follow(&mut self, token_id: u32) {
        match &mut self.place {
            Place::Answering => {}
            Place::Closing(left) => {
                left.pop_front();
                if left.is_empty() {
                    self.place = Place::Answering;
                }
            }
            Place::Start => {
                self.write(token_id);
                self.leave_start();
            }
            Place::Thinking => {
                self.tokens_left = self.tokens_left.saturating_sub(1);
                self.last_ids.push(token_id);
                let kept = self.last_ids.len().saturating_sub(self.marks.closing_ids.len());
                self.last_ids.drain(..kept);
                self.write(token_id);
                self.leave_thoughts();
            }
        }
    }

    fn write(&mut self, token_id: u32) {
        let bytes = self.tokenizer.token_bytes(token_id);
        let bytes =
            if bytes.is_empty() { self.tokenizer.token_text(token_id).as_bytes() } else { bytes };
        self.tail.extend_from_slice(bytes);
    }

    /// Thoughts begin with the opening and nothing but white space before it.
    fn leave_start(&mut self) {
        let text = self.tail.trim_ascii_start();
        if !self.marks.opening.is_empty() && text.starts_with(&self.marks.opening) {
            self.tail = text[self.marks.opening.len()..].to_vec();
            self.place = Place::Thinking;
            self.leave_thoughts();
        } else if !self.marks.opening.starts_with(text) {
            self.place = Place::Answering;
        }
    }

    fn leave_thoughts(&mut self) {
        let closing = &self.marks.closing;
        if self.tail.windows(closing.len().max(1)).any(|window| window == closing) {
            self.place = Place::Answering;
            self.tail = Vec::new();
        } else {
            // As much as may be the start of the closing or of a character.
            let kept = closing.len().saturating_sub(1).max(3).min(self.tail.len());
            self.tail.drain(..self.tail.len() - kept);
        }
    }
}

impl Constraint for ThinkingBudget {
    fn allowed(&mut self, mask: &mut [u32]) -> Result<(), ConstraintError> {
        match &mut self.inner {
            Some(inner) => inner.allowed(mask)?,
            None => mask.fill(u32::MAX),
        }
        if let Some(token_id) = self.forced() {
            let (word, bit) = (token_id as usize / 32, 1 << (token_id % 32));
            // What the answer is kept to may not let its thoughts end here; then it goes on as it likes.
            if mask.get(word).is_some_and(|word| word & bit != 0) {
                mask.fill(0);
                mask[word] = bit;
            } else {
                self.place = Place::Answering;
            }
        }
        Ok(())
    }

    fn accept(&mut self, token_id: u32) -> Result<(), ConstraintError> {
        if let Some(inner) = &mut self.inner {
            inner.accept(token_id)?;
        }
        self.follow(token_id);
        Ok(())
    }
}
