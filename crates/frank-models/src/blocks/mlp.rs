//! The gated MLP: `down(activation(gate(x)) * up(x))`.

use frank_kernels::{gelu_tanh_mul, silu_mul};

use crate::blocks::Compute;
use crate::blocks::linear::{Bias, Linear};
use crate::error::ArchError;
use crate::shape::Shape;
use crate::weights::WeightTable;

/// What bends the gate.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Activation {
    /// `x / (1 + e^-x)`.
    Silu,
    /// The tanh form of GELU.
    GeluTanh,
}

/// One gated MLP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GatedMlp {
    gate: Linear,
    up: Linear,
    down: Linear,
    activation: Activation,
}

impl GatedMlp {
    /// `blk.{i}.ffn_{gate,up,down}`.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        shape: &Shape,
        i: usize,
        activation: Activation,
        bias: Bias,
    ) -> Result<Self, ArchError> {
        let Shape { n_embd, n_ff, .. } = *shape;
        let mut linear =
            |part: &str, sizes| Linear::place(table, &format!("blk.{i}.ffn_{part}"), sizes, bias);
        Ok(Self {
            gate: linear("gate", (n_embd, n_ff))?,
            up: linear("up", (n_embd, n_ff))?,
            down: linear("down", (n_ff, n_embd))?,
            activation,
        })
    }

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
        compute.linear(x, n_embd, [(self.gate, &mut *gate), (self.up, &mut *up)]);
        match self.activation {
            Activation::Silu => silu_mul(compute.pool, gate, up),
            Activation::GeluTanh => gelu_tanh_mul(compute.pool, gate, up),
        }
        compute.linear(gate, n_ff, [(self.down, out)]);
    }
}
