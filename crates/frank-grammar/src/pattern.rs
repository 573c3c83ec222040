//! Patterns of answers: text, control tokens and JSON in an order, as chat formats say it.

mod controls;

use frank_chat::Pattern;

use crate::error::GrammarError;
use crate::limits::Limits;
use crate::rules::{self, Chars, Kind, Node, Rules, Text};
use crate::schema;
use crate::vocabulary::Vocabulary;

/// Characters of white space where it is free.
const SPACE_MAX: u32 = 4;
const SPACE: [char; 4] = [' ', '\n', '\r', '\t'];

/// The pattern as Lark text, for answers of a model with this vocabulary.
///
/// # Errors
/// [`GrammarError`] with the place in a schema of what cannot be honoured, or the limit that was exceeded.
pub(crate) fn to_lark(
    pattern: &Pattern,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<String, GrammarError> {
    let mut translation =
        Translation { vocabulary, limits, n_nodes: 0, n_parts: 0, schemas: Vec::new() };
    let body = translation.node(&controls::apart(pattern, vocabulary), 0)?;
    rules::to_lark(&Rules { bodies: vec![body], root: 0, schemas: translation.schemas })
}

/// Bytes of all texts and schemas in it.
pub(crate) fn source_bytes(pattern: &Pattern) -> usize {
    match pattern {
        Pattern::Literal(text) | Pattern::TextThrough { end: text } => text.len(),
        Pattern::Json(schema) => schema.to_string().len(),
        Pattern::TextWithout { markers } => markers.iter().map(String::len).sum(),
        Pattern::Space => 1,
        Pattern::Sequence(patterns) | Pattern::OneOf(patterns) => {
            patterns.iter().map(source_bytes).sum()
        }
        Pattern::Optional(pattern) | Pattern::Repeated(pattern) => source_bytes(pattern),
    }
}

struct Translation<'a> {
    vocabulary: &'a Vocabulary,
    limits: &'a Limits,
    n_nodes: usize,
    /// Nodes without the characters of literals, whose number the bytes of the source bound.
    n_parts: usize,
    schemas: Vec<serde_json::Value>,
}

