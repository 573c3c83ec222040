//! Grouped products as the experts of a mixture make them: one token, and chunks of a prompt whose rows spread evenly or
//! not. Beside each stands what a product for each expert alone takes.
//!
//! `cargo bench -p frank-kernels --bench experts` on a quiet machine; a result names the machine and the threads.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use frank_gguf::quant::QUANTS;
use frank_kernels::{
    Activations, GroupedProduct, Matrix, MatrixShape, Pool, Product, RowGroup, WeightType, matmul,
    matmul_grouped,
};

/// Gate and up of a model with 128 experts of which 8 are used; so many experts that caches do not hold them.
const N_IN: usize = 2048;
const N_OUT: usize = 768;
const N_EXPERTS: usize = 32;

/// Numbers near 1 in every float type, so that nothing is slow for being tiny.
const PATTERN: u64 = 0x3c3c_3c3c_3c3c_3c3c;

const TYPES: [&str; 4] = ["F16", "Q8_0", "Q4_K", "MXFP4"];

fn main() {
    divan::main();
}

/// Eight experts have one row each.
#[divan::bench(args = TYPES, consts = [1, 2])]
fn one_token<const THREADS: usize>(bencher: Bencher<'_, '_>, name: &str) {
    Layer::new(name, &[1; 8]).grouped(bencher, THREADS);
}

#[divan::bench(args = TYPES, consts = [1, 2])]
fn one_token_expert_by_expert<const THREADS: usize>(bencher: Bencher<'_, '_>, name: &str) {
    Layer::new(name, &[1; 8]).one_by_one(bencher, THREADS);
}

/// All experts have `ROWS` rows.
#[divan::bench(args = TYPES, consts = [4, 16, 32, 64])]
fn even<const ROWS: usize>(bencher: Bencher<'_, '_>, name: &str) {
    Layer::new(name, &[ROWS; N_EXPERTS]).grouped(bencher, 2);
}

/// One expert has as many rows as all others together.
#[divan::bench(args = TYPES)]
fn uneven(bencher: Bencher<'_, '_>, name: &str) {
    Layer::new(name, &uneven_rows()).grouped(bencher, 2);
}

#[divan::bench(args = TYPES)]
fn uneven_expert_by_expert(bencher: Bencher<'_, '_>, name: &str) {
    Layer::new(name, &uneven_rows()).one_by_one(bencher, 2);
}

fn uneven_rows() -> [usize; N_EXPERTS] {
    let mut rows = std::array::from_fn(|expert| expert * 7 % 31);
    rows[N_EXPERTS / 2] = rows.iter().sum();
    rows
}

/// Gate and up of some experts, and rows for each.
struct Layer {
    shape: MatrixShape,
    matrices: Vec<Vec<u64>>,
    n_rows: Vec<usize>,
    x: Vec<f32>,
    outs: [Vec<f32>; 2],
    quants: Activations,
    /// The expert that comes first in the next run.
    first: usize,
}

impl Layer {
    fn new(name: &str, n_rows: &[usize]) -> Self {
        let quant =
            QUANTS.iter().find(|quant| quant.layout.name == name).expect("a type of the list");
        let weight_type = WeightType::of(quant.id).expect("each type can be multiplied");
        let shape = MatrixShape::new(weight_type, N_IN, N_OUT).expect("whole blocks");
        let total: usize = n_rows.iter().sum();
        Self {
            shape,
            matrices: vec![vec![PATTERN; shape.bytes().div_ceil(8)]; 2 * N_EXPERTS],
            n_rows: n_rows.to_vec(),
            x: vec![0.5; total * N_IN],
            outs: [vec![0.0; total * N_OUT], vec![0.0; total * N_OUT]],
            quants: Activations::with_capacity(total, N_IN),
            first: 0,
        }
    }

    /// What a run reads and multiplies.
    fn count<'a, 'b>(&self, bencher: Bencher<'a, 'b>) -> Bencher<'a, 'b> {
        let (n_used, total) =
            (self.n_rows.iter().filter(|n| **n > 0).count(), self.n_rows.iter().sum::<usize>());
        bencher
            .counter(BytesCount::new(2 * n_used * self.shape.bytes()))
            .counter(ItemsCount::new(2 * total * N_IN * N_OUT))
    }

    fn grouped(mut self, bencher: Bencher<'_, '_>, n_threads: usize) {
        let mut pool = Pool::new(n_threads);
        self.count(bencher).bench_local(|| {
            self.first += self.n_rows.len();
            let [gates, ups] = [0, 1]
                .map(|which| groups(&self.matrices, self.shape, &self.n_rows, self.first, which));
            let [gate, up] = &mut self.outs;
            let products = &mut [GroupedProduct::new(&gates, gate), GroupedProduct::new(&ups, up)];
            matmul_grouped(&mut pool, &self.x, N_IN, &mut self.quants, products);
        });
    }

    fn one_by_one(mut self, bencher: Bencher<'_, '_>, n_threads: usize) {
        let mut pool = Pool::new(n_threads);
        self.count(bencher).bench_local(|| {
            self.first += self.n_rows.len();
            let [gates, ups] = [0, 1]
                .map(|which| groups(&self.matrices, self.shape, &self.n_rows, self.first, which));
            let [gate, up] = &mut self.outs;
            for (gates, ups) in gates.iter().zip(&ups) {
                let rows = gates.rows.clone();
                let out = rows.start * N_OUT..rows.end * N_OUT;
                let gate = Product::new(gates.matrix, &mut gate[out.clone()]);
                let products = &mut [gate, Product::new(ups.matrix, &mut up[out])];
                let x = &self.x[rows.start * N_IN..rows.end * N_IN];
                matmul(&mut pool, x, N_IN, &mut self.quants, products);
            }
        });
    }
}

/// Runs of rows with a matrix for each; 0 is gate and 1 up.
fn groups<'a>(
    matrices: &'a [Vec<u64>],
    shape: MatrixShape,
    n_rows: &[usize],
    first: usize,
    which: usize,
) -> Vec<RowGroup<'a>> {
    let mut end = 0;
    let group = |(i, n_rows): (usize, &usize)| {
        let bytes: &[u8] = bytemuck::cast_slice(&matrices[(first + i) % N_EXPERTS * 2 + which]);
        let start = end;
        end += n_rows;
        RowGroup { rows: start..end, matrix: Matrix::new(shape, &bytes[..shape.bytes()]) }
    };
    n_rows.iter().enumerate().map(group).collect()
}
