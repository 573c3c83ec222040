//! What frank has to reach with a mixture of experts beside llama.cpp and beside the drive, and whether it does. Never
//! measures.

use std::collections::BTreeMap;
use std::fmt;

use crate::statistics::{Ratio, Spread};
use Beside::{Best, Drive, Machine};
use Held::{All, Half, Quarter};
use Work::{Decode, Prompt};

/// Bytes of experts that a token misses at half of the file when all experts are wanted alike and as many are kept as fit.
const HALF_MISSED_BYTES: f64 = 268e6;
/// The same at a quarter of the file.
const QUARTER_MISSED_BYTES: f64 = 402e6;

const COMPARISONS: [Comparison; 8] = [
    Comparison::of(Half, Decode, Machine).floor(15.0),
    Comparison::of(Half, Decode, Best).floor(5.0),
    Comparison::of(Half, Decode, Drive { missed_bytes: HALF_MISSED_BYTES }).floor(0.55),
    Comparison::of(Half, Prompt, Machine).floor(2.0),
    Comparison::of(Quarter, Decode, Machine).floor(15.0),
    Comparison::of(Quarter, Decode, Drive { missed_bytes: QUARTER_MISSED_BYTES }),
    Comparison::of(All, Decode, Best).floor(1.0),
    Comparison::of(All, Prompt, Best).floor(0.5),
];

/// Frank's rate beside another one.
#[derive(Clone, Copy)]
struct Comparison {
    held: Held,
    work: Work,
    beside: Beside,
    /// What the ratio has to be at least.
    floor: Option<f64>,
}

/// What frank is compared with.
#[derive(Debug, Clone, Copy)]
enum Beside {
    /// llama.cpp's map at this machine's read-ahead.
    Machine,
    /// llama.cpp in whichever way is its best.
    Best,
    /// What the drive would give if nothing but the bytes that are missed took time.
    Drive { missed_bytes: f64 },
}

/// How much of the model memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Held {
    All,
    Half,
    Quarter,
}

/// What a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Prompt,
    Decode,
}

/// Who is measured, and how it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Runner {
    Frank,
    /// llama.cpp's map of the file at this machine's read-ahead.
    Mapped,
    /// The same at another read-ahead.
    ReadAhead {
        kib: u64,
    },
    /// llama.cpp with a copy of the weights in its own layout.
    Copied,
}

/// A number that is measured in every round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// Bytes a second of the drive.
    Drive,
    /// Tokens a second.
    Tokens(Held, Work, Runner),
}

/// What was measured, by rounds.
#[derive(Debug, Default)]
pub(super) struct Measured(BTreeMap<What, Vec<f64>>);

/// A comparison as it is printed.
pub(super) struct Verdict {
    pub(super) text: String,
    /// Whether it is below its floor.
    pub(super) missed: bool,
}

impl Measured {
    /// Notes what the next round gave.
    pub(super) fn note(&mut self, what: What, value: f64) {
        self.0.entry(what).or_default().push(value);
    }

    /// A line for each number.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(what, values)| {
            let (spread, n) = (Spread::of(values), values.len());
            match what {
                What::Drive => format!("drive: {:.0} MB/s, n {n}", spread.scaled(1e-6)),
                What::Tokens(held, work, runner) => {
                    format!("{held}, {work}: {runner} {spread:.2} tok/s, n {n}")
                }
            }
        })
    }

    /// Every comparison of which both sides were measured.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        COMPARISONS.iter().filter_map(|comparison| comparison.verdict(self)).collect()
    }

    fn tokens(&self, held: Held, work: Work, runner: Runner) -> Option<&[f64]> {
        self.0.get(&What::Tokens(held, work, runner)).map(Vec::as_slice)
    }

    /// llama.cpp's rates in the way that has the best median.
    fn best(&self, held: Held, work: Work) -> Option<&[f64]> {
        let of_others = self.0.iter().filter(|(what, _)| match what {
            What::Tokens(h, w, runner) => (*h, *w) == (held, work) && *runner != Runner::Frank,
            What::Drive => false,
        });
        let median = |values: &[f64]| Spread::of(values).median;
        of_others
            .map(|(_, values)| values.as_slice())
            .max_by(|a, b| median(a).total_cmp(&median(b)))
    }
}

