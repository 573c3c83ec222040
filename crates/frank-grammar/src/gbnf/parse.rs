//! Reads GBNF text. Every mistake has its line and column.

use std::collections::BTreeMap;

use crate::error::GrammarError;
use crate::limits::Limits;
use crate::rules::Chars;
use crate::rules::{Kind, Node, Rules};

/// Repetitions of one element, as many as llama.cpp allows.
const REPEAT_MAX: u32 = 2_000;
/// Repetitions of repetitions of one element without parentheses: they are as deep as they are many.
const REPEATS_MAX: usize = 4;
/// The rule that an answer begins with.
const ROOT: &str = "root";

/// The rules of a text.
///
/// # Errors
/// [`GrammarError::Gbnf`] with the place, or the limit that was exceeded.
pub(super) fn parse(text: &str, limits: &Limits) -> Result<Rules, GrammarError> {
    let mut parser = Parser {
        chars: text.chars().collect(),
        place: 0,
        n_nodes: 0,
        depth: 0,
        names: BTreeMap::new(),
        limits,
    };
    parser.space(Lines::Cross);
    let mut bodies = BTreeMap::new();
    while parser.peek().is_some() {
        let at = parser.place;
        let name = parser.name()?;
        parser.space(Lines::Stay);
        for c in "::=".chars() {
            parser.expect(c, "::= is expected after the name of a rule")?;
        }
        parser.space(Lines::Cross);
        let body = parser.choice(Lines::Stay)?;
        if bodies.insert(parser.index_of(&name, at), body).is_some() {
            return Err(parser.error_at(at, format!("the rule {name} is defined twice")));
        }
        if !matches!(parser.peek(), None | Some('\n' | '\r')) {
            return Err(parser.error("the end of the rule is expected".to_owned()));
        }
        parser.space(Lines::Cross);
    }
    parser.finished(bodies)
}

/// Whether white space may go over the end of a line, which also ends a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    Cross,
    Stay,
}

struct Parser<'a> {
    chars: Vec<char>,
    place: usize,
    n_nodes: usize,
    depth: usize,
    /// Rules by name: index, and where the name stands first.
    names: BTreeMap<String, (usize, usize)>,
    limits: &'a Limits,
}

