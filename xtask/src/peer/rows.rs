//! What is compared: the rows of the table, the floors that frank has to reach, and how a row reads. Never runs anything
//! but through `in_process` and `serving`.

use std::path::Path;

use anyhow::{Context as _, Result};
use frank_testkit::assets::{GEMMA3, REAL_MODELS, RealModel, SMOLLM2};

use super::bound::Bound;
use super::engines::Engine;
use super::in_process::{self, Rates, Test};
use super::serving;
use crate::statistics::Spread;

/// A number that is compared.
pub(super) struct Row {
    /// With its unit.
    name: &'static str,
    floor: Option<Floor>,
    /// Tokens that are made while all weights are read once, where that bounds the row.
    tokens_per_pass: Option<f64>,
}

/// What frank has to reach beside llama.cpp.
struct Floor {
    /// Frank's median divided by llama.cpp's.
    ratio: f64,
    better: Better,
    models: &'static [RealModel],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

/// Tokens of the prompt that is read in process.
pub(super) const N_PROMPT: u64 = 512;
/// Tokens that are decoded in process.
pub(super) const N_DECODE: u64 = 128;
pub(super) const N_ROWS: usize = 6;
/// The row that `frank fit` predicts the speed of a prompt for.
pub(super) const PROMPT: usize = 0;
/// The row that `frank fit` predicts the speed of decoding for.
pub(super) const DECODE: usize = 1;

/// In the order in which [`measure`] gives values.
pub(super) const ROWS: [Row; N_ROWS] = [
    Row {
        name: "in process: prompt of 512, tok/s",
        floor: Some(Floor { ratio: 0.5, better: Better::More, models: REAL_MODELS }),
        tokens_per_pass: None,
    },
    Row {
        name: "in process: decode of 128, tok/s",
        floor: Some(Floor { ratio: 0.9, better: Better::More, models: &[SMOLLM2, GEMMA3] }),
        tokens_per_pass: Some(1.0),
    },
    Row {
        name: "server: load to ready (less is better), ms",
        floor: Some(Floor { ratio: 1.2, better: Better::Less, models: REAL_MODELS }),
        tokens_per_pass: None,
    },
    Row { name: "server: decode of 1 stream, tok/s", floor: None, tokens_per_pass: Some(1.0) },
    Row {
        name: "server: prompt and decode of 4 streams together, tok/s",
        floor: Some(Floor { ratio: 1.3, better: Better::More, models: REAL_MODELS }),
        tokens_per_pass: Some(serving::PARALLEL as f64),
    },
    Row {
        name: "server: first token of a prompt of 512 (less is better), ms",
        floor: None,
        tokens_per_pass: None,
    },
];

/// A row as it is printed.
pub(super) struct Line {
    pub(super) text: String,
    pub(super) missed: bool,
}

/// The values of all rows in one run of an engine. `seed` decides the prompts.
pub(super) fn measure(engine: &Engine, model: &Path, seed: u64) -> Result<[f64; N_ROWS]> {
    let test = Test { n_prompt: N_PROMPT, n_decode: N_DECODE, repetitions: 1 };
    let Rates { prompt, decode } =
        in_process::run(engine, in_process::command(engine, model, test), test)?;
    let (prompt, decode) = prompt.zip(decode).context("both were measured")?;
    let [load, one, four, first] =
        serving::measure(engine, model, seed).with_context(|| engine.name())?;
    let values = [prompt, decode, load, one, four, first];
    println!("  {}: {values:.1?}", engine.name());
    Ok(values)
}

impl Row {
    /// The row with both spreads, their ratio, the bound and the floor.
    pub(super) fn line(
        &self,
        model: &RealModel,
        bound: &Bound,
        frank: Spread,
        llama_cpp: Spread,
    ) -> Line {
        let ratio = frank.median / llama_cpp.median;
        let mut text =
            format!("{}: frank {frank}, llama.cpp {llama_cpp}, ratio {ratio:.2}", self.name);
        if let Some(bound) =
            self.tokens_per_pass.and_then(|n_tokens| bound.tokens_per_second(n_tokens))
        {
            let [frank, llama_cpp] = [frank, llama_cpp].map(|spread| 100.0 * spread.median / bound);
            text += &format!(", bound {bound:.0} ({frank:.0} % and {llama_cpp:.0} % of it)");
        }
        let floor = self.floor.as_ref().filter(|floor| floor.is_for(model));
        let missed = floor.is_some_and(|floor| !floor.is_reached(ratio));
        if let Some(floor) = floor {
            let (limit, verdict) = (floor.limit(), if missed { "MISSED" } else { "reached" });
            text += &format!(", {limit} {verdict}");
        }
        Line { text, missed }
    }
}

impl Floor {
    fn is_for(&self, model: &RealModel) -> bool {
        self.models.iter().any(|one| one.file == model.file)
    }

    fn is_reached(&self, ratio: f64) -> bool {
        match self.better {
            Better::More => ratio >= self.ratio,
            Better::Less => ratio <= self.ratio,
        }
    }

    fn limit(&self) -> String {
        let sign = if self.better == Better::More { ">=" } else { "<=" };
        format!("floor {sign} {}", self.ratio)
    }
}

#[cfg(test)]
mod tests {
    use frank_testkit::assets::QWEN2;

    use super::*;

    fn check(row: usize, model: &RealModel, frank: f64, llama_cpp: f64, missed: bool) {
        let line = ROWS[row].line(
            model,
            &Bound::unknown(),
            Spread::of(&[frank]),
            Spread::of(&[llama_cpp]),
        );
        assert_eq!(line.missed, missed, "{}", line.text);
    }

    #[test]
    fn a_floor_is_reached_from_the_side_that_is_better() {
        check(DECODE, &SMOLLM2, 90.0, 100.0, false);
        check(DECODE, &SMOLLM2, 89.0, 100.0, true);
        check(PROMPT, &QWEN2, 49.0, 100.0, true);
        let load = ROWS.iter().position(|row| row.name.contains("load")).unwrap();
        check(load, &GEMMA3, 119.0, 100.0, false);
        check(load, &GEMMA3, 121.0, 100.0, true);
    }

    #[test]
    fn decode_has_a_floor_for_two_models_only() {
        check(DECODE, &GEMMA3, 1.0, 100.0, true);
        check(DECODE, &QWEN2, 1.0, 100.0, false);
    }

    #[test]
    fn a_line_has_spreads_ratio_bound_and_floor() {
        let bound = Bound { weight_bytes: 1e8, bandwidth: Some(2e10), ..Bound::unknown() };
        let (frank, llama_cpp) = (Spread::of(&[70.0, 50.0, 60.0]), Spread::of(&[100.0]));
        let line = ROWS[DECODE].line(&SMOLLM2, &bound, frank, llama_cpp);
        assert_eq!(
            line.text,
            "in process: decode of 128, tok/s: frank 60.0 (50.0 to 70.0), llama.cpp 100.0 (100.0 to 100.0), \
             ratio 0.60, bound 200 (30 % and 50 % of it), floor >= 0.9 MISSED"
        );
    }
}
