//! The last few patterns that answers were kept to, compiled. Compiling the tools of a coding agent takes some hundred
//! milliseconds, and it sends the same ones with every turn.

use std::sync::{Arc, Mutex, PoisonError};

use frank_chat::Pattern;
use frank_grammar::{Grammar, GrammarError, Limits, Vocabulary};

use crate::constraint::Guide;

/// Patterns that are remembered: those of two agents that take turns, and of two forms beside them.
const REMEMBERED: usize = 4;

/// Remembers what was compiled.
#[derive(Debug, Default)]
pub(crate) struct CompiledPatterns {
    /// By the pattern as text, for objects of JSON are equal whatever the order of their properties, and answers are not.
    /// The last used comes last.
    last: Mutex<Vec<(String, Guide)>>,
}

impl CompiledPatterns {
    /// What keeps an answer to `pattern`, compiled for `vocabulary` where it is not remembered.
    ///
    /// # Errors
    /// What of the pattern cannot be kept.
    pub(crate) fn get<'a>(
        &self,
        pattern: &Pattern,
        vocabulary: impl FnOnce() -> Result<&'a Arc<Vocabulary>, GrammarError>,
    ) -> Result<Guide, GrammarError> {
        let key = format!("{pattern:?}");
        if let Some(guide) = self.remembered(&key) {
            return Ok(guide);
        }
        let matcher = Grammar::pattern(pattern).compile(vocabulary()?, &Limits::default())?;
        let guide = Guide(matcher);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == REMEMBERED {
            last.remove(0);
        }
        last.push((key, guide.clone()));
        Ok(guide)
    }

    fn remembered(&self, key: &str) -> Option<Guide> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let place = last.iter().position(|(known, _)| known == key)?;
        let found = last.remove(place);
        let guide = found.1.clone();
        last.push(found);
        Some(guide)
    }
}
