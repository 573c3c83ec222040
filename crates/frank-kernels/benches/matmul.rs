//! Matrix products as a small model makes them: one row (decode) and a chunk of a prompt.
//!
//! `cargo bench -p frank-kernels` on a quiet machine; a result names the machine and the threads.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use frank_kernels::{Activations, Matrix, MatrixShape, Pool, Product, WeightType, matmul};

/// The MLP of a 135M model.
const N_IN: usize = 576;
const N_OUT: usize = 1536;

/// So many matrices follow each other that they do not all fit in the caches of one core.
const N_MATRICES: usize = 60;

fn main() {
    divan::main();
}

#[divan::bench(args = [1, 2], consts = [1, 4, 64])]
fn q4_1<const ROWS: usize>(bencher: Bencher<'_, '_>, n_threads: usize) {
    run::<ROWS>(bencher, n_threads, WeightType::Q4_1);
}

#[divan::bench(args = [1, 2], consts = [1, 64])]
fn q8_0<const ROWS: usize>(bencher: Bencher<'_, '_>, n_threads: usize) {
    run::<ROWS>(bencher, n_threads, WeightType::Q8_0);
}

#[divan::bench(args = [1, 2], consts = [1, 64])]
fn f16<const ROWS: usize>(bencher: Bencher<'_, '_>, n_threads: usize) {
    run::<ROWS>(bencher, n_threads, WeightType::F16);
}

fn run<const ROWS: usize>(bencher: Bencher<'_, '_>, n_threads: usize, weight_type: WeightType) {
    let shape = MatrixShape::new(weight_type, N_IN, N_OUT).expect("whole blocks");
    // One pattern for all weights: the products take the same time whatever the values are.
    let matrices: Vec<Vec<u64>> =
        (0..N_MATRICES).map(|_| vec![1; shape.bytes().div_ceil(8)]).collect();
    let x = vec![0.5; ROWS * N_IN];
    let mut out = vec![0.0; ROWS * N_OUT];
    let (mut pool, mut quants) = (Pool::new(n_threads), Activations::with_capacity(ROWS, N_IN));
    bencher
        .counter(BytesCount::new(N_MATRICES * shape.bytes()))
        .counter(ItemsCount::new(N_MATRICES * N_IN * N_OUT * ROWS))
        .bench_local(|| {
            for bytes in &matrices {
                let bytes: &[u8] = bytemuck::cast_slice(bytes);
                let matrix = Matrix::new(shape, &bytes[..shape.bytes()]);
                matmul(&mut pool, &x, N_IN, &mut quants, &mut [Product::new(matrix, &mut out)]);
            }
        });
}
