//! What a mixture of experts needs between its products: scores of routers, clamped activations, rows gathered by expert
//! and summed again. Every value depends on its own row alone, or is one sum in a stated order.

use super::{LANES, share_mut, sum_lanes};
use crate::cpu::{for_each_isa, isa};
use crate::exp::exp;
use crate::pool::Pool;

/// Softmax of each row of `x`, `[n_rows, n]`: `x = e^(x - max) / Σ e^(x - max)`.
///
/// The sum is made in 16 lanes as that of an RMS norm. A row that holds a NaN or positive infinity, or nothing above
/// negative infinity, becomes NaN.
///
/// # Panics
/// When `n` is 0 or `x` is not whole rows.
pub fn softmax_rows(pool: &mut Pool, x: &mut [f32], n: usize) {
    assert!(n > 0 && x.len().is_multiple_of(n), "{} values are no rows of {n}", x.len());
    share_mut(pool, x, n, &|x, _| softmax(isa(), x, n));
}

for_each_isa! {
    fn softmax(x: &mut [f32], n: usize) = softmax_body
}

#[inline(always)]
fn softmax_body(x: &mut [f32], n: usize) {
    for x in x.chunks_exact_mut(n) {
        let max = x.iter().fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max });
        let mut lanes = [0.0f32; LANES];
        let (whole, tail) = x.as_chunks_mut::<LANES>();
        for x in whole {
            for (lane, x) in lanes.iter_mut().zip(x) {
                *x = exp(*x - max);
                *lane += *x;
            }
        }
        for (lane, x) in lanes.iter_mut().zip(tail) {
            *x = exp(*x - max);
            *lane += *x;
        }
        let sum = sum_lanes(lanes);
        x.iter_mut().for_each(|x| *x /= sum);
    }
}

/// Logistic function, value by value: `x = 1 / (1 + e^-x)`.
pub fn sigmoid(pool: &mut Pool, x: &mut [f32]) {
    share_mut(pool, x, 1, &|x, _| sigmoid_values(isa(), x));
}

for_each_isa! {
    fn sigmoid_values(x: &mut [f32]) = sigmoid_body
}

#[inline(always)]
fn sigmoid_body(x: &mut [f32]) {
    for x in x {
        *x = 1.0 / (1.0 + exp(-*x));
    }
}

/// Gated SwiGLU with clamps, value by value: `gate = g / (1 + e^(-alpha g)) * (u + 1)` with `g = min(gate, limit)` and
/// `u = min(max(up, -limit), limit)`. NaN stays NaN.
///
/// Source: `gpt-oss`.
///
/// # Panics
/// When the lengths differ.
pub fn swiglu_clamped(pool: &mut Pool, gate: &mut [f32], up: &[f32], alpha: f32, limit: f32) {
    assert_eq!(gate.len(), up.len());
    share_mut(pool, gate, 1, &|gate, range| {
        swiglu_clamped_values(isa(), gate, &up[range], alpha, limit);
    });
}

for_each_isa! {
    fn swiglu_clamped_values(gate: &mut [f32], up: &[f32], alpha: f32, limit: f32) = swiglu_clamped_body
}

#[inline(always)]
fn swiglu_clamped_body(gate: &mut [f32], up: &[f32], alpha: f32, limit: f32) {
    for (gate, up) in gate.iter_mut().zip(up) {
        let g = if *gate > limit { limit } else { *gate };
        let u = if *up > limit { limit } else { *up };
        let u = if u < -limit { -limit } else { u };
        *gate = g / (1.0 + exp(-(alpha * g))) * (u + 1.0);
    }
}

