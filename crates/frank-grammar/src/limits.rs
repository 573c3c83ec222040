//! Bounds on what a grammar may cost, in bytes, levels and units of work, never in time: the same grammar is refused or
//! taken on every machine.

use llguidance::api::ParserLimits;

/// Bounds on one grammar and on each step of following it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text, of a schema written without white space.
    pub source_bytes: usize,
    /// Levels of nested groups or schemas.
    pub depth: usize,
    /// Schemas in a schema, or elements in a GBNF text.
    pub parts: usize,
    /// Work of building the lexer, in nodes of regular expressions: some 50,000 take a millisecond.
    pub compile_fuel: u64,
    /// Symbols of the compiled grammar.
    pub symbols: usize,
    /// Work of the lexer for one mask, in nodes of regular expressions: some 14,000 take a millisecond.
    pub step_fuel: u64,
    /// Items of the parser for one mask: some 20,000 take a millisecond.
    pub step_items: usize,
    /// States of the lexer, 1 to 2 KiB each.
    pub lexer_states: usize,
}

impl Default for Limits {
    /// Room for the schemas of real tools, and at most some 20 milliseconds for a mask and 4 MiB for the lexer.
    fn default() -> Self {
        Self {
            source_bytes: 256 << 10,
            depth: 64,
            parts: 5_000,
            compile_fuel: 500_000,
            symbols: 100_000,
            step_fuel: 200_000,
            step_items: 50_000,
            lexer_states: 2_000,
        }
    }
}

impl Limits {
    pub(crate) fn parser(&self) -> ParserLimits {
        ParserLimits {
            max_items_in_row: 2_000,
            initial_lexer_fuel: self.compile_fuel,
            step_lexer_fuel: self.step_fuel,
            step_max_items: self.step_items,
            max_lexer_states: self.lexer_states,
            max_grammar_size: self.symbols,
            precompute_large_lexemes: true,
            verbose_errors: false,
        }
    }
}
