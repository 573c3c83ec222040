//! How near frank's choices on a model file are to llama.cpp's. Never says which files.

use std::path::PathBuf;

use frank_kernels::KvType;
use frank_testkit::assets::RealModel;

use super::answers::{Answer, ModelFile, N_TOKENS, PROMPTS, answers};
use crate::step::Run;

/// How frank's first choices compare with llama.cpp's.
pub(super) struct Agreement {
    n_positions: usize,
    n_equal: usize,
    /// Largest distance in nats, by frank's logits, from frank's first choice to llama.cpp's, where they differ.
    worst_gap: f32,
}

/// Compares frank on `file` with llama.cpp on `llama_cpp_file`.
pub(super) fn compare(file: &ModelFile, llama_cpp_file: &ModelFile) -> Agreement {
    let answers = answers(llama_cpp_file);
    let run = Run { n_threads: 2, kv_type: KvType::F16, ..Run::EXACT };
    let mut loaded = run.load(&file.path, 512);
    let mut agreement = Agreement { n_positions: 0, n_equal: 0, worst_gap: 0.0 };
    for Answer { prompt, answer, best } in answers {
        let token_ids = [prompt.as_slice(), &answer[..N_TOKENS - 1]].concat();
        let logits = run.sequence(loaded.as_mut(), &token_ids);
        let rows = logits.chunks(logits.len() / token_ids.len()).skip(prompt.len() - 1);
        for (logits, best) in rows.zip(best) {
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let gap = max - logits[best as usize];
            agreement.n_positions += 1;
            agreement.n_equal += usize::from(gap == 0.0);
            agreement.worst_gap = agreement.worst_gap.max(gap);
        }
    }
    assert_eq!(agreement.n_positions, PROMPTS.len() * N_TOKENS);
    agreement
}

impl Agreement {
    fn equal_percent(&self) -> f64 {
        100.0 * self.n_equal as f64 / self.n_positions as f64
    }
}

/// Compares both programs on the same file, and holds them to a share of equal choices in percent and a gap in nats.
pub(super) fn check(file: &ModelFile, equal_percent_min: f64, gap_max: f32) {
    let agreement = compare(file, file);
    report(file, file, &agreement);
    assert!(agreement.equal_percent() >= equal_percent_min, "{} %", agreement.equal_percent());
    assert!(agreement.worst_gap <= gap_max, "{} nat", agreement.worst_gap);
}

/// Prints what was compared and how near it was.
#[expect(clippy::print_stdout, reason = "the measured numbers belong into docs/measurements.md")]
pub(super) fn report(file: &ModelFile, llama_cpp_file: &ModelFile, agreement: &Agreement) {
    let name = |file: &ModelFile| file.path.file_name().unwrap_or_default().to_owned();
    println!(
        "llama.cpp on {}, frank on {}: {:.2} % equal, largest gap {:.4} nat",
        name(llama_cpp_file).display(),
        name(file).display(),
        agreement.equal_percent(),
        agreement.worst_gap
    );
}

/// The file of a real model, which is at `path`.
pub(super) fn real(model: RealModel, path: PathBuf) -> ModelFile {
    ModelFile { path, sha256: model.sha256.to_owned() }
}
