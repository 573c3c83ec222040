//! Products of every type of `QUANTS`: right to the last digits, and the same bits however they are computed.

mod grouped;

use std::ops::Range;
use std::sync::LazyLock;

use frank_gguf::quant::{QUANTS, QuantType};
use proptest::prelude::*;

use super::*;
use crate::activations::QUANT_BLOCK;
use crate::cpu::isa;
use crate::matrix::MatrixShape;
use crate::weights::WeightType;

/// Deterministic noise.
struct Noise(u64);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.bits() as u8).collect()
    }

    /// `n` floats in -1 .. 1.
    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.bits() >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    /// `n` integers that 8-bit quantization keeps: each block has a largest one of 127.
    fn integers(&mut self, n: usize) -> Vec<f32> {
        let mut x: Vec<f32> = (0..n).map(|_| self.below(255) as f32 - 127.0).collect();
        for block in x.chunks_mut(QUANT_BLOCK) {
            let at = self.below(block.len());
            block[at] = if self.below(2) == 0 { 127.0 } else { -127.0 };
        }
        x
    }
}

fn sizes(quant: &QuantType) -> (usize, usize) {
    (quant.layout.values_per_block as usize, quant.layout.bytes_per_block as usize)
}

/// For each type random blocks of values that are neither tiny nor huge, so that no block hides behind another.
static BLOCKS: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| {
    let blocks_of = |quant: &QuantType| {
        let (n_values, n_bytes) = sizes(quant);
        let mut noise = Noise::new(u64::from(quant.id) + 1);
        let mut values = vec![0.0; n_values];
        let candidates = std::iter::repeat_with(|| noise.bytes(n_bytes));
        let usable = candidates.filter(|block| {
            (quant.dequantize)(block, &mut values);
            let largest = values.iter().fold(0.0, |max: f32, v| max.max(v.abs()));
            values.iter().all(|v| v.is_finite()) && (1.0..64.0).contains(&largest)
        });
        usable.take(64).collect()
    };
    QUANTS.iter().map(blocks_of).collect()
});

/// Rows as a file holds them.
fn file_rows(which: usize, noise: &mut Noise, n_values: usize) -> Vec<u8> {
    let blocks = &BLOCKS[which];
    let n_blocks = n_values / sizes(&QUANTS[which]).0;
    (0..n_blocks).flat_map(|_| &blocks[noise.below(blocks.len())]).copied().collect()
}

/// A matrix of one type, as `pack` lays it out in two calls.
struct Case {
    quant: &'static QuantType,
    shape: MatrixShape,
    rows: Vec<u8>,
    bytes: Vec<u8>,
}

impl Case {
    fn new(which: usize, rows: Vec<u8>, n_in: usize, n_out: usize) -> Self {
        let quant = &QUANTS[which];
        let weight_type = WeightType::of(quant.id).expect("each type can be multiplied");
        let shape = MatrixShape::new(weight_type, n_in, n_out).expect("whole blocks");
        let mut bytes = vec![0; shape.bytes()];
        let (first, rest) = rows.split_at(shape.file_row_bytes());
        shape.pack(1, rest, &mut bytes);
        shape.pack(0, first, &mut bytes);
        Self { quant, shape, rows, bytes }
    }

    fn random(which: usize, seed: u64, n_in: usize, n_out: usize) -> Self {
        let rows = file_rows(which, &mut Noise::new(seed), n_in * n_out);
        Self::new(which, rows, n_in, n_out)
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix::new(self.shape, &self.bytes)
    }

