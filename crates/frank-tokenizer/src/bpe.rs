//! Byte-pair encoding: the bytes of a word become tokens by merging neighbours, the best-ranked pair first.
//!
//! Time is O(n log n) in the bytes of a word, for every word and vocabulary. A word of n bytes starts as n symbols and
//! each merge removes one, so there are fewer than n merges. The queue starts with at most n - 1 pairs and each merge
//! adds at most two, so it sees fewer than 3n entries, and each costs O(log n) to put in and take out. Entries whose
//! pair has changed since are recognised when they come up, in O(1), not searched for.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};

use frank_gguf::Metadata;

use crate::byte_alphabet;
use crate::error::{TokenizerError, shortened};
use crate::text_index::TextIndex;
use crate::vocab::{TokenKind, Vocab};

const MERGES_KEY: &str = "tokenizer.ggml.merges";

/// Stands for a byte that no token of the vocabulary spells.
const NO_TOKEN: u32 = u32::MAX;

/// Stands for the end of the chain of symbols.
const NO_SYMBOL: u32 = u32::MAX;

/// Bytes that are merged at once, so that 32 bits number the symbols. Only a word over a gibibyte is cut by it.
const CHUNK_BYTES: usize = 1 << 30;

/// What a pair of neighbours becomes.
#[derive(Debug, Clone, Copy)]
struct Merge {
    pair: (u32, u32),
    token_id: u32,
}

/// The merges of a vocabulary.
pub(crate) struct Bpe {
    byte_tokens: Box<[u32; 256]>,
    /// By rank: the first is merged first.
    merges: Vec<Merge>,
    /// Indexes into `merges`.
    ranks: HashMap<(u32, u32), u32>,
    /// Words that are tokens, where such a word is not merged.
    whole_words: Option<TextIndex>,
}

/// One symbol of a word: a token, in a chain from left to right.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    token_id: u32,
    previous: u32,
    next: u32,
}

/// A pair of neighbours that may be merged. The order of the fields is the order of merging: rank, then place.
///
/// A rank belongs to one pair of tokens, so other tokens at this place by now mean that the pair is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
}

/// Memory of the merge loop, kept from word to word.
#[derive(Default)]
pub(crate) struct Scratch {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Candidate>>,
    /// Queue entries since the scratch was made: the work, as the tests bound it.
    n_queued: u64,
}

impl Bpe {
    /// Reads the merges. They may only be made of text tokens and into them: control tokens are never spelled.
    /// With `whole_words` a word that is a token as it stands is that token.
    pub(crate) fn from_metadata(
        metadata: &Metadata,
        vocab: &Vocab,
        whole_words: bool,
    ) -> Result<Bpe, TokenizerError> {
        let list =
            metadata.strings(MERGES_KEY)?.ok_or(TokenizerError::MissingKey { key: MERGES_KEY })?;
        if u32::try_from(list.len()).is_err() {
            return Err(TokenizerError::TooMany { key: MERGES_KEY, count: list.len() });
        }
        let is_text = |&id: &u32| vocab.kind(id) != Some(TokenKind::Control);
        let ids: HashMap<&str, u32> =
            vocab.ids().filter(is_text).map(|id| (vocab.text(id), id)).collect();
        let spelled = |byte| {
            let mut buffer = [0; 4];
            ids.get(&*byte_alphabet::char_of(byte).encode_utf8(&mut buffer))
                .copied()
                .unwrap_or(NO_TOKEN)
        };
        let mut bpe = Bpe {
            byte_tokens: Box::new(std::array::from_fn(|byte| spelled(byte as u8))),
            merges: Vec::with_capacity(list.len()),
            ranks: HashMap::with_capacity(list.len()),
            whole_words: whole_words.then(|| index_words(vocab)),
        };
        for (index, text) in list.iter().enumerate() {
            bpe.push_merge(read_merge(index, text, &ids)?);
        }
        Ok(bpe)
    }

