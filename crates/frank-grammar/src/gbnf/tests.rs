//! Random grammars accept the same texts after translation as by their plain meaning.

use std::collections::BTreeSet;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::parse::parse;
use crate::rules::Chars;
use crate::rules::{Kind, Node, Rules};
use crate::{Grammar, Limits, MatchError, Matcher, Vocabulary};

/// Characters of a text, at most.
const LENGTH: usize = 5;
/// Repetitions that make no longer text any more, whatever of them is nothing.
const LENGTH_STEPS: u32 = 8;
const RULES: [&str; 4] = ["root", "x", "y", "z"];

fn expression(rng: &mut ChaCha8Rng, depth: usize) -> String {
    let kind = if depth == 0 { rng.random_range(0..6) } else { rng.random_range(0..12) };
    let mut inner = || expression(rng, depth - 1);
    match kind {
        0 => "\"a\"".to_owned(),
        1 => "\"b\"".to_owned(),
        2 => "\"ab\"".to_owned(),
        3 => "[ab]".to_owned(),
        4 | 5 => RULES[rng.random_range(1..4)].to_owned(),
        6 | 7 => format!("{} {}", inner(), inner()),
        8 => format!("({} | {})", inner(), inner()),
        9 => format!("({})*", inner()),
        10 => format!("({})?", inner()),
        _ => format!("({}){{1,2}}", inner()),
    }
}

fn random_grammar(seed: u64) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut rule = |name: &&str| {
        format!("{name} ::= {} | {}\n", expression(&mut rng, 3), expression(&mut rng, 2))
    };
    RULES.iter().map(&mut rule).collect()
}

/// For each rule the pieces of a text that it makes, found by adding what follows from those known until nothing does.
struct Plain<'a> {
    text: &'a [char],
    known: Vec<BTreeSet<(usize, usize)>>,
}

impl Plain<'_> {
    fn accepts(rules: &Rules, text: &[char]) -> bool {
        let known = vec![BTreeSet::new(); rules.bodies.len()];
        let mut plain = Plain { text, known };
        loop {
            let before = plain.known.clone();
            for index in 0..rules.bodies.len() {
                for start in 0..=text.len() {
                    let ends = plain.ends(&rules.bodies[index], start);
                    plain.known[index].extend(ends.into_iter().map(|end| (start, end)));
                }
            }
            if plain.known == before {
                return plain.known[rules.root].contains(&(0, text.len()));
            }
        }
    }

    fn ends(&self, node: &Node, start: usize) -> BTreeSet<usize> {
        match &node.kind {
            Kind::Chars(chars) => {
                let matches = |c: &&char| chars.meets(&Chars::one(**c));
                self.text.get(start).filter(matches).map(|_| start + 1).into_iter().collect()
            }
            Kind::Rule(index) => {
                let pieces = self.known[*index].iter().filter(|(from, _)| *from == start);
                pieces.map(|(_, end)| *end).collect()
            }
            Kind::Sequence(nodes) => nodes.iter().fold([start].into(), |starts, node| {
                starts.iter().flat_map(|start| self.ends(node, *start)).collect()
            }),
            Kind::Choice(nodes) => nodes.iter().flat_map(|node| self.ends(node, start)).collect(),
            Kind::Repeat(node, min, max) => {
                let (mut ends, mut now) = (BTreeSet::new(), BTreeSet::from([start]));
                for n in 0..=max.unwrap_or(LENGTH_STEPS) {
                    if n >= *min {
                        ends.extend(&now);
                    }
                    now = now.iter().flat_map(|start| self.ends(node, *start)).collect();
                }
                ends
            }
            Kind::Text(_) | Kind::Token(_) | Kind::Json(_) => unreachable!("GBNF has none"),
        }
    }
}

/// Whether a matcher that has seen nothing takes a text, and then its end.
fn follows(begun: &Matcher, text: &[char]) -> Result<bool, MatchError> {
    let mut matcher = Matcher { inner: begun.inner.deep_clone() };
    let mut mask = [0];
    for c in text {
        matcher.allowed(&mut mask)?;
        let token_id = u32::from(*c) - u32::from('a');
        if mask[0] >> token_id & 1 == 0 {
            return Ok(false);
        }
        matcher.accept(token_id)?;
    }
    matcher.allowed(&mut mask)?;
    Ok(mask[0] == 0 || mask[0] & 4 != 0)
}

#[test]
fn a_translated_grammar_accepts_the_texts_of_its_plain_meaning() {
    let words = [b"a".to_vec(), b"b".to_vec(), Vec::new()];
    let vocabulary = Vocabulary::from_words(&words, &[2]).expect("three tokens");
    let mut n_compared = 0;
    for seed in 0..200 {
        let text = random_grammar(seed);
        let rules = parse(&text, &Limits::default()).expect("the grammar is well-formed");
        let compiled = Grammar::gbnf(&text).compile(&vocabulary, &Limits::default());
        // One that has no text at all, or too many ways to read one, is refused.
        let Ok(matcher) = compiled else { continue };
        for length in 0..=LENGTH {
            for bits in 0..1u32 << length {
                let answer: Vec<char> =
                    (0..length).map(|i| if bits >> i & 1 == 1 { 'b' } else { 'a' }).collect();
                let expected = Plain::accepts(&rules, &answer);
                // An ambiguous grammar may come to the limit, which is an error and no answer.
                if let Ok(followed) = follows(&matcher, &answer) {
                    assert_eq!(followed, expected, "{answer:?} of\n{text}");
                    n_compared += 1;
                }
            }
        }
    }
    assert!(n_compared > 10_000, "{n_compared} answers were compared");
}
