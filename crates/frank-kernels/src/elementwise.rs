//! RMS norm, gated activations, soft cap, biases and sums over rows: the work between matrix products. Threads share
//! rows or values, never a sum.

mod experts;

use std::ops::Range;

use crate::cpu::{for_each_isa, isa};
use crate::disjoint::Disjoint;
use crate::exp::{exp, tanh};
use crate::pool::Pool;

pub use experts::{gather_rows, scale_rows, sigmoid, softmax_rows, swiglu_clamped, weighted_sum};

/// Values of a task: so many that starting another thread takes less time than they do.
const TASK_VALUES: usize = 1 << 13;

/// Gives each thread ranges of `n_values` values, whole runs of `unit`.
fn share(pool: &mut Pool, n_values: usize, unit: usize, each: &(dyn Fn(Range<usize>) + Sync)) {
    let per_task = TASK_VALUES.next_multiple_of(unit);
    pool.run(n_values.div_ceil(per_task), &|task| {
        each(task * per_task..n_values.min((task + 1) * per_task));
    });
}

/// Runs `each` over ranges of `x`, whole runs of `unit`, on every thread.
pub(crate) fn share_mut(
    pool: &mut Pool,
    x: &mut [f32],
    unit: usize,
    each: &(dyn Fn(&mut [f32], Range<usize>) + Sync),
) {
    let n_values = x.len();
    let x = Disjoint::new(x);
    share(pool, n_values, unit, &|range| {
        // SAFETY: the ranges of tasks do not overlap.
        let part = unsafe { x.range_mut(range.start, range.len()) };
        each(part, range);
    });
}

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
pub fn rms_norm(pool: &mut Pool, x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    assert!(
        x.len() == out.len() && x.len().is_multiple_of(weight.len()),
        "rows of {}",
        weight.len()
    );
    share_mut(pool, out, weight.len(), &|out, range| {
        rms_norm_rows(isa(), &x[range], weight, epsilon, out);
    });
}

/// As [`rms_norm`], written over its input.
///
/// # Panics
/// When `x` is not whole rows.
pub fn rms_norm_in_place(pool: &mut Pool, x: &mut [f32], weight: &[f32], epsilon: f32) {
    assert!(x.len().is_multiple_of(weight.len()), "rows of {}", weight.len());
    share_mut(pool, x, weight.len(), &|x, _| rms_norm_rows_in_place(isa(), x, weight, epsilon));
}

for_each_isa! {
    fn rms_norm_rows(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) = rms_norm_body
}

for_each_isa! {
    fn rms_norm_rows_in_place(x: &mut [f32], weight: &[f32], epsilon: f32) = rms_norm_in_place_body
}

#[inline(always)]
fn rms_norm_body(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let n = weight.len();
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let scale = rms_scale(x, epsilon);
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * scale * weight;
        }
    }
}

#[inline(always)]
fn rms_norm_in_place_body(x: &mut [f32], weight: &[f32], epsilon: f32) {
    for x in x.chunks_exact_mut(weight.len()) {
        let scale = rms_scale(x, epsilon);
        for (x, weight) in x.iter_mut().zip(weight) {
            *x = *x * scale * weight;
        }
    }
}

/// `1 / sqrt(mean(x^2) + epsilon)` of one row.
#[inline(always)]
fn rms_scale(x: &[f32], epsilon: f32) -> f32 {
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
    let mean = sum_lanes(lanes) / x.len() as f32;
    1.0 / (mean + epsilon).sqrt()
}

/// Gated SiLU: `gate = gate / (1 + e^-gate) * up`, value by value.
///
/// # Panics
/// When the lengths differ.
pub fn silu_mul(pool: &mut Pool, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len());
    share_mut(pool, gate, 1, &|gate, range| silu_mul_values(isa(), gate, &up[range]));
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

/// Gated GELU in the tanh form: `gate = gelu(gate) * up`, value by value, where
/// `gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.
///
/// Computed as `x / (1 + e^-2u)` with the same `u`, which is equal and loses nothing where the tangent nears -1.
///
/// # Panics
/// When the lengths differ.
pub fn gelu_tanh_mul(pool: &mut Pool, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len());
    share_mut(pool, gate, 1, &|gate, range| gelu_tanh_mul_values(isa(), gate, &up[range]));
}

for_each_isa! {
    fn gelu_tanh_mul_values(gate: &mut [f32], up: &[f32]) = gelu_tanh_mul_body
}

#[inline(always)]
fn gelu_tanh_mul_body(gate: &mut [f32], up: &[f32]) {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    for (gate, up) in gate.iter_mut().zip(up) {
        let x = *gate;
        let u = SQRT_2_OVER_PI * x * (x * x).mul_add(0.044_715, 1.0);
        *gate = x / (1.0 + exp(-2.0 * u)) * up;
    }
}

/// Soft cap, value by value: `x = cap * tanh(x / cap)`.
pub fn soft_cap(pool: &mut Pool, x: &mut [f32], cap: f32) {
    share_mut(pool, x, 1, &|x, _| soft_cap_values(isa(), x, cap));
}

for_each_isa! {
    fn soft_cap_values(x: &mut [f32], cap: f32) = soft_cap_body
}

#[inline(always)]
fn soft_cap_body(x: &mut [f32], cap: f32) {
    for x in x {
        *x = cap * tanh(*x / cap);
    }
}

/// Multiplies every value by `factor`.
pub fn scale(x: &mut [f32], factor: f32) {
    x.iter_mut().for_each(|x| *x *= factor);
}

/// Adds `bias` to each row of `x`, `[n_rows, bias.len()]`.
///
/// # Panics
/// When `x` is not whole rows.
pub fn add_bias(pool: &mut Pool, x: &mut [f32], bias: &[f32]) {
    assert!(x.len().is_multiple_of(bias.len()), "rows of {}", bias.len());
    share_mut(pool, x, bias.len(), &|x, _| {
        x.chunks_exact_mut(bias.len()).for_each(|row| add_values(isa(), row, bias));
    });
}

