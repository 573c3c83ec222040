//! The computing of a step, and what is done when it fails. Never knows requests or tokens beyond their ids.
//!
//! A step that fails is run again one sequence at a time. Those that fail alone end; the others go on with the same
//! tokens, since a row does not depend on its batch mates and each writes to blocks of its own. This holds for a panic
//! and for a read alike: an expert that cannot be read concerns the rows that chose it and no others. Whatever the first
//! run wrote is written again before it is read, with the same values, and nothing of it counts as computed before a run
//! has succeeded, so neither the KV cache nor the prefix cache sees half a step. The price is at most one more pass over
//! the rows of a step that failed; those that fail are in no later step, so a broken drive costs each request one.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use frank_models::Model;

use super::batch::{SequenceRows, forward};
use crate::scheduler::RequestId;

/// Why some rows have no result.
#[derive(Debug)]
enum Failure {
    Panic(String),
    Read(String),
}

impl Failure {
    fn into_text(self) -> String {
        match self {
            Self::Panic(text) | Self::Read(text) => text,
        }
    }
}

/// What became of a step as a whole.
#[derive(Debug, Default)]
pub(super) struct Computed {
    /// Whether some rows have their result.
    pub(super) any: bool,
    /// Why others have none, where that was a read.
    pub(super) unread: Option<String>,
}

/// Computes the rows of all sequences that are not among `failures`, and adds those that cannot be computed. The logits
/// of the `n`th one that samples are the `n`th row of `logits`.
pub(super) fn compute(
    model: &mut dyn Model,
    rows: &[SequenceRows],
    logits: &mut [f32],
    failures: &mut BTreeMap<RequestId, String>,
) -> Computed {
    if failures.is_empty() {
        match attempt(model, rows, logits) {
            Ok(()) => return Computed { any: true, unread: None },
            Err(failure) if rows.len() == 1 => {
                return Computed::default().fail(rows[0].rows.id, failure, failures);
            }
            Err(failure) => {
                let (reason, n_sequences) = (failure.into_text(), rows.len());
                tracing::warn!(reason, n_sequences, "a step is run again, each sequence alone");
            }
        }
    }
    alone(model, rows, logits, failures)
}

/// Computes each sequence by itself.
fn alone(
    model: &mut dyn Model,
    rows: &[SequenceRows],
    mut logits: &mut [f32],
    failures: &mut BTreeMap<RequestId, String>,
) -> Computed {
    let mut computed = Computed::default();
    for sequence in rows {
        let n_logits = model.n_vocab() * usize::from(sequence.rows.samples);
        let (own, others) = logits.split_at_mut(n_logits);
        logits = others;
        if failures.contains_key(&sequence.rows.id) {
            continue;
        }
        match attempt(model, std::slice::from_ref(sequence), own) {
            Ok(()) => computed.any = true,
            Err(failure) => computed = computed.fail(sequence.rows.id, failure, failures),
        }
    }
    computed
}

impl Computed {
    fn fail(
        mut self,
        id: RequestId,
        failure: Failure,
        failures: &mut BTreeMap<RequestId, String>,
    ) -> Self {
        if let Failure::Read(reason) = &failure {
            self.unread = Some(reason.clone());
        }
        failures.insert(id, failure.into_text());
        self
    }
}

fn attempt(
    model: &mut dyn Model,
    rows: &[SequenceRows],
    logits: &mut [f32],
) -> Result<(), Failure> {
    match guarded("a step", || forward(model, rows, logits)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::Read(format!("a step failed: {error}"))),
        Err(reason) => Err(Failure::Panic(reason)),
    }
}

/// Runs `work`; a panic in it becomes an error.
pub(super) fn guarded<T>(what: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        format!("{what} failed: {text}")
    })
}
