//! A mixture of experts larger than the memory that it may use, beside llama.cpp's map of the file: with a cap of a half and
//! of a quarter of the file, and with all of it in memory; then what ranking and prefetching are worth.

mod bench;
mod floors;
mod learning;
mod read_ahead;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use frank_os::free_disk;
use frank_testkit::assets;
use serde_json::Value;

use super::engines::{Engine, THREADS, json};
use crate::machine;
use crate::statistics::Spread;
use bench::Test;
use floors::{HALF_MISSED_BYTES, Held, QUARTER_MISSED_BYTES, Rates, What, Work};
use read_ahead::ReadAhead;

/// Read-aheads in KiB that are tried beside the machine's own.
const READ_AHEADS_KIB: [u64; 3] = [128, 1024, 8192];
/// Keeps llama.cpp from copying the weights, which a cap does not allow.
const MAPPED: &[&str] = &["--repack", "0"];
const PROMPT: u64 = 128;
const FRANK_PROMPT: Test = Test::prompt(PROMPT, 5);
const FRANK_DECODE: Test = Test::decode(32, 5);
/// llama.cpp takes seconds for a token when it is capped.
const SLOW_PROMPT: Test = Test::prompt(PROMPT, 2);
const SLOW_DECODE: Test = Test::decode(6, 3);
const SLOWEST_DECODE: Test = Test::decode(4, 2);
const MEMORY_PROMPT: Test = Test::prompt(PROMPT, 3);
const MEMORY_DECODE: Test = Test::decode(32, 3);
/// Bytes of disk that are left alone when the file is made.
const SPARED_BYTES: u64 = 4 << 30;

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Row {
    /// The drive alone: 864 KiB, 16 at once, past the page cache
    Drive,
    /// Everything in memory
    Memory,
    /// At most half of the file
    Half,
    /// At most a quarter of the file
    Quarter,
    /// Ranking and prefetching where some experts are used much more than others
    Skew,
    /// The same with a small real model, where it is
    Smol,
}

/// Measures these rows, or all where none is named, and prints what came out.
/// # Errors
/// Something could not be measured, or missed its floor.
pub(super) fn compare(frank: &Engine, rows: &[Row], rounds: u64) -> Result<()> {
    let has = |row| rows.is_empty() || rows.contains(&row);
    let mut rates = Rates::default();
    if [Row::Drive, Row::Memory, Row::Half, Row::Quarter].into_iter().any(has) {
        let even = Even::open(frank)?;
        if has(Row::Drive) {
            even.drive(&mut rates)?;
        }
        if has(Row::Half) {
            even.half(&mut rates)?;
        }
        if has(Row::Quarter) {
            even.quarter(&mut rates)?;
        }
        if has(Row::Memory) {
            even.memory(&mut rates)?;
        }
    }
    let Engine::Frank(program) = frank else { bail!("frank is measured beside llama.cpp") };
    if has(Row::Skew) {
        ensure_room(&assets::skewed_moe_path(), assets::SKEWED_MOE_BYTES)?;
        learning::compare(program, &assets::skewed_moe(), learning::Budget::Half, rounds)?;
    }
    if has(Row::Smol)
        && let Some(model) = assets::smol_moe()
    {
        learning::compare(program, &model, learning::Budget::Smol, rounds)?;
    }
    judge(&rates)
}

fn judge(rates: &Rates) -> Result<()> {
    println!("\n{}", machine::load()?);
    for (name, held, bytes) in
        [("50", Held::Half, HALF_MISSED_BYTES), ("25", Held::Quarter, QUARTER_MISSED_BYTES)]
    {
        if let Some(share) = rates.of_drive(held, bytes) {
            println!("cap {name} %: decode is {:.0} % of drive / bytes missed", 100.0 * share);
        }
    }
    let verdicts = rates.verdicts();
    verdicts.iter().for_each(|verdict| println!("{}", verdict.text));
    match verdicts.iter().filter(|verdict| verdict.missed).count() {
        0 => Ok(()),
        missed => bail!("floors that were missed: {missed}"),
    }
}

/// The large file in which every expert is wanted alike.
struct Even<'a> {
    frank: &'a Engine,
    model: PathBuf,
    bytes: u64,
    read_ahead: ReadAhead,
}

