//! The speed of a plan whose experts come from a drive, when this machine has not been measured by others: the drive is
//! read for a moment, where the model lies. Never keeps what it reads.

use std::time::Duration;

use anyhow::Context;
use frank_bench::{FileBlock, SaltedPrompts, model_drive_rate};
use frank_gguf::ModelHeader;
use frank_hub::{ModelFile, TensorCopy};
use frank_models::{ExpertMajor, expert_major};
use frank_os::{Faults, IoBackend, QueueOptions};
use frank_plan::{Drive, Hotness, Machine, ModelNeeds, Plan};

use crate::model::cut_off;

/// How long the drive is read.
const TIME: Duration = Duration::from_millis(300);

/// Bytes of one read at most, and the part of the staging that it takes at most, as when experts are streamed.
const READ_BYTES_MAX: u64 = 4 << 20;
const READS_STAGED_MIN: u64 = 4;

/// Bytes between two matrices of an expert that are read along.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// The matrices of an expert.
const N_PARTS: usize = 3;

/// Measures the drive of `file`, which `plan` streams experts from, and predicts the speed on `machine` with it. Where that
/// cannot be done the plan has no speed, and says why among its warnings.
pub(crate) fn predict_streamed(
    plan: &mut Plan,
    (file, needs): (&ModelFile, &ModelNeeds),
    mut machine: Machine,
    io: Option<IoBackend>,
    usage: Option<&Hotness>,
) {
    if machine.primary().is_none_or(|device| device.bandwidth.is_none()) {
        let reason = "there is too little memory to measure how fast it is";
        plan.warnings.push(format!("no speed is predicted: {reason}"));
        return;
    }
    match drive(file, needs, io) {
        Ok(drive) => {
            machine.drives = vec![drive];
            plan.predict_on(needs, &machine, usage);
        }
        Err(error) => plan.warnings.push(format!("no speed is predicted: {error:#}")),
    }
}

/// The drive of `file`, as fast as it gives experts.
fn drive(file: &ModelFile, needs: &ModelNeeds, io: Option<IoBackend>) -> anyhow::Result<Drive> {
    anyhow::ensure!(cut_off(file).is_empty(), "the model is not here as a whole");
    let experts = expert_major(&file.header)?;
    let staging_bytes = needs.expert_staging_bytes;
    let bytes_max = READ_BYTES_MAX.min(staging_bytes / READS_STAGED_MIN).max(1);
    let options = QueueOptions {
        backend: io,
        staging_bytes: usize::try_from(staging_bytes).context("more than can be addressed")?,
        faults: Faults::default(),
    };
    let blocks = || blocks(&file.header, &experts, bytes_max);
    // What a token uses of a layer, as if none of it had a slot.
    let each = total_bytes(&experts) / experts.n_experts.max(1) as u64;
    let at_once = each.saturating_mul(u64::from(needs.experts_used));
    let how_long = (TIME, SaltedPrompts::fresh_seed());
    let rate = model_drive_rate(&file.data_files(), blocks, at_once, &options, how_long)?;
    let path = file.paths()[0].display().to_string();
    // A cast saturates, and no rate is near 2^64.
    Ok(Drive { path, bandwidth: Some(rate as u64) })
}

/// Bytes of all experts of a model in its file.
pub(crate) fn expert_bytes(header: &ModelHeader) -> u64 {
    expert_major(header).map_or(0, |experts| total_bytes(&experts))
}

fn total_bytes(experts: &ExpertMajor) -> u64 {
    matrices(experts).iter().map(|matrix| matrix.bytes).fold(0, u64::saturating_add)
}

/// The matrices of all experts, those of an expert one after the other.
fn matrices(experts: &ExpertMajor) -> &[TensorCopy] {
    let n_others = experts.copies.len() - N_PARTS * experts.n_experts;
    &experts.copies[n_others..]
}

/// What is read of all experts, each in as few reads as its file allows.
fn blocks(header: &ModelHeader, experts: &ExpertMajor, bytes_max: u64) -> Vec<FileBlock> {
    let mut blocks = Vec::new();
    for expert in matrices(experts).chunks_exact(N_PARTS) {
        let mut ranges: Vec<_> = expert.iter().map(|matrix| range(header, matrix)).collect();
        ranges.sort_unstable();
        let mut joined: Vec<(usize, u64, u64)> = Vec::new();
        for (file, start, end) in ranges {
            match joined.last_mut() {
                Some((last_file, first, last))
                    if *last_file == file
                        && start.saturating_sub(*last) <= GAP_BYTES_MAX
                        && end - *first <= bytes_max =>
                {
                    *last = end.max(*last);
                }
                _ => joined.push((file, start, end)),
            }
        }
        blocks.extend(joined.into_iter().flat_map(|range| cut(range, bytes_max)));
    }
    blocks
}

/// File, first byte and end of a matrix.
fn range(header: &ModelHeader, matrix: &TensorCopy) -> (usize, u64, u64) {
    let tensor = &header.tensors[matrix.source];
    let start = header.parts[tensor.part].data_start + tensor.offset + matrix.offset;
    (tensor.part, start, start + matrix.bytes)
}

/// Reads of no more than `bytes_max` bytes.
fn cut((file, start, end): (usize, u64, u64), bytes_max: u64) -> impl Iterator<Item = FileBlock> {
    let n_reads = (end - start).div_ceil(bytes_max);
    (0..n_reads).map(move |read| {
        let offset = start + read * bytes_max;
        FileBlock { file, offset, bytes: bytes_max.min(end - offset) as usize }
    })
}
