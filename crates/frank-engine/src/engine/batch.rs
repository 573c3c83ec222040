//! The rows of a step, copied out of the scheduler, so that it is free for others while the model computes.

use frank_models::{Batch, Model, StepError};

use crate::scheduler::{Running, StepRows};

/// Rows of one sequence.
#[derive(Debug)]
pub(super) struct SequenceRows {
    pub(super) rows: StepRows,
    token_ids: Vec<u32>,
    first_position: u32,
    /// For each group.
    tables: Vec<Vec<u32>>,
}

impl SequenceRows {
    pub(super) fn collect(rows: StepRows, running: &Running) -> Self {
        let first = running.n_computed;
        Self {
            rows,
            token_ids: running.token_ids[first..first + rows.n_rows].to_vec(),
            first_position: u32::try_from(first).expect("a context has fewer than 2^32 tokens"),
            tables: running.tables.iter().map(|table| table.blocks.clone()).collect(),
        }
    }

    fn positions(&self) -> impl Iterator<Item = u32> {
        (self.first_position..).take(self.token_ids.len())
    }
}

/// Runs `sequences` through the model. Writes a row of logits for each that samples, in order.
///
/// # Errors
/// As [`Model::forward`].
pub(super) fn forward(
    model: &mut dyn Model,
    sequences: &[SequenceRows],
    logits: &mut [f32],
) -> Result<(), StepError> {
    let token_ids: Vec<u32> = sequences.iter().flat_map(|s| &s.token_ids).copied().collect();
    let positions: Vec<u32> = sequences.iter().flat_map(SequenceRows::positions).collect();
    let (mut of_rows, mut output_rows) = (Vec::new(), Vec::new());
    for (index, sequence) in sequences.iter().enumerate() {
        of_rows.extend(std::iter::repeat_n(index, sequence.token_ids.len()));
        if sequence.rows.samples {
            output_rows.push(of_rows.len() - 1);
        }
    }
    let tables = |group: usize| sequences.iter().map(move |s| s.tables[group].as_slice()).collect();
    let tables: Vec<Vec<&[u32]>> = (0..model.kv_groups().len()).map(tables).collect();
    let groups: Vec<&[&[u32]]> = tables.iter().map(Vec::as_slice).collect();
    let batch = Batch {
        token_ids: &token_ids,
        positions: &positions,
        sequences: &of_rows,
        block_tables: &groups,
        output_rows: &output_rows,
    };
    let n_logits = output_rows.len() * model.n_vocab();
    model.forward(&batch, &mut logits[..n_logits])
}
