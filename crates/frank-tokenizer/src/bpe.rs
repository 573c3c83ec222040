//! Byte-pair encoding: the bytes of a word become tokens by merging neighbours, the best-ranked pair first.
//!
//! Time is O(n log n) in the bytes of a word, for every word and vocabulary. A word of n bytes starts as n symbols and
//! each merge removes one, so there are fewer than n merges. The queue starts with at most n - 1 pairs and each merge
//! adds at most two, so it sees fewer than 3n entries, and each costs O(log n) to put in and take out. Entries whose
//! pair has changed since are recognised when they come up, in O(1), not searched for.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use frank_gguf::Metadata;

use crate::byte_alphabet;
use crate::error::TokenizerError;
use crate::vocab::{TokenKind, Vocab};

const MERGES_KEY: &str = "tokenizer.ggml.merges";

/// Stands for a byte that no token of the vocabulary spells.
const NO_TOKEN: u32 = u32::MAX;

/// Stands for the end of the chain of symbols.
const NO_SYMBOL: usize = usize::MAX;

/// What a pair of neighbours becomes, and how early.
#[derive(Debug, Clone, Copy)]
struct Merge {
    rank: u32,
    token_id: u32,
}

/// The merges of a vocabulary.
pub(crate) struct Bpe {
    byte_tokens: [u32; 256],
    merges: HashMap<(u32, u32), Merge>,
}

/// One symbol of a word: a token, in a chain from left to right.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    token_id: u32,
    previous: usize,
    next: usize,
}

/// A pair of neighbours that may be merged. The order of the fields is the order of merging: rank, then place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: usize,
    /// The tokens of the pair when it was found; other ones by now mean that the pair is gone.
    pair: (u32, u32),
    merged: u32,
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
    pub(crate) fn from_metadata(metadata: &Metadata, vocab: &Vocab) -> Result<Bpe, TokenizerError> {
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
        let byte_tokens = std::array::from_fn(|byte| spelled(byte as u8));
        let mut merges = HashMap::new();
        for (index, text) in list.iter().enumerate() {
            let (pair, token_id) = read_merge(index, text, &ids)?;
            // A pair that is listed again keeps its first rank, as in llama.cpp.
            merges.entry(pair).or_insert(Merge { rank: index as u32, token_id });
        }
        merges.shrink_to_fit();
        Ok(Bpe { byte_tokens, merges })
    }

    /// Appends the tokens of one word. A byte that the vocabulary cannot spell is left out, as in llama.cpp.
    pub(crate) fn encode_word(&self, word: &str, scratch: &mut Scratch, tokens: &mut Vec<u32>) {
        scratch.start(word.bytes().map(|byte| self.byte_tokens[usize::from(byte)]));
        for left in 0..scratch.symbols.len() {
            self.queue_pair(left, scratch);
        }
        while let Some(Reverse(candidate)) = scratch.queue.pop() {
            if scratch.is_current(candidate) {
                let previous = scratch.merge(candidate);
                self.queue_pair(previous, scratch);
                self.queue_pair(candidate.left, scratch);
            }
        }
        tokens.extend(scratch.tokens());
    }

    /// Queues the pair that starts at `left`, if there is one that merges.
    fn queue_pair(&self, left: usize, scratch: &mut Scratch) {
        let Some(pair) = scratch.pair(left) else { return };
        if let Some(&Merge { rank, token_id }) = self.merges.get(&pair) {
            scratch.n_queued += 1;
            scratch.queue.push(Reverse(Candidate { rank, left, pair, merged: token_id }));
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // One control byte to an entry is how the standard library's map is laid out.
        self.merges.capacity() * (size_of::<((u32, u32), Merge)>() + 1)
    }
}

impl Scratch {
    /// Sets up the symbols of a word. The queue is empty, because the loop before ended with it empty.
    fn start(&mut self, tokens: impl ExactSizeIterator<Item = u32>) {
        let n = tokens.len();
        let link = |index: usize| if index < n { index } else { NO_SYMBOL };
        self.symbols.clear();
        self.symbols.extend(tokens.enumerate().map(|(index, token_id)| Symbol {
            token_id,
            previous: index.checked_sub(1).unwrap_or(NO_SYMBOL),
            next: link(index + 1),
        }));
    }

