//! Attention of one row (decode) and of a prompt's chunk over a sequence in the cache.
//!
//! `cargo bench -p frank-kernels --bench attention` on a quiet machine; a result names the machine and the threads.

use std::fmt;

use divan::Bencher;
use divan::counter::ItemsCount;
use frank_kernels::{AttentionShape, KvLayer, KvType, Pool, Queries, attention};

/// Query heads, key heads, components of a key and of a value head: a 135M model, an 8B one, small and large models
/// whose heads share one latent.
const SHAPES: [Shape; 4] =
    [Shape(9, 3, 64, 64), Shape(32, 8, 128, 128), Shape(16, 1, 576, 512), Shape(128, 1, 576, 512)];

/// Two halves near 1, so that nothing is slow for being tiny, as floats or as scales.
const PATTERN: u32 = 0x3c00_3c00;

#[derive(Debug, Clone, Copy)]
struct Shape(usize, usize, usize, usize);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(n_head, n_head_kv, head_dim, value_dim) = self;
        write!(f, "{n_head} heads over {n_head_kv} of {head_dim}, {value_dim}")
    }
}

fn main() {
    divan::main();
}

#[divan::bench(args = SHAPES, consts = [256, 1024, 4096])]
fn decode_one_thread<const POSITIONS: usize>(bencher: Bencher<'_, '_>, shape: Shape) {
    run(bencher, 1, shape, 1, POSITIONS, KvType::F16);
}

#[divan::bench(args = SHAPES, consts = [4096])]
fn decode_f32_one_thread<const POSITIONS: usize>(bencher: Bencher<'_, '_>, shape: Shape) {
    run(bencher, 1, shape, 1, POSITIONS, KvType::F32);
}

#[divan::bench(args = SHAPES, consts = [4096])]
fn decode_q8_0_one_thread<const POSITIONS: usize>(bencher: Bencher<'_, '_>, shape: Shape) {
    run(bencher, 1, shape, 1, POSITIONS, KvType::Q8_0);
}

#[divan::bench(args = SHAPES, consts = [4096])]
fn decode_q4_0_one_thread<const POSITIONS: usize>(bencher: Bencher<'_, '_>, shape: Shape) {
    run(bencher, 1, shape, 1, POSITIONS, KvType::Q4_0);
}

#[divan::bench(args = SHAPES, consts = [4096])]
fn decode_two_threads<const POSITIONS: usize>(bencher: Bencher<'_, '_>, shape: Shape) {
    run(bencher, 2, shape, 1, POSITIONS, KvType::F16);
}

#[divan::bench(args = SHAPES, consts = [64, 1024])]
fn chunk_of_64_one_thread<const POSITIONS: usize>(bencher: Bencher<'_, '_>, shape: Shape) {
    run(bencher, 1, shape, 64, POSITIONS, KvType::F16);
}

/// The last `n_rows` of so many positions.
fn run(
    bencher: Bencher<'_, '_>,
    n_threads: usize,
    shape: Shape,
    n_rows: usize,
    positions: usize,
    kv_type: KvType,
) {
    let Shape(n_head, n_head_kv, head_dim, value_dim) = shape;
    let (scale, window, soft_cap) = (0.01, None, None);
    let shape = AttentionShape { n_head, n_head_kv, head_dim, value_dim, scale, window, soft_cap };
    let n_blocks = positions.div_ceil(AttentionShape::BLOCK_TOKENS);
    let words =
        |dim: usize| kv_type.bytes(n_blocks * AttentionShape::BLOCK_TOKENS * n_head_kv * dim) / 4;
    let (k, v) = (vec![PATTERN; words(head_dim)], vec![PATTERN; words(value_dim)]);
    let (k, v) = (bytemuck::cast_slice(&k), bytemuck::cast_slice(&v));
    let kv = KvLayer { k, v, k_type: kv_type, v_type: kv_type };
    let table: Vec<u32> = (0..).take(n_blocks).collect();
    let ends: Vec<u32> = (0..).take(positions).skip(positions - n_rows).collect();
    let q = vec![0.5; n_rows * n_head * head_dim];
    let mut out = vec![0.0; n_rows * n_head * value_dim];
    let queries = Queries {
        q: &q,
        positions: &ends,
        sequences: &vec![0; n_rows],
        block_tables: &[&table],
        sinks: None,
    };
    let mut pool = Pool::new(n_threads);
    bencher
        .counter(ItemsCount::new(n_rows * positions * n_head * (head_dim + value_dim)))
        .bench_local(|| attention(&mut pool, &shape, queries, kv, &mut out));
}
