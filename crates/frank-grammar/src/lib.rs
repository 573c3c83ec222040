//! Masks of the tokens that may come next, from GBNF, JSON schemas, regular expressions and the patterns of chat
//! formats, within bounds on size, depth and work.
//!
//! A grammar is input from a stranger. What it says is kept exactly or refused with the place that cannot be: nothing of
//! it is passed over. Compiling one and each step of following it take a bounded amount of work.

mod error;
mod gbnf;
mod grammar;
mod limits;
mod matcher;
mod pattern;
mod rules;
mod schema;
mod vocabulary;

pub use error::{GrammarError, MatchError};
pub use grammar::Grammar;
pub use limits::Limits;
pub use matcher::Matcher;
pub use vocabulary::Vocabulary;
