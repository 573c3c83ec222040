//! The large file in which every expert is wanted alike: the drive, frank, and llama.cpp's map of the file at each
//! read-ahead, in turns.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use frank_testkit::assets;
use serde_json::Value;

use super::super::engines::{Engine, THREADS, json};
use super::super::in_process::{Rates, Test};
use super::floors::{Held, Measured, Runner, What, Work};
use super::read_ahead::ReadAhead;
use super::{Row, capped, ensure_room};
use crate::machine;

/// Read-aheads in KiB that are tried beside the machine's own.
const READ_AHEADS_KIB: [u64; 3] = [128, 1024, 8192];
/// Keeps llama.cpp from copying the weights, which a cap does not allow.
const MAPPED: &[&str] = &["--repack", "0"];
const N_PROMPT: u64 = 128;

/// The file, and what changes how it is read.
pub(super) struct Even<'a> {
    frank: &'a Engine,
    model: PathBuf,
    bytes: u64,
    read_ahead: ReadAhead,
}

/// What is measured once in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Drive,
    Tokens(Held, Runner),
}

impl<'a> Even<'a> {
    /// Makes the file where it is not there.
    /// # Errors
    /// There is no room for it, or nobody may change how far its drive reads ahead.
    pub(super) fn open(frank: &'a Engine) -> Result<Self> {
        ensure_room(&assets::large_moe_path(), assets::LARGE_MOE_BYTES)?;
        let model = assets::large_moe();
        let bytes = model.metadata().with_context(|| format!("{}", model.display()))?.len();
        let read_ahead = ReadAhead::of(&model)?;
        println!(
            "\n{}, {:.2} GB, {THREADS} threads each; this machine reads {} KiB ahead",
            model.display(),
            bytes as f64 / 1e9,
            read_ahead.kib
        );
        Ok(Self { frank, model, bytes, read_ahead })
    }

    /// Measures all that these rows want, round by round.
    /// # Errors
    /// A program fails or does not say.
    pub(super) fn take_turns(&self, rows: &[Row], rounds: u64) -> Result<Measured> {
        let mut turns: Vec<Turn> =
            rows.iter().flat_map(|&row| turns(row, self.read_ahead.kib)).collect();
        let mut measured = Measured::default();
        for round in 1..=rounds {
            println!("round {round}, {}", machine::load()?);
            for &turn in &turns {
                self.take(turn, &mut measured).with_context(|| format!("{turn:?}"))?;
            }
            // Whoever comes second finds the machine as the first one left it, so they change places.
            turns.reverse();
        }
        Ok(measured)
    }

    fn take(&self, turn: Turn, measured: &mut Measured) -> Result<()> {
        match turn {
            Turn::Drive => {
                let rate = self.drive()?;
                println!("  drive: {:.0} MB/s", rate * 1e-6);
                measured.note(What::Drive, rate);
            }
            Turn::Tokens(held, runner) => {
                let Rates { prompt, decode } = self.tokens(held, runner)?;
                for (work, rate) in [(Work::Prompt, prompt), (Work::Decode, decode)] {
                    if let Some(rate) = rate {
                        println!("  {held}, {work}: {runner} {rate:.2} tok/s");
                        measured.note(What::Tokens(held, work, runner), rate);
                    }
                }
            }
        }
        Ok(())
    }

    /// Bytes a second of 864 KiB at random places, 16 at once.
    fn drive(&self) -> Result<f64> {
        let Engine::Frank(frank) = self.frank else { bail!("only frank probes") };
        let folder = self.model.parent().context("the model lies in a folder")?;
        let probed = json(Command::new(frank).args(["probe", "--json", "--drive"]).arg(folder))?;
        drive_rate(&probed).with_context(|| format!("no direct rate: {probed}"))
    }

    fn tokens(&self, held: Held, runner: Runner) -> Result<Rates> {
        let cap = match held {
            Held::All => None,
            Held::Half => Some(self.bytes / 2),
            Held::Quarter => Some(self.bytes / 4),
        };
        let own = self.read_ahead.kib;
        let (engine, options, kib) = match runner {
            Runner::Frank => (self.frank, &[][..], own),
            Runner::Mapped => (&Engine::LlamaCpp, MAPPED, own),
            Runner::ReadAhead { kib } => (&Engine::LlamaCpp, MAPPED, kib),
            Runner::Copied => (&Engine::LlamaCpp, &[][..], own),
        };
        self.read_ahead.set(kib)?;
        let rates = capped::measure(engine, &self.model, cap, options, test(held, runner));
        self.read_ahead.set(own)?;
        rates
    }
}

/// What a row wants measured; `own` is this machine's read-ahead.
fn turns(row: Row, own: u64) -> Vec<Turn> {
    let with_frank = |held, others: Vec<Runner>| {
        let runners = std::iter::once(Runner::Frank).chain(others);
        runners.map(|runner| Turn::Tokens(held, runner)).collect()
    };
    match row {
        Row::Drive => vec![Turn::Drive],
        Row::Memory => with_frank(Held::All, vec![Runner::Mapped, Runner::Copied]),
        Row::Half => {
            let others = READ_AHEADS_KIB.into_iter().filter(|&kib| kib != own);
            let others = others.map(|kib| Runner::ReadAhead { kib });
            with_frank(Held::Half, std::iter::once(Runner::Mapped).chain(others).collect())
        }
        Row::Quarter => with_frank(Held::Quarter, vec![Runner::Mapped]),
        Row::Skew | Row::Smol => Vec::new(),
    }
}

/// As much as takes each of them some seconds: llama.cpp takes seconds for a token when it is capped.
fn test(held: Held, runner: Runner) -> Test {
    let (n_prompt, n_decode, repetitions) = match (held, runner) {
        (_, Runner::Frank) => (N_PROMPT, 32, 3),
        (Held::All, _) => (N_PROMPT, 32, 1),
        (Held::Half, Runner::Mapped) => (N_PROMPT, 6, 1),
        (Held::Half, _) => (0, 6, 1),
        (Held::Quarter, _) => (0, 4, 1),
    };
    Test { n_prompt, n_decode, repetitions }
}

/// Bytes a second of the drive, read past the page cache.
fn drive_rate(probed: &Value) -> Option<f64> {
    let drive = probed.get("drive")?;
    drive["direct"].as_bool()?.then(|| drive["bandwidth"].as_f64())?
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_rate_past_the_page_cache_is_one_of_the_drive() {
        let probed = |direct: bool| json!({"drive": {"bandwidth": 3e9, "direct": direct}});
        assert_eq!(drive_rate(&probed(true)), Some(3e9));
        assert_eq!(drive_rate(&probed(false)), None);
        assert_eq!(drive_rate(&json!({"drive": {"bandwidth": null, "direct": null}})), None);
    }

    #[test]
    fn the_machines_own_read_ahead_is_measured_once() {
        let mapped = |own| turns(Row::Half, own).len();
        assert_eq!(mapped(8192), 4);
        assert_eq!(mapped(256), 5);
        assert_eq!(turns(Row::Half, 128)[1], Turn::Tokens(Held::Half, Runner::Mapped));
    }
}
