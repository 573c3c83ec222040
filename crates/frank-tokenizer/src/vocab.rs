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
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
];

/// Texts that frame the parts of a text with a hole in it, in the vocabularies that have them. They too are control
/// tokens, however the file types them.
static INFILL_TEXTS: &[&str] = &[
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<|fim_middle|>",
    "<fim_prefix>",
    "<fim_suffix>",
    "<fim_middle>",
    "<｜fim▁begin｜>",
    "<｜fim▁hole｜>",
    "<｜fim▁end｜>",
];

/// What a space is in vocabularies that are not spelled in bytes: U+2581.
pub(crate) const SPACE: char = '▁';

/// How the texts of tokens stand for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// Each character is a byte, in GPT-2's alphabet.
    Bytes,
    /// Text as it is, with [`SPACE`] for each space.
    Text,
}

/// What a token is for. Source: `llama_token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A piece of text; also the kinds of the format that make no difference here (undefined, unused).
    Text,
    /// One byte, for text that no other token spells.
    Byte(u8),
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
    /// What stands for text that no token spells.
    pub(crate) unknown: Option<u32>,
    pub(crate) adds_bos: bool,
    pub(crate) adds_eos: bool,
    ends: Vec<u32>,
}

impl Vocab {
    /// Reads a vocabulary. A token of no text is kept for its id and can neither be written nor read. `adds_bos` holds
    /// where the file does not say.
    pub(crate) fn from_metadata(
        metadata: &Metadata,
        spelling: Spelling,
        adds_bos: bool,
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
        let mut kinds = read_kinds(metadata, texts)?;
        correct_kinds(&mut kinds, &ids, warnings);
        let token_id = |key| token_id(metadata, key, texts.len());
        let eos = token_id("tokenizer.ggml.eos_token_id")?;
        let eot = token_id("tokenizer.ggml.eot_token_id")?;
        let eom = token_id("tokenizer.ggml.eom_token_id")?;
        let ends = end_tokens(&ids, [eos, eot, eom]);
        let bos = token_id("tokenizer.ggml.bos_token_id")?;
        let adds_bos_unsaid = adds_bos && bos.is_some();
        let vocab = Vocab {
            bytes: decode(texts, &kinds, spelling),
            texts: Arena::of(texts.iter().map(String::as_bytes)),
            kinds,
            bos,
            eos,
            unknown: token_id("tokenizer.ggml.unknown_token_id")?,
            adds_bos: metadata.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(adds_bos_unsaid),
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
            TokenKind::Text | TokenKind::Byte(_) => false,
            TokenKind::Control => n_chars == 2,
            TokenKind::UserDefined => n_chars > 0,
        })
    }

    /// The text as the vocabulary spells it; empty beyond the vocabulary.
    pub(crate) fn text(&self, id: u32) -> &str {
        std::str::from_utf8(self.spelled(id)).expect("texts were strings when they were put in")
    }

    /// The bytes of [`Vocab::text`].
    pub(crate) fn spelled(&self, id: u32) -> &[u8] {
        self.texts.get(id)
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

fn read_kinds(metadata: &Metadata, texts: &[String]) -> Result<Vec<TokenKind>, TokenizerError> {
    let Some(kinds) = metadata.i32s(KINDS_KEY)? else {
        return Ok(vec![TokenKind::Text; texts.len()]);
    };
    if kinds.len() != texts.len() {
        return Err(TokenizerError::Length { key: KINDS_KEY, got: kinds.len(), want: texts.len() });
    }
    let kind = |((kind, text), token_id): ((i32, &String), u32)| match kind {
        0 | 1 | 5 => Ok(TokenKind::Text),
        2 | 3 => Ok(TokenKind::Control),
        4 => Ok(TokenKind::UserDefined),
        6 => byte_of(text)
            .map(TokenKind::Byte)
            .ok_or_else(|| TokenizerError::ByteForm { token_id, text: shortened(text) }),
        _ => Err(TokenizerError::TokenKind { token_id, kind }),
    };
    kinds.into_iter().zip(texts).zip(0u32..).map(kind).collect()
}

/// Makes control tokens of those that are known to be some.
fn correct_kinds(kinds: &mut [TokenKind], ids: &HashMap<&str, u32>, warnings: &mut Vec<String>) {
    for &text in END_TEXTS.iter().chain(INFILL_TEXTS) {
        if let Some(&id) = ids.get(text)
            && kinds[id as usize] != TokenKind::Control
        {
            warnings.push(format!(
                "token {id} {text:?} is not typed as a control token, but is treated as one"
            ));
            kinds[id as usize] = TokenKind::Control;
        }
    }
}

/// The byte of a byte token: `<0x00>` to `<0xFF>`.
fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
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

/// The bytes that each token stands for.
fn decode(texts: &[String], kinds: &[TokenKind], spelling: Spelling) -> Arena {
    let mut bytes = Vec::new();
    let mut arena = Arena::of([]);
    for (text, kind) in texts.iter().zip(kinds) {
        bytes.clear();
        match (kind, spelling) {
            (TokenKind::Text, Spelling::Bytes) => byte_alphabet::decode(text, &mut bytes),
            (TokenKind::Text, Spelling::Text) => {
                bytes.extend_from_slice(text.replace(SPACE, " ").as_bytes());
            }
            (TokenKind::Byte(byte), _) => bytes.push(*byte),
            (TokenKind::UserDefined, _) => bytes.extend_from_slice(text.as_bytes()),
            (TokenKind::Control, _) => {}
        }
        arena.push(&bytes);
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