    /// Adds a merge that ranks behind all others. A pair that is there already keeps its rank, as in llama.cpp.
    fn push_merge(&mut self, merge: Merge) {
        let rank = self.merges.len() as u32;
        if let Entry::Vacant(slot) = self.ranks.entry(merge.pair) {
            slot.insert(rank);
            self.merges.push(merge);
        }
    }

    /// The token that a word is as it stands, if the vocabulary wants such words whole.
    pub(crate) fn whole_word(&self, word: &str, vocab: &Vocab) -> Option<u32> {
        self.whole_words.as_ref()?.find(word.as_bytes(), |id| vocab.bytes(id))
    }

    /// Appends the tokens of one word. A byte that the vocabulary cannot spell is left out, as in llama.cpp.
    pub(crate) fn encode_word(&self, word: &str, scratch: &mut Scratch, tokens: &mut Vec<u32>) {
        for chunk in word.as_bytes().chunks(CHUNK_BYTES) {
            self.merge_bytes(chunk, scratch);
            tokens.extend(scratch.tokens());
        }
    }

    /// Leaves the merged symbols of some bytes in `scratch`.
    fn merge_bytes(&self, bytes: &[u8], scratch: &mut Scratch) {
        scratch.start(bytes.iter().map(|&byte| self.byte_tokens[usize::from(byte)]));
        for left in 0..bytes.len() as u32 {
            self.queue_pair(left, scratch);
        }
        while let Some(Reverse(Candidate { rank, left })) = scratch.queue.pop() {
            let merge = self.merges[rank as usize];
            if scratch.pair(left) == Some(merge.pair) {
                let previous = scratch.merge(left, merge.token_id);
                self.queue_pair(previous, scratch);
                self.queue_pair(left, scratch);
            }
        }
    }

    /// Queues the pair that starts at `left`, if there is one that merges.
    fn queue_pair(&self, left: u32, scratch: &mut Scratch) {
        let Some(pair) = scratch.pair(left) else { return };
        if let Some(&rank) = self.ranks.get(&pair) {
            scratch.n_queued += 1;
            scratch.queue.push(Reverse(Candidate { rank, left }));
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // A slot of the standard library's map is its key, its value and one control byte.
        self.ranks.capacity() * (size_of::<((u32, u32), u32)>() + 1)
            + self.merges.capacity() * size_of::<Merge>()
            + size_of::<[u32; 256]>()
            + self.whole_words.as_ref().map_or(0, TextIndex::heap_bytes)
    }
}

impl Scratch {
    /// Sets up the symbols of a word. The queue is empty, because the loop before ended with it empty.
    fn start(&mut self, tokens: impl ExactSizeIterator<Item = u32>) {
        let n = tokens.len() as u32;
        self.symbols.clear();
        self.symbols.extend((0..n).zip(tokens).map(|(index, token_id)| Symbol {
            token_id,
            previous: index.checked_sub(1).unwrap_or(NO_SYMBOL),
            next: if index + 1 < n { index + 1 } else { NO_SYMBOL },
        }));
    }

    fn symbol(&self, index: u32) -> Option<&Symbol> {
        self.symbols.get(index as usize)
    }

    /// The tokens of the symbol at `left` and its right neighbour; `None` at the end, and where a merge took the symbol
    /// out of the chain.
    fn pair(&self, left: u32) -> Option<(u32, u32)> {
        let left = self.symbol(left)?;
        let right = self.symbol(left.next)?;
        Some((left.token_id, right.token_id))
    }

    /// Merges the symbol at `left` with its right neighbour, which leaves the chain. Returns the symbol before it.
    fn merge(&mut self, left: u32, token_id: u32) -> u32 {
        let right = self.symbols[left as usize].next;
        let after = self.symbols[right as usize].next;
        self.symbols[right as usize].next = NO_SYMBOL;
        if let Some(after) = self.symbols.get_mut(after as usize) {
            after.previous = left;
        }
        let left = &mut self.symbols[left as usize];
        left.token_id = token_id;
        left.next = after;
        left.previous
    }

