//! DRY, "don't repeat yourself": a penalty on tokens that would go on with a repetition, the longer the higher.

use std::collections::BTreeMap;

use super::candidates::Candidates;
use super::stages::{StageEntry, StageInput};
use crate::sampling::{Dry, SamplingParams};

pub(super) const STAGE: StageEntry = StageEntry { name: "dry", keeps_best: false, apply };

/// Bytes of a breaker that count.
const BREAKER_BYTES_MAX: usize = 40;

fn apply(candidates: &mut Candidates<'_>, params: &SamplingParams, input: &mut StageInput<'_>) {
    let dry = &params.dry;
    let tail = &input.history[input.history.len().saturating_sub(dry.penalty_last_n)..];
    let is_off = dry.multiplier == 0.0 || dry.base < 1.0;
    if is_off || tail.len() <= dry.allowed_length {
        return;
    }
    let latest_first: Vec<u32> = tail.iter().rev().copied().collect();
    let longest = dry.breakers.tokens_since(&latest_first).unwrap_or(latest_first.len());
    if longest >= dry.allowed_length {
        let repeated = continuations(&latest_first, longest, dry);
        candidates
            .change(&repeated, |logit, &length| logit - penalty(dry, length - dry.allowed_length));
    }
}

/// The tokens that would make a repetition longer, with its length so far: at least `allowed_length`, at most
/// `longest`.
fn continuations(latest_first: &[u32], longest: usize, dry: &Dry) -> BTreeMap<u32, usize> {
    let mut repeated = BTreeMap::new();
    for (place, length) in prefix_lengths(latest_first).into_iter().enumerate().skip(1) {
        let length = length.min(longest);
        let token_id = latest_first[place - 1];
        if length >= dry.allowed_length && !dry.breakers.is_breaker(token_id) {
            let longest_here = repeated.entry(token_id).or_insert(length);
            *longest_here = length.max(*longest_here);
        }
    }
    repeated
}

fn penalty(dry: &Dry, beyond: usize) -> f32 {
    // The power must not overflow: 88.72 is the logarithm of the largest f32.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast saturates, and the largest power is what it saturates to"
    )]
    let most = if dry.base > 1.000_001 { (88.722_84 / dry.base.ln()) as usize } else { usize::MAX };
    let power = i32::try_from(beyond.min(most)).unwrap_or(i32::MAX);
    dry.multiplier * dry.base.powi(power)
}

/// For each place of `tokens`, how many tokens from there on are those that the whole begins with (the Z-function), in
/// time linear in their number. The first is 0.
fn prefix_lengths(tokens: &[u32]) -> Vec<usize> {
    let mut lengths = vec![0; tokens.len()];
    // What is known of `tokens[from..to]`: it equals the beginning of `tokens`.
    let (mut from, mut to) = (0, 0);
    for place in 1..tokens.len() {
        let known = if place < to { lengths[place - from].min(to - place) } else { 0 };
        let more = tokens[place + known..].iter().zip(&tokens[known..]);
        let length = known + more.take_while(|(a, b)| a == b).count();
        lengths[place] = length;
        if place + length > to {
            (from, to) = (place, place + length);
        }
    }
    lengths
}

/// Texts that no repetition reaches across, as tokens: a token that holds one of them, or tokens that spell it together.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DryBreakers {
    /// Tokens that hold a whole breaker, by id.
    whole: Vec<u32>,
    /// Tokens that end with the beginning of a breaker, and how much of it is spelled then.
    begins: Vec<(u32, Spelled)>,
    /// How a token goes on with what is spelled: further, or to the end.
    goes_on: Vec<((Spelled, u32), Option<Spelled>)>,
}

/// The first `n_bytes` of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Spelled {
    breaker: usize,
    n_bytes: usize,
}

impl DryBreakers {
    /// Finds the tokens of `texts` in a vocabulary of `n_vocab` tokens. Of a text of more than 40 bytes the first 40
    /// count; an empty one breaks nothing.
    ///
    /// Cost: a pass over the vocabulary for each byte of the texts.
    #[must_use]
    pub fn new<B: AsRef<[u8]>>(
        texts: &[String],
        n_vocab: usize,
        token_bytes: impl Fn(u32) -> B,
    ) -> Self {
        let texts = texts.iter().map(|text| text.as_bytes()).filter(|text| !text.is_empty());
        let texts: Vec<_> = texts.map(|text| &text[..text.len().min(BREAKER_BYTES_MAX)]).collect();
        let mut breakers = Self::default();
        for token_id in (0u32..).take(n_vocab) {
            let bytes = token_bytes(token_id);
            for (breaker, text) in texts.iter().enumerate() {
                breakers.note(token_id, bytes.as_ref(), breaker, text);
            }
        }
        breakers.whole.dedup();
        breakers.goes_on.sort_unstable();
        breakers
    }

