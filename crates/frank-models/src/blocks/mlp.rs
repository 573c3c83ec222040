//! The gated MLP: `down(activation(gate(x)) * up(x))`.

use frank_kernels::{Pool, gelu_tanh_mul, silu_mul, swiglu_clamped};

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
    /// `g / (1 + e^(-alpha g)) * (u + 1)`, where the gate is at most `limit` and `u` between it and its negative.
    ClampedSwiglu { alpha: f32, limit: f32 },
}

impl Activation {
    /// `gate = activation(gate) * up`, value by value.
    pub(crate) fn apply(self, pool: &mut Pool, gate: &mut [f32], up: &[f32]) {
        match self {
            Self::Silu => silu_mul(pool, gate, up),
            Self::GeluTanh => gelu_tanh_mul(pool, gate, up),
            Self::ClampedSwiglu { alpha, limit } => swiglu_clamped(pool, gate, up, alpha, limit),
        }
    }
}

/// One gated MLP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GatedMlp {
    /// Hidden units.
    pub(crate) n_ff: usize,
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
        Self::place_named(table, &|part| format!("blk.{i}.ffn_{part}"), shape, activation, bias)
    }

    /// `blk.{i}.ffn_{gate,up,down}_shexp` with `n_ff` hidden units: the experts that every token uses, as one.
    pub(crate) fn place_shared(
        table: &mut WeightTable<'_>,
        shape: &Shape,
        i: usize,
        n_ff: usize,
        activation: Activation,
    ) -> Result<Self, ArchError> {
        let name = |part: &str| format!("blk.{i}.ffn_{part}_shexp");
        Self::place_named(table, &name, &Shape { n_ff, ..*shape }, activation, Bias::None)
    }

    fn place_named(
        table: &mut WeightTable<'_>,
        name: &dyn Fn(&str) -> String,
        shape: &Shape,
        activation: Activation,
        bias: Bias,
    ) -> Result<Self, ArchError> {
        let Shape { n_embd, n_ff, .. } = *shape;
        let mut linear = |part: &str, sizes| Linear::place(table, &name(part), sizes, bias);
        Ok(Self {
            n_ff,
            gate: linear("gate", (n_embd, n_ff))?,
            up: linear("up", (n_embd, n_ff))?,
            down: linear("down", (n_ff, n_embd))?,
            activation,
        })
    }

    /// Writes the block's output for `x`, `[n_rows, n_embd]`, to `out` of the same shape.
    ///
    /// `gate` and `up` are scratch, `[n_rows, n_ff]` or longer.
    pub(crate) fn forward(
        &self,
        compute: &mut Compute<'_>,
        n_embd: usize,
        x: &[f32],
        (gate, up): (&mut [f32], &mut [f32]),
        out: &mut [f32],
    ) {
        let n_values = x.len() / n_embd * self.n_ff;
        let (gate, up) = (&mut gate[..n_values], &mut up[..n_values]);
        compute.linear(x, n_embd, [(self.gate, &mut *gate), (self.up, &mut *up)]);
        self.activation.apply(compute.pool, gate, up);
        compute.linear(gate, self.n_ff, [(self.down, out)]);
    }
}
