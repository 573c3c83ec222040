//! What frank has to reach with a mixture of experts beside llama.cpp and beside the drive, and whether it does. Never
//! measures.

use std::collections::BTreeMap;

use crate::statistics::Spread;

/// Decode with the cap at half of the file, beside llama.cpp's map at this machine's read-ahead.
const HALF_DECODE_BESIDE_MACHINE: f64 = 15.0;
/// The same beside its best read-ahead.
const HALF_DECODE_BESIDE_BEST: f64 = 5.0;
/// The same as a share of what the drive gives for the bytes that are missed.
const HALF_DECODE_OF_DRIVE: f64 = 0.55;
/// A prompt with the cap at half of the file.
const HALF_PROMPT: f64 = 2.0;
/// Decode with the cap at a quarter of the file, beside llama.cpp's map at this machine's read-ahead.
const QUARTER_DECODE: f64 = 15.0;
/// Decode with everything in memory, beside llama.cpp's best.
const MEMORY_DECODE: f64 = 1.0;
/// A prompt with everything in memory, beside llama.cpp's best.
const MEMORY_PROMPT: f64 = 0.5;
/// Bytes of experts that a token misses at half of the file when all experts are wanted alike and as many are kept as fit.
pub(super) const HALF_MISSED_BYTES: f64 = 268e6;
/// The same at a quarter of the file.
pub(super) const QUARTER_MISSED_BYTES: f64 = 402e6;

/// Tokens a second by what was measured.
#[derive(Debug, Default)]
pub(super) struct Rates(BTreeMap<What, Spread>);

/// A number that floors are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// Bytes a second of the drive, not tokens.
    Drive,
    Frank(Held, Work),
    /// At this machine's read-ahead.
    Machine(Held, Work),
    /// At any read-ahead, this machine's among them; the best counts.
    Best(Held, Work),
}

/// How much of the model memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Held {
    All,
    Half,
    Quarter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Prompt,
    Decode,
}

/// A floor with its verdict, as it is printed.
pub(super) struct Verdict {
    pub(super) text: String,
    pub(super) missed: bool,
}

impl Rates {
    /// Notes what was measured. Of several the best median stays.
    pub(super) fn note(&mut self, what: What, rates: Spread) {
        let kept = self.0.entry(what).or_insert(rates);
        if rates.median > kept.median {
            *kept = rates;
        }
    }

    fn median(&self, what: What) -> Option<f64> {
        self.0.get(&what).map(|spread| spread.median)
    }

    /// Every floor of which all that it compares was measured.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        use Held::{All, Half, Quarter};
        use What::{Best, Frank, Machine};
        use Work::{Decode, Prompt};
        let ratios = [
            (
                "cap 50 %, decode beside this read-ahead",
                Half,
                Decode,
                Machine(Half, Decode),
                HALF_DECODE_BESIDE_MACHINE,
            ),
            (
                "cap 50 %, decode beside the best read-ahead",
                Half,
                Decode,
                Best(Half, Decode),
                HALF_DECODE_BESIDE_BEST,
            ),
            ("cap 50 %, prompt", Half, Prompt, Machine(Half, Prompt), HALF_PROMPT),
            (
                "cap 25 %, decode beside this read-ahead",
                Quarter,
                Decode,
                Machine(Quarter, Decode),
                QUARTER_DECODE,
            ),
            (
                "all in memory, decode beside the best",
                All,
                Decode,
                Best(All, Decode),
                MEMORY_DECODE,
            ),
            (
                "all in memory, prompt beside the best",
                All,
                Prompt,
                Best(All, Prompt),
                MEMORY_PROMPT,
            ),
        ];
        let mut verdicts: Vec<Verdict> = ratios
            .into_iter()
            .filter_map(|(name, held, work, other, floor)| {
                let ratio = self.median(Frank(held, work))? / self.median(other)?;
                Some(Verdict::of(name, ratio, floor))
            })
            .collect();
        verdicts.extend(self.of_drive(Half, HALF_MISSED_BYTES).map(|share| {
            Verdict::of("cap 50 %, decode of drive / bytes missed", share, HALF_DECODE_OF_DRIVE)
        }));
        verdicts
    }

    /// Decode as a share of what the drive would give if nothing but the bytes that are missed took time.
    pub(super) fn of_drive(&self, held: Held, missed_bytes: f64) -> Option<f64> {
        let bound = self.median(What::Drive)? / missed_bytes;
        Some(self.median(What::Frank(held, Work::Decode))? / bound)
    }
}

impl Verdict {
    fn of(name: &str, value: f64, floor: f64) -> Self {
        let missed = value < floor;
        let verdict = if missed { "MISSED" } else { "reached" };
        Self { text: format!("{name}: {value:.2}, floor >= {floor} {verdict}"), missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(all: &[(What, f64)]) -> Rates {
        let mut rates = Rates::default();
        all.iter().for_each(|&(what, rate)| rates.note(what, Spread::of(&[rate])));
        rates
    }

    fn texts(rates: &Rates) -> Vec<String> {
        rates.verdicts().into_iter().map(|verdict| verdict.text).collect()
    }

    #[test]
    fn a_floor_is_judged_only_where_both_sides_were_measured() {
        use {Held::Half, What::Frank, What::Machine, Work::Decode};
        assert!(texts(&rates(&[(Frank(Half, Decode), 8.0)])).is_empty());
        let both = rates(&[(Frank(Half, Decode), 8.0), (Machine(Half, Decode), 0.5)]);
        let expected = "cap 50 %, decode beside this read-ahead: 16.00, floor >= 15 reached";
        assert_eq!(texts(&both), [expected]);
        assert!(
            rates(&[(Frank(Half, Decode), 7.0), (Machine(Half, Decode), 0.5)]).verdicts()[0].missed
        );
    }

    #[test]
    fn the_best_of_several_counts() {
        use {Held::All, What::Best, What::Frank, Work::Prompt};
        let rates = rates(&[
            (Best(All, Prompt), 50.0),
            (Best(All, Prompt), 30.0),
            (Frank(All, Prompt), 25.0),
        ]);
        assert_eq!(
            texts(&rates),
            ["all in memory, prompt beside the best: 0.50, floor >= 0.5 reached"]
        );
    }

    #[test]
    fn the_drive_bounds_what_is_missed() {
        use {Held::Half, What::Drive, What::Frank, Work::Decode};
        let rates = rates(&[(Drive, 2.68e9), (Frank(Half, Decode), 5.0)]);
        assert_eq!(
            texts(&rates),
            ["cap 50 %, decode of drive / bytes missed: 0.50, floor >= 0.55 MISSED"]
        );
    }
}