    /// All values, `[n_out, n_in]`.
    fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.shape.n_in() * self.shape.n_out()];
        (self.quant.dequantize)(&self.rows, &mut values);
        values
    }

    fn run(&self, isa: Isa, n_threads: usize, x: &[f32]) -> Vec<f32> {
        let n_in = self.shape.n_in();
        let mut out = vec![f32::NAN; x.len() / n_in * self.shape.n_out()];
        let products = [Product::new(self.matrix(), &mut out)];
        let mut quants = Activations::default();
        let means = Means { isa, tiles_from: 1 };
        multiply(means, &mut Pool::new(n_threads), x, n_in, &mut quants, &products);
        out
    }

    /// Products with `x` are off by `tolerance` of the sum of their terms' sizes at most.
    fn check(&self, x: &[f32], tolerance: f64) {
        let (n_in, n_out) = (self.shape.n_in(), self.shape.n_out());
        let values = self.values();
        for isa in [Isa::Scalar, Isa::Avx2, Isa::Avx512Vnni, Isa::Amx] {
            let out = self.run(isa, 2, x);
            for (x, out) in x.chunks(n_in).zip(out.chunks(n_out)) {
                for (n, (row, got)) in values.chunks(n_in).zip(out).enumerate() {
                    let terms = row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
                    let (exact, size) =
                        terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
                    assert!(
                        (f64::from(*got) - exact).abs() <= tolerance * size,
                        "{} row {n} with {}: {got} for {exact}",
                        self.quant.layout.name,
                        isa.name()
                    );
                }
            }
        }
    }
}

/// Which NaN comes out is not specified; that one comes out is.
fn bits(values: &[f32]) -> Vec<u32> {
    let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    values.iter().map(bits).collect()
}

fn types() -> impl Iterator<Item = (usize, &'static QuantType)> {
    QUANTS.iter().enumerate()
}

/// A row length of `n_blocks` blocks; types without blocks also end inside a register.
fn row_len(quant: &QuantType, n_blocks: usize, tail: usize) -> usize {
    match sizes(quant).0 {
        1 => n_blocks * 32 + tail,
        block => n_blocks * block,
    }
}

#[test]
fn every_bit_of_a_weight_counts_in_products_with_activations_that_8_bits_hold() {
    for (which, quant) in types() {
        let n_in = row_len(quant, 3, 13);
        let case = Case::random(which, 3, n_in, 37);
        // Sums of f32 are off by some units in the last place of their largest terms.
        case.check(&Noise::new(4).integers(n_in * 5), 1e-6);
    }
}

#[test]
fn rows_of_every_length_count_to_their_last_value() {
    for (which, _) in types().filter(|(_, quant)| sizes(quant).0 == 1) {
        for n_in in 1..=50 {
            Case::random(which, 14, n_in, 3).check(&Noise::new(15).floats(n_in * 3), 1e-6);
        }
    }
}

/// Long rows are computed stretch by stretch for several rows of activations, and at once for one.
#[test]
fn rows_longer_than_a_stretch_are_right_and_the_same_alone() {
    for (which, quant) in types() {
        let n_in = row_len(quant, 1100_usize.div_ceil(sizes(quant).0.max(32)), 19);
        let case = Case::random(which, 12, n_in, 3);
        let x = Noise::new(13).integers(n_in * 15);
        case.check(&x, 2e-6);
        let together = bits(&case.run(isa(), 1, &x));
        for (x, together) in x.chunks(n_in).zip(together.chunks(3)) {
            assert_eq!(together, bits(&case.run(isa(), 1, x)), "{}", quant.layout.name);
        }
    }
}

#[test]
fn products_with_any_activations_are_as_good_as_8_bits() {
    for (which, quant) in types() {
        let n_in = row_len(quant, 2, 5);
        let case = Case::random(which, 5, n_in, 18);
        // An activation is off by half of 1/127 of the largest in its block at most.
        case.check(&Noise::new(6).floats(n_in * 3), 8e-3);
    }
}

#[test]
fn a_row_has_the_values_of_the_reference() {
    for (which, quant) in types() {
        let n_in = row_len(quant, 3, 7);
        let case = Case::random(which, 7, n_in, 21);
        let mut row = vec![0.0; n_in];
        for (n, expected) in case.values().chunks(n_in).enumerate() {
            case.matrix().row(n, &mut row);
            assert_eq!(bits(&row), bits(expected), "row {n} of {}", quant.layout.name);
        }
    }
}

#[test]
fn a_matrix_takes_the_bytes_of_the_file_and_the_padding_of_groups() {
    for (which, quant) in types() {
        let n_in = row_len(quant, 1, 3);
        let case = Case::random(which, 8, n_in, 32);
        let (file, padded) = (case.rows.len(), case.shape.bytes());
        assert!(padded >= file && padded < file + 2 * 64, "{}", quant.layout.name);
    }
}

