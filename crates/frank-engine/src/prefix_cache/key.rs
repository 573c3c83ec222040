//! The key of a page: a hash of all tokens up to its end, and of whose they are.

use sha2::{Digest, Sha256};

/// Names a page by its content. Equal keys mean equal tokens from the start of the sequence on, in one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PageKey(pub(crate) [u8; 32]);

impl PageKey {
    /// Where the sequences of a scope begin.
    pub(crate) fn root(scope: &[u8; 32]) -> Self {
        Self(Sha256::digest(scope).into())
    }

    /// The page after this one, which holds `token_ids`.
    pub(crate) fn child(&self, token_ids: &[u32]) -> Self {
        let mut hash = Sha256::new().chain_update(self.0);
        for token_id in token_ids {
            hash.update(token_id.to_le_bytes());
        }
        Self(hash.finalize().into())
    }

    /// The block of a group of this page, where each has a place of its own. That of the first group is the page's.
    pub(crate) fn of_group(&self, group: usize) -> [u8; 32] {
        if group == 0 {
            return self.0;
        }
        Sha256::new()
            .chain_update(self.0)
            .chain_update((group as u64).to_le_bytes())
            .finalize()
            .into()
    }
}
