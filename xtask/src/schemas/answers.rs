//! Random answers under a mask, led to their end when they grow long.

use std::sync::Arc;

use anyhow::Result;
use frank_grammar::{Matcher, Vocabulary};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Tokens that an answer may have before it is led to its end.
const WANDER: usize = 40;
/// Tokens in which an answer that is led to its end has to come there.
const HURRY: usize = 3_000;
/// Tokens with more than one byte.
const LONGER: &[&str] = &[
    "{\"",
    "\":",
    "\",\"",
    "\"}",
    "true",
    "false",
    "null",
    "  ",
    "    ",
    "\n\n",
    "123",
    ".5",
    "},{",
    "name",
    "ab",
    "abc",
    "é",
    "日本",
    " \"",
    ", \"",
    "\": ",
    "}}",
    "-1",
    "e+1",
    "\\n",
    "\\u00",
    "2024-02-29",
    "T12:00",
    "http://",
    "\\\"",
    "\\\\",
    "00",
    "😀",
];
/// Tokens that lead to an end.
const CLOSING: &[&str] = &["\"", "}", "]", "null", "\"}", "}}", "0"];

/// A vocabulary of all bytes and some longer tokens: every way to spell an answer is open.
pub(crate) struct Words {
    vocabulary: Arc<Vocabulary>,
    texts: Vec<Vec<u8>>,
    end: u32,
    closing: Vec<u32>,
}

/// A random answer.
#[derive(Debug)]
pub(crate) enum Answer {
    Whole(String),
    /// It did not end in time, or the limits on work did not suffice.
    Unfinished,
}

impl Words {
    /// The vocabulary.
    /// # Errors
    /// Never, for so few tokens.
    pub(crate) fn small() -> Result<Words> {
        let mut texts: Vec<Vec<u8>> = (0..=254u8).map(|byte| vec![byte]).collect();
        let end = 255;
        texts.push(Vec::new());
        texts.extend(LONGER.iter().map(|text| text.as_bytes().to_vec()));
        let vocabulary = Vocabulary::from_words(&texts, &[end])?;
        let closing = CLOSING.iter().filter_map(|closing| {
            let place = texts.iter().position(|text| text == closing.as_bytes())?;
            u32::try_from(place).ok()
        });
        Ok(Words { vocabulary, closing: closing.collect(), texts, end })
    }

    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// An answer from the start of a grammar.
    pub(crate) fn wander(&self, matcher: &Matcher, rng: &mut ChaCha8Rng) -> Answer {
        let mut matcher = matcher.clone();
        let mut text = Vec::new();
        let mut mask = vec![0; self.texts.len().div_ceil(32)];
        for step in 0..HURRY {
            if matcher.allowed(&mut mask).is_err() {
                return Answer::Unfinished;
            }
            let is_allowed = |id: u32| mask[id as usize / 32] >> (id % 32) & 1 == 1;
            let ids: Vec<u32> = (0u32..)
                .take(self.texts.len())
                .filter(|id| is_allowed(*id) && *id != self.end)
                .collect();
            let may_end = is_allowed(self.end);
            if ids.is_empty() || (may_end && (step > WANDER || rng.random_bool(0.3))) {
                return Answer::Whole(String::from_utf8_lossy(&text).into_owned());
            }
            let closing: Vec<u32> =
                self.closing.iter().copied().filter(|id| is_allowed(*id)).collect();
            let is_led = !closing.is_empty() && step > WANDER && rng.random_bool(0.8);
            let Some(&token_id) = (if is_led { &closing } else { &ids }).choose(rng) else {
                continue;
            };
            text.extend_from_slice(&self.texts[token_id as usize]);
            if matcher.accept(token_id).is_err() {
                return Answer::Unfinished;
            }
        }
        Answer::Unfinished
    }
}
