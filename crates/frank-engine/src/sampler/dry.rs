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
    let start = input.history.len().saturating_sub(dry.penalty_last_n);
    let tail = &input.history[start..];
    let is_off = dry.multiplier == 0.0 || dry.base < 1.0;
    if is_off || tail.len() <= dry.allowed_length {
        return;
    }
    let latest_first: Vec<u32> = tail.iter().rev().copied().collect();
    let last_break = input.last_break.advance(input.history, &dry.breakers);
    let last_break = last_break.filter(|(begin, _)| *begin >= start);
    let longest = last_break.map_or(tail.len(), |(_, end)| input.history.len() - end);
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
    /// Tokens that end with the beginning of a breaker, by id, and what is missing of it then.
    begins: Vec<(u32, Rest)>,
    /// Tokens that go on with a breaker of which something was missing, by id, and what is missing then, if anything.
    goes_on: Vec<(u32, (Rest, Option<Rest>))>,
    n_rests: usize,
}

/// What is missing at the end of a breaker, by its place among all such texts.
type Rest = u32;

impl DryBreakers {
    /// Finds the tokens of `texts` in a vocabulary of `n_vocab` tokens. Of a text of more than 40 bytes the first 40
    /// count; an empty one breaks nothing.
    ///
    /// Cost: a pass over the bytes of the vocabulary for each text.
    #[must_use]
    pub fn new<B: AsRef<[u8]>>(
        texts: &[String],
        n_vocab: usize,
        token_bytes: impl Fn(u32) -> B,
    ) -> Self {
        let parts = Parts::of(texts);
        let mut breakers = Self { n_rests: parts.rests.len(), ..Self::default() };
        for token_id in (0u32..).take(n_vocab) {
            breakers.note(token_id, token_bytes(token_id).as_ref(), &parts);
        }
        breakers
    }

    fn note(&mut self, token_id: u32, token: &[u8], parts: &Parts<'_>) {
        let holds = |text: &&[u8]| token.windows(text.len()).any(|part| part == *text);
        if parts.texts.iter().any(holds) {
            self.whole.push(token_id);
        }
        for n_bytes in 1..=token.len().min(BREAKER_BYTES_MAX) {
            let begun = parts.begun_by(&token[token.len() - n_bytes..]);
            self.begins.extend(begun.map(|rest| (token_id, rest)));
            let ended = parts.rest(&token[..n_bytes]);
            self.goes_on.extend(ended.map(|rest| (token_id, (rest, None))));
        }
        let further = parts.after(token).map(|(rest, further)| (token_id, (rest, Some(further))));
        self.goes_on.extend(further);
    }

    /// Whether a token alone is a breaker.
    fn is_breaker(&self, token_id: u32) -> bool {
        self.whole.binary_search(&token_id).is_ok()
    }
}

/// Breakers in parts, as tokens may cut them.
struct Parts<'a> {
    texts: Vec<&'a [u8]>,
    /// What can be missing of them, in order.
    rests: Vec<&'a [u8]>,
    /// What they can begin with, in order, and what is missing then.
    begins: Vec<(&'a [u8], Rest)>,
}

impl<'a> Parts<'a> {
    fn of(texts: &'a [String]) -> Self {
        let texts = texts.iter().map(|text| text.as_bytes()).filter(|text| !text.is_empty());
        let texts: Vec<_> = texts.map(|text| &text[..text.len().min(BREAKER_BYTES_MAX)]).collect();
        let cuts = || texts.iter().flat_map(|text| (1..text.len()).map(|at| text.split_at(at)));
        let mut rests: Vec<&[u8]> = cuts().map(|(_, rest)| rest).collect();
        rests.sort_unstable();
        rests.dedup();
        let begins = cuts().filter_map(|(begin, rest)| Some((begin, place(&rests, rest)?)));
        let mut begins: Vec<_> = begins.collect();
        begins.sort_unstable();
        begins.dedup();
        Self { texts, rests, begins }
    }

    fn rest(&self, text: &[u8]) -> Option<Rest> {
        place(&self.rests, text)
    }

    /// What is missing after a text that a breaker can begin with.
    fn begun_by(&self, text: &[u8]) -> impl Iterator<Item = Rest> {
        let first = self.begins.partition_point(|(begin, _)| *begin < text);
        let begun = self.begins[first..].iter().take_while(move |(begin, _)| *begin == text);
        begun.map(|(_, rest)| *rest)
    }

    /// Rests that are longer than `text` and begin with it, and what is missing of each then. None for no text.
    fn after(&self, text: &[u8]) -> impl Iterator<Item = (Rest, Rest)> {
        let first = self.rests.partition_point(|rest| *rest <= text);
        let longer = self.rests[first..].iter();
        let longer = longer.take_while(move |rest| !text.is_empty() && rest.starts_with(text));
        longer.filter_map(|rest| Some((self.rest(rest)?, self.rest(&rest[text.len()..])?)))
    }
}

