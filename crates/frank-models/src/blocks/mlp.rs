//! The gated MLP: `down(silu(gate(x)) * up(x))`.

use frank_kernels::silu_mul;

use crate::blocks::Compute;
use crate::weights::MatrixId;

/// Projections of one gated MLP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GatedMlp {
    pub(crate) gate: MatrixId,
    pub(crate) up: MatrixId,
    pub(crate) down: MatrixId,
}

impl GatedMlp {
    /// Writes the block's output for `x`, `[n_rows, n_embd]`, to `out` of the same shape.
    ///
    /// `gate` and `up` are scratch, `[n_rows, n_ff]`.
    pub(crate) fn forward(
        &self,
        compute: &mut Compute<'_>,
        (n_embd, n_ff): (usize, usize),
        x: &[f32],
        (gate, up): (&mut [f32], &mut [f32]),
        out: &mut [f32],
    ) {
        compute.linear(x, n_embd, [(self.gate, gate), (self.up, up)]);
        silu_mul(gate, up);
        compute.linear(gate, n_ff, [(self.down, out)]);
    }
}
