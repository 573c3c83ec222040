//! The tokens of a model as a trie of their bytes, made once and shared by all grammars.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use frank_tokenizer::Tokenizer;
use llguidance::ParserFactory;
use llguidance::toktrie::{
    ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie,
};

use crate::error::GrammarError;

/// Bytes of a token that may come next. A longer one is never allowed; the trie's own bound is 1024.
const TOKEN_BYTES_MAX: usize = 1_000;
/// Bytes of all tokens: the bound of the trie on its nodes, of which there are no more than bytes.
const VOCABULARY_BYTES_MAX: usize = (1 << 22) - 2;

/// The tokens of a model, ready for masks.
pub struct Vocabulary {
    pub(crate) factory: ParserFactory,
    n_vocab: usize,
    /// Control tokens by their texts.
    controls: BTreeMap<String, u32>,
    control_bytes_max: usize,
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").field("n_vocab", &self.n_vocab).finish_non_exhaustive()
    }
}

impl Vocabulary {
    /// The vocabulary of a tokenizer. Control tokens are no text and never allowed, except where a pattern names one, and
    /// for the tokens that end an answer where it may end.
    ///
    /// Cost: up to 190 bytes for each token while it is made (48 MiB for 262,144), and half a second for so many.
    /// # Errors
    /// [`GrammarError::Vocabulary`] when the tokens have too many bytes in all.
    pub fn new(tokenizer: &Tokenizer) -> Result<Arc<Vocabulary>, GrammarError> {
        let n_vocab = tokenizer.n_vocab();
        let words = (0u32..).take(n_vocab).map(|id| text_of(tokenizer, id));
        let mut controls = BTreeMap::new();
        for id in (0u32..).take(n_vocab) {
            let text = tokenizer.token_text(id);
            if !text.is_empty() && (tokenizer.is_control(id) || tokenizer.is_end(id)) {
                controls.entry(text.to_owned()).or_insert(id);
            }
        }
        let ends = tokenizer.end_tokens();
        Self::with_controls(&words.collect::<Vec<_>>(), ends, controls)
    }

    /// The vocabulary of `words`, by token id: the bytes of each token, none for one that is no text. `end_tokens` may
    /// come where an answer may end.
    ///
    /// # Errors
    /// As [`Vocabulary::new`].
    pub fn from_words(
        words: &[Vec<u8>],
        end_tokens: &[u32],
    ) -> Result<Arc<Vocabulary>, GrammarError> {
        Self::with_controls(words, end_tokens, BTreeMap::new())
    }

    /// The same with control tokens by their texts. Their words are empty.
    ///
    /// # Errors
    /// As [`Vocabulary::new`].
    pub fn with_controls(
        words: &[Vec<u8>],
        end_tokens: &[u32],
        controls: BTreeMap<String, u32>,
    ) -> Result<Arc<Vocabulary>, GrammarError> {
        let got = words.iter().map(Vec::len).sum();
        if got > VOCABULARY_BYTES_MAX {
            return Err(GrammarError::Vocabulary { got, max: VOCABULARY_BYTES_MAX });
        }
        let n_vocab = words.len();
        let vocab_size = u32::try_from(n_vocab).expect("fewer tokens than bytes");
        let mut trie = TokTrie::from(&TokRxInfo::new(vocab_size, INVALID_TOKEN), words);
        if !end_tokens.is_empty() {
            trie = trie.with_eos_tokens(end_tokens);
        }
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        // Slices of the vocabulary would spare a millisecond at the start of a text and take three times the memory.
        let factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &[])
            .expect("no slice is not a wrong one");
        let control_bytes_max = controls.keys().map(String::len).max().unwrap_or(0);
        Ok(Arc::new(Vocabulary { factory, n_vocab, controls, control_bytes_max }))
    }

    /// Tokens in the vocabulary.
    #[must_use]
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Bytes of the longest text of a control token.
    pub(crate) fn control_bytes_max(&self) -> usize {
        self.control_bytes_max
    }

    /// The control token of this text.
    pub(crate) fn control_token(&self, text: &str) -> Option<u32> {
        self.controls.get(text).copied()
    }
}

/// The bytes of a token that is text. The byte 0xFF is in no text, and the trie marks its own tokens with it.
fn text_of(tokenizer: &Tokenizer, token_id: u32) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(token_id);
    let is_text = !tokenizer.is_control(token_id)
        && !tokenizer.is_end(token_id)
        && bytes.len() <= TOKEN_BYTES_MAX
        && !bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER);
    if is_text { bytes.to_vec() } else { Vec::new() }
}
