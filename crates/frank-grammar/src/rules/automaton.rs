//! The automaton of a regular expression: its characters are the states (Glushkov's construction).

use super::chars::Chars;
use super::syntax::{Kind, Node};
use super::text::Text;
use super::work::Work;

/// States of an automaton. Of one that would have more nothing is said.
const STATES_MAX: usize = 600;
/// Work of adding a node of an expression, beside that of its states and links.
const NODE_WORK: usize = 10;
/// Characters that JSON can begin with.
const JSON_FIRST: &str = "{[\"-0123456789tfn";
/// Bytes of a range of characters, and of a link between states.
const BYTES: usize = 8;

/// An automaton that reads words of an expression.
#[derive(Debug, Default)]
pub(super) struct Automaton {
    /// What is read to be in a state.
    chars: Vec<Chars>,
    /// The states after each state.
    next: Vec<Vec<usize>>,
    first: Vec<usize>,
    last: Vec<usize>,
    /// The characters that a word can begin with.
    first_chars: Chars,
    /// Whether nothing is a word.
    pub(super) is_nullable: bool,
}

/// Two automata that read the same text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside {
    /// A word of the first, followed by what can come after it, begins a longer word of the second: whoever reads on for
    /// as long as possible passes over its end.
    pub(super) is_hidden: bool,
    /// They have a word in common.
    pub(super) share_word: bool,
}

/// What the construction knows of a part of an expression.
struct Part {
    first: Vec<usize>,
    last: Vec<usize>,
    is_nullable: bool,
}

impl Automaton {
    /// The automaton of an expression whose rules are given by `bodies` and do not contain themselves; `None` where it
    /// is too large, or takes more work than is left.
    pub(super) fn new(
        nodes: &[&Node],
        bodies: &[Node],
        is_choice: bool,
        work: &mut Work,
    ) -> Option<Automaton> {
        let mut automaton = Automaton::default();
        let mut parts = Vec::new();
        for node in nodes {
            parts.push(automaton.add(node, bodies, work)?);
        }
        let whole = if is_choice { choice(parts) } else { automaton.sequence(parts, work)? };
        let Part { first, last, is_nullable } = whole;
        for next in &mut automaton.next {
            next.sort_unstable();
            next.dedup();
        }
        let first_chars = Chars::union(first.iter().map(|&state| &automaton.chars[state]));
        Some(Automaton { first, last, is_nullable, first_chars, ..automaton })
    }

    /// The characters that a word can begin with.
    pub(super) fn first_chars(&self) -> &Chars {
        &self.first_chars
    }

    /// What happens when both are read from one place on, where `after` can come after a word of `self`; `None` where
    /// it takes more work than is left to find out.
    pub(super) fn beside(
        &self,
        other: &Automaton,
        after: &Chars,
        work: &mut Work,
    ) -> Option<Beside> {
        if !self.first_chars.meets(&other.first_chars) {
            work.spend(self.first_chars.n_ranges() + other.first_chars.n_ranges())?;
            return Some(Beside::default());
        }
        let goes_on = other.goes_on_with(after, work)?;
        let mut pairs = Pairs::new(self, other, work)?;
        pairs.reach(&self.first, &other.first, work)?;
        let mut beside = Beside::default();
        while let Some((a, b)) = pairs.open.pop() {
            work.spend(self.last.len() + other.last.len())?;
            if self.last.contains(&a) {
                beside.share_word |= other.last.contains(&b);
                beside.is_hidden |= goes_on[b];
            }
            pairs.reach(&self.next[a], &other.next[b], work)?;
        }
        Some(beside)
    }

    /// For each state, whether a character of `after` can be read next.
    fn goes_on_with(&self, after: &Chars, work: &mut Work) -> Option<Vec<bool>> {
        let n_ranges: usize = self.chars.iter().map(Chars::n_ranges).sum();
        let n_links: usize = self.next.iter().map(Vec::len).sum();
        work.spend(n_ranges + self.chars.len() * after.n_ranges() + n_links)?;
        let meets: Vec<bool> = self.chars.iter().map(|chars| chars.meets(after)).collect();
        Some(self.next.iter().map(|next| next.iter().any(|&state| meets[state])).collect())
    }

    fn add(&mut self, node: &Node, bodies: &[Node], work: &mut Work) -> Option<Part> {
        let part = match &node.kind {
            Kind::Chars(chars) => self.state(chars, work)?,
            Kind::Rule(index) => self.add(&bodies[*index], bodies, work)?,
            Kind::Sequence(nodes) => {
                let parts = self.add_all(nodes, bodies, work)?;
                self.sequence(parts, work)?
            }
            Kind::Choice(nodes) => choice(self.add_all(nodes, bodies, work)?),
            Kind::Repeat(node, min, max) => self.repeat(node, *min, *max, bodies, work)?,
            Kind::Text(text) => self.text(text, work)?,
            // No character is read, and none of another expression at the same time.
            Kind::Token(_) => self.state(&Chars::default(), work)?,
            Kind::Json(_) => self.json(work)?,
        };
        work.spend(NODE_WORK + part.first.len() + part.last.len())?;
        Some(part)
    }

