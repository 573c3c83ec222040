//! Blocks that families share because the field has a name for them. Each file is one block.

pub(crate) mod attention;
pub(crate) mod embedding;
pub(crate) mod feed_forward;
pub(crate) mod head;
pub(crate) mod linear;
pub(crate) mod mla;
pub(crate) mod mlp;
pub(crate) mod moe;
pub(crate) mod rope;
pub(crate) mod routes;

use frank_kernels::{Activations, Pool, Product, add_bias, matmul};

use crate::blocks::linear::Linear;
use crate::weights::Weights;

/// What every block computes with.
pub(crate) struct Compute<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) pool: &'a mut Pool,
    /// Scratch for the 8-bit form of a product's input.
    pub(crate) quants: &'a mut Activations,
}

impl Compute<'_> {
    /// Multiplies the rows of `x`, `[n_rows, n_in]`, with each matrix in one job, then adds the biases.
    pub(crate) fn linear<const N: usize>(
        &mut self,
        x: &[f32],
        n_in: usize,
        mut products: [(Linear, &mut [f32]); N],
    ) {
        let weights = self.weights;
        let mut jobs = products
            .each_mut()
            .map(|(linear, out)| Product::new(weights.matrix(linear.matrix), out));
        matmul(self.pool, x, n_in, self.quants, &mut jobs);
        for (linear, out) in products {
            if let Some(bias) = linear.bias {
                add_bias(self.pool, out, weights.vector(bias));
            }
        }
    }
}