/// Adds `delta` to `x`, value by value.
///
/// # Panics
/// When the lengths differ.
pub fn add(pool: &mut Pool, x: &mut [f32], delta: &[f32]) {
    assert_eq!(x.len(), delta.len());
    share_mut(pool, x, 1, &|x, range| add_values(isa(), x, &delta[range]));
}

for_each_isa! {
    fn add_values(x: &mut [f32], delta: &[f32]) = add_body
}

#[inline(always)]
fn add_body(x: &mut [f32], delta: &[f32]) {
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
        rms_norm(&mut Pool::new(1), &[3.0, -3.0, 3.0, 3.0], &[1.0, 1.0, 2.0, 0.0], 0.0, &mut out);
        assert_eq!(out, [1.0, -1.0, 2.0, 0.0]);
    }

    #[test]
    fn silu_is_half_way_at_zero_and_linear_far_out() {
        let mut gate = [0.0, 100.0, -100.0];
        silu_mul(&mut Pool::new(1), &mut gate, &[5.0, 2.0, 2.0]);
        assert_eq!(gate[..2], [0.0, 200.0]);
        assert!(gate[2].abs() < 1e-30);
    }

    #[test]
    fn gelu_is_the_tanh_form_within_rounding() {
        for i in -80_000..80_000 {
            #[expect(clippy::cast_precision_loss, reason = "test points")]
            let x = i as f32 / 8000.0;
            let mut gate = [x];
            gelu_tanh_mul(&mut Pool::new(1), &mut gate, &[1.0]);
            let x = f64::from(x);
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            let exact = x / (1.0 + (-2.0 * u).exp());
            let error = (f64::from(gate[0]) - exact).abs();
            // Far out on the left the rounding of `u` is what counts: a fraction of a value that nears 0.
            assert!(error <= 3e-7 * exact.abs() + 2e-8, "gelu({x}) is off by {error:e}");
        }
        let mut ends = [-1e30, 1e30, f32::NAN];
        gelu_tanh_mul(&mut Pool::new(1), &mut ends, &[1.0; 3]);
        assert_eq!(ends[..2], [0.0, 1e30]);
        assert!(ends[2].is_nan());
    }

    #[test]
    fn a_soft_cap_bounds_and_leaves_small_values() {
        let mut x = [0.0, 0.01, 1e9, -1e9, 30.0];
        soft_cap(&mut Pool::new(1), &mut x, 30.0);
        assert_eq!(x[..1], [0.0]);
        assert!((x[1] - 0.01).abs() < 1e-8, "{x:?}");
        assert_eq!(x[2..4], [30.0, -30.0]);
        assert!((x[4] - 22.847_826).abs() < 3e-6, "{x:?}");
    }

    #[test]
    fn a_bias_goes_to_each_row() {
        let mut x = [1.0, 2.0, 3.0, 4.0];
        add_bias(&mut Pool::new(1), &mut x, &[10.0, 20.0]);
        assert_eq!(x, [11.0, 22.0, 13.0, 24.0]);
    }

    #[test]
    fn threads_share_rows_and_values_without_a_change() {
        let n = 250;
        let x: Vec<f32> = (0u16..60_000).map(|i| f32::from(i % 991) / 100.0 - 4.0).collect();
        let weight = &x[..n];
        let run = |n_threads| {
            let pool = &mut Pool::new(n_threads);
            let mut normed = vec![f32::NAN; x.len()];
            rms_norm(pool, &x, weight, 1e-5, &mut normed);
            let mut values = x.clone();
            rms_norm_in_place(pool, &mut values, weight, 1e-5);
            assert_eq!(values, normed);
            silu_mul(pool, &mut values, &x);
            add(pool, &mut values, &normed);
            gelu_tanh_mul(pool, &mut values, &normed);
            add_bias(pool, &mut values, weight);
            soft_cap(pool, &mut values, 30.0);
            values
        };
        assert_eq!(run(1), run(3));
    }

    /// Which NaN comes out is not specified; that one comes out is.
    fn bits(x: &[f32]) -> Vec<u32> {
        x.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
    }

    /// Mostly numbers of usual sizes, at times any bits.
    fn number(size: f32) -> impl Strategy<Value = f32> {
        prop_oneof![50 => -size..size, 1 => any::<u32>().prop_map(f32::from_bits)]
    }

    proptest! {
        #[test]
        fn every_instruction_set_gives_the_same_bits(
            x in prop::collection::vec(number(1e4), 1..80),
            y in prop::collection::vec(number(1e2), 80),
        ) {
            let run = |isa| {
                let mut normed = vec![0.0; x.len()];
                rms_norm_rows(isa, &x, &y[..x.len()], 1e-5, &mut normed);
                let mut in_place = x.clone();
                rms_norm_rows_in_place(isa, &mut in_place, &y[..x.len()], 1e-5);
                assert_eq!(bits(&normed), bits(&in_place));
                let mut silu = y[..x.len()].to_vec();
                silu_mul_values(isa, &mut silu, &x);
                let mut gelu = y[..x.len()].to_vec();
                gelu_tanh_mul_values(isa, &mut gelu, &x);
                let mut capped = y[..x.len()].to_vec();
                soft_cap_values(isa, &mut capped, 30.0);
                [bits(&normed), bits(&silu), bits(&gelu), bits(&capped)]
            };
            prop_assert_eq!(run(Isa::Scalar), run(Isa::Avx2));
            prop_assert_eq!(run(Isa::Scalar), run(Isa::Avx512Vnni));
        }
    }
}
