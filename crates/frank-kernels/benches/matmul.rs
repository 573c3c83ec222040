//! Matrix products as a small model makes them: one row (decode), several, and chunks of a prompt.
//!
//! `cargo bench -p frank-kernels` on a quiet machine; a result names the machine and the threads.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use frank_gguf::quant::QUANTS;
use frank_kernels::{Activations, Matrix, MatrixShape, Pool, Product, WeightType, matmul};

/// Near the MLP of a 135M model, in whole blocks of every type.
const N_IN: usize = 512;
const N_OUT: usize = 1536;

/// So many matrices follow each other that they do not all fit in the caches of one core.
const N_MATRICES: usize = 60;

/// Numbers near 1 in every float type, so that nothing is slow for being tiny.
const PATTERN: u64 = 0x3c3c_3c3c_3c3c_3c3c;

fn main() {
    divan::main();
}

/// The names of all types that can be multiplied.
fn types() -> impl Iterator<Item = &'static str> {
    QUANTS.iter().map(|quant| quant.layout.name)
}

#[divan::bench(args = types(), consts = [1, 4, 8, 16, 64, 512])]
fn one_thread<const ROWS: usize>(bencher: Bencher<'_, '_>, name: &str) {
    run::<ROWS>(bencher, 1, name);
}

#[divan::bench(args = types(), consts = [1, 64])]
fn two_threads<const ROWS: usize>(bencher: Bencher<'_, '_>, name: &str) {
    run::<ROWS>(bencher, 2, name);
}

fn run<const ROWS: usize>(bencher: Bencher<'_, '_>, n_threads: usize, name: &str) {
    let quant = QUANTS.iter().find(|quant| quant.layout.name == name).expect("a type of the list");
    let weight_type = WeightType::of(quant.id).expect("each type can be multiplied");
    let shape = MatrixShape::new(weight_type, N_IN, N_OUT).expect("whole blocks");
    // One pattern for all weights: the products take the same time whatever the values are.
    let matrices: Vec<Vec<u64>> =
        (0..N_MATRICES).map(|_| vec![PATTERN; shape.bytes().div_ceil(8)]).collect();
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
