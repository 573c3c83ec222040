//! Finds the token of a text, without a second copy of the texts.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Tokens by their texts, which stay where they are: whoever asks says how to read them.
pub(crate) struct TextIndex {
    ids: HashTable<u32>,
    /// Seeded, so that no file can make the texts of its tokens collide.
    hasher: RandomState,
}

impl TextIndex {
    /// The index of some tokens, no two of which have one text.
    pub(crate) fn new<'v>(ids: &[u32], text: impl Fn(u32) -> &'v [u8]) -> TextIndex {
        let mut index =
            TextIndex { ids: HashTable::with_capacity(ids.len()), hasher: RandomState::new() };
        for &id in ids {
            let hash = index.hasher.hash_one(text(id));
            index.ids.insert_unique(hash, id, |&id| index.hasher.hash_one(text(id)));
        }
        index
    }

    /// The token whose text is `wanted`. `text` is what the index was made with.
    pub(crate) fn find<'v>(&self, wanted: &[u8], text: impl Fn(u32) -> &'v [u8]) -> Option<u32> {
        self.ids.find(self.hasher.hash_one(wanted), |&id| text(id) == wanted).copied()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.ids.allocation_size()
    }
}
