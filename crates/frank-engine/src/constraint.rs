//! What an answer must look like, as the step loop sees it: which tokens may come next.

use std::fmt;

use thiserror::Error;

/// Follows one answer and says which tokens may continue it.
pub trait Constraint: fmt::Debug + Send {
    /// Sets in `mask` the bit of each token that may come next, and clears all others: token `t` is bit `t % 32` of word
    /// `t / 32`. End tokens are among them where the answer may end. No bit at all means that it has ended.
    ///
    /// # Errors
    /// The limits of the constraint were exceeded.
    fn allowed(&mut self, mask: &mut [u32]) -> Result<(), ConstraintError>;

    /// Takes notice of the token that was drawn.
    ///
    /// # Errors
    /// The token was not allowed, or the limits of the constraint were exceeded.
    fn accept(&mut self, token_id: u32) -> Result<(), ConstraintError>;
}

/// Why an answer cannot be kept to its constraint; for the log and the client.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the answer cannot be kept to its grammar: {0}")]
pub struct ConstraintError(pub String);