/// The place of a text among those in order.
fn place(texts: &[&[u8]], text: &[u8]) -> Option<u32> {
    let found = texts.binary_search(&text).ok()?;
    Some(u32::try_from(found).expect("texts of a request have fewer than 2^32 bytes"))
}

/// Where the last breaker of a history stands, found as the history grows: a step takes time for what is new only.
#[derive(Debug, Default)]
pub(super) struct LastBreak {
    n_read: usize,
    /// For each rest, where the latest breaker begins of which it is missing now. Empty where there is none at all.
    open: Vec<Option<usize>>,
    /// Where the breaker that begins last begins and ends.
    last: Option<(usize, usize)>,
}

impl LastBreak {
    /// Reads what is new of a history, and returns where the breaker that begins last begins and ends.
    fn advance(&mut self, history: &[u32], breakers: &DryBreakers) -> Option<(usize, usize)> {
        if history.len() < self.n_read {
            *self = Self::default();
        }
        for (place, &token_id) in history.iter().enumerate().skip(self.n_read) {
            self.read(place, token_id, breakers);
        }
        self.n_read = history.len();
        self.last
    }

    fn read(&mut self, place: usize, token_id: u32, breakers: &DryBreakers) {
        if breakers.is_breaker(token_id) {
            self.last = self.last.max(Some((place, place + 1)));
        }
        let mut begun = of_token(&breakers.begins, token_id).peekable();
        if self.open.is_empty() && begun.peek().is_none() {
            return;
        }
        let mut open = vec![None; breakers.n_rests];
        for &(rest, further) in of_token(&breakers.goes_on, token_id) {
            let Some(begin) = self.open.get(rest as usize).copied().flatten() else { continue };
            match further {
                Some(further) => {
                    let latest = &mut open[further as usize];
                    *latest = (*latest).max(Some(begin));
                }
                None => self.last = self.last.max(Some((begin, place + 1))),
            }
        }
        begun.for_each(|&rest| open[rest as usize] = Some(place));
        let is_any = open.iter().any(Option::is_some);
        self.open = if is_any { open } else { Vec::new() };
    }
}

/// The entries of a token in a list by id.
fn of_token<T>(entries: &[(u32, T)], token_id: u32) -> impl Iterator<Item = &T> {
    let first = entries.partition_point(|(id, _)| *id < token_id);
    let own = entries[first..].iter().take_while(move |(id, _)| *id == token_id);
    own.map(|(_, entry)| entry)
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
            let whole = LastBreak::default().advance(tokens, &breakers);
            let mut growing = LastBreak::default();
            for n in 0..tokens.len() {
                growing.advance(&tokens[..n], &breakers);
            }
            assert_eq!(growing.advance(tokens, &breakers), whole);
            whole.map(|(_, end)| tokens.len() - end)
        };
        assert_eq!(since(&[0, 1, 0]), None);
        assert_eq!(since(&[0, 2, 1, 0]), Some(2));
        assert_eq!(since(&[2, 3, 4, 0]), Some(1));
        assert_eq!(since(&[2, 5, 6, 7, 8]), Some(0));
        assert_eq!(since(&[2, 5, 6, 7, 0]), Some(4), "the text is not whole");
        assert!(breakers.is_breaker(2) && !breakers.is_breaker(4));
    }

    #[test]
    fn breakers_that_are_never_whole_cost_little_in_a_long_history() {
        let texts: Vec<String> = (0..64).map(|n| format!("{}{n}", "a".repeat(38))).collect();
        let vocabulary = ["a", "b"];
        let breakers =
            DryBreakers::new(&texts, vocabulary.len(), |id| vocabulary[id as usize].as_bytes());
        let history = vec![0; 20_000];
        let mut last_break = LastBreak::default();
        for n in history.len() - 100..history.len() {
            assert_eq!(last_break.advance(&history[..n], &breakers), None);
        }
    }

    #[test]
    fn breakers_that_end_alike_share_what_is_noted_of_tokens() {
        let texts: Vec<String> = (33u8..97).map(|c| format!("{} ", char::from(c))).collect();
        let breakers = DryBreakers::new(&texts, 1_000, |_| " x");
        assert_eq!(breakers.goes_on.len(), 1_000);
    }

    #[test]
    fn the_penalty_does_not_overflow() {
        let dry = Dry { multiplier: 1.0, ..Dry::default() };
        assert!(penalty(&dry, 1_000_000).is_finite());
        assert_eq!(penalty(&Dry { base: 1.0, ..dry }, usize::MAX), 1.0);
    }
}