    fn add_all(&mut self, nodes: &[Node], bodies: &[Node], work: &mut Work) -> Option<Vec<Part>> {
        nodes.iter().map(|node| self.add(node, bodies, work)).collect()
    }

    fn state(&mut self, chars: &Chars, work: &mut Work) -> Option<Part> {
        let state = self.chars.len();
        if state == STATES_MAX {
            return None;
        }
        work.spend(BYTES * chars.n_ranges())?;
        self.chars.push(chars.clone());
        self.next.push(Vec::new());
        Some(Part { first: vec![state], last: vec![state], is_nullable: false })
    }

    fn text(&mut self, text: &Text, work: &mut Work) -> Option<Part> {
        let found = text.states();
        let offset = self.chars.len();
        let at = |states: &[usize]| states.iter().map(|state| offset + state).collect::<Vec<_>>();
        let mut part =
            Part { first: at(&found.first), last: vec![], is_nullable: !text.is_through };
        for state in &found.states {
            part.last.extend(self.state(&state.chars, work)?.last);
        }
        for (index, state) in found.states.iter().enumerate() {
            self.link(&[offset + index], &at(&state.next), work)?;
        }
        part.last.retain(|state| found.states[state - offset].is_last);
        Some(part)
    }

    /// Anything that begins as JSON does: what the schema says of the rest is not looked at.
    fn json(&mut self, work: &mut Work) -> Option<Part> {
        let first = JSON_FIRST.chars().map(Chars::one).collect::<Vec<_>>();
        let first = self.state(&Chars::union(first.iter()), work)?;
        let rest = self.state(&Chars::all(), work)?;
        self.link(&first.last, &rest.first, work)?;
        self.link(&rest.last, &rest.first, work)?;
        let last = [first.last, rest.last].concat();
        Some(Part { first: first.first, last, is_nullable: false })
    }

    fn sequence(&mut self, parts: Vec<Part>, work: &mut Work) -> Option<Part> {
        let mut whole = Part { first: vec![], last: vec![], is_nullable: true };
        for part in parts {
            self.link(&whole.last, &part.first, work)?;
            if whole.is_nullable {
                whole.first.extend(&part.first);
            }
            if !part.is_nullable {
                whole.last.clear();
            }
            whole.last.extend(&part.last);
            whole.is_nullable &= part.is_nullable;
        }
        Some(whole)
    }

    fn repeat(
        &mut self,
        node: &Node,
        min: u32,
        max: Option<u32>,
        bodies: &[Node],
        work: &mut Work,
    ) -> Option<Part> {
        let n_copies = max.unwrap_or(min.max(1));
        let mut parts = Vec::new();
        for copy in 0..n_copies {
            let mut part = self.add(node, bodies, work)?;
            part.is_nullable |= copy >= min;
            parts.push(part);
        }
        if max.is_none()
            && let Some(part) = parts.last()
        {
            let (first, last) = (part.first.clone(), part.last.clone());
            self.link(&last, &first, work)?;
        }
        self.sequence(parts, work)
    }

    fn link(&mut self, from: &[usize], to: &[usize], work: &mut Work) -> Option<()> {
        work.spend(BYTES * from.len() * to.len())?;
        for &state in from {
            self.next[state].extend(to);
        }
        Some(())
    }
}

/// The pairs of states in which two automata can be after the same text.
struct Pairs<'a> {
    first: &'a Automaton,
    second: &'a Automaton,
    seen: Vec<bool>,
    /// Seen, and not looked at yet.
    open: Vec<(usize, usize)>,
}

impl<'a> Pairs<'a> {
    fn new(first: &'a Automaton, second: &'a Automaton, work: &mut Work) -> Option<Self> {
        let n_pairs = first.chars.len() * second.chars.len();
        work.spend(1 + n_pairs)?;
        Some(Self { first, second, seen: vec![false; n_pairs], open: Vec::new() })
    }

    /// Adds those of a state of `from` and one of `to` that read a character in common.
    fn reach(&mut self, from: &[usize], to: &[usize], work: &mut Work) -> Option<()> {
        work.spend(from.len() * to.len())?;
        for &a in from {
            for &b in to {
                let pair = a * self.second.chars.len() + b;
                if self.seen[pair] {
                    continue;
                }
                let (one, other) = (&self.first.chars[a], &self.second.chars[b]);
                work.spend(one.n_ranges() + other.n_ranges())?;
                if one.meets(other) {
                    self.seen[pair] = true;
                    self.open.push((a, b));
                }
            }
        }
        Some(())
    }
}

fn choice(parts: Vec<Part>) -> Part {
    let mut whole = Part { first: vec![], last: vec![], is_nullable: false };
    for part in parts {
        whole.first.extend(part.first);
        whole.last.extend(part.last);
        whole.is_nullable |= part.is_nullable;
    }
    whole
}