impl Comparison {
    const fn of(held: Held, work: Work, beside: Beside) -> Self {
        Self { held, work, beside, floor: None }
    }

    const fn floor(self, floor: f64) -> Self {
        Self { floor: Some(floor), ..self }
    }

    fn verdict(&self, measured: &Measured) -> Option<Verdict> {
        let Self { held, work, beside, floor } = *self;
        let frank = measured.tokens(held, work, Runner::Frank)?;
        let ratio = match beside {
            Machine => Ratio::of(frank, measured.tokens(held, work, Runner::Mapped)?),
            Best => Ratio::of(frank, measured.best(held, work)?),
            Drive { missed_bytes } => {
                let drive = measured.0.get(&What::Drive)?;
                let bound: Vec<f64> = drive.iter().map(|rate| rate / missed_bytes).collect();
                Ratio::of(frank, &bound)
            }
        };
        let missed = floor.is_some_and(|floor| ratio.of_medians < floor);
        let mut text = format!("{held}, {work} beside {beside}: {ratio}");
        if let Some(floor) = floor {
            let verdict = if missed { "MISSED" } else { "reached" };
            text += &format!(", floor >= {floor} {verdict}");
        }
        Some(Verdict { text, missed })
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => write!(out, "llama.cpp at this read-ahead"),
            Self::Best => write!(out, "llama.cpp's best"),
            Self::Drive { missed_bytes } => {
                write!(out, "drive / {:.0} MB missed", missed_bytes * 1e-6)
            }
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::All => "all in memory",
            Self::Half => "cap 50 %",
            Self::Quarter => "cap 25 %",
        })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Prompt => "prompt",
            Self::Decode => "decode",
        })
    }
}

impl fmt::Display for Runner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frank => write!(out, "frank"),
            Self::Mapped => write!(out, "llama.cpp, mapped"),
            Self::ReadAhead { kib } => write!(out, "llama.cpp, mapped, {kib} KiB ahead"),
            Self::Copied => write!(out, "llama.cpp, its own layout"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[(What, &[f64])]) -> Vec<String> {
        let mut measured = Measured::default();
        for (what, values) in all {
            values.iter().for_each(|&value| measured.note(*what, value));
        }
        measured.verdicts().into_iter().map(|verdict| verdict.text).collect()
    }

    #[test]
    fn a_floor_is_judged_only_where_both_sides_were_measured() {
        let frank = What::Tokens(Half, Decode, Runner::Frank);
        assert!(texts(&[(frank, &[8.0])]).is_empty());
        let other = What::Tokens(Quarter, Decode, Runner::Mapped);
        assert!(texts(&[(frank, &[8.0]), (other, &[0.5])]).is_empty());
        let other = What::Tokens(Half, Decode, Runner::Mapped);
        let said = texts(&[(frank, &[8.0, 9.0, 7.0]), (other, &[0.5, 0.5, 0.7])]);
        let beside_this = "cap 50 %, decode beside llama.cpp at this read-ahead: \
            16.00 (10.00 to 18.00 by round), floor >= 15 reached";
        assert_eq!(said.first().map(String::as_str), Some(beside_this));
        let said = texts(&[(frank, &[7.0]), (other, &[0.5])]);
        assert!(
            said[0].ends_with("14.00 (14.00 to 14.00 by round), floor >= 15 MISSED"),
            "{said:?}"
        );
    }

    #[test]
    fn the_best_way_of_the_other_counts() {
        let what = |runner| What::Tokens(All, Prompt, runner);
        let said = texts(&[
            (what(Runner::Mapped), &[30.0]),
            (what(Runner::Copied), &[50.0]),
            (what(Runner::Frank), &[25.0]),
        ]);
        let expected = "all in memory, prompt beside llama.cpp's best: \
            0.50 (0.50 to 0.50 by round), floor >= 0.5 reached";
        assert_eq!(said, [expected]);
    }

    #[test]
    fn the_drive_bounds_what_is_missed() {
        let frank = What::Tokens(Half, Decode, Runner::Frank);
        let said = texts(&[(What::Drive, &[2.68e9]), (frank, &[5.0])]);
        let expected = "cap 50 %, decode beside drive / 268 MB missed: \
            0.50 (0.50 to 0.50 by round), floor >= 0.55 MISSED";
        assert_eq!(said, [expected]);
    }
}
