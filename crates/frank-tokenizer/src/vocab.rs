//! The vocabulary of a file: texts, bytes and kinds of its tokens, and which of them begin and end an answer.
//!
//! Never encodes: `bpe` makes tokens of text, `special` finds control tokens in it.

use std::collections::HashMap;

use frank_gguf::Metadata;

use crate::byte_alphabet;
use crate::error::{TokenizerError, shortened};

const TOKENS_KEY: &str = "tokenizer.ggml.tokens";
const KINDS_KEY: &str = "tokenizer.ggml.token_type";

/// Texts that end an answer in the vocabularies that have them, whatever the file's keys say. Files that type one of
/// them as ordinary text are converted wrongly; it is a control token all the same.
static END_TEXTS: &[&str] = &[
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
];

/// What a token is for. Source: `llama_token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A piece of text; also the kinds of the format that make no difference here (undefined, unused, byte).
    Text,
    /// Structure of a prompt. Has no text of its own; also the token for what is unknown.
    Control,
    /// A text that is always one token, found before any other splitting.
    UserDefined,
}

/// The vocabulary.
pub(crate) struct Vocab {
    kinds: Vec<TokenKind>,
    texts: Arena,
    bytes: Arena,
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    pub(crate) adds_bos: bool,
    pub(crate) adds_eos: bool,
    ends: Vec<u32>,
}

impl Vocab {
    /// Reads a byte-level vocabulary. A token of no text is kept for its id and can neither be written nor read.
    pub(crate) fn from_metadata(
        metadata: &Metadata,
        warnings: &mut Vec<String>,
    ) -> Result<Vocab, TokenizerError> {
        let texts =
            metadata.strings(TOKENS_KEY)?.ok_or(TokenizerError::MissingKey { key: TOKENS_KEY })?;
        if texts.is_empty() {
            return Err(TokenizerError::NoTokens);
        }
        if u32::try_from(texts.len()).is_err() {
            return Err(TokenizerError::TooMany { key: TOKENS_KEY, count: texts.len() });
        }
        let ids = ids_by_text(texts)?;
        let mut kinds = read_kinds(metadata, texts.len())?;
        for &end in END_TEXTS {
            if let Some(&id) = ids.get(end)
                && kinds[id as usize] != TokenKind::Control
            {
                warnings.push(format!(
                    "token {id} {end:?} is not typed as a control token, but is treated as one"
                ));
                kinds[id as usize] = TokenKind::Control;
            }
        }
        let token_id = |key| token_id(metadata, key, texts.len());
        let eos = token_id("tokenizer.ggml.eos_token_id")?;
        let eot = token_id("tokenizer.ggml.eot_token_id")?;
        let eom = token_id("tokenizer.ggml.eom_token_id")?;
        let ends = end_tokens(&ids, [eos, eot, eom]);
        let vocab = Vocab {
            bytes: decode(texts, &kinds),
            texts: Arena::of(texts.iter().map(String::as_bytes)),
            kinds,
            bos: token_id("tokenizer.ggml.bos_token_id")?,
            eos,
            adds_bos: metadata.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(false),
            adds_eos: metadata.bool("tokenizer.ggml.add_eos_token")?.unwrap_or(false),
            ends,
        };
        if vocab.adds_bos && vocab.bos.is_none() {
            return Err(TokenizerError::MissingKey { key: "tokenizer.ggml.bos_token_id" });
        }
        if vocab.adds_eos && vocab.eos.is_none() {
            return Err(TokenizerError::MissingKey { key: "tokenizer.ggml.eos_token_id" });
        }
        Ok(vocab)
    }

    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// All ids, from 0.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        (0..).take(self.len())
    }

    /// The kind of a token; `None` beyond the vocabulary.
    pub(crate) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// The kind of a token that can be found in text as a whole; `None` for the others.
    ///
    /// A control token of a single character cannot: no guard fits inside it, so a message could spell it.
    pub(crate) fn special_kind(&self, id: u32) -> Option<TokenKind> {
        let n_chars = self.text(id).chars().take(2).count();
        self.kind(id).filter(|kind| match kind {
            TokenKind::Text => false,
            TokenKind::Control => n_chars == 2,
            TokenKind::UserDefined => n_chars > 0,
        })
    }

    /// The text as the vocabulary spells it; empty beyond the vocabulary.
    pub(crate) fn text(&self, id: u32) -> &str {
        std::str::from_utf8(self.texts.get(id)).expect("texts were strings when they were put in")
    }

    /// The bytes that a token adds to an answer; none for control tokens and beyond the vocabulary.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id)
    }

    pub(crate) fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// Tokens that end an answer, by id.
    pub(crate) fn ends(&self) -> &[u32] {
        &self.ends
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.texts.heap_bytes()
            + self.bytes.heap_bytes()
            + self.kinds.capacity() * size_of::<TokenKind>()
            + self.ends.capacity() * size_of::<u32>()
    }
}

