//! SIMD kernels, CPU dispatch and the compute pool, behind safe functions.
//!
//! Every kernel gives the same bits whatever the instruction set, the number of threads and the number of rows
//! computed together. The order of each sum is part of a kernel's documentation: integer dot products are exact
//! within a block, and f32 sums run in block order per output element with the fused multiply-adds named there.
#![expect(
    unsafe_code,
    reason = "SIMD and tile instructions, instruction-set dispatch and writes of threads to disjoint columns"
)]

mod activations;
mod attention;
mod columns;
mod cpu;
mod disjoint;
mod elementwise;
mod exp;
mod heads;
mod kv;
mod lanes;
mod matmul;
mod matrix;
mod measure;
mod packing;
mod pool;
mod rope;
mod weights;
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
mod x86;

pub use activations::Activations;
pub use attention::{AttentionShape, Queries, attention};
pub use cpu::Isa;
pub use elementwise::{
    add, add_bias, gather_rows, gelu_tanh_mul, rms_norm, rms_norm_in_place, scale, scale_rows,
    sigmoid, silu_mul, soft_cap, softmax_rows, swiglu_clamped, weighted_sum,
};
pub use heads::{HeadLayout, copy_heads};
pub use kv::{KvLayer, KvLayerMut, KvType, store_kv};
pub use matmul::{GroupedProduct, Product, RowGroup, matmul, matmul_grouped};
pub use matrix::{Matrix, MatrixShape, PackError};
pub use measure::{SyntheticProduct, read_bandwidth};
pub use packing::{PackJob, pack_all};
pub use pool::Pool;
pub use rope::{RopePairs, RopeTable, rope};
pub use weights::{GROUP_ROWS, WeightType};