    /// The tokens of the symbol at `left` and its right neighbour.
    fn pair(&self, left: usize) -> Option<(u32, u32)> {
        let symbol = self.symbols.get(left)?;
        let right = self.symbols.get(symbol.next)?;
        Some((symbol.token_id, right.token_id))
    }

    fn is_current(&self, candidate: Candidate) -> bool {
        self.pair(candidate.left) == Some(candidate.pair)
    }

    /// Merges the pair into its left symbol and takes the right one out of the chain. Returns the symbol before it.
    fn merge(&mut self, candidate: Candidate) -> usize {
        let left = candidate.left;
        let right = self.symbols[left].next;
        let after = self.symbols[right].next;
        self.symbols[right].next = NO_SYMBOL;
        self.symbols[left].token_id = candidate.merged;
        self.symbols[left].next = after;
        if let Some(after) = self.symbols.get_mut(after) {
            after.previous = left;
        }
        self.symbols[left].previous
    }

    /// The tokens of the chain.
    fn tokens(&self) -> impl Iterator<Item = u32> {
        let first = self.symbols.first();
        let chain = std::iter::successors(first, |symbol| self.symbols.get(symbol.next));
        chain.map(|symbol| symbol.token_id).filter(|&token_id| token_id != NO_TOKEN)
    }
}

/// The pair of a merge, and what it becomes.
fn read_merge(
    index: usize,
    merge: &str,
    ids: &HashMap<&str, u32>,
) -> Result<((u32, u32), u32), TokenizerError> {
    // The first piece may itself be a space in vocabularies with another alphabet; it is never empty.
    let space = merge.bytes().skip(1).position(|byte| byte == b' ').map(|place| place + 1);
    let pieces = space.map(|space| (&merge[..space], &merge[space + 1..]));
    let (left, right) =
        pieces.ok_or_else(|| TokenizerError::MergeForm { index, merge: merge.to_owned() })?;
    let id = |piece: &str| {
        ids.get(piece).copied().ok_or_else(|| TokenizerError::MergePiece {
            index,
            merge: merge.to_owned(),
            piece: piece.to_owned(),
        })
    };
    Ok(((id(left)?, id(right)?), id(&format!("{left}{right}"))?))
}

#[cfg(test)]
mod tests {
    use super::{Bpe, Merge, Scratch};

    /// Token 0 is `a`; every two equal tokens merge into the next one.
    fn doubling() -> Bpe {
        let merges = (0..20).map(|id| ((id, id), Merge { rank: id, token_id: id + 1 })).collect();
        Bpe { byte_tokens: [0; 256], merges }
    }

    /// Like `doubling`, but the order of merging runs against the order of the word.
    fn growing() -> Bpe {
        let merges =
            (0..1000).map(|id| ((id, 0), Merge { rank: 1000 - id, token_id: id + 1 })).collect();
        Bpe { byte_tokens: [0; 256], merges }
    }

    #[test]
    fn the_queue_sees_fewer_than_three_entries_for_each_byte() {
        for bpe in [doubling(), growing()] {
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
        let (a, b, c, ab, bc) = (0, 1, 2, 3, 4);
        let mut byte_tokens = [a; 256];
        byte_tokens[usize::from(b'b')] = b;
        byte_tokens[usize::from(b'c')] = c;
        let merge = |rank, token_id| Merge { rank, token_id };
        let merges = [((a, b), merge(1, ab)), ((b, c), merge(0, bc)), ((a, a), merge(2, 5))]
            .into_iter()
            .collect();
        let bpe = Bpe { byte_tokens, merges };
        let encode = |word: &str| {
            let mut tokens = Vec::new();
            bpe.encode_word(word, &mut Scratch::default(), &mut tokens);
            tokens
        };
        assert_eq!(encode("abc"), [a, bc]);
        assert_eq!(encode("abab"), [ab, ab]);
        assert_eq!(encode("aaa"), [5, a]);
        assert_eq!(encode("aaab"), [5, ab]);
    }
}
