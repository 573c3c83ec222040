//! A mixture of experts larger than the memory that it may use, beside llama.cpp's map of the file: with a cap of a half and
//! of a quarter of the file, and with all of it in memory; then what ranking and prefetching are worth.

mod capped;
mod even;
mod floors;
mod learning;
mod read_ahead;

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use frank_os::free_disk;
use frank_testkit::assets;

use super::engines::Engine;
use crate::machine;
use even::Even;
use floors::Measured;

/// Rounds of the large file: each takes four minutes, most of them llama.cpp's.
const ROUNDS: u64 = 3;
/// Rounds of what ranking and prefetching are worth, which is less than the spread of a few.
const LEARNING_ROUNDS: u64 = 5;
/// Bytes of disk that are left alone when a file is made.
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
pub(super) fn compare(frank: &Engine, rows: &[Row], rounds: Option<u64>) -> Result<()> {
    let has = |row: &Row| rows.is_empty() || rows.contains(row);
    let mut even = vec![Row::Drive, Row::Memory, Row::Half, Row::Quarter];
    even.retain(has);
    let mut missed = 0;
    if !even.is_empty() {
        missed = report(&Even::open(frank)?.take_turns(&even, rounds.unwrap_or(ROUNDS))?)?;
    }
    let Engine::Frank(program) = frank else { bail!("frank is measured beside llama.cpp") };
    let rounds = rounds.unwrap_or(LEARNING_ROUNDS);
    if has(&Row::Skew) {
        ensure_room(&assets::skewed_moe_path(), assets::SKEWED_MOE_BYTES)?;
        learning::compare(program, &assets::skewed_moe(), learning::Budget::Half, rounds)?;
    }
    if has(&Row::Smol)
        && let Some(model) = assets::smol_moe()
    {
        learning::compare(program, &model, learning::Budget::Smol, rounds)?;
    }
    ensure!(missed == 0, "floors that were missed: {missed}");
    Ok(())
}

/// Prints medians, ratios and floors of the large file, and returns how many floors were missed.
fn report(measured: &Measured) -> Result<usize> {
    println!("\nmedian (range) of rounds, {}", machine::load()?);
    measured.lines().for_each(|line| println!("{line}"));
    let verdicts = measured.verdicts();
    verdicts.iter().for_each(|verdict| println!("{}", verdict.text));
    Ok(verdicts.iter().filter(|verdict| verdict.missed).count())
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
