//! The exponential that every kernel uses, and the hyperbolic tangent made of it: the same bits on every instruction
//! set.

/// `e^x` within 2 units in the last place for results that are normal numbers.
///
/// Below -87.33 the result is 0 and above 88.72 it is infinity; NaN stays NaN.
/// Method: `x = n ln 2 + r` with `|r| <= ln 2 / 2`, a polynomial of degree 6 in `r`, times `2^n`. The coefficients
/// are the Taylor series, whose first omitted term is below 2^-27 of the result on that interval.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// Adding it to a small number leaves the nearest integer in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23
    const LN2_HIGH: f32 = 0.693_359_4; // 355/512, exact in few bits
    const LN2_LOW: f32 = -2.121_944_4e-4; // ln 2 - LN2_HIGH
    let clamped = x.clamp(-87.33, 88.72);
    let shifted = clamped.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, clamped));
    let mut p = 1.0 / 720.0;
    p = r.mul_add(p, 1.0 / 120.0);
    p = r.mul_add(p, 1.0 / 24.0);
    p = r.mul_add(p, 1.0 / 6.0);
    p = r.mul_add(p, 0.5);
    p = r.mul_add(p, 1.0);
    p = r.mul_add(p, 1.0);
    // Two factors, since 2^128 alone is no f32. Both exponents are in range after the clamp.
    let n_bits = shifted.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed();
    let half = n_bits >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) << 23).cast_unsigned());
    let result = p * power(half) * power(n_bits - half);
    if x < -87.33 {
        0.0
    } else if x > 88.72 {
        f32::INFINITY
    } else {
        result
    }
}

/// `tanh(x)` within 2 units in the last place; the ends are exactly 1 and -1, and NaN stays NaN.
///
/// Method: an odd polynomial of degree 11 below 0.625, whose coefficients are a least-squares fit at Chebyshev points
/// with a relative error below 2^-27; above it `1 - 2 / (e^2|x| + 1)` with the sign of `x`.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let z = x * x;
    let mut p = -0.005_664_775;
    p = z.mul_add(p, 0.020_595_68);
    p = z.mul_add(p, -0.053_722_68);
    p = z.mul_add(p, 0.133_311_5);
    p = z.mul_add(p, -0.333_332_63);
    let near = (x * z).mul_add(p, x);
    let far = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    if x.abs() < 0.625 { near } else { far.copysign(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_within_two_units_in_the_last_place() {
        for i in 1..200_000 {
            #[expect(clippy::cast_precision_loss, reason = "test points")]
            let x = i as f32 / 10_000.0;
            let exact = f64::from(x).tanh();
            let error = (f64::from(tanh(x)) - exact).abs() / exact;
            assert!(error < 2.0 * f64::from(f32::EPSILON), "tanh({x}) is off by {error:e}");
            assert_eq!(tanh(-x), -tanh(x));
        }
    }

    #[test]
    fn the_ends_of_tanh_are_exact() {
        assert_eq!(tanh(0.0), 0.0);
        assert_eq!(tanh(1e-30), 1e-30);
        assert_eq!(tanh(f32::INFINITY), 1.0);
        assert_eq!(tanh(-1000.0), -1.0);
        assert!(tanh(f32::NAN).is_nan());
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for i in -87_000..88_700 {
            #[expect(clippy::cast_precision_loss, reason = "test points")]
            let x = i as f32 / 1000.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.0 * f64::from(f32::EPSILON), "exp({x}) is off by {error:e}");
        }
    }

    #[test]
    fn the_ends_are_exact() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1000.0), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }
}