impl Translation<'_> {
    fn node(&mut self, pattern: &Pattern, depth: usize) -> Result<Node, GrammarError> {
        if depth > self.limits.depth {
            return Err(GrammarError::TooDeep {
                place: "a pattern".to_owned(),
                max: self.limits.depth,
            });
        }
        match pattern {
            Pattern::Literal(text) => self.literal(text),
            Pattern::Json(schema) => {
                let checked = schema::checked(schema, self.limits, schema::NARROW_WHITE_SPACE)?;
                self.schemas.push(checked);
                self.made(Kind::Json(self.schemas.len() - 1))
            }
            Pattern::TextWithout { markers } => {
                self.made(Kind::Text(Text { markers: filled(markers)?, is_through: false }))
            }
            Pattern::TextThrough { end } => self.through(end),
            Pattern::Space => {
                let chars = Chars::of(SPACE.iter().map(|&c| (c.into(), c.into())).collect());
                let one = self.made(Kind::Chars(chars))?;
                self.made(Kind::Repeat(Box::new(one), 0, Some(SPACE_MAX)))
            }
            Pattern::Sequence(patterns) => {
                let nodes = self.sequence(&flat(patterns), depth)?;
                self.made(Kind::Sequence(nodes))
            }
            Pattern::OneOf(patterns) => self.one_of(patterns, depth),
            Pattern::Optional(pattern) => self.repeated(pattern, 0, Some(1), depth),
            Pattern::Repeated(pattern) => self.repeated(pattern, 1, None, depth),
        }
    }

    fn made(&mut self, kind: Kind) -> Result<Node, GrammarError> {
        self.n_parts += 1;
        let (got, max) = (self.n_parts, self.limits.parts);
        if got > max {
            return Err(GrammarError::TooLarge { what: "elements", got, max });
        }
        Ok(self.numbered(kind))
    }

    fn numbered(&mut self, kind: Kind) -> Node {
        self.n_nodes += 1;
        Node { id: self.n_nodes, kind }
    }

    fn literal(&mut self, text: &str) -> Result<Node, GrammarError> {
        if let Some(token_id) = self.vocabulary.control_token(text) {
            return self.made(Kind::Token(token_id));
        }
        let chars = text.chars().map(|c| self.numbered(Kind::Chars(Chars::one(c)))).collect();
        self.made(Kind::Sequence(chars))
    }

    /// Any text through `end`. A control token is no text: before it no text spells it either.
    fn through(&mut self, end: &str) -> Result<Node, GrammarError> {
        let markers = filled(&[end.to_owned()])?;
        let Some(token_id) = self.vocabulary.control_token(end) else {
            return self.made(Kind::Text(Text { markers, is_through: true }));
        };
        let text = self.made(Kind::Text(Text { markers, is_through: false }))?;
        let token = self.made(Kind::Token(token_id))?;
        self.made(Kind::Sequence(vec![text, token]))
    }

    fn sequence(&mut self, patterns: &[&Pattern], depth: usize) -> Result<Vec<Node>, GrammarError> {
        let mut nodes = Vec::new();
        let mut rest = patterns;
        while let [first, after @ ..] = rest {
            rest = after;
            match (first, after) {
                // The text and its marker are read as one: the marker begins like text.
                (Pattern::TextWithout { markers }, [Pattern::Literal(text), after @ ..])
                    if markers == &[text.as_str()] =>
                {
                    nodes.push(self.through(text)?);
                    rest = after;
                }
                // So they are where one of several follows, each with its own.
                (Pattern::TextWithout { .. }, [Pattern::OneOf(options), after @ ..]) => {
                    nodes.push(self.spread(first, options, after, depth)?);
                    return Ok(nodes);
                }
                _ => nodes.push(self.node(first, depth + 1)?),
            }
        }
        Ok(nodes)
    }

    /// A text, one of several, and what follows, as one of several sequences.
    fn spread(
        &mut self,
        text: &Pattern,
        options: &[Pattern],
        after: &[&Pattern],
        depth: usize,
    ) -> Result<Node, GrammarError> {
        let mut nodes = Vec::new();
        for option in options {
            let option = match option {
                Pattern::Sequence(patterns) => flat(patterns),
                other => vec![other],
            };
            let whole: Vec<&Pattern> =
                [text].into_iter().chain(option).chain(after.iter().copied()).collect();
            let sequence = self.sequence(&whole, depth + 1)?;
            nodes.push(self.made(Kind::Sequence(sequence))?);
        }
        self.made(Kind::Choice(nodes))
    }

    fn one_of(&mut self, patterns: &[Pattern], depth: usize) -> Result<Node, GrammarError> {
        if patterns.is_empty() {
            return Err(GrammarError::Unusable("there is nothing to choose from".to_owned()));
        }
        let nodes: Result<Vec<Node>, _> =
            patterns.iter().map(|pattern| self.node(pattern, depth + 1)).collect();
        self.made(Kind::Choice(nodes?))
    }

    fn repeated(
        &mut self,
        pattern: &Pattern,
        min: u32,
        max: Option<u32>,
        depth: usize,
    ) -> Result<Node, GrammarError> {
        let inner = self.node(pattern, depth + 1)?;
        self.made(Kind::Repeat(Box::new(inner), min, max))
    }
}

/// A sequence without sequences in it.
fn flat(patterns: &[Pattern]) -> Vec<&Pattern> {
    patterns
        .iter()
        .flat_map(|pattern| match pattern {
            Pattern::Sequence(inner) => flat(inner),
            other => vec![other],
        })
        .collect()
}

/// Markers, none of them empty.
fn filled(markers: &[String]) -> Result<Vec<String>, GrammarError> {
    if markers.iter().any(String::is_empty) {
        return Err(GrammarError::Unusable("a marker in free text is empty".to_owned()));
    }
    Ok(markers.to_vec())
}
