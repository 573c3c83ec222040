//! What a grammar says: rules made of characters, sequences, alternatives and repetitions, of free texts, control tokens
//! and JSON.

use serde_json::Value;

use super::chars::Chars;
use super::text::Text;

/// An expression. `id` is its own in the whole grammar.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) id: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// One of these characters.
    Chars(Chars),
    /// A rule by its index.
    Rule(usize),
    /// All of these in order; none of them is nothing.
    Sequence(Vec<Node>),
    /// One of these.
    Choice(Vec<Node>),
    /// So many times.
    Repeat(Box<Node>, u32, Option<u32>),
    /// A text that is free but for markers.
    Text(Text),
    /// A control token by its id.
    Token(u32),
    /// JSON of a schema by its index.
    Json(usize),
}

/// The rules of a grammar.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Bodies by index.
    pub(crate) bodies: Vec<Node>,
    /// The index of the rule to begin with.
    pub(crate) root: usize,
    /// Schemas of JSON in it, each as it is compiled.
    pub(crate) schemas: Vec<Value>,
}

impl Rules {
    /// For each rule the number of elements that it stands for when all rules in it are written out, repetitions counted
    /// by their number; `None` where it contains itself, or one that does, or where there are more than `max`.
    pub(crate) fn sizes(&self, max: usize) -> Vec<Option<usize>> {
        let mut sizes = Sizes { rules: self, max, known: vec![None; self.bodies.len()] };
        (0..self.bodies.len()).map(|index| sizes.of_rule(index)).collect()
    }
}

struct Sizes<'a> {
    rules: &'a Rules,
    max: usize,
    /// What was found of a rule. While it is looked at, it has no size: whoever meets it then is part of it.
    known: Vec<Option<Option<usize>>>,
}

impl Sizes<'_> {
    fn of_rule(&mut self, index: usize) -> Option<usize> {
        if let Some(size) = self.known[index] {
            return size;
        }
        self.known[index] = Some(None);
        let max = self.max;
        let size = self.of(&self.rules.bodies[index]).filter(|size| *size <= max);
        self.known[index] = Some(size);
        size
    }

    fn of(&mut self, node: &Node) -> Option<usize> {
        match &node.kind {
            Kind::Chars(_) | Kind::Text(_) => Some(1),
            Kind::Token(_) | Kind::Json(_) => None,
            Kind::Rule(index) => self.of_rule(*index),
            Kind::Sequence(nodes) | Kind::Choice(nodes) => {
                let mut sum = 1usize;
                for node in nodes {
                    sum = sum.saturating_add(self.of(node)?);
                }
                Some(sum)
            }
            Kind::Repeat(node, min, max) => {
                let times = max.unwrap_or(*min).max(1) as usize;
                Some(self.of(node)?.saturating_mul(times))
            }
        }
    }
}

/// Whether no rule in an expression lacks a size: then it can be written as a regular expression.
pub(crate) fn is_regular(node: &Node, sizes: &[Option<usize>]) -> bool {
    match &node.kind {
        Kind::Chars(_) | Kind::Text(_) => true,
        Kind::Token(_) | Kind::Json(_) => false,
        Kind::Rule(index) => sizes[*index].is_some(),
        Kind::Sequence(nodes) | Kind::Choice(nodes) => {
            nodes.iter().all(|node| is_regular(node, sizes))
        }
        Kind::Repeat(node, ..) => is_regular(node, sizes),
    }
}
