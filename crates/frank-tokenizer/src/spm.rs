//! SentencePiece's BPE: the characters of a text become tokens by joining neighbours, the joined token with the best
//! score first. There are no words: white space is a character like any other.
//!
//! Time is O(n log n) in the bytes of a text, for every text and vocabulary. A text of n characters starts as n symbols
//! and each join removes one, so the queue sees fewer than 3n entries, as in `bpe`. For each of them one text of at most
//! [`TOKEN_BYTES_MAX`] bytes is looked up. Entries whose pair has changed since are recognised when they come up.
//!
//! A long text is joined part by part, cut where no token can span the cut, which gives the same tokens from a short queue.
//!
//! llama.cpp may also join text to a control token or to a byte token that the text spells. Here that cannot happen: the
//! text of a message never becomes a control token. SentencePiece does the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use frank_gguf::Metadata;

use crate::error::TokenizerError;
use crate::joints::Joints;
use crate::text_index::TextIndex;
use crate::vocab::{SPACE, TokenKind, Vocab};

const SCORES_KEY: &str = "tokenizer.ggml.scores";
const KINDS_KEY: &str = "tokenizer.ggml.token_type";
const SPACE_PREFIX_KEY: &str = "tokenizer.ggml.add_space_prefix";
const EXTRA_SPACE_KEY: &str = "tokenizer.ggml.remove_extra_whitespaces";

/// Longest text of a token. Real ones stay below 256 bytes; the bound keeps the cost of a look-up small.
const TOKEN_BYTES_MAX: usize = 1024;

/// Stands for the end of the chain of symbols.
const NO_SYMBOL: u32 = u32::MAX;

/// Bytes that are joined at once, so that 32 bits number them. Only a part over a gibibyte is cut by it.
const PART_BYTES_MAX: usize = 1 << 30;

/// The scores and texts of a vocabulary.
pub(crate) struct Spm {
    /// Tokens that text can become.
    index: TextIndex,
    joints: Joints,
    /// By token: the lowest is joined first.
    ranks: Vec<u32>,
    /// The token of each byte, for characters that are no token.
    byte_tokens: Option<Box<[u32; 256]>>,
    /// Whether text at the start and behind a special token has a space put before it.
    adds_space: bool,
}

/// One symbol: bytes of the text, in a chain from left to right. One that was joined to its left neighbour has none.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    start: u32,
    bytes: u32,
    previous: u32,
    next: u32,
}

/// A pair of neighbours that may be joined. The order of the fields is the order of joining: rank, then place.
///
/// A symbol only ever grows, so a pair of another size at this place by now means that the pair is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
    bytes: u32,
}

/// Memory of the loop, kept from text to text.
#[derive(Default)]
pub(crate) struct Scratch {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Candidate>>,
    /// Queue entries since the scratch was made: the work, as the tests bound it.
    n_queued: u64,
}

impl Spm {
    /// Reads the scores. Token types are needed too: without them control tokens are not told from text.
    pub(crate) fn from_metadata(
        metadata: &Metadata,
        vocab: &Vocab,
        warnings: &mut Vec<String>,
    ) -> Result<Spm, TokenizerError> {
        if metadata.get(KINDS_KEY).is_none() {
            return Err(TokenizerError::MissingKey { key: KINDS_KEY });
        }
        if metadata.bool(EXTRA_SPACE_KEY)? == Some(true) {
            warnings.push(format!("{EXTRA_SPACE_KEY} is true, but white space stays as it is"));
        }
        let ranks = read_ranks(metadata, vocab.len())?;
        let ids = text_tokens(vocab)?;
        Ok(Spm {
            ranks,
            index: TextIndex::new(&ids, |id| vocab.spelled(id)),
            joints: Joints::new(&ids, vocab),
            byte_tokens: byte_tokens(vocab)?,
            adds_space: metadata.bool(SPACE_PREFIX_KEY)?.unwrap_or(true),
        })
    }

    /// Appends the tokens of a text between special tokens. `after_special` says that one comes before it, or nothing.
    pub(crate) fn encode(
        &self,
        text: &str,
        after_special: bool,
        vocab: &Vocab,
        scratch: &mut Scratch,
        tokens: &mut Vec<u32>,
    ) {
        let prefix = if self.adds_space && after_special { " " } else { "" };
        let spelled = [prefix, text].concat().replace(' ', SPACE.encode_utf8(&mut [0; 4]));
        let mut rest = spelled.as_str();
        while !rest.is_empty() {
            let (at_most, _) = rest.split_at(rest.floor_char_boundary(PART_BYTES_MAX));
            let (part, tail) = rest.split_at(self.joints.first_part(at_most));
            self.join(part, vocab, scratch);
            for piece in scratch.pieces(part) {
                self.push_piece(piece, vocab, tokens);
            }
            rest = tail;
        }
    }

