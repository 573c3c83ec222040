//! What became of all schemas: shares by set, reasons of refusals, and every answer that does not validate.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::corpus::Schema;
use super::{Outcome, reasons};

/// Reasons that are shown.
const REASONS_MAX: usize = 60;
/// Compilations that are shown.
const SLOWEST_MAX: usize = 5;
/// Answers that do not validate and are shown.
const INVALID_MAX: usize = 60;
/// Characters that are shown of an answer.
const ANSWER_MAX: usize = 300;

#[derive(Debug, Default)]
struct Counts {
    n: usize,
    n_accepted: usize,
    n_answers: usize,
    n_unfinished: usize,
}

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    sets: BTreeMap<String, Counts>,
    /// How often each reason was given, and one schema with it.
    reasons: BTreeMap<String, (usize, String)>,
    unverified: BTreeMap<String, usize>,
    invalid: Vec<String>,
    /// The schemas that took longest.
    slowest: Vec<(Duration, String)>,
}

impl Tally {
    pub(crate) fn add(&mut self, schema: &Schema, outcome: Outcome, time: Duration) {
        let name = format!("{}/{}", schema.set, schema.name);
        let counts = self.sets.entry(schema.set.clone()).or_default();
        counts.n += 1;
        self.slowest.push((time, name.clone()));
        self.slowest.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        self.slowest.truncate(SLOWEST_MAX);
        match outcome {
            Outcome::Accepted { n_answers, n_unfinished } => {
                counts.n_accepted += 1;
                counts.n_answers += n_answers;
                counts.n_unfinished += n_unfinished;
            }
            Outcome::Refused(error) => {
                let reason = self.reasons.entry(reasons::kind(&error)).or_default();
                reason.0 += 1;
                reason.1 = format!("{name}: {error}");
            }
            Outcome::Invalid { answer, reason } => {
                counts.n_accepted += 1;
                let answer: String = answer.chars().take(ANSWER_MAX).collect();
                let reason: String = reason.chars().take(ANSWER_MAX).collect();
                self.invalid.push(format!("{name}: {reason}\n    {answer}"));
            }
            Outcome::Unverified(reason) => {
                counts.n_accepted += 1;
                *self.unverified.entry(reason.chars().take(80).collect()).or_default() += 1;
            }
        }
    }

    /// Answers that do not validate.
    pub(crate) fn n_invalid(&self) -> usize {
        self.invalid.len()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<18} {:>7} {:>9} {:>7} {:>8} {:>10}",
            "set", "schemas", "accepted", "share", "answers", "unfinished"
        )?;
        let mut all = Counts::default();
        for (name, counts) in &self.sets {
            write_row(f, name, counts)?;
            all.n += counts.n;
            all.n_accepted += counts.n_accepted;
            all.n_answers += counts.n_answers;
            all.n_unfinished += counts.n_unfinished;
        }
        write_row(f, "all", &all)?;
        writeln!(f, "\nrefused because of")?;
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, (n, _))| std::cmp::Reverse(*n));
        for (reason, (n, example)) in reasons.into_iter().take(REASONS_MAX) {
            let example: String = example.chars().take(160).collect();
            writeln!(f, "{n:>6} {reason}\n         {example}")?;
        }
        let n_unverified: usize = self.unverified.values().sum();
        writeln!(f, "\n{n_unverified} accepted and no schema for the validator")?;
        for (reason, n) in &self.unverified {
            writeln!(f, "{n:>6} {reason}")?;
        }
        writeln!(f, "\nlongest compilations")?;
        for (time, name) in &self.slowest {
            writeln!(f, "{:>6.2} s {name}", time.as_secs_f64())?;
        }
        writeln!(f, "{} accepted with an answer that does not validate", self.invalid.len())?;
        for invalid in self.invalid.iter().take(INVALID_MAX) {
            writeln!(f, "  {invalid}")?;
        }
        Ok(())
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, name: &str, counts: &Counts) -> fmt::Result {
    let share = 100.0 * counts.n_accepted as f64 / counts.n.max(1) as f64;
    let Counts { n, n_accepted, n_answers, n_unfinished } = counts;
    writeln!(f, "{name:<18} {n:>7} {n_accepted:>9} {share:>6.1}% {n_answers:>8} {n_unfinished:>10}")
}
