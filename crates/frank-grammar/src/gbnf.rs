//! GBNF, llama.cpp's notation for grammars, translated into what llguidance reads.

mod automaton;
mod chars;
mod follows;
mod lark;
mod lexemes;
mod parse;
mod syntax;
mod work;

use crate::error::GrammarError;
use crate::limits::Limits;

/// The grammar as Lark text that accepts the same texts.
///
/// # Errors
/// [`GrammarError`] with line and column of a mistake, or the limit that was exceeded.
pub(crate) fn to_lark(text: &str, limits: &Limits) -> Result<String, GrammarError> {
    let rules = parse::parse(text, limits)?;
    lark::write(&lexemes::cut(&rules), &rules)
}

#[cfg(test)]
mod tests;
