//! Finds control and user-defined tokens in a text, before anything else splits it.
//!
//! The longest special tokens are cut out everywhere first, then the next longest in what is left, each from left to
//! right: llama.cpp's order, which differs from leftmost-first where special tokens overlap.
//!
//! Time is linear in the text: one pass for each length that special tokens have, of which real vocabularies have
//! some dozens and none can have more than [`SPECIAL_BYTES_MAX`]. A pass looks a window of the text up by its hash, and
//! only where a byte stands with which some special token starts.

use std::collections::{BTreeMap, HashMap};

use crate::error::TokenizerError;
use crate::vocab::{TokenKind, Vocab};

/// Longest text of a special token. Real ones stay below 64 bytes; the bound keeps the number of passes small.
const SPECIAL_BYTES_MAX: usize = 256;

/// Whether control tokens are recognised in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// A control token's text becomes that token.
    Parse,
    /// A control token's text is text like any other. User-defined tokens are found all the same.
    Literal,
}

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// A special token was here.
    Token(u32),
    /// Text between special tokens.
    Text(&'t str),
}

/// All special tokens of a vocabulary, ready to be searched for.
pub(crate) struct SpecialTokens {
    /// By falling length.
    lengths: Vec<SameLength>,
}

/// The special tokens whose texts have one length.
struct SameLength {
    bytes: usize,
    starts_with: [bool; 256],
    tokens: HashMap<String, (u32, TokenKind)>,
}

impl SpecialTokens {
    /// Collects the special tokens of a vocabulary.
    pub(crate) fn new(vocab: &Vocab) -> Result<SpecialTokens, TokenizerError> {
        let mut lengths = BTreeMap::new();
        for token_id in vocab.ids() {
            let Some(kind) = vocab.special_kind(token_id) else { continue };
            let text = vocab.text(token_id);
            let bytes = text.len();
            if bytes > SPECIAL_BYTES_MAX {
                return Err(TokenizerError::SpecialTooLong {
                    token_id,
                    bytes,
                    max: SPECIAL_BYTES_MAX,
                });
            }
            let same_length = lengths.entry(bytes).or_insert_with(|| SameLength::new(bytes));
            same_length.starts_with[usize::from(text.as_bytes()[0])] = true;
            same_length.tokens.insert(text.to_owned(), (token_id, kind));
        }
        Ok(SpecialTokens { lengths: lengths.into_values().rev().collect() })
    }

    /// Cuts a text at its special tokens. No piece of text is empty.
    pub(crate) fn split<'t>(&self, text: &'t str, specials: Specials) -> Vec<Piece<'t>> {
        let mut pieces = vec![Piece::Text(text)];
        for same_length in &self.lengths {
            let mut cut = Vec::with_capacity(pieces.len());
            for piece in pieces {
                match piece {
                    Piece::Token(_) => cut.push(piece),
                    Piece::Text(text) => same_length.cut(text, specials, &mut cut),
                }
            }
            pieces = cut;
        }
        pieces
    }

    /// The user-defined tokens whose texts stand somewhere in a text, also where they overlap; by id.
    pub(crate) fn user_defined_in(&self, text: &str) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        for same_length in &self.lengths {
            let places = 0..(text.len() + 1).saturating_sub(same_length.bytes);
            found.extend(
                places.filter_map(|place| same_length.token_at(text, place, Specials::Literal)),
            );
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // A map's slot is its key, its value and one control byte; the key's text lies outside of it.
        let tokens = self.lengths.iter().map(|same_length| {
            same_length.tokens.capacity() * (size_of::<(String, (u32, TokenKind))>() + 1)
                + same_length.tokens.len() * same_length.bytes
        });
        self.lengths.capacity() * size_of::<SameLength>() + tokens.sum::<usize>()
    }
}

impl SameLength {
    fn new(bytes: usize) -> SameLength {
        SameLength { bytes, starts_with: [false; 256], tokens: HashMap::new() }
    }

    /// Appends the pieces of a text, cut at these tokens only.
    fn cut<'t>(&self, text: &'t str, specials: Specials, pieces: &mut Vec<Piece<'t>>) {
        let mut done = 0;
        let mut place = 0;
        while place + self.bytes <= text.len() {
            let Some(token_id) = self.token_at(text, place, specials) else {
                place += 1;
                continue;
            };
            push_text(&text[done..place], pieces);
            pieces.push(Piece::Token(token_id));
            place += self.bytes;
            done = place;
        }
        push_text(&text[done..], pieces);
    }

    fn token_at(&self, text: &str, place: usize, specials: Specials) -> Option<u32> {
        if !self.starts_with[usize::from(text.as_bytes()[place])] {
            return None;
        }
        let &(token_id, kind) = self.tokens.get(text.get(place..place + self.bytes)?)?;
        (specials == Specials::Parse || kind != TokenKind::Control).then_some(token_id)
    }
}

fn push_text<'t>(text: &'t str, pieces: &mut Vec<Piece<'t>>) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
}
