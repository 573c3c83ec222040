//! RMS norm, gated activation and sums over rows: the work between matrix products.

use crate::cpu::{for_each_isa, isa};
use crate::exp::exp;

/// Lanes of a sum over a row. Lane `l` sums the values at `l, l + 16, …` in order; then the lanes are added in
/// halves: 8 to 8, 4 to 4, 2 to 2, 1 to 1.
pub(crate) const LANES: usize = 16;

/// Adds the lanes of a sum in the fixed order.
#[inline(always)]
pub(crate) fn sum_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] += lanes[l + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// RMSNorm of each row: `out = x / sqrt(mean(x^2) + epsilon) * weight`.
///
/// Shapes: `x` and `out` are `[n_rows, weight.len()]`.
///
/// # Panics
/// When the lengths do not fit.
pub fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    assert!(
        x.len() == out.len() && x.len().is_multiple_of(weight.len()),
        "rows of {}",
        weight.len()
    );
    rms_norm_rows(isa(), x, weight, epsilon, out);
}

for_each_isa! {
    fn rms_norm_rows(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) = rms_norm_body
}

#[inline(always)]
fn rms_norm_body(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let n = weight.len();
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let mut lanes = [0.0f32; LANES];
        let (whole, tail) = x.as_chunks::<LANES>();
        for x in whole {
            for l in 0..LANES {
                lanes[l] = x[l].mul_add(x[l], lanes[l]);
            }
        }
        for (lane, x) in lanes.iter_mut().zip(tail) {
            *lane = x.mul_add(*x, *lane);
        }
        #[expect(clippy::cast_precision_loss, reason = "a row has far fewer than 2^24 values")]
        let mean = sum_lanes(lanes) / n as f32;
        let scale = 1.0 / (mean + epsilon).sqrt();
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * scale * weight;
        }
    }
}

/// Gated SiLU: `gate = gate / (1 + e^-gate) * up`, value by value.
///
/// # Panics
/// When the lengths differ.
pub fn silu_mul(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len());
    silu_mul_values(isa(), gate, up);
}

for_each_isa! {
    fn silu_mul_values(gate: &mut [f32], up: &[f32]) = silu_mul_body
}

#[inline(always)]
fn silu_mul_body(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp(-*gate)) * up;
    }
}

/// Adds `delta` to `x`, value by value.
///
/// # Panics
/// When the lengths differ.
pub fn add(x: &mut [f32], delta: &[f32]) {
    assert_eq!(x.len(), delta.len());
    for (x, delta) in x.iter_mut().zip(delta) {
        *x += delta;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Isa;
    use proptest::prelude::*;

    #[test]
    fn rms_norm_scales_a_row_to_unit_mean_square() {
        let mut out = [0.0; 4];
        rms_norm(&[3.0, -3.0, 3.0, 3.0], &[1.0, 1.0, 2.0, 0.0], 0.0, &mut out);
        assert_eq!(out, [1.0, -1.0, 2.0, 0.0]);
    }

    #[test]
    fn silu_is_half_way_at_zero_and_linear_far_out() {
        let mut gate = [0.0, 100.0, -100.0];
        silu_mul(&mut gate, &[5.0, 2.0, 2.0]);
        assert_eq!(gate[..2], [0.0, 200.0]);
        assert!(gate[2].abs() < 1e-30);
    }

    fn bits(x: &[f32]) -> Vec<u32> {
        x.iter().map(|x| x.to_bits()).collect()
    }

    proptest! {
        #[test]
        fn every_instruction_set_gives_the_same_bits(
            x in prop::collection::vec(-1e4f32..1e4, 1..80),
            y in prop::collection::vec(-1e2f32..1e2, 80),
        ) {
            let run = |isa| {
                let mut normed = vec![0.0; x.len()];
                rms_norm_rows(isa, &x, &y[..x.len()], 1e-5, &mut normed);
                let mut gated = y[..x.len()].to_vec();
                silu_mul_values(isa, &mut gated, &x);
                (bits(&normed), bits(&gated))
            };
            prop_assert_eq!(run(Isa::Scalar), run(Isa::Avx2));
            prop_assert_eq!(run(Isa::Scalar), run(Isa::Avx512Vnni));
        }
    }
}
