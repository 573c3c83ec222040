//! Follows one answer: which tokens may come next, and what came.

use std::fmt;

use crate::error::MatchError;

/// A grammar and how far an answer has come in it.
pub struct Matcher {
    pub(crate) inner: llguidance::Matcher,
}

/// What the clone follows changes nothing for the original, nor what it takes to do so.
impl Clone for Matcher {
    fn clone(&self) -> Self {
        // Not its plain clone, which shares a lexer, and with it a lock and the bound on its states.
        Self { inner: self.inner.deep_clone() }
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}

impl Matcher {
    /// Sets in `mask` the bit of each token that may come next, and clears all others: token `t` is bit `t % 32` of word
    /// `t / 32`. End tokens are among them where the answer may end. No bit at all means that it has ended.
    ///
    /// Cost: bounded by [`Limits`](crate::Limits), usually well below a millisecond.
    /// # Errors
    /// [`MatchError`] when the bounds do not suffice for this step, or no token of the vocabulary can go on.
    pub fn allowed(&mut self, mask: &mut [u32]) -> Result<(), MatchError> {
        mask.fill(0);
        if self.has_ended() {
            return Ok(());
        }
        let allowed = self.inner.compute_mask().map_err(|error| refused(&error))?;
        for (word, allowed) in mask.iter_mut().zip(allowed.as_slice()) {
            *word = *allowed;
        }
        Ok(())
    }

    /// Takes notice of the token that was drawn.
    ///
    /// # Errors
    /// [`MatchError`] when the token was not allowed, or the bounds do not suffice to follow it.
    pub fn accept(&mut self, token_id: u32) -> Result<(), MatchError> {
        if self.has_ended() {
            return Err(MatchError(format!("token {token_id} comes after the end")));
        }
        self.inner.consume_token(token_id).map_err(|error| refused(&error))
    }

    /// Whether nothing more may come.
    fn has_ended(&self) -> bool {
        self.inner.is_stopped() && !self.inner.is_error()
    }
}

fn refused(error: &dyn fmt::Display) -> MatchError {
    match one_line(error).as_str() {
        // The parser's name for having no token to offer.
        "NoExtensionBias" => MatchError("no token can come next".to_owned()),
        reason => MatchError(reason.to_owned()),
    }
}

/// What the parser says, in one line. Around it there may be a drawing of the place, or a dump of its state.
pub(crate) fn one_line(error: &dyn fmt::Display) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let marked = lines.clone().find(|line| line.starts_with("error:"));
    marked.or_else(|| lines.next()).unwrap_or("no reason given").chars().take(300).collect()
}
