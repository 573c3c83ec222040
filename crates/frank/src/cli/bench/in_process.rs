//! A model in this process, driven step by step for a measurement. Never samples, and never measures.

use frank_bench::Test;
use frank_models::{Batch, KvGroup, Model, StepError};
use frank_plan::KV_BLOCK_TOKENS;

/// A loaded model with the places of its sequences.
pub(crate) struct InProcess {
    model: Box<dyn Model>,
    /// KV blocks, `[group][sequence]`.
    tables: Vec<Vec<Vec<u32>>>,
    logits: Vec<f32>,
    /// What the system refused of reading experts when the model was loaded.
    fallback: Option<String>,
}

impl InProcess {
    /// `n_streams` sequences of `n_ctx` tokens in a model that was loaded for them.
    pub(crate) fn new(model: Box<dyn Model>, n_streams: usize, n_ctx: usize) -> Self {
        let n_blocks = n_ctx.div_ceil(KV_BLOCK_TOKENS as usize);
        let tables = |group| group_tables(group, n_streams, n_blocks);
        let tables = model.kv_groups().iter().map(tables).collect();
        let logits = vec![0.0; n_streams * model.n_vocab()];
        let fallback = model.io_fallback().map(str::to_owned);
        Self { model, tables, logits, fallback }
    }

    /// Tokens that prompts may be made of.
    pub(crate) fn n_vocab(&self) -> usize {
        self.model.n_vocab()
    }

    /// Computes `test` from an empty context over the tokens of `prompts`, one prompt for each sequence.
    ///
    /// The tokens of an answer are given, too: which they are takes no time, and sampling is not what is measured.
    ///
    /// # Errors
    /// When an expert cannot be read.
    pub(crate) fn compute(&mut self, test: Test, prompts: &[Vec<u32>]) -> Result<(), StepError> {
        match test {
            Test::Prompt { .. } => self.read_prompt(&prompts[0]),
            Test::Decode { n_tokens, .. } => {
                (0..n_tokens).try_for_each(|position| self.decode(prompts, position))
            }
        }
    }

    /// What the system refused of reading experts since the model was loaded: some file systems do only then.
    pub(crate) fn late_fallback(&self) -> Option<&str> {
        self.model.io_fallback().filter(|now| self.fallback.as_deref() != Some(now))
    }

    /// Reads a prompt in chunks; only its last token asks for logits, as before an answer.
    fn read_prompt(&mut self, prompt: &[u32]) -> Result<(), StepError> {
        let n_rows_max = self.model.n_rows_max();
        let positions: Vec<u32> = (0..).take(prompt.len()).collect();
        let mut n_read = 0;
        for (token_ids, positions) in prompt.chunks(n_rows_max).zip(positions.chunks(n_rows_max)) {
            n_read += token_ids.len();
            let last_row = [token_ids.len() - 1];
            let output_rows: &[usize] = if n_read == prompt.len() { &last_row } else { &[] };
            self.step(token_ids, positions, &vec![0; token_ids.len()], output_rows)?;
        }
        Ok(())
    }

    /// One step with one row for each sequence.
    fn decode(&mut self, prompts: &[Vec<u32>], position: usize) -> Result<(), StepError> {
        let token_ids: Vec<u32> = prompts.iter().map(|prompt| prompt[position]).collect();
        let place = u32::try_from(position).expect("a context is counted in u32");
        let rows: Vec<usize> = (0..prompts.len()).collect();
        self.step(&token_ids, &vec![place; prompts.len()], &rows, &rows)
    }

    fn step(
        &mut self,
        token_ids: &[u32],
        positions: &[u32],
        sequences: &[usize],
        output_rows: &[usize],
    ) -> Result<(), StepError> {
        let tables: Vec<Vec<&[u32]>> =
            self.tables.iter().map(|group| group.iter().map(Vec::as_slice).collect()).collect();
        let block_tables: Vec<&[&[u32]]> = tables.iter().map(Vec::as_slice).collect();
        let batch =
            Batch { token_ids, positions, sequences, block_tables: &block_tables, output_rows };
        let logits = &mut self.logits[..output_rows.len() * self.model.n_vocab()];
        self.model.forward(&batch, logits)
    }
}

/// The tables of `n_streams` sequences that share the blocks of a group evenly, for `n_blocks` blocks of context. Where a
/// window left a sequence fewer, its blocks go round.
fn group_tables(group: &KvGroup, n_streams: usize, n_blocks: usize) -> Vec<Vec<u32>> {
    let share = group.n_blocks / u32::try_from(n_streams).expect("a count of u32");
    let blocks = |first: u32| (first..first + share).cycle().take(n_blocks).collect();
    (0..group.n_blocks).step_by(share as usize).take(n_streams).map(blocks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_share_a_group_evenly_and_go_round_behind_a_window() {
        let group = |n_blocks| KvGroup { window: None, n_blocks, block_bytes: 1 };
        assert_eq!(group_tables(&group(6), 2, 3), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(group_tables(&group(5), 2, 3), [[0, 1, 0], [2, 3, 2]]);
        assert_eq!(group_tables(&group(2), 1, 4), [[0, 1, 0, 1]]);
    }
}