    fn note(&mut self, token_id: u32, token: &[u8], breaker: usize, text: &[u8]) {
        if token.windows(text.len()).any(|part| part == text) {
            self.whole.push(token_id);
        }
        for n_bytes in 1..text.len() {
            let (spelled, rest) = text.split_at(n_bytes);
            let here = Spelled { breaker, n_bytes };
            if token.ends_with(spelled) {
                self.begins.push((token_id, here));
            }
            if token.starts_with(rest) {
                self.goes_on.push(((here, token_id), None));
            } else if rest.starts_with(token) && !token.is_empty() {
                let further = Spelled { breaker, n_bytes: n_bytes + token.len() };
                self.goes_on.push(((here, token_id), Some(further)));
            }
        }
    }

    /// Whether a token alone is a breaker.
    fn is_breaker(&self, token_id: u32) -> bool {
        self.whole.binary_search(&token_id).is_ok()
    }

    /// How many tokens came after the last breaker; `None` when there is none.
    fn tokens_since(&self, latest_first: &[u32]) -> Option<usize> {
        (0..latest_first.len()).find_map(|place| {
            let n_tokens = self.tokens_of_breaker_at(latest_first, place)?;
            Some(place + 1 - n_tokens)
        })
    }

    /// How many tokens spell the breaker that begins in the token at `place`, the most if there are several.
    fn tokens_of_breaker_at(&self, latest_first: &[u32], place: usize) -> Option<usize> {
        let token_id = latest_first[place];
        let alone = self.is_breaker(token_id).then_some(1);
        let first = self.begins.partition_point(|(id, _)| *id < token_id);
        let begun = self.begins[first..].iter().take_while(|(id, _)| *id == token_id);
        let later = latest_first[..place].iter().rev();
        begun.filter_map(|(_, spelled)| self.tokens_to_end(*spelled, later.clone())).max().or(alone)
    }

    fn tokens_to_end<'a>(
        &self,
        mut spelled: Spelled,
        later: impl Iterator<Item = &'a u32>,
    ) -> Option<usize> {
        for (&token_id, n_tokens) in later.zip(2..) {
            let found = self.goes_on.binary_search_by(|(key, _)| key.cmp(&(spelled, token_id)));
            match self.goes_on[found.ok()?].1 {
                Some(further) => spelled = further,
                None => return Some(n_tokens),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_lengths_are_those_of_a_plain_comparison() {
        for seed in 0..200u32 {
            let tokens: Vec<u32> = (0..40).map(|i| (i * i * seed / 3 + i / 7) % 3).collect();
            let mut plain: Vec<usize> = (0..tokens.len())
                .map(|place| {
                    tokens[place..].iter().zip(&tokens).take_while(|(a, b)| a == b).count()
                })
                .collect();
            plain[0] = 0;
            assert_eq!(prefix_lengths(&tokens), plain, "{tokens:?}");
        }
    }

    #[test]
    fn a_breaker_is_found_in_one_token_and_across_tokens() {
        let vocabulary = ["a", "b", "x\n", "us", "er:", "the us", "e", "r", ": no"];
        let texts = ["\n".to_owned(), "user:".to_owned()];
        let breakers =
            DryBreakers::new(&texts, vocabulary.len(), |id| vocabulary[id as usize].as_bytes());
        let since = |tokens: &[u32]| {
            breakers.tokens_since(&tokens.iter().rev().copied().collect::<Vec<_>>())
        };
        assert_eq!(since(&[0, 1, 0]), None);
        assert_eq!(since(&[0, 2, 1, 0]), Some(2));
        assert_eq!(since(&[2, 3, 4, 0]), Some(1));
        assert_eq!(since(&[2, 5, 6, 7, 8]), Some(0));
        assert_eq!(since(&[2, 5, 6, 7, 0]), Some(4), "the text is not whole");
        assert!(breakers.is_breaker(2) && !breakers.is_breaker(4));
    }

    #[test]
    fn the_penalty_does_not_overflow() {
        let dry = Dry { multiplier: 1.0, ..Dry::default() };
        assert!(penalty(&dry, 1_000_000).is_finite());
        assert_eq!(penalty(&Dry { base: 1.0, ..dry }, usize::MAX), 1.0);
    }
}