/// The id of every text. Empty texts are left out: files have them as placeholders.
fn ids_by_text(texts: &[String]) -> Result<HashMap<&str, u32>, TokenizerError> {
    let mut ids = HashMap::new();
    for (text, id) in texts.iter().zip(0u32..).filter(|(text, _)| !text.is_empty()) {
        if let Some(first) = ids.insert(text.as_str(), id) {
            return Err(TokenizerError::DuplicateToken {
                text: shortened(text),
                first,
                second: id,
            });
        }
    }
    Ok(ids)
}

fn read_kinds(metadata: &Metadata, n_vocab: usize) -> Result<Vec<TokenKind>, TokenizerError> {
    let Some(kinds) = metadata.i32s(KINDS_KEY)? else {
        return Ok(vec![TokenKind::Text; n_vocab]);
    };
    if kinds.len() != n_vocab {
        return Err(TokenizerError::Length { key: KINDS_KEY, got: kinds.len(), want: n_vocab });
    }
    let kind = |(kind, token_id)| match kind {
        0 | 1 | 5 | 6 => Ok(TokenKind::Text),
        2 | 3 => Ok(TokenKind::Control),
        4 => Ok(TokenKind::UserDefined),
        _ => Err(TokenizerError::TokenKind { token_id, kind }),
    };
    kinds.into_iter().zip(0u32..).map(kind).collect()
}

fn token_id(
    metadata: &Metadata,
    key: &'static str,
    n_vocab: usize,
) -> Result<Option<u32>, TokenizerError> {
    match metadata.u64(key)? {
        None => Ok(None),
        Some(id) if id < n_vocab as u64 => Ok(Some(id as u32)),
        Some(token_id) => Err(TokenizerError::TokenId { key, token_id, n_vocab }),
    }
}

/// The tokens that end an answer, sorted: those that the file names, and those with a well-known text.
fn end_tokens(ids: &HashMap<&str, u32>, named: [Option<u32>; 3]) -> Vec<u32> {
    let known = END_TEXTS.iter().filter_map(|&text| ids.get(text).copied());
    let mut ends: Vec<u32> = named.into_iter().flatten().chain(known).collect();
    // In the harmony format `<|end|>` only closes a message of the answer, whose end is one of the other two.
    if let (Some(end), true, true) =
        (ids.get("<|end|>"), ids.contains_key("<|return|>"), ids.contains_key("<|call|>"))
    {
        ends.retain(|id| id != end);
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

fn decode(texts: &[String], kinds: &[TokenKind]) -> Arena {
    let mut spelled = Vec::new();
    let mut arena = Arena::of([]);
    for (text, kind) in texts.iter().zip(kinds) {
        spelled.clear();
        match kind {
            TokenKind::Text => byte_alphabet::decode(text, &mut spelled),
            TokenKind::UserDefined => spelled.extend_from_slice(text.as_bytes()),
            TokenKind::Control => {}
        }
        arena.push(&spelled);
    }
    arena
}

/// Many short byte strings in one allocation.
struct Arena {
    bytes: Vec<u8>,
    /// Where each string ends; it starts where the one before it ends.
    ends: Vec<usize>,
}

impl Arena {
    fn of<'a>(strings: impl IntoIterator<Item = &'a [u8]>) -> Arena {
        let mut arena = Arena { bytes: Vec::new(), ends: Vec::new() };
        for string in strings {
            arena.push(string);
        }
        arena
    }

    fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// The string number `index`; empty when there are not so many.
    fn get(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let Some(&end) = self.ends.get(index) else { return &[] };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..end]
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}
