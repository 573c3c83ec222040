//! Which lexemes of a cut grammar can begin rules and come after each other (the sets FIRST and FOLLOW).

use std::collections::BTreeMap;

use super::lexemes::{Cut, Part};
use super::work::Work;

/// Work of looking at a part once, beside that of its sets.
const PART_WORK: usize = 10;

/// A set of lexemes by index.
#[derive(Debug, Clone)]
pub(super) struct Lexemes(Vec<u64>);

impl Lexemes {
    fn none(n_lexemes: usize) -> Self {
        Self(vec![0; n_lexemes.div_ceil(64)])
    }

    fn insert(&mut self, lexeme: usize) {
        self.0[lexeme / 64] |= 1 << (lexeme % 64);
    }

    /// Adds those of `other`; whether any is new.
    fn extend(&mut self, other: &Self) -> bool {
        let mut is_changed = false;
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            is_changed |= more & !*word != 0;
            *word |= more;
        }
        is_changed
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 64).filter(|lexeme| self.0[lexeme / 64] >> (lexeme % 64) & 1 == 1)
    }

    /// All pairs of one of these and one of `other`.
    pub(super) fn pairs_with<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.iter().flat_map(|a| other.iter().map(move |b| (a, b)))
    }
}

/// What a rule can begin with.
struct First {
    lexemes: Lexemes,
    /// Whether it can be nothing.
    is_nothing: bool,
}

/// The sets of a grammar.
pub(super) struct Follows {
    n_lexemes: usize,
    nullable: Vec<bool>,
    rules: BTreeMap<usize, First>,
    after_rules: BTreeMap<usize, Lexemes>,
    after: Vec<Lexemes>,
    is_changed: bool,
}

impl Follows {
    /// Of a grammar whose lexeme `l` can be nothing where `nullable[l]`; `None` where it takes more work than is left.
    pub(super) fn new(cut: &Cut<'_>, nullable: Vec<bool>, work: &mut Work) -> Option<Follows> {
        let n_lexemes = nullable.len();
        let none = || Lexemes::none(n_lexemes);
        let first = || First { lexemes: none(), is_nothing: false };
        let mut follows = Follows {
            n_lexemes,
            nullable,
            rules: cut.rules.keys().map(|index| (*index, first())).collect(),
            after_rules: cut.rules.keys().map(|index| (*index, none())).collect(),
            after: vec![none(); n_lexemes],
            is_changed: true,
        };
        while std::mem::take(&mut follows.is_changed) {
            for (index, part) in &cut.rules {
                follows.note_first(*index, part, work)?;
            }
        }
        follows.is_changed = true;
        while std::mem::take(&mut follows.is_changed) {
            for (index, part) in &cut.rules {
                let after = follows.after_rules[index].clone();
                follows.note_after(part, &after, work)?;
            }
        }
        Some(follows)
    }

    /// Lexemes that can come after a lexeme.
    pub(super) fn after(&self, lexeme: usize) -> &Lexemes {
        &self.after[lexeme]
    }

    /// Lexemes that rule `index` can begin with.
    pub(super) fn first_of_rule(&self, index: usize) -> &Lexemes {
        &self.rules[&index].lexemes
    }

    fn note_first(&mut self, index: usize, part: &Part, work: &mut Work) -> Option<()> {
        let new = self.first(part, work)?;
        if let Some(first) = self.rules.get_mut(&index) {
            self.is_changed |= first.lexemes.extend(&new.lexemes);
            self.is_changed |= new.is_nothing && !first.is_nothing;
            first.is_nothing |= new.is_nothing;
        }
        Some(())
    }

    fn first(&self, part: &Part, work: &mut Work) -> Option<First> {
        work.spend(PART_WORK + self.n_lexemes.div_ceil(64))?;
        let mut all = First { lexemes: Lexemes::none(self.n_lexemes), is_nothing: false };
        match part {
            Part::Lexeme(lexeme) => {
                all.lexemes.insert(*lexeme);
                all.is_nothing = self.nullable[*lexeme];
            }
            Part::Rule(index) => {
                let first = &self.rules[index];
                all.lexemes.extend(&first.lexemes);
                all.is_nothing = first.is_nothing;
            }
            Part::Sequence(parts) => {
                all.is_nothing = true;
                for part in parts {
                    let first = self.first(part, work)?;
                    all.lexemes.extend(&first.lexemes);
                    all.is_nothing &= first.is_nothing;
                    if !first.is_nothing {
                        break;
                    }
                }
            }
            Part::Choice(parts) => {
                for part in parts {
                    let first = self.first(part, work)?;
                    all.lexemes.extend(&first.lexemes);
                    all.is_nothing |= first.is_nothing;
                }
            }
            Part::Repeat(part, min, _) => {
                all = self.first(part, work)?;
                all.is_nothing |= *min == 0;
            }
        }
        Some(all)
    }

    /// Notes for everything in `part` what can come after it, where `after` comes after the whole.
    fn note_after(&mut self, part: &Part, after: &Lexemes, work: &mut Work) -> Option<()> {
        work.spend(PART_WORK + self.n_lexemes.div_ceil(64))?;
        match part {
            Part::Lexeme(lexeme) => self.is_changed |= self.after[*lexeme].extend(after),
            Part::Rule(index) => {
                if let Some(known) = self.after_rules.get_mut(index) {
                    self.is_changed |= known.extend(after);
                }
            }
            Part::Sequence(parts) => {
                let mut after = after.clone();
                for part in parts.iter().rev() {
                    self.note_after(part, &after, work)?;
                    let mut first = self.first(part, work)?;
                    if first.is_nothing {
                        first.lexemes.extend(&after);
                    }
                    after = first.lexemes;
                }
            }
            Part::Choice(parts) => {
                for part in parts {
                    self.note_after(part, after, work)?;
                }
            }
            Part::Repeat(part, ..) => {
                let mut after = after.clone();
                after.extend(&self.first(part, work)?.lexemes);
                self.note_after(part, &after, work)?;
            }
        }
        Some(())
    }
}
