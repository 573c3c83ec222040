//! How near frank's choices on a model file are to llama.cpp's. Never says which files.

use std::path::PathBuf;

use frank_kernels::KvType;
use frank_testkit::assets::{self, RealModel};

use super::answers::{Answer, ModelFile, N_TOKENS, PROMPTS, answers};
use crate::step::Run;

/// Distance in nats below which two first choices are as good as tied.
const NEARLY_TIED: f32 = 0.1;

/// How frank's first choices compare with llama.cpp's.
pub(super) struct Agreement {
    n_positions: usize,
    n_equal: usize,
    /// Positions where llama.cpp's first choice is frank's or at most [`NEARLY_TIED`] below it.
    n_near: usize,
    /// Largest distance in nats, by frank's logits, from frank's first choice to llama.cpp's, where they differ.
    worst_gap: f32,
}

/// Compares frank on `file` with llama.cpp on `llama_cpp_file`.
pub(super) fn compare(file: &ModelFile, llama_cpp_file: &ModelFile) -> Agreement {
    let answers = answers(llama_cpp_file);
    let run = Run { n_threads: 2, kv_type: KvType::F16, ..Run::EXACT };
    let mut loaded = run.load(&file.path, 512);
    let mut agreement = Agreement { n_positions: 0, n_equal: 0, n_near: 0, worst_gap: 0.0 };
    for Answer { prompt, answer, best } in answers {
        let token_ids = [prompt.as_slice(), &answer[..N_TOKENS - 1]].concat();
        let logits = run.sequence(loaded.as_mut(), &token_ids);
        let rows = logits.chunks(logits.len() / token_ids.len()).skip(prompt.len() - 1);
        for (logits, best) in rows.zip(best) {
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let gap = max - logits[best as usize];
            agreement.n_positions += 1;
            agreement.n_equal += usize::from(gap == 0.0);
            agreement.n_near += usize::from(gap <= NEARLY_TIED);
            agreement.worst_gap = agreement.worst_gap.max(gap);
        }
    }
    assert_eq!(agreement.n_positions, PROMPTS.len() * N_TOKENS);
    agreement
}

impl Agreement {
    fn percent(&self, n: usize) -> f64 {
        100.0 * n as f64 / self.n_positions as f64
    }
}

/// Compares both programs on the same file, and holds them to a share of equal choices in percent and a gap in nats.
pub(super) fn check(file: &ModelFile, equal_percent_min: f64, gap_max: f32) {
    let agreement = compare(file, file);
    report(file, file, &agreement);
    let equal = agreement.percent(agreement.n_equal);
    assert!(equal >= equal_percent_min, "{equal} %");
    assert!(agreement.worst_gap <= gap_max, "{} nat", agreement.worst_gap);
}

/// As [`check`], with a share in percent of choices that are equal or nearly tied in the place of the gap.
pub(super) fn check_near(file: &ModelFile, equal_percent_min: f64, near_percent_min: f64) {
    let agreement = compare(file, file);
    report(file, file, &agreement);
    let (equal, near) = (agreement.percent(agreement.n_equal), agreement.percent(agreement.n_near));
    assert!(equal >= equal_percent_min, "{equal} %");
    assert!(near >= near_percent_min, "{near} % within {NEARLY_TIED} nat");
}

/// Prints what was compared and how near it was.
#[expect(clippy::print_stdout, reason = "the measured numbers belong into docs/measurements.md")]
pub(super) fn report(file: &ModelFile, llama_cpp_file: &ModelFile, agreement: &Agreement) {
    let name = |file: &ModelFile| file.path.file_name().unwrap_or_default().to_owned();
    println!(
        "llama.cpp on {}, frank on {}: {:.2} % equal, {:.2} % within {NEARLY_TIED} nat, largest gap {:.4} nat",
        name(llama_cpp_file).display(),
        name(file).display(),
        agreement.percent(agreement.n_equal),
        agreement.percent(agreement.n_near),
        agreement.worst_gap
    );
}

/// The file of a real model, which is at `path`.
pub(super) fn real(model: RealModel, path: PathBuf) -> ModelFile {
    ModelFile { path, sha256: model.sha256.to_owned() }
}

/// The small real mixture of experts, where it is at hand.
pub(super) fn smol_moe() -> Option<ModelFile> {
    let sha256 = assets::SMOL_MOE_SHA256.to_owned();
    Some(ModelFile { path: assets::smol_moe()?, sha256 })
}