impl<'a> Even<'a> {
    fn open(frank: &'a Engine) -> Result<Self> {
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

    fn drive(&self, rates: &mut Rates) -> Result<()> {
        let Engine::Frank(frank) = self.frank else { bail!("only frank probes") };
        let folder = self.model.parent().context("the model lies in a folder")?;
        let mut samples = Vec::new();
        for _ in 0..3 {
            let probed =
                json(Command::new(frank).args(["probe", "--json", "--drive"]).arg(folder))?;
            let drive = drive_rate(&probed).with_context(|| format!("no direct rate: {probed}"))?;
            samples.push(drive);
        }
        let spread = Spread::of(&samples);
        println!("drive, MB/s: {:.0}", spread.scaled(1e-6));
        rates.note(What::Drive, spread);
        Ok(())
    }

    fn half(&self, rates: &mut Rates) -> Result<()> {
        let cap = self.bytes / 2;
        self.of_frank(Held::Half, Some(cap), rates)?;
        let prompt = self.of_llama_cpp(Some(cap), MAPPED, SLOW_PROMPT, "cap 50 %, prompt")?;
        rates.note(What::Machine(Held::Half, Work::Prompt), prompt);
        let own = self.read_ahead.kib;
        let others = READ_AHEADS_KIB.into_iter().filter(|kib| *kib != own);
        for kib in std::iter::once(own).chain(others) {
            self.read_ahead.set(kib)?;
            let name = format!("cap 50 %, {kib} KiB ahead, decode");
            let decode = self.of_llama_cpp(Some(cap), MAPPED, SLOW_DECODE, &name)?;
            rates.note(What::Best(Held::Half, Work::Decode), decode);
            if kib == own {
                rates.note(What::Machine(Held::Half, Work::Decode), decode);
            }
        }
        self.read_ahead.set(own)
    }

    fn quarter(&self, rates: &mut Rates) -> Result<()> {
        let cap = self.bytes / 4;
        self.of_frank(Held::Quarter, Some(cap), rates)?;
        let decode = self.of_llama_cpp(Some(cap), MAPPED, SLOWEST_DECODE, "cap 25 %, decode")?;
        rates.note(What::Machine(Held::Quarter, Work::Decode), decode);
        Ok(())
    }

    fn memory(&self, rates: &mut Rates) -> Result<()> {
        self.of_frank(Held::All, None, rates)?;
        for (name, options) in [("mapped", MAPPED), ("its own layout", &[])] {
            for (work, test) in [(Work::Prompt, MEMORY_PROMPT), (Work::Decode, MEMORY_DECODE)] {
                let name = format!("all in memory, {name}, {work:?}");
                rates.note(
                    What::Best(Held::All, work),
                    self.of_llama_cpp(None, options, test, &name)?,
                );
            }
        }
        Ok(())
    }

    fn of_frank(&self, held: Held, cap: Option<u64>, rates: &mut Rates) -> Result<()> {
        for (work, test) in [(Work::Prompt, FRANK_PROMPT), (Work::Decode, FRANK_DECODE)] {
            let spread = bench::measure(self.frank, &self.model, cap, &[], test)?;
            println!("{held:?}, {work:?}: frank {spread:.2} tok/s, {}", machine::load()?);
            rates.note(What::Frank(held, work), spread);
        }
        Ok(())
    }

    fn of_llama_cpp(
        &self,
        cap: Option<u64>,
        options: &[&str],
        test: Test,
        name: &str,
    ) -> Result<Spread> {
        let spread = bench::measure(&Engine::LlamaCpp, &self.model, cap, options, test)?;
        println!("{name}: llama.cpp {spread:.2} tok/s, {}", machine::load()?);
        Ok(spread)
    }
}

/// Bytes a second of the drive, read past the page cache.
fn drive_rate(probed: &Value) -> Option<f64> {
    let drive = probed.get("drive")?;
    drive["direct"].as_bool()?.then(|| drive["bandwidth"].as_f64())?
}

/// Refuses to fill the disk with a file that is not there yet.
fn ensure_room(path: &Path, bytes: u64) -> Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let folder = path.parent().context("a file lies in a folder")?;
    let (free, wanted) = (free_disk(folder)?, bytes + SPARED_BYTES);
    ensure!(free >= wanted, "{}: {free} bytes are free, {wanted} are wanted", folder.display());
    println!("make {}, {:.1} GB", path.display(), bytes as f64 / 1e9);
    Ok(())
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
}