#[test]
fn several_products_of_one_job_do_not_mix() {
    let cases: Vec<_> = types().map(|(which, _)| Case::random(which, 9, 256, 40)).collect();
    let x = Noise::new(10).floats(256 * 3);
    let mut outs = vec![vec![0.0; 3 * 40]; cases.len()];
    let products = cases.iter().zip(&mut outs).map(|(case, out)| Product::new(case.matrix(), out));
    let mut products: Vec<_> = products.collect();
    matmul(&mut Pool::new(2), &x, 256, &mut Activations::default(), &mut products);
    for (case, out) in cases.iter().zip(&outs) {
        assert_eq!(bits(out), bits(&case.run(isa(), 1, &x)), "{}", case.quant.layout.name);
    }
}

#[test]
fn rows_that_end_inside_a_block_are_refused() {
    for (_, quant) in types() {
        let weight_type = WeightType::of(quant.id).expect("each type can be multiplied");
        let block = sizes(quant).0;
        let shape = |n_in| MatrixShape::new(weight_type, n_in, 1);
        assert!(shape(block).is_ok());
        assert_eq!(shape(block + 1).is_err(), block > 1, "{}", quant.layout.name);
        assert!(shape(0).is_err());
    }
}

#[test]
fn no_rows_are_no_products() {
    for (which, _) in types() {
        assert!(Case::random(which, 11, 256, 2).run(isa(), 2, &[]).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(frank_testkit::property_cases(48)))]
    #[test]
    fn instruction_set_threads_and_batch_mates_do_not_change_a_bit(
        seed: u32, n_blocks in 1usize..4, tail in 0usize..31, n_out in 1usize..50, n_rows in 1usize..40,
    ) {
        for (which, quant) in types() {
            let n_in = row_len(quant, n_blocks, tail);
            let case = Case::random(which, u64::from(seed), n_in, n_out);
            let x = Noise::new(u64::from(seed) + 1).floats(n_in * n_rows);
            let scalar = bits(&case.run(Isa::Scalar, 1, &x));
            prop_assert_eq!(&scalar, &bits(&case.run(Isa::Avx2, 2, &x)), "{} avx2", quant.layout.name);
            prop_assert_eq!(&scalar, &bits(&case.run(Isa::Avx512Vnni, 2, &x)), "{} avx512", quant.layout.name);
            prop_assert_eq!(&scalar, &bits(&case.run(Isa::Amx, 2, &x)), "{} amx", quant.layout.name);
            let last = &x[(n_rows - 1) * n_in..];
            prop_assert_eq!(&scalar[(n_rows - 1) * n_out..], &bits(&case.run(isa(), 1, last))[..], "{} alone", quant.layout.name);
        }
    }

    #[test]
    fn any_bytes_and_any_activations_give_the_same_bits(
        seed: u64, x in prop::collection::vec(prop_oneof![any::<f32>(), any::<u32>().prop_map(f32::from_bits)], 256),
    ) {
        for (which, quant) in types() {
            let (n_values, n_bytes) = sizes(quant);
            let n_in = n_values.max(32);
            let row_bytes = n_in / n_values * n_bytes;
            let mut rows = Noise::new(seed).bytes(17 * row_bytes);
            // Scales of zero, of the largest size and of no number. One block in a row: nothing else is spoilt.
            for (row, byte) in rows.chunks_mut(row_bytes).zip([0x00, 0x7b, 0x80, 0xff]) {
                row.fill(byte);
            }
            let case = Case::new(which, rows, n_in, 17);
            for x in [&x[..n_in], &Noise::new(seed).integers(n_in)] {
                let scalar = bits(&case.run(Isa::Scalar, 1, x));
                prop_assert_eq!(&scalar, &bits(&case.run(Isa::Avx2, 1, x)), "{} avx2", quant.layout.name);
                prop_assert_eq!(&scalar, &bits(&case.run(Isa::Avx512Vnni, 1, x)), "{} avx512", quant.layout.name);
                prop_assert_eq!(&scalar, &bits(&case.run(Isa::Amx, 1, x)), "{} amx", quant.layout.name);
            }
        }
    }
}
