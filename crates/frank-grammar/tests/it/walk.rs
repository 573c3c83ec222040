//! Answers under a grammar: given ones, token by token, and random ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use frank_gguf::Header;
use frank_grammar::{Grammar, Limits, Matcher, Vocabulary};
use frank_tokenizer::Tokenizer;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Tokens that random answers may have before they are led to their end.
const WANDER: usize = 60;
/// Tokens in which a random answer that is led to its end has to come there.
const HURRY: usize = 4_000;

/// A vocabulary with its texts.
pub(crate) struct Words {
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) texts: Vec<Vec<u8>>,
    pub(crate) ends: Vec<u32>,
}

/// Every byte, some longer tokens that cross the parts of JSON, a control token and two end tokens.
pub(crate) static SMALL: LazyLock<Words> = LazyLock::new(|| {
    let mut texts: Vec<Vec<u8>> = (0..=254u8).map(|byte| vec![byte]).collect();
    let longer = [
        "", "", "", "{\"", "\":", "\",\"", "\"}", "true", "false", "null", "  ", "    ", "\n\n",
        "123", ".5", "},{", "name", "ab", "abc", "é", "日本", " \"", ", \"", "\": ", "]", "}}",
        "-1", "e+1", "\\n", "\\u00",
    ];
    texts.extend(longer.iter().map(|text| text.as_bytes().to_vec()));
    let ends = vec![255, 257];
    let controls: BTreeMap<String, u32> =
        CONTROLS.iter().map(|(text, id)| ((*text).to_owned(), *id)).collect();
    let vocabulary = Vocabulary::with_controls(&texts, &ends, controls);
    Words { vocabulary: vocabulary.expect("a small vocabulary"), texts, ends }
});

/// The control tokens of the small vocabulary; the first and the last end an answer.
pub(crate) const CONTROLS: [(&str, u32); 3] =
    [("<|end|>", 255), ("<|call|>", 256), ("<|stop|>", 257)];

/// The vocabulary of a model file.
pub(crate) fn of_model(path: &Path) -> Words {
    let mut file = File::open(path).expect("the model can be opened");
    let file_bytes = file.metadata().expect("an open file has a size").len();
    let header = Header::read(&mut file, file_bytes).expect("a real model is well-formed");
    let tokenizer = Tokenizer::from_metadata(&header.metadata).expect("it has a tokenizer");
    let ids = (0u32..).take(tokenizer.n_vocab());
    Words {
        vocabulary: Vocabulary::new(&tokenizer).expect("a real vocabulary fits"),
        texts: ids.map(|id| tokenizer.token_bytes(id).to_vec()).collect(),
        ends: tokenizer.end_tokens().to_vec(),
    }
}

impl Words {
    pub(crate) fn compile(&self, grammar: &Grammar) -> Matcher {
        self.try_compile(grammar).unwrap_or_else(|error| panic!("{grammar:?}: {error}"))
    }

    pub(crate) fn try_compile(
        &self,
        grammar: &Grammar,
    ) -> Result<Matcher, frank_grammar::GrammarError> {
        grammar.compile(&self.vocabulary, &Limits::default())
    }

    /// The tokens that may come next.
    pub(crate) fn allowed(&self, matcher: &mut Matcher) -> Vec<u32> {
        let mut mask = vec![u32::MAX; self.texts.len().div_ceil(32) + 1];
        matcher.allowed(&mut mask).expect("the limits suffice");
        let ids = (0u32..).take(mask.len() * 32);
        ids.filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1).collect()
    }

    /// Whether a text, one token for each byte, is a whole answer.
    pub(crate) fn accepts(&self, grammar: &Grammar, text: &str) -> bool {
        self.accepts_tokens(grammar, &self.bytewise(text))
    }

    /// A text as tokens of one byte each.
    pub(crate) fn bytewise(&self, text: &str) -> Vec<u32> {
        let id_of = |byte: u8| self.texts.iter().zip(0u32..).find(|(t, _)| **t == [byte]);
        text.bytes().map(|byte| id_of(byte).map_or(u32::from(byte), |(_, id)| id)).collect()
    }

    /// Whether tokens are a whole answer.
    pub(crate) fn accepts_tokens(&self, grammar: &Grammar, tokens: &[u32]) -> bool {
        let mut matcher = self.compile(grammar);
        for &token_id in tokens {
            if !self.allowed(&mut matcher).contains(&token_id) {
                return false;
            }
            matcher.accept(token_id).expect("it was allowed");
        }
        let allowed = self.allowed(&mut matcher);
        allowed.is_empty() || self.ends.iter().all(|end| allowed.contains(end))
    }

    /// A random answer: any allowed token at first, then those that lead to the end.
    pub(crate) fn wander(&self, grammar: &Grammar, rng: &mut ChaCha8Rng) -> String {
        let mut matcher = self.compile(grammar);
        let mut text = Vec::new();
        for step in 0..HURRY {
            let allowed = self.allowed(&mut matcher);
            let may_end = allowed.iter().any(|id| self.ends.contains(id));
            if allowed.is_empty() || (may_end && (step > WANDER || rng.random_bool(0.1))) {
                return String::from_utf8(text).expect("an answer is UTF-8");
            }
            let token_id = self.next(&allowed, step, rng);
            text.extend_from_slice(&self.texts[token_id as usize]);
            matcher.accept(token_id).expect("it was allowed");
        }
        panic!("no end after {HURRY} tokens: {}", String::from_utf8_lossy(&text));
    }

    fn next(&self, allowed: &[u32], step: usize, rng: &mut ChaCha8Rng) -> u32 {
        let texts: Vec<u32> =
            allowed.iter().copied().filter(|id| !self.ends.contains(id)).collect();
        assert!(!texts.is_empty(), "only an end, which was looked for before");
        let closing = texts.iter().copied().find(|id| {
            matches!(&self.texts[*id as usize][..], b"\"" | b"}" | b"]" | b"0" | b"null" | b"\"}")
        });
        match closing {
            Some(closing) if step > WANDER && rng.random_bool(0.7) => closing,
            _ => *texts.choose(rng).expect("not empty"),
        }
    }
}
