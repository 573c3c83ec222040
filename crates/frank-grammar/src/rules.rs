//! Grammars of characters, free texts, control tokens and JSON, whatever notation they came in, and their translation
//! into what llguidance reads.

mod automaton;
mod chars;
mod follows;
mod lark;
mod lexemes;
mod syntax;
mod text;
mod work;

use crate::error::GrammarError;

pub(crate) use chars::Chars;
pub(crate) use syntax::{Kind, Node, Rules};
pub(crate) use text::Text;

/// The grammar as Lark text that accepts the same texts.
///
/// # Errors
/// [`GrammarError`] when it is too large when it is written out, or free text in it cannot be told from what follows.
pub(crate) fn to_lark(rules: &Rules) -> Result<String, GrammarError> {
    lark::write(&lexemes::cut(rules)?, rules)
}
