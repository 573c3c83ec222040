//! GBNF, llama.cpp's notation for grammars.

mod parse;

use crate::error::GrammarError;
use crate::limits::Limits;
use crate::rules;

/// The grammar as Lark text that accepts the same texts.
///
/// # Errors
/// [`GrammarError`] with line and column of a mistake, or the limit that was exceeded.
pub(crate) fn to_lark(text: &str, limits: &Limits) -> Result<String, GrammarError> {
    rules::to_lark(&parse::parse(text, limits)?)
}

#[cfg(test)]
mod tests;
