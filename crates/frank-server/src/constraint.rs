//! Keeps an answer to its form: what a client asks for becomes a grammar, and the grammar guides the engine. Never
//! looks at a token's text.

use frank_api::AnswerFormat;
use frank_engine::{Constraint, ConstraintError};
use frank_grammar::{Grammar, GrammarError, Limits, MatchError, Matcher, Vocabulary};

/// What keeps one answer to the form `format`; each answer needs a clone of its own. To be called where waiting delays
/// nobody else: it takes up to some 100 milliseconds.
///
/// # Errors
/// What of the form cannot be kept.
pub fn constraint(
    format: &AnswerFormat,
    vocabulary: &Vocabulary,
) -> Result<impl Constraint + Clone + use<>, GrammarError> {
    let grammar = match format {
        AnswerFormat::JsonObject => Grammar::json_object(),
        AnswerFormat::JsonSchema(schema) => Grammar::json_schema(schema),
        AnswerFormat::Gbnf(text) => Grammar::gbnf(text),
    };
    Ok(Guide(grammar.compile(vocabulary, &Limits::default())?))
}

/// A matcher in the engine's terms.
#[derive(Debug, Clone)]
pub(crate) struct Guide(pub(crate) Matcher);

impl Constraint for Guide {
    fn allowed(&mut self, mask: &mut [u32]) -> Result<(), ConstraintError> {
        self.0.allowed(mask).map_err(|error| lost(&error))
    }

    fn accept(&mut self, token_id: u32) -> Result<(), ConstraintError> {
        self.0.accept(token_id).map_err(|error| lost(&error))
    }
}

fn lost(error: &MatchError) -> ConstraintError {
    ConstraintError(error.to_string())
}