/// Copies rows of `x`, `[n_rows, width]`, to `out`, `[rows.len(), width]`: row `rows[i]` becomes row `i`.
///
/// # Panics
/// When a length does not fit, or there is no such row.
pub fn gather_rows(pool: &mut Pool, x: &[f32], width: usize, rows: &[u32], out: &mut [f32]) {
    assert!(width > 0 && x.len().is_multiple_of(width), "{} values of {width}", x.len());
    assert_eq!(out.len(), rows.len() * width, "a row of the output for each row named");
    share_mut(pool, out, width, &|out, range| {
        let rows = &rows[range.start / width..];
        for (out, row) in out.chunks_exact_mut(width).zip(rows) {
            out.copy_from_slice(&x[*row as usize * width..][..width]);
        }
    });
}

/// Sums `n_used` weighted rows for each row of `out`, `[n_rows, width]`.
///
/// `rows` is `[n_slots, width]`; `slots`, `[n_rows, n_used]`, says which of them belong to a row of `out`, in the order of
/// the sum, and `weights`, of the same shape, what they are multiplied with. The sum is `w0 * x0`, then
/// `acc = fma(wk, xk, acc)` for each further one in order.
///
/// # Panics
/// When a length does not fit, or there is no such slot.
pub fn weighted_sum(
    pool: &mut Pool,
    rows: &[f32],
    n_used: usize,
    slots: &[u32],
    weights: &[f32],
    out: &mut [f32],
) {
    assert!(n_used > 0 && slots.len().is_multiple_of(n_used), "{} slots of {n_used}", slots.len());
    assert_eq!(slots.len(), weights.len(), "a weight for each slot");
    let n_rows = slots.len() / n_used;
    if n_rows == 0 {
        return assert!(out.is_empty(), "an output for rows that are not there");
    }
    assert!(!out.is_empty() && out.len().is_multiple_of(n_rows), "{n_rows} rows of one width");
    let width = out.len() / n_rows;
    share_mut(pool, out, width, &|out, range| {
        let used = range.start / width * n_used..range.end / width * n_used;
        let (slots, weights) = (slots[used.clone()].chunks(n_used), weights[used].chunks(n_used));
        for ((out, slots), weights) in out.chunks_exact_mut(width).zip(slots).zip(weights) {
            weighted_sum_row(isa(), rows, slots, weights, out);
        }
    });
}

for_each_isa! {
    fn weighted_sum_row(rows: &[f32], slots: &[u32], weights: &[f32], out: &mut [f32]) = weighted_sum_body
}

#[inline(always)]
fn weighted_sum_body(rows: &[f32], slots: &[u32], weights: &[f32], out: &mut [f32]) {
    let width = out.len();
    for (k, (slot, weight)) in slots.iter().zip(weights).enumerate() {
        let x = &rows[*slot as usize * width..][..width];
        if k == 0 {
            out.iter_mut().zip(x).for_each(|(out, x)| *out = weight * x);
        } else {
            out.iter_mut().zip(x).for_each(|(out, x)| *out = weight.mul_add(*x, *out));
        }
    }
}

