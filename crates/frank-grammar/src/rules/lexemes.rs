//! Cuts the rules of a grammar into lexemes, the words that the parser reads as one.
//!
//! The parser reads a lexeme for as long as any lexeme that may come there goes on. A grammar knows nothing of the kind: a
//! rule may end wherever what follows allows. So lexemes are made as large as can be, since a mask is made faster of few
//! large ones, and then cut where one would read over the end of another, until none does. A single character cannot.

use std::collections::{BTreeMap, BTreeSet};

use super::automaton::Automaton;
use super::chars::Chars;
use super::follows::Follows;
use super::syntax::{Kind, Node, Rules, is_regular};
use super::work::Work;
use crate::error::GrammarError;

/// Elements of a rule that may be written into others; a larger one stays a rule.
const WRITTEN_OUT_MAX: usize = 2_000;
/// How often the grammar is cut before all of it is cut into characters.
const ROUNDS_MAX: usize = 100;
/// Lexemes and rules of a grammar that is looked at so closely.
const ANALYZED_MAX: usize = 500;
/// Work of looking at it in all rounds together.
const WORK_MAX: usize = 20_000_000;

/// A grammar of lexemes and rules.
#[derive(Debug)]
pub(super) struct Cut<'a> {
    pub(super) lexemes: Vec<Lexeme<'a>>,
    /// Rules by index, those that the root needs.
    pub(super) rules: BTreeMap<usize, Part>,
}

/// What is read as one.
#[derive(Debug)]
pub(super) struct Lexeme<'a> {
    pub(super) nodes: Vec<&'a Node>,
    /// Whether it is one of `nodes` or all of them in order.
    pub(super) is_choice: bool,
    /// The node that has to be cut to make it smaller.
    owner: usize,
}

/// A part of a rule.
#[derive(Debug)]
pub(super) enum Part {
    Lexeme(usize),
    Rule(usize),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Repeat(Box<Part>, u32, Option<u32>),
}

/// Cuts a grammar.
///
/// # Errors
/// [`GrammarError::Unusable`] where a free text, which cannot be cut, would read over what comes after it.
pub(super) fn cut(rules: &Rules) -> Result<Cut<'_>, GrammarError> {
    let sizes = rules.sizes(WRITTEN_OUT_MAX);
    let mut broken = BTreeSet::new();
    let mut work = Work::new(WORK_MAX);
    for _ in 0..ROUNDS_MAX {
        let cut = Cutter::cut(rules, &sizes, &broken, false);
        let before = broken.len();
        let Some(hidden) = hidden(&cut, rules, &mut work) else { break };
        broken.extend(hidden.nodes);
        if broken.len() == before {
            return if hidden.is_text_endless { Err(endless()) } else { Ok(cut) };
        }
    }
    Ok(Cutter::cut(rules, &sizes, &broken, true))
}

fn endless() -> GrammarError {
    let what = "free text is followed by what it may hold itself, and would never end";
    GrammarError::Unusable(what.to_owned())
}

struct Cutter<'a, 'b> {
    source: &'a Rules,
    sizes: &'b [Option<usize>],
    /// Nodes that must not be within one lexeme.
    broken: &'b BTreeSet<usize>,
    /// Whether only characters are lexemes.
    is_fine: bool,
    cut: Cut<'a>,
    /// Rules that were met and are not done.
    open: Vec<usize>,
}

