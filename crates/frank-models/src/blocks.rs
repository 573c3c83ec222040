//! Blocks that families share because the field has a name for them. Each file is one block.

pub(crate) mod attention;
pub(crate) mod mlp;

use frank_kernels::{Activations, Pool, Product, matmul};

use crate::weights::{MatrixId, Weights};

/// What every block computes with.
pub(crate) struct Compute<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) pool: &'a mut Pool,
    /// Scratch for the 8-bit form of a product's input.
    pub(crate) quants: &'a mut Activations,
}

impl Compute<'_> {
    /// Multiplies the rows of `x`, `[n_rows, n_in]`, with each matrix in one job.
    pub(crate) fn linear<const N: usize>(
        &mut self,
        x: &[f32],
        n_in: usize,
        products: [(MatrixId, &mut [f32]); N],
    ) {
        let mut products = products.map(|(id, out)| Product::new(self.weights.matrix(id), out));
        matmul(self.pool, x, n_in, self.quants, &mut products);
    }
}
