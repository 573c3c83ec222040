//! The output head: the last norm, the product with the vocabulary, and the soft cap of the logits.

use frank_kernels::{rms_norm, soft_cap};

use crate::blocks::Compute;
use crate::blocks::embedding::Embedding;
use crate::blocks::linear::{Bias, Linear};
use crate::error::ArchError;
use crate::shape::Shape;
use crate::weights::{VectorId, WeightTable};

/// The head of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    norm: VectorId,
    output: Linear,
    soft_cap: Option<f32>,
}

impl Head {
    /// `output_norm.weight` and `output.weight`; a file without the latter multiplies with the embedding.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        embedding: &Embedding,
        shape: &Shape,
    ) -> Result<Self, ArchError> {
        let Shape { n_embd, n_vocab, logit_cap: soft_cap, .. } = *shape;
        let norm = table.vector("output_norm.weight", n_embd)?;
        let output = if table.has("output.weight") {
            Linear::place(table, "output", (n_embd, n_vocab), Bias::None)?
        } else {
            Linear { matrix: embedding.matrix, bias: None }
        };
        Ok(Self { norm, output, soft_cap })
    }

    /// Whether the head is the embedding.
    pub(crate) fn is_tied(&self, embedding: &Embedding) -> bool {
        self.output.matrix.is(embedding.matrix)
    }

    /// Writes the logits of `rows` of `hidden`, `[n_rows, n_embd]`, to `logits`, `[rows.len(), n_vocab]`.
    ///
    /// `gathered` and `normed` are scratch, as long as `hidden`.
    pub(crate) fn forward(
        &self,
        compute: &mut Compute<'_>,
        rows: &[usize],
        (n_embd, norm_epsilon): (usize, f32),
        hidden: &[f32],
        (gathered, normed): (&mut [f32], &mut [f32]),
        logits: &mut [f32],
    ) {
        let n_values = rows.len() * n_embd;
        let (gathered, normed) = (&mut gathered[..n_values], &mut normed[..n_values]);
        for (&row, gathered) in rows.iter().zip(gathered.chunks_exact_mut(n_embd)) {
            gathered.copy_from_slice(&hidden[row * n_embd..][..n_embd]);
        }
        rms_norm(compute.pool, gathered, compute.weights.vector(self.norm), norm_epsilon, normed);
        compute.linear(normed, n_embd, [(self.output, &mut *logits)]);
        if let Some(cap) = self.soft_cap {
            soft_cap(compute.pool, logits, cap);
        }
    }
}