/// Multiplies each row of `x`, `[factors.len(), width]`, by its factor.
///
/// # Panics
/// When the lengths do not fit.
pub fn scale_rows(pool: &mut Pool, x: &mut [f32], width: usize, factors: &[f32]) {
    assert!(width > 0 && x.len() == factors.len() * width, "a factor for each row of {width}");
    share_mut(pool, x, width, &|x, range| {
        let factors = &factors[range.start / width..];
        for (row, factor) in x.chunks_exact_mut(width).zip(factors) {
            row.iter_mut().for_each(|x| *x *= factor);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Isa;
    use proptest::prelude::*;

    fn near(got: f32, exact: f64) -> bool {
        (f64::from(got) - exact).abs() <= 1e-6 * exact.abs() + 1e-30
    }

    #[test]
    fn a_softmax_shares_one_among_the_values_of_a_row() {
        let n = 37;
        let logits: Vec<f32> = (0u16..111).map(|i| f32::from(i * 29 % 101) / 7.0 - 6.0).collect();
        let mut x = logits.clone();
        softmax_rows(&mut Pool::new(2), &mut x, n);
        for (x, logits) in x.chunks(n).zip(logits.chunks(n)) {
            let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
            let right = x.iter().zip(logits).all(|(x, l)| near(*x, f64::from(*l).exp() / sum));
            assert!(right, "{x:?} of {logits:?}");
        }
    }

    #[test]
    fn a_softmax_leaves_out_negative_infinity_and_passes_on_what_is_no_number() {
        let inf = f32::INFINITY;
        let mut x = [-inf, 3.0, 3.0, 1e30, -1e30, -inf, 1.0, f32::NAN, 2.0, inf, 1.0, 0.0];
        softmax_rows(&mut Pool::new(1), &mut x, 3);
        assert_eq!(x[..6], [0.0, 0.5, 0.5, 1.0, 0.0, 0.0]);
        assert!(x[6..].iter().all(|x| x.is_nan()), "{x:?}");
        let mut masked = [-inf; 2];
        softmax_rows(&mut Pool::new(1), &mut masked, 2);
        assert!(masked.iter().all(|x| x.is_nan()));
    }

    #[test]
    fn a_sigmoid_is_half_at_zero_and_reaches_its_ends() {
        let mut x = [0.0, 1.0, -1.0, 100.0, -100.0];
        sigmoid(&mut Pool::new(1), &mut x);
        assert_eq!([x[0], x[3], x[4]], [0.5, 1.0, 0.0]);
        assert!(
            near(x[1], 1.0 / (1.0 + (-1.0f64).exp())) && near(x[2], 1.0 / (1.0 + 1.0f64.exp()))
        );
    }

    #[test]
    fn clamped_swiglu_bounds_the_gate_above_and_the_other_on_both_sides() {
        let (alpha, limit) = (1.702, 7.0);
        let inputs = [(0.5, 0.25), (9.0, 1.0), (7.0, 1.0), (-9.0, 1.0), (1.0, 8.0), (1.0, -8.0)];
        for (gate, up) in inputs {
            let mut out = [gate];
            swiglu_clamped(&mut Pool::new(1), &mut out, &[up], alpha, limit);
            let (g, u) = (f64::from(gate.min(limit)), f64::from(up.clamp(-limit, limit)));
            let exact = g / (1.0 + (-f64::from(alpha) * g).exp()) * (u + 1.0);
            assert!(near(out[0], exact), "({gate}, {up}): {} for {exact}", out[0]);
        }
        for (gate, up) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            let mut out = [gate];
            swiglu_clamped(&mut Pool::new(1), &mut out, &[up], alpha, limit);
            assert!(out[0].is_nan());
        }
    }

    #[test]
    fn rows_are_gathered_in_the_order_named() {
        let x: Vec<f32> = (0u8..12).map(f32::from).collect();
        let mut out = [0.0; 12];
        gather_rows(&mut Pool::new(1), &x, 3, &[3, 0, 3, 1], &mut out);
        assert_eq!(out, [9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 9.0, 10.0, 11.0, 3.0, 4.0, 5.0]);
        gather_rows(&mut Pool::new(1), &x, 3, &[], &mut []);
    }

    #[test]
    fn weighted_rows_are_added_in_the_order_of_their_slots() {
        // Each order of these sums has another result.
        let rows = [1e8, 1.0, -1e8, 3.0, 0.25, 0.5];
        let sum = |slots: [u32; 3], weights: [f32; 3]| {
            let mut out = [f32::NAN; 2];
            weighted_sum(&mut Pool::new(1), &rows, 3, &slots, &weights, &mut out);
            out
        };
        let fma = |a: f32, b: f32, c: f32| a.mul_add(b, c);
        let expected = |[a, b, c]: [usize; 3], w: [f32; 3]| {
            [0, 1].map(|i| {
                let first = w[0] * rows[2 * a + i];
                fma(w[2], rows[2 * c + i], fma(w[1], rows[2 * b + i], first))
            })
        };
        let weights = [0.3, 0.6, 0.1];
        assert_eq!(sum([0, 1, 2], weights), expected([0, 1, 2], weights));
        assert_eq!(sum([2, 1, 0], weights), expected([2, 1, 0], weights));
        assert_eq!(sum([1, 1, 0], [1.0; 3])[1], 3.0 + 3.0 + 1.0);
        assert_ne!(sum([2, 0, 1], [1.0; 3]), sum([0, 1, 2], [1.0; 3]));
        weighted_sum(&mut Pool::new(1), &rows, 3, &[], &[], &mut []);
    }

    #[test]
    fn each_row_has_a_factor_of_its_own() {
        let mut x = [1.0, 2.0, 3.0, 4.0];
        scale_rows(&mut Pool::new(1), &mut x, 2, &[10.0, -1.0]);
        assert_eq!(x, [10.0, 20.0, -3.0, -4.0]);
    }

    /// So many rows that they are several tasks, each of which has to find its own rows.
    #[test]
    fn threads_share_rows_and_values_without_a_change() {
        const WIDTH: usize = 250;
        let x: Vec<f32> = (0u16..60_000).map(|i| f32::from(i % 991) / 100.0 - 4.0).collect();
        let rows: Vec<u32> = (0..480).map(|i| i * 7 % 240).collect();
        let row = |i: u32| &x[i as usize * WIDTH..][..WIDTH];
        let pool = &mut Pool::new(3);

        let mut gathered = vec![f32::NAN; rows.len() * WIDTH];
        gather_rows(pool, &x, WIDTH, &rows, &mut gathered);
        assert_eq!(gathered, rows.iter().flat_map(|i| row(*i)).copied().collect::<Vec<_>>());

        let factors = &x[..240];
        let mut scaled = x.clone();
        scale_rows(pool, &mut scaled, WIDTH, factors);
        let products = x.chunks(WIDTH).zip(factors).flat_map(|(x, f)| x.iter().map(move |x| x * f));
        assert_eq!(scaled, products.collect::<Vec<_>>());

        let mut sums = vec![f32::NAN; x.len()];
        weighted_sum(pool, &x, 2, &rows, &x[..480], &mut sums);
        let pairs = rows.chunks(2).zip(x.chunks(2));
        let pairs = pairs.flat_map(|(rows, w)| {
            let values = row(rows[0]).iter().zip(row(rows[1]));
            values.map(|(a, b)| w[1].mul_add(*b, w[0] * a))
        });
        assert_eq!(sums, pairs.collect::<Vec<_>>());

        let mut softmax = x.clone();
        softmax_rows(pool, &mut softmax, WIDTH);
        let mut last = row(239).to_vec();
        softmax_rows(pool, &mut last, WIDTH);
        assert_eq!(softmax[239 * WIDTH..], last);

        let mut units = sums.clone();
        swiglu_clamped(pool, &mut units, &x, 1.702, 7.0);
        let mut last = sums[59_000..].to_vec();
        swiglu_clamped(pool, &mut last, &x[59_000..], 1.702, 7.0);
        assert_eq!(units[59_000..], last);
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
            x in prop::collection::vec(number(20.0), 1..80), y in prop::collection::vec(number(20.0), 80),
        ) {
            let run = |isa| {
                let mut chosen = x.clone();
                softmax(isa, &mut chosen, x.len());
                let mut gates = x.clone();
                sigmoid_values(isa, &mut gates);
                let mut units = x.clone();
                swiglu_clamped_values(isa, &mut units, &y, 1.702, 7.0);
                let mut sum = vec![0.0; 16];
                weighted_sum_row(isa, &y, &[4, 0, 3], &[y[0], y[1], y[2]], &mut sum);
                [bits(&chosen), bits(&gates), bits(&units), bits(&sum)]
            };
            prop_assert_eq!(run(Isa::Scalar), run(Isa::Avx2));
            prop_assert_eq!(run(Isa::Scalar), run(Isa::Avx512Vnni));
        }
    }
}