    /// Leaves the joined symbols of some text in `scratch`.
    fn join(&self, text: &str, vocab: &Vocab, scratch: &mut Scratch) {
        scratch.start(text);
        for left in 0..scratch.symbols.len() as u32 {
            self.queue_pair(left, text, vocab, scratch);
        }
        while let Some(Reverse(candidate)) = scratch.queue.pop() {
            if scratch.pair_bytes(candidate.left) == Some(candidate.bytes) {
                let previous = scratch.join(candidate.left);
                self.queue_pair(previous, text, vocab, scratch);
                self.queue_pair(candidate.left, text, vocab, scratch);
            }
        }
    }

    /// Queues the pair that starts at `left`, if it is a token.
    fn queue_pair(&self, left: u32, text: &str, vocab: &Vocab, scratch: &mut Scratch) {
        let Some(bytes) = scratch.pair_bytes(left) else { return };
        let start = scratch.symbols[left as usize].start as usize;
        if let Some(token_id) = self.find(&text.as_bytes()[start..][..bytes as usize], vocab) {
            scratch.n_queued += 1;
            let rank = self.ranks[token_id as usize];
            scratch.queue.push(Reverse(Candidate { rank, left, bytes }));
        }
    }

    /// Appends the token of a piece. A piece that is none is one character: it becomes its bytes or what is unknown.
    fn push_piece(&self, piece: &str, vocab: &Vocab, tokens: &mut Vec<u32>) {
        match (self.find(piece.as_bytes(), vocab), &self.byte_tokens) {
            (Some(token_id), _) => tokens.push(token_id),
            (None, Some(byte_tokens)) => {
                tokens.extend(piece.bytes().map(|byte| byte_tokens[usize::from(byte)]));
            }
            (None, None) => tokens.extend(vocab.unknown),
        }
    }

    fn find(&self, text: &[u8], vocab: &Vocab) -> Option<u32> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        self.index.find(text, |id| vocab.spelled(id))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
            + self.joints.heap_bytes()
            + self.ranks.capacity() * size_of::<u32>()
            + self.byte_tokens.as_ref().map_or(0, |_| size_of::<[u32; 256]>())
    }
}

impl Scratch {
    /// Sets up the symbols of a text, one for each character. The queue is empty, because the loop before ended so.
    fn start(&mut self, text: &str) {
        self.symbols.clear();
        for (start, c) in text.char_indices() {
            let index = self.symbols.len() as u32;
            self.symbols.push(Symbol {
                start: start as u32,
                bytes: c.len_utf8() as u32,
                previous: index.checked_sub(1).unwrap_or(NO_SYMBOL),
                next: index + 1,
            });
        }
        if let Some(last) = self.symbols.last_mut() {
            last.next = NO_SYMBOL;
        }
    }

    /// Bytes of the symbol at `left` and its right neighbour together; `None` at the end, and where the symbol was
    /// joined to another.
    fn pair_bytes(&self, left: u32) -> Option<u32> {
        let left = self.symbols.get(left as usize)?;
        let right = self.symbols.get(left.next as usize)?;
        Some(left.bytes + right.bytes)
    }

    /// Joins the right neighbour of the symbol at `left` to it. Returns the symbol before it.
    fn join(&mut self, left: u32) -> u32 {
        let right = self.symbols[left as usize].next;
        let Symbol { bytes, next, .. } = self.symbols[right as usize];
        self.symbols[right as usize].next = NO_SYMBOL;
        if let Some(after) = self.symbols.get_mut(next as usize) {
            after.previous = left;
        }
        let left = &mut self.symbols[left as usize];
        left.bytes += bytes;
        left.next = next;
        left.previous
    }

    /// The texts of the chain.
    fn pieces<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let first = self.symbols.first();
        let chain = std::iter::successors(first, |symbol| self.symbols.get(symbol.next as usize));
        chain.map(|symbol| &text[symbol.start as usize..][..symbol.bytes as usize])
    }
}

/// The order of joining that the scores say: the highest score first, and of equal ones the left-most.
fn read_ranks(metadata: &Metadata, n_vocab: usize) -> Result<Vec<u32>, TokenizerError> {
    let scores =
        metadata.f32s(SCORES_KEY)?.ok_or(TokenizerError::MissingKey { key: SCORES_KEY })?;
    if scores.len() != n_vocab {
        return Err(TokenizerError::Length { key: SCORES_KEY, got: scores.len(), want: n_vocab });
    }
    let rank = |(score, token_id): (f32, u32)| match score.is_nan() {
        true => Err(TokenizerError::ScoreNotANumber { token_id }),
        false => Ok(rank(score)),
    };
    scores.into_iter().zip(0u32..).map(rank).collect()
}