impl Parser<'_> {
    fn finished(&self, bodies: BTreeMap<usize, Node>) -> Result<Rules, GrammarError> {
        let undefined = self.names.iter().find(|(_, (index, _))| !bodies.contains_key(index));
        if let Some((name, (_, at))) = undefined {
            return Err(self.error_at(*at, format!("the rule {name} is not defined")));
        }
        let Some(&(root, _)) = self.names.get(ROOT) else {
            return Err(self.error_at(0, format!("there is no rule {ROOT}")));
        };
        // Indices were given in order and all are defined.
        Ok(Rules { bodies: bodies.into_values().collect(), root, schemas: Vec::new() })
    }

    fn choice(&mut self, lines: Lines) -> Result<Node, GrammarError> {
        let mut options = vec![self.sequence(lines)?];
        while self.peek() == Some('|') {
            self.place += 1;
            self.space(Lines::Cross);
            options.push(self.sequence(lines)?);
        }
        let only = if options.len() == 1 { options.pop() } else { None };
        only.map_or_else(|| self.node(Kind::Choice(options)), Ok)
    }

    fn sequence(&mut self, lines: Lines) -> Result<Node, GrammarError> {
        let mut nodes: Vec<Node> = Vec::new();
        while let Some(c) = self.peek() {
            let node = match c {
                '"' => self.literal()?,
                '[' => self.class()?,
                '.' => {
                    self.place += 1;
                    self.node(Kind::Chars(Chars::all()))?
                }
                '(' => self.group()?,
                '<' | '!' => return Err(self.error("tokens are not supported".to_owned())),
                _ if is_name(c) => {
                    let at = self.place;
                    let name = self.name()?;
                    let index = self.index_of(&name, at);
                    self.node(Kind::Rule(index))?
                }
                _ => break,
            };
            let node = self.repeated(node, lines)?;
            nodes.push(node);
            self.space(lines);
        }
        let only = if nodes.len() == 1 { nodes.pop() } else { None };
        only.map_or_else(|| self.node(Kind::Sequence(nodes)), Ok)
    }

    fn group(&mut self) -> Result<Node, GrammarError> {
        if self.depth == self.limits.depth {
            let (line, column) = self.line_column(self.place);
            let place = format!("line {line}, column {column}");
            return Err(GrammarError::TooDeep { place, max: self.limits.depth });
        }
        self.depth += 1;
        self.place += 1;
        self.space(Lines::Cross);
        let node = self.choice(Lines::Cross)?;
        self.expect(')', "a closing parenthesis is expected")?;
        self.depth -= 1;
        Ok(node)
    }

    /// The node with the repetitions that follow it.
    fn repeated(&mut self, mut node: Node, lines: Lines) -> Result<Node, GrammarError> {
        for _ in 0..=REPEATS_MAX {
            self.space(lines);
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.counts()?,
                _ => return Ok(node),
            };
            self.place += 1;
            node = self.node(Kind::Repeat(Box::new(node), min, max))?;
        }
        Err(self.error(format!("more than {REPEATS_MAX} repetitions of one element in a row")))
    }

    /// `{m}`, `{m,}` or `{m,n}` up to the closing brace.
    fn counts(&mut self) -> Result<(u32, Option<u32>), GrammarError> {
        let at = self.place;
        self.place += 1;
        self.space(Lines::Stay);
        let min = self.count()?;
        self.space(Lines::Stay);
        let mut max = min;
        if self.peek() == Some(',') {
            self.place += 1;
            self.space(Lines::Stay);
            max = self.count()?;
            self.space(Lines::Stay);
        } else if min.is_none() {
            return Err(self.error("a number is expected".to_owned()));
        }
        if self.peek() != Some('}') {
            return Err(self.error("a closing brace is expected".to_owned()));
        }
        let min = min.unwrap_or(0);
        if max.is_some_and(|max| max < min) {
            return Err(self.error_at(at, "the repetition ends below its beginning".to_owned()));
        }
        Ok((min, max))
    }

    fn count(&mut self) -> Result<Option<u32>, GrammarError> {
        let at = self.place;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.place += 1;
        }
        let digits: String = self.chars[at..self.place].iter().collect();
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse() {
            Ok(count) if count <= REPEAT_MAX => Ok(Some(count)),
            _ => Err(self.error_at(at, format!("more than {REPEAT_MAX} repetitions"))),
        }
    }

    fn literal(&mut self) -> Result<Node, GrammarError> {
        self.place += 1;
        let mut nodes = Vec::new();
        while self.peek() != Some('"') {
            let c = self.char("a closing quote is expected")?;
            nodes.push(self.node(Kind::Chars(Chars::one(c)))?);
        }
        self.place += 1;
        let only = if nodes.len() == 1 { nodes.pop() } else { None };
        only.map_or_else(|| self.node(Kind::Sequence(nodes)), Ok)
    }

    fn class(&mut self) -> Result<Node, GrammarError> {
        let at = self.place;
        self.place += 1;
        let is_negated = self.peek() == Some('^');
        self.place += usize::from(is_negated);
        let mut ranges = Vec::new();
        while self.peek() != Some(']') {
            let first = self.char("a closing bracket is expected")?;
            let mut last = first;
            if self.peek() == Some('-') && self.chars.get(self.place + 1) != Some(&']') {
                self.place += 1;
                last = self.char("a closing bracket is expected")?;
            }
            if last < first {
                return Err(self.error("the range ends below its beginning".to_owned()));
            }
            ranges.push((u32::from(first), u32::from(last)));
        }
        self.place += 1;
        let chars = Chars::of(ranges);
        let chars = if is_negated { chars.negated() } else { chars };
        if chars.is_empty() {
            return Err(self.error_at(at, "the class has no character".to_owned()));
        }
        self.node(Kind::Chars(chars))
    }

    /// A character of a literal or a class, which may be written as an escape.
    fn char(&mut self, missing: &str) -> Result<char, GrammarError> {
        let at = self.place;
        let c = self.peek().ok_or_else(|| self.error(missing.to_owned()))?;
        self.place += 1;
        if c != '\\' {
            return Ok(c);
        }
        let escape = self.peek();
        self.place += 1;
        match escape {
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-')) => Ok(c),
            Some('x') => self.hex(at, 2),
            Some('u') => self.hex(at, 4),
            Some('U') => self.hex(at, 8),
            _ => Err(self.error_at(at, "unknown escape".to_owned())),
        }
    }

    fn hex(&mut self, at: usize, n_digits: usize) -> Result<char, GrammarError> {
        let digits = self.chars.get(self.place..self.place + n_digits);
        let digits: String = digits.into_iter().flatten().collect();
        self.place += n_digits;
        let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
        code.and_then(char::from_u32).ok_or_else(|| {
            self.error_at(at, format!("{n_digits} hex digits of a character are expected"))
        })
    }

    fn name(&mut self) -> Result<String, GrammarError> {
        let at = self.place;
        while self.peek().is_some_and(is_name) {
            self.place += 1;
        }
        if at == self.place {
            return Err(self.error("the name of a rule is expected".to_owned()));
        }
        Ok(self.chars[at..self.place].iter().collect())
    }

    /// The index of a rule, whose name stands at `at`.
    fn index_of(&mut self, name: &str, at: usize) -> usize {
        let next = self.names.len();
        self.names.entry(name.to_owned()).or_insert((next, at)).0
    }

    fn node(&mut self, kind: Kind) -> Result<Node, GrammarError> {
        let (id, max) = (self.n_nodes, self.limits.parts);
        if id == max {
            return Err(GrammarError::TooLarge { what: "elements", got: id + 1, max });
        }
        self.n_nodes += 1;
        Ok(Node { id, kind })
    }

    /// Passes over white space and comments.
    fn space(&mut self, lines: Lines) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.place += 1,
                Some('\r' | '\n') if lines == Lines::Cross => self.place += 1,
                Some('#') => {
                    while !matches!(self.peek(), None | Some('\r' | '\n')) {
                        self.place += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.place).copied()
    }

    fn expect(&mut self, c: char, missing: &str) -> Result<(), GrammarError> {
        if self.peek() != Some(c) {
            return Err(self.error(missing.to_owned()));
        }
        self.place += 1;
        Ok(())
    }

    fn error(&self, what: String) -> GrammarError {
        self.error_at(self.place, what)
    }

    fn error_at(&self, place: usize, what: String) -> GrammarError {
        let (line, column) = self.line_column(place);
        GrammarError::Gbnf { line, column, what }
    }

    fn line_column(&self, place: usize) -> (usize, usize) {
        let before = &self.chars[..place.min(self.chars.len())];
        let line = 1 + before.iter().filter(|c| **c == '\n').count();
        let column = 1 + before.iter().rev().take_while(|c| **c != '\n').count();
        (line, column)
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}
