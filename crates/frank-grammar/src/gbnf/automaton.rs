//! The automaton of a regular expression: its characters are the states (Glushkov's construction).

use super::chars::Chars;
use super::syntax::{Kind, Node};

/// States of an automaton. Of one that would have more nothing is said.
const STATES_MAX: usize = 600;

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
    /// is too large.
    pub(super) fn new(nodes: &[&Node], bodies: &[Node], is_choice: bool) -> Option<Automaton> {
        let mut automaton = Automaton::default();
        let mut parts = Vec::new();
        for node in nodes {
            parts.push(automaton.add(node, bodies)?);
        }
        let whole = if is_choice { choice(parts) } else { automaton.sequence(parts) };
        let Part { first, last, is_nullable } = whole;
        for next in &mut automaton.next {
            next.sort_unstable();
            next.dedup();
        }
        let mut first_chars = Chars::default();
        for &state in &first {
            first_chars.extend(&automaton.chars[state]);
        }
        Some(Automaton { first, last, is_nullable, first_chars, ..automaton })
    }

    /// The characters that a word can begin with.
    pub(super) fn first_chars(&self) -> &Chars {
        &self.first_chars
    }

    pub(super) fn n_states(&self) -> usize {
        self.chars.len()
    }

    /// What happens when both are read from one place on, where `after` can come after a word of `self`.
    pub(super) fn beside(&self, other: &Automaton, after: &Chars) -> Beside {
        let n = other.chars.len();
        let mut seen = vec![false; self.chars.len() * n];
        let mut open = Vec::new();
        let mut reach = |a: &[usize], b: &[usize], open: &mut Vec<(usize, usize)>| {
            for &a in a {
                for &b in b {
                    if !seen[a * n + b] && self.chars[a].meets(&other.chars[b]) {
                        seen[a * n + b] = true;
                        open.push((a, b));
                    }
                }
            }
        };
        reach(&self.first, &other.first, &mut open);
        let mut beside = Beside::default();
        while let Some((a, b)) = open.pop() {
            if self.last.contains(&a) {
                beside.share_word |= other.last.contains(&b);
                beside.is_hidden |=
                    other.next[b].iter().any(|&next| other.chars[next].meets(after));
            }
            reach(&self.next[a], &other.next[b], &mut open);
        }
        beside
    }

    fn add(&mut self, node: &Node, bodies: &[Node]) -> Option<Part> {
        match &node.kind {
            Kind::Chars(chars) => {
                let state = self.chars.len();
                if state == STATES_MAX {
                    return None;
                }
                self.chars.push(chars.clone());
                self.next.push(Vec::new());
                Some(Part { first: vec![state], last: vec![state], is_nullable: false })
            }
            Kind::Rule(index) => self.add(&bodies[*index], bodies),
            Kind::Sequence(nodes) => {
                let parts =
                    nodes.iter().map(|node| self.add(node, bodies)).collect::<Option<_>>()?;
                Some(self.sequence(parts))
            }
            Kind::Choice(nodes) => {
                let parts =
                    nodes.iter().map(|node| self.add(node, bodies)).collect::<Option<_>>()?;
                Some(choice(parts))
            }
            Kind::Repeat(node, min, max) => self.repeat(node, *min, *max, bodies),
        }
    }

    fn sequence(&mut self, parts: Vec<Part>) -> Part {
        let mut whole = Part { first: vec![], last: vec![], is_nullable: true };
        for part in parts {
            self.link(&whole.last, &part.first);
            if whole.is_nullable {
                whole.first.extend(&part.first);
            }
            if !part.is_nullable {
                whole.last.clear();
            }
            whole.last.extend(&part.last);
            whole.is_nullable &= part.is_nullable;
        }
        whole
    }

    fn repeat(&mut self, node: &Node, min: u32, max: Option<u32>, bodies: &[Node]) -> Option<Part> {
        let n_copies = max.unwrap_or(min.max(1));
        let mut parts = Vec::new();
        for copy in 0..n_copies {
            let mut part = self.add(node, bodies)?;
            part.is_nullable |= copy >= min;
            parts.push(part);
        }
        if max.is_none()
            && let Some(part) = parts.last()
        {
            let (first, last) = (part.first.clone(), part.last.clone());
            self.link(&last, &first);
        }
        Some(self.sequence(parts))
    }

    fn link(&mut self, from: &[usize], to: &[usize]) {
        for &state in from {
            self.next[state].extend(to);
        }
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