/// A number that falls as the score rises, and is equal for equal scores.
fn rank(score: f32) -> u32 {
    // The bits of a float rise as it moves away from zero. With the sign set the two zeros are one.
    let bits = score.to_bits();
    if score < 0.0 { bits } else { !(bits | 1 << 31) }
}

/// The tokens that text can become: no control tokens, and no byte tokens, whose text only names what they stand for.
fn text_tokens(vocab: &Vocab) -> Result<Vec<u32>, TokenizerError> {
    let is_text = |id: &u32| {
        let kind = vocab.kind(*id);
        kind == Some(TokenKind::Text) || kind == Some(TokenKind::UserDefined)
    };
    let ids: Vec<u32> =
        vocab.ids().filter(|id| is_text(id) && !vocab.spelled(*id).is_empty()).collect();
    for &token_id in &ids {
        let bytes = vocab.spelled(token_id).len();
        if bytes > TOKEN_BYTES_MAX {
            return Err(TokenizerError::TooLong { token_id, bytes, max: TOKEN_BYTES_MAX });
        }
    }
    Ok(ids)
}

/// The token of each byte; `None` where some have none and there is a token for what is unknown instead.
fn byte_tokens(vocab: &Vocab) -> Result<Option<Box<[u32; 256]>>, TokenizerError> {
    let mut found = [None; 256];
    for id in vocab.ids() {
        if let Some(TokenKind::Byte(byte)) = vocab.kind(id) {
            found[usize::from(byte)] = Some(id);
        }
    }
    match (0..=255u8).find(|&byte| found[usize::from(byte)].is_none()) {
        None => Ok(Some(Box::new(found.map(Option::unwrap_or_default)))),
        Some(_) if vocab.unknown.is_some() => Ok(None),
        Some(byte) => Err(TokenizerError::NoFallback { byte }),
    }
}

#[cfg(test)]
mod tests {
    use frank_gguf::{Array, Metadata};

    use super::{Scratch, Spm, rank};
    use crate::vocab::{Spelling, Vocab};

    /// A vocabulary of these texts and scores, with no space in front.
    fn spm(tokens: &[(&str, f32)]) -> (Vocab, Spm) {
        let texts = tokens.iter().map(|token| token.0.to_owned()).collect();
        let entries = vec![
            ("tokenizer.ggml.tokens".to_owned(), Array::String(texts).into()),
            (super::SCORES_KEY.to_owned(), Array::F32(tokens.iter().map(|t| t.1).collect()).into()),
            (super::KINDS_KEY.to_owned(), Array::I32(vec![1; tokens.len()]).into()),
            ("tokenizer.ggml.unknown_token_id".to_owned(), 0u32.into()),
            (super::SPACE_PREFIX_KEY.to_owned(), false.into()),
        ];
        let metadata = Metadata::new(entries).expect("every key is there once");
        let vocab = Vocab::from_metadata(&metadata, Spelling::Text, true, &mut Vec::new())
            .expect("a vocabulary");
        let spm = Spm::from_metadata(&metadata, &vocab, &mut Vec::new()).expect("scores");
        (vocab, spm)
    }

    #[test]
    fn the_queue_sees_fewer_than_three_entries_for_each_character() {
        let long = "a".repeat(1024);
        let growing: Vec<(&str, f32)> = (1..=1024).map(|n| (&long[..n], n as f32)).collect();
        let falling: Vec<(&str, f32)> = (1..=1024).map(|n| (&long[..n], -(n as f32))).collect();
        let doubling: Vec<(&str, f32)> = (0..=10).map(|n| (&long[..1 << n], n as f32)).collect();
        for tokens in [growing, falling, doubling] {
            let (vocab, spm) = spm(&tokens);
            for n in [1, 2, 3, 1000, 1 << 18] {
                let (mut scratch, mut out) = (Scratch::default(), Vec::new());
                spm.encode(&"a".repeat(n), true, &vocab, &mut scratch, &mut out);
                assert!(scratch.n_queued < 3 * n as u64, "{} for {n}", scratch.n_queued);
                assert!(!out.is_empty() && scratch.queue.is_empty());
            }
        }
    }

    #[test]
    fn ranks_fall_as_scores_rise() {
        let scores = [f32::INFINITY, 1e30, 1.5, 1e-40, 0.0, -1e-40, -1.0, -1e4, f32::NEG_INFINITY];
        assert!(scores.is_sorted_by(|a, b| rank(*a) < rank(*b)));
        assert_eq!(rank(0.0), rank(-0.0));
    }
}
