//! Experts brought from the order of the file into their final layout: what a streamed expert costs beside its read.
//! Counted are the bytes of the file.
//!
//! `cargo bench -p frank-kernels --bench packing` on a quiet machine; a result names the machine.

use divan::Bencher;
use divan::counter::BytesCount;
use frank_gguf::quant::QUANTS;
use frank_kernels::{MatrixShape, PackJob, Pool, WeightType, pack_all};

const N_IN: usize = 2048;
const N_OUT: usize = 768;

const TYPES: [&str; 6] = ["Q4_K", "Q6_K", "Q8_0", "Q5_0", "MXFP4", "F16"];

fn main() {
    divan::main();
}

/// All rows of one expert's matrix, which caches hold.
#[divan::bench(args = TYPES)]
fn whole(bencher: Bencher<'_, '_>, name: &str) {
    let shape = shape(name);
    let rows = vec![0x3c; N_OUT * shape.file_row_bytes()];
    let mut bytes = vec![0; shape.bytes()];
    bencher.counter(BytesCount::new(rows.len())).bench_local(|| shape.pack(0, &rows, &mut bytes));
}

/// One row after the other.
#[divan::bench(args = TYPES)]
fn row_by_row(bencher: Bencher<'_, '_>, name: &str) {
    let shape = shape(name);
    let rows = vec![0x3c; N_OUT * shape.file_row_bytes()];
    let mut bytes = vec![0; shape.bytes()];
    bencher.counter(BytesCount::new(rows.len())).bench_local(|| {
        for (row, raw) in rows.chunks_exact(shape.file_row_bytes()).enumerate() {
            shape.pack(row, raw, &mut bytes);
        }
    });
}

/// Matrices of many experts, more than caches of one core hold.
#[divan::bench(args = TYPES, consts = [1, 2])]
fn many<const THREADS: usize>(bencher: Bencher<'_, '_>, name: &str) {
    const N_MATRICES: usize = 24;
    let shape = shape(name);
    let rows = vec![0x3c; N_OUT * shape.file_row_bytes()];
    let mut places = vec![vec![0; shape.bytes()]; N_MATRICES];
    let all_rows = vec![rows; N_MATRICES];
    let mut pool = Pool::new(THREADS);
    let n_bytes: usize = all_rows.iter().map(Vec::len).sum();
    bencher.counter(BytesCount::new(n_bytes)).bench_local(|| {
        let jobs = all_rows.iter().zip(&mut places);
        let mut jobs: Vec<PackJob<'_>> =
            jobs.map(|(rows, bytes)| PackJob { shape, first_row: 0, rows, bytes }).collect();
        pack_all(&mut pool, &mut jobs);
    });
}

fn shape(name: &str) -> MatrixShape {
    let quant = QUANTS.iter().find(|quant| quant.layout.name == name).expect("a type's name");
    let weight_type = WeightType::of(quant.id).expect("a type that can be loaded");
    MatrixShape::new(weight_type, N_IN, N_OUT).expect("whole blocks")
}
