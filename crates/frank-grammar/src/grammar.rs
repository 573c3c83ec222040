//! What an answer must look like, and its compilation into a matcher within limits.

use std::panic::AssertUnwindSafe;
use std::thread;

use frank_chat::Pattern;
use llguidance::api::{GrammarInit, TopLevelGrammar};
use llguidance::toktrie::InferenceCapabilities;
use llguidance::{Logger, panic_utils};
use serde_json::{Value, json};

use crate::error::GrammarError;
use crate::limits::Limits;
use crate::matcher::{Matcher, one_line};
use crate::vocabulary::Vocabulary;
use crate::{gbnf, pattern, schema};

/// Stack of the thread that compiles. Its depth is bounded by the number of parts, of which 5,000 in a chain of
/// references were measured to take 30 MiB. Only what is touched becomes memory.
const STACK_BYTES: usize = 128 << 20;

/// What an answer must look like.
#[derive(Debug, Clone, PartialEq)]
pub struct Grammar {
    source: Source,
}

#[derive(Debug, Clone, PartialEq)]
enum Source {
    Schema(Value),
    Gbnf(String),
    Regex(String),
    Pattern(Pattern),
}

impl Grammar {
    /// Any JSON object.
    #[must_use]
    pub fn json_object() -> Self {
        Self { source: Source::Schema(json!({"type": "object"})) }
    }

    /// JSON that a schema (draft 2020-12 and what older drafts have in common with it) accepts. Properties come in the
    /// order of the schema, and white space between two parts is at most a space or the indentation of one line.
    #[must_use]
    pub fn json_schema(schema: &Value) -> Self {
        Self { source: Source::Schema(schema.clone()) }
    }

    /// Texts of a grammar in llama.cpp's notation, from its rule `root`.
    #[must_use]
    pub fn gbnf(text: &str) -> Self {
        Self { source: Source::Gbnf(text.to_owned()) }
    }

    /// Texts that a regular expression matches as a whole, in the syntax of Rust's `regex` without look-around.
    #[must_use]
    pub fn regex(expression: &str) -> Self {
        Self { source: Source::Regex(expression.to_owned()) }
    }

    /// Texts of a pattern. A literal that is a control token of the vocabulary is that token and never its spelling; no
    /// other part of the pattern allows a control token.
    ///
    /// Texts that may be free are read for as long as they may go on: of two ways to read an answer, the one with the
    /// longer text counts.
    #[must_use]
    pub fn pattern(pattern: &Pattern) -> Self {
        Self { source: Source::Pattern(pattern.clone()) }
    }

    /// Makes a matcher for answers of a model with this vocabulary. It takes up to some 100 milliseconds; the first mask
    /// is made too, so that a grammar that cannot begin is refused here.
    ///
    /// # Errors
    /// [`GrammarError`] says what is wrong and where.
    pub fn compile(
        &self,
        vocabulary: &Vocabulary,
        limits: &Limits,
    ) -> Result<Matcher, GrammarError> {
        thread::scope(|scope| {
            let compile = || self.compile_here(vocabulary, limits);
            let thread =
                thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, compile);
            let thread = thread.map_err(|error| GrammarError::Unusable(error.to_string()))?;
            let died = |_| Err(GrammarError::Unusable("its compilation failed".to_owned()));
            thread.join().unwrap_or_else(died)
        })
    }

    fn compile_here(
        &self,
        vocabulary: &Vocabulary,
        limits: &Limits,
    ) -> Result<Matcher, GrammarError> {
        let grammar = self.translated(vocabulary, limits)?;
        let parser = panic_utils::catch_unwind(AssertUnwindSafe(|| {
            vocabulary.factory.create_parser_from_init_ext(
                GrammarInit::Serialized(grammar),
                Logger::new(0, 0),
                InferenceCapabilities::default(),
                limits.parser(),
            )
        }));
        let parser = parser.map_err(|error| GrammarError::Unusable(explained(&error)))?;
        let mut inner = llguidance::Matcher::new(Ok(parser));
        if let Some(warning) = inner.grammar_warnings().first() {
            return Err(GrammarError::Unusable(one_line(warning)));
        }
        let mut matcher = Matcher { inner };
        let mut mask = vec![0; vocabulary.n_vocab().div_ceil(32)];
        matcher.allowed(&mut mask).map_err(|error| GrammarError::Unusable(error.to_string()))?;
        Ok(matcher)
    }

    /// The grammar in llguidance's own terms.
    fn translated(
        &self,
        vocabulary: &Vocabulary,
        limits: &Limits,
    ) -> Result<TopLevelGrammar, GrammarError> {
        let got = match &self.source {
            Source::Schema(schema) => schema.to_string().len(),
            Source::Gbnf(text) | Source::Regex(text) => text.len(),
            Source::Pattern(pattern) => pattern::source_bytes(pattern),
        };
        if got > limits.source_bytes {
            return Err(GrammarError::TooLarge { what: "bytes", got, max: limits.source_bytes });
        }
        Ok(match &self.source {
            Source::Schema(schema) => TopLevelGrammar::from_json_schema(schema::checked(
                schema,
                limits,
                schema::WHITE_SPACE,
            )?),
            Source::Gbnf(text) => TopLevelGrammar::from_lark(gbnf::to_lark(text, limits)?),
            Source::Regex(expression) => TopLevelGrammar::from_regex(expression),
            Source::Pattern(pattern) => {
                TopLevelGrammar::from_lark(pattern::to_lark(pattern, vocabulary, limits)?)
            }
        })
    }
}

/// Reasons of the compiler that say nothing to whoever wrote the grammar, with what they mean.
const MEANINGS: &[(&str, &str)] = &[
    (
        "oneOf constraints are not supported",
        "the alternatives of a oneOf cannot be told apart by their types, constants or required properties; anyOf would do",
    ),
    (
        "min/maxProperties only supported",
        "minProperties or maxProperties stand beside properties that are not required",
    ),
    (
        "initial lexer configuration (grammar) too big",
        "it takes too much work to compile; fewer or simpler patterns, lengths and enumerations would do",
    ),
    ("too many states", "it takes too much work to compile; simpler patterns and lengths would do"),
    (
        "grammar size (number of symbols) too big",
        "it is too large when references and bounds of lists are written out; a smaller one would do",
    ),
    (
        "schema too large",
        "it is too large when references and alternatives are written out; a smaller one would do",
    ),
    (
        "circular references with sibling keys",
        "a reference that leads to itself stands beside other keywords; alone it would do",
    ),
];

fn explained(error: &dyn std::fmt::Display) -> String {
    let reason = one_line(error);
    let meaning = MEANINGS.iter().find(|(known, _)| reason.contains(known));
    meaning.map_or(reason.clone(), |(_, meaning)| (*meaning).to_owned())
}