    /// The tokens of the chain.
    fn tokens(&self) -> impl Iterator<Item = u32> {
        let chain = std::iter::successors(self.symbol(0), |symbol| self.symbol(symbol.next));
        chain.map(|symbol| symbol.token_id).filter(|&token_id| token_id != NO_TOKEN)
    }
}

/// The tokens that a word can be, by their bytes. One that is not spelled in the alphabet of bytes is none of them.
fn index_words(vocab: &Vocab) -> TextIndex {
    let is_word = |&id: &u32| {
        let text = vocab.text(id);
        vocab.kind(id) == Some(TokenKind::Text)
            && !text.is_empty()
            && text.chars().all(|c| byte_alphabet::byte_of(c).is_some())
    };
    TextIndex::new(&vocab.ids().filter(is_word).collect::<Vec<_>>(), |id| vocab.bytes(id))
}

/// The pair of a merge, and what it becomes.
fn read_merge(index: usize, text: &str, ids: &HashMap<&str, u32>) -> Result<Merge, TokenizerError> {
    // The first piece may itself be a space in vocabularies with another alphabet; it is never empty.
    let space = text.bytes().skip(1).position(|byte| byte == b' ').map(|place| place + 1);
    let pieces = space.map(|space| (&text[..space], &text[space + 1..]));
    let (left, right) =
        pieces.ok_or_else(|| TokenizerError::MergeForm { index, merge: shortened(text) })?;
    let id = |piece: &str| {
        ids.get(piece).copied().ok_or_else(|| TokenizerError::MergePiece {
            index,
            merge: shortened(text),
            piece: shortened(piece),
        })
    };
    Ok(Merge { pair: (id(left)?, id(right)?), token_id: id(&format!("{left}{right}"))? })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Bpe, Merge, Scratch};

    /// A vocabulary where every byte is token 0 but `b` and `c`, which are 1 and 2.
    fn bpe(merges: impl IntoIterator<Item = (u32, u32, u32)>) -> Bpe {
        let mut bpe = Bpe {
            byte_tokens: Box::new([0; 256]),
            merges: Vec::new(),
            ranks: HashMap::new(),
            whole_words: None,
        };
        bpe.byte_tokens[usize::from(b'b')] = 1;
        bpe.byte_tokens[usize::from(b'c')] = 2;
        for (left, right, token_id) in merges {
            bpe.push_merge(Merge { pair: (left, right), token_id });
        }
        bpe
    }

    #[test]
    fn the_queue_sees_fewer_than_three_entries_for_each_byte() {
        let doubling = bpe((0..20).map(|id| (id, id, id + 1)));
        let growing_right = bpe((0..1000).map(|id| (id, 0, id + 1)));
        let growing_left = bpe((0..1000).rev().map(|id| (0, id, id + 1)));
        for bpe in [doubling, growing_right, growing_left] {
            for n in [1, 2, 3, 1000, 1 << 20] {
                let (mut scratch, mut tokens) = (Scratch::default(), Vec::new());
                bpe.encode_word(&"a".repeat(n), &mut scratch, &mut tokens);
                assert!(
                    scratch.n_queued < 3 * n as u64,
                    "{} entries for {n} bytes",
                    scratch.n_queued
                );
                assert!(!tokens.is_empty() && scratch.queue.is_empty());
            }
        }
    }

    #[test]
    fn the_best_rank_is_merged_first_and_of_equal_ones_the_leftmost() {
        let (a, b, c, ab, bc, aa) = (0, 1, 2, 3, 4, 5);
        let bpe = bpe([(b, c, bc), (a, b, ab), (a, a, aa), (b, c, aa)]);
        let encode = |word: &str| {
            let mut tokens = Vec::new();
            bpe.encode_word(word, &mut Scratch::default(), &mut tokens);
            tokens
        };
        assert_eq!(encode("abc"), [a, bc]);
        assert_eq!(encode("abab"), [ab, ab]);
        assert_eq!(encode("aaa"), [aa, a]);
        assert_eq!(encode("aaab"), [aa, ab]);
    }
}