impl<'a> Cutter<'a, '_> {
    fn cut(
        source: &'a Rules,
        sizes: &[Option<usize>],
        broken: &BTreeSet<usize>,
        is_fine: bool,
    ) -> Cut<'a> {
        let cut = Cut { lexemes: Vec::new(), rules: BTreeMap::new() };
        let mut cutter = Cutter { source, sizes, broken, is_fine, cut, open: vec![source.root] };
        while let Some(index) = cutter.open.pop() {
            if !cutter.cut.rules.contains_key(&index) {
                let part = cutter.part(&source.bodies[index]);
                cutter.cut.rules.insert(index, part);
            }
        }
        cutter.cut
    }

    fn is_whole(&self, node: &Node) -> bool {
        let is_small = match &node.kind {
            Kind::Chars(_) | Kind::Text(_) => return true,
            Kind::Token(_) | Kind::Json(_) => return false,
            // A rule whose body is broken is not written out here.
            Kind::Rule(index) => !self.broken.contains(&self.source.bodies[*index].id),
            Kind::Sequence(_) | Kind::Choice(_) | Kind::Repeat(..) => true,
        };
        is_small && !self.is_fine && !self.broken.contains(&node.id) && is_regular(node, self.sizes)
    }

    fn part(&mut self, node: &'a Node) -> Part {
        if self.is_whole(node) {
            return self.lexeme(vec![node], false, node);
        }
        match &node.kind {
            Kind::Chars(_) | Kind::Text(_) => unreachable!("it is whole"),
            Kind::Token(_) | Kind::Json(_) => self.lexeme(vec![node], false, node),
            Kind::Rule(index) => {
                self.open.push(*index);
                Part::Rule(*index)
            }
            Kind::Sequence(nodes) => Part::Sequence(self.runs(node, nodes)),
            Kind::Choice(nodes) => Part::Choice(self.options(node, nodes)),
            Kind::Repeat(inner, min, max) => Part::Repeat(Box::new(self.part(inner)), *min, *max),
        }
    }

    /// The parts of a sequence; neighbours that are whole are one lexeme, unless the sequence is broken.
    fn runs(&mut self, node: &'a Node, nodes: &'a [Node]) -> Vec<Part> {
        let is_together = !self.is_fine && !self.broken.contains(&node.id);
        let mut parts = Vec::new();
        let mut run: Vec<&'a Node> = Vec::new();
        for inner in nodes {
            if is_together && self.is_whole(inner) {
                run.push(inner);
                continue;
            }
            self.end_run(&mut run, node, &mut parts);
            parts.push(self.part(inner));
        }
        self.end_run(&mut run, node, &mut parts);
        parts
    }

    fn end_run(&mut self, run: &mut Vec<&'a Node>, node: &'a Node, parts: &mut Vec<Part>) {
        let run = std::mem::take(run);
        if !run.is_empty() {
            let owner = if run.len() == 1 { run[0] } else { node };
            parts.push(self.lexeme(run, false, owner));
        }
    }

    /// The options of a choice; those that are whole are one lexeme, unless the choice is broken.
    fn options(&mut self, node: &'a Node, nodes: &'a [Node]) -> Vec<Part> {
        let is_together = !self.is_fine && !self.broken.contains(&node.id);
        let (whole, other): (Vec<_>, Vec<_>) =
            nodes.iter().partition(|inner| is_together && self.is_whole(inner));
        let mut parts: Vec<Part> = other.into_iter().map(|inner| self.part(inner)).collect();
        if !whole.is_empty() {
            let owner = if whole.len() == 1 { whole[0] } else { node };
            parts.push(self.lexeme(whole, true, owner));
        }
        parts
    }

    fn lexeme(&mut self, nodes: Vec<&'a Node>, is_choice: bool, owner: &Node) -> Part {
        // To cut a rule is to cut its body.
        let owner = match owner.kind {
            Kind::Rule(index) => self.source.bodies[index].id,
            _ => owner.id,
        };
        self.cut.lexemes.push(Lexeme { nodes, is_choice, owner });
        Part::Lexeme(self.cut.lexemes.len() - 1)
    }
}

/// Ends of lexemes that are read over.
#[derive(Debug, Default)]
struct Hidden {
    /// The nodes to break because a lexeme of theirs reads over the end of another or would be read over.
    nodes: BTreeSet<usize>,
    /// Whether a free text reads over its own end.
    is_text_endless: bool,
}

/// The ends that are read over. `None` when the grammar is too large, or takes too much work, to find them all.
fn hidden(cut: &Cut<'_>, rules: &Rules, work: &mut Work) -> Option<Hidden> {
    if cut.lexemes.len().max(cut.rules.len()) > ANALYZED_MAX {
        return None;
    }
    let mut hidden = Hidden::default();
    let mut automata = Vec::new();
    for lexeme in &cut.lexemes {
        let automaton = Automaton::new(&lexeme.nodes, &rules.bodies, lexeme.is_choice, work);
        if work.is_spent() {
            return None;
        }
        if automaton.is_none() {
            hidden.nodes.insert(lexeme.owner);
        }
        automata.push(automaton);
    }
    if !hidden.nodes.is_empty() {
        return Some(hidden);
    }
    let automata: Vec<Automaton> = automata.into_iter().flatten().collect();
    let follows = Follows::new(cut, automata.iter().map(|a| a.is_nullable).collect(), work)?;
    let after = chars_after(&automata, &follows, work)?;
    // Lexemes that may be read from one place on, each also with itself: those that begin the root, and from there on
    // those that come after two that end together.
    let root = follows.first_of_rule(rules.root);
    let mut open: Vec<(usize, usize)> = root.pairs_with(root).collect();
    let mut together: BTreeSet<(usize, usize)> = open.iter().copied().collect();
    while let Some((a, b)) = open.pop() {
        let beside = automata[a].beside(&automata[b], &after[a], work)?;
        if beside.is_hidden {
            hidden.nodes.extend([cut.lexemes[a].owner, cut.lexemes[b].owner]);
            let is_text = matches!(cut.lexemes[a].nodes[..], [Node { kind: Kind::Text(_), .. }]);
            hidden.is_text_endless |= a == b && is_text;
        }
        if beside.share_word {
            for pair in follows.after(a).pairs_with(follows.after(b)) {
                work.spend(1)?;
                if together.insert(pair) {
                    open.push(pair);
                }
            }
        }
    }
    Some(hidden)
}

/// The characters that can come after each lexeme.
fn chars_after(automata: &[Automaton], follows: &Follows, work: &mut Work) -> Option<Vec<Chars>> {
    let after = (0..automata.len()).map(|lexeme| {
        let next = || follows.after(lexeme).iter().map(|next| automata[next].first_chars());
        work.spend(next().map(Chars::n_ranges).sum())?;
        Some(Chars::union(next()))
    });
    after.collect()
}
