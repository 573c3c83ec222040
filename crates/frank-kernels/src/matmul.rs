//! Matrix products over the compute pool. The threads share groups of output columns, never a sum.

use crate::activations::Activations;
use crate::cpu::{Isa, isa};
use crate::disjoint::Disjoint;
use crate::matrix::{Input, Matrix};
use crate::pool::Pool;
use crate::weights::{GROUP_ROWS, TILE_ROWS};

/// Tasks per thread: small enough that a thread which lost its core for a while does not hold up the others.
const TASKS_PER_THREAD: usize = 8;

/// One product of a job: `out = x · weightᵀ`.
#[derive(Debug)]
pub struct Product<'a> {
    matrix: Matrix<'a>,
    out: Disjoint<'a, f32>,
    out_len: usize,
}

impl<'a> Product<'a> {
    /// The product with `matrix`, written to `out`, `[n_rows, matrix.n_out]`.
    #[must_use]
    pub fn new(matrix: Matrix<'a>, out: &'a mut [f32]) -> Self {
        Self { matrix, out_len: out.len(), out: Disjoint::new(out) }
    }
}

/// Multiplies the rows of `x`, `[n_rows, n_in]`, with each matrix of `products` in one job.
///
/// `quants` is scratch for the 8-bit form of `x`, made when a matrix reads it. Cost: reads each matrix once.
///
/// # Panics
/// When a length does not fit.
pub fn matmul(
    pool: &mut Pool,
    x: &[f32],
    n_in: usize,
    quants: &mut Activations,
    products: &mut [Product<'_>],
) {
    matmul_with(isa(), pool, x, n_in, quants, products);
}

pub(crate) fn matmul_with(
    isa: Isa,
    pool: &mut Pool,
    x: &[f32],
    n_in: usize,
    quants: &mut Activations,
    products: &mut [Product<'_>],
) {
    assert!(n_in > 0 && x.len().is_multiple_of(n_in), "{} values are no rows of {n_in}", x.len());
    let n_rows = x.len() / n_in;
    if n_rows == 0 || products.is_empty() {
        return;
    }
    for product in &*products {
        let shape = product.matrix.shape();
        assert_eq!(shape.n_in(), n_in, "activations and weights have the same inner size");
        assert_eq!(
            product.out_len,
            n_rows * shape.n_out(),
            "the output holds a row for each row of x"
        );
    }
    if products.iter().any(|product| product.matrix.reads_quants()) {
        quants.quantize_with(isa, x, n_in);
    }
    let input = Input { x, n_in, quants };
    let n_groups: usize = products.iter().map(|p| p.matrix.shape().n_groups()).sum();
    let per_task = n_groups.div_ceil(pool.n_threads() * TASKS_PER_THREAD);
    let products = &*products;
    pool.run(n_groups.div_ceil(per_task), &|task| {
        for group in task * per_task..((task + 1) * per_task).min(n_groups) {
            let (product, group) = locate(products, group);
            product.compute_group(isa, group, input, n_rows);
        }
    });
}

/// The product and its own group for a group counted over all products.
fn locate<'p, 'a>(products: &'p [Product<'a>], mut group: usize) -> (&'p Product<'a>, usize) {
    for product in products {
        let n_groups = product.matrix.shape().n_groups();
        if group < n_groups {
            return (product, group);
        }
        group -= n_groups;
    }
    unreachable!("group {group} past the last product");
}

impl Product<'_> {
    fn compute_group(&self, isa: Isa, group: usize, input: Input<'_>, n_rows: usize) {
        let n_out = self.matrix.shape().n_out();
        let first_column = group * GROUP_ROWS;
        let n_columns = GROUP_ROWS.min(n_out - first_column);
        let mut tile = [[0.0; GROUP_ROWS]; TILE_ROWS];
        for first_row in (0..n_rows).step_by(TILE_ROWS) {
            let tile = &mut tile[..TILE_ROWS.min(n_rows - first_row)];
            self.matrix.dot_group(isa, group, input, first_row, tile);
            for (row, lanes) in (first_row..).zip(&*tile) {
                // SAFETY: each group is computed by one task, and groups are ranges of columns without overlap.
                let out = unsafe { self.out.range_mut(row * n_out + first_column, n_columns) };
                out.copy_from_slice(&lanes[..n_columns]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{MatrixShape, WeightType};
    use half::f16;
    use proptest::prelude::*;

    const TYPES: [WeightType; 4] =
        [WeightType::F32, WeightType::F16, WeightType::Q4_1, WeightType::Q8_0];

    /// Deterministic noise in -1 .. 1.
    fn noise(seed: u64, n: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            #[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
            let unit = (state >> 40) as f32 / (1 << 24) as f32;
            unit * 2.0 - 1.0
        };
        std::iter::repeat_with(next).take(n).collect()
    }

    /// Rows as a file holds them: any quants, scales of either sign.
    fn file_rows(weight_type: WeightType, seed: u64, n_in: usize, n_out: usize) -> Vec<u8> {
        let halves = |values: &[f32]| {
            values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect::<Vec<_>>()
        };
        let values = noise(seed, n_in * n_out);
        let quants = |values: &[f32]| {
            values.iter().map(|x| x.to_bits().to_le_bytes()[0]).collect::<Vec<_>>()
        };
        match weight_type {
            WeightType::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            WeightType::F16 => halves(&values),
            WeightType::Q4_1 => values
                .chunks(32)
                .flat_map(|b| [halves(&b[..2]), quants(&b[..16])].concat())
                .collect(),
            WeightType::Q8_0 => {
                values.chunks(32).flat_map(|b| [halves(&b[..1]), quants(b)].concat()).collect()
            }
        }
    }

    fn packed(shape: MatrixShape, rows: &[u8]) -> Vec<f32> {
        let mut bytes = vec![0f32; shape.bytes().div_ceil(4)];
        let (first, rest) = rows.split_at(shape.file_row_bytes());
        shape.pack(1, rest, &mut bytemuck::cast_slice_mut(&mut bytes)[..shape.bytes()]);
        shape.pack(0, first, &mut bytemuck::cast_slice_mut(&mut bytes)[..shape.bytes()]);
        bytes
    }

    struct Case {
        shape: MatrixShape,
        bytes: Vec<f32>,
        x: Vec<f32>,
    }

    impl Case {
        fn new(
            weight_type: WeightType,
            seed: u64,
            n_in: usize,
            n_out: usize,
            n_rows: usize,
        ) -> Self {
            let shape = MatrixShape::new(weight_type, n_in, n_out).expect("whole blocks");
            let bytes = packed(shape, &file_rows(weight_type, seed, n_in, n_out));
            Self { shape, bytes, x: noise(seed + 1, n_in * n_rows) }
        }

        fn matrix(&self) -> Matrix<'_> {
            Matrix::new(self.shape, &bytemuck::cast_slice(&self.bytes)[..self.shape.bytes()])
        }

        fn run(&self, isa: Isa, n_threads: usize, x: &[f32]) -> Vec<u32> {
            let n_in = self.shape.n_in();
            let mut out = vec![f32::NAN; x.len() / n_in * self.shape.n_out()];
            let mut products = [Product::new(self.matrix(), &mut out)];
            matmul_with(
                isa,
                &mut Pool::new(n_threads),
                x,
                n_in,
                &mut Activations::default(),
                &mut products,
            );
            out.into_iter().map(f32::to_bits).collect()
        }
    }

    #[test]
    fn products_agree_with_f64_sums_over_the_decoded_rows() {
        for weight_type in TYPES {
            let case = Case::new(weight_type, 3, 96, 37, 11);
            let out = case.run(isa(), 2, &case.x);
            let mut row = vec![0.0; 96];
            for n in 0..37 {
                case.matrix().row(n, &mut row);
                for (m, x) in case.x.chunks(96).enumerate() {
                    let exact: f64 =
                        row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    let size: f64 = row.iter().zip(x).map(|(w, x)| f64::from((w * x).abs())).sum();
                    let got = f64::from(f32::from_bits(out[m * 37 + n]));
                    // 8-bit activations are off by half of 1/127 of the largest at most.
                    let tolerance = if weight_type == WeightType::F32 { 1e-6 } else { 8e-3 };
                    assert!(
                        (got - exact).abs() <= tolerance * size.max(1.0),
                        "{weight_type:?}: {got} for {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn several_products_of_one_job_do_not_mix() {
        let cases = TYPES.map(|t| Case::new(t, 5, 64, 40, 3));
        let x = &cases[0].x;
        let mut outs = [(); 4].map(|()| vec![0.0f32; 3 * 40]);
        let mut products: Vec<_> = cases
            .iter()
            .zip(&mut outs)
            .map(|(case, out)| Product::new(case.matrix(), out))
            .collect();
        matmul(&mut Pool::new(2), x, 64, &mut Activations::default(), &mut products);
        for (case, out) in cases.iter().zip(outs) {
            let alone = case.run(isa(), 1, x);
            assert_eq!(out.into_iter().map(f32::to_bits).collect::<Vec<_>>(), alone);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(frank_testkit::property_cases(64)))]
        #[test]
        fn instruction_set_threads_and_batch_mates_do_not_change_a_bit(
            which in 0usize..4, seed: u32, n_blocks in 1usize..6, tail in 0usize..31, n_out in 2usize..50, n_rows in 1usize..19,
        ) {
            // Only float rows may end inside a block.
            let n_in = n_blocks * 32 + if which < 2 { tail } else { 0 };
            let case = Case::new(TYPES[which], u64::from(seed), n_in, n_out, n_rows);
            let scalar = case.run(Isa::Scalar, 1, &case.x);
            prop_assert_eq!(&scalar, &case.run(Isa::Avx2, 2, &case.x));
            prop_assert_eq!(&scalar, &case.run(Isa::Avx512Vnni, 2, &case.x));
            let last = case.run(Isa::Avx512Vnni, 1, &case.x[(n_rows - 1) * n_in..]);
            prop_assert_eq!(&scalar[(n_rows - 1) * n_out..], &last[..]);
        }

        #[test]
        fn extreme_scales_and_inputs_give_the_same_bits(which in 2usize..4, scale_bits in prop::collection::vec(any::<u16>(), 8), x_bits in prop::collection::vec(any::<u32>(), 64)) {
            let shape = MatrixShape::new(TYPES[which], 64, 2).expect("whole blocks");
            let mut rows = file_rows(TYPES[which], 9, 64, 2);
            let block = rows.len() / 4;
            for (i, bits) in scale_bits.iter().enumerate().take(if which == 2 { 8 } else { 4 }) {
                let per_block = if which == 2 { 2 } else { 1 };
                let at = i / per_block * block + i % per_block * 2;
                rows[at..at + 2].copy_from_slice(&bits.to_le_bytes());
            }
            let x: Vec<f32> = x_bits.into_iter().map(f32::from_bits).collect();
            let case = Case { shape, bytes: packed(shape, &rows), x };
            // Which NaN comes out is not specified; that one comes out is.
            let run = |isa| case.run(isa, 1, &case.x).into_iter().map(|b| if f32::from_bits(b).is_nan() { f32::NAN.to_bits() } else { b }).collect::<Vec<_>>();
            prop_assert_eq!(run(Isa::Scalar), run(Isa::Avx2));
            prop_assert_eq!(run(Isa::Scalar), run(Isa::Avx512Vnni));
        }
    }
}
