//! Probabilities of a row of logits: an exponential with the same bits everywhere, and sums in a stated order.
//!
//! Weights are summed in runs of [`RUN`]: lane `l` of 16 takes the weights at `l, l + 16, …` in f32, lanes are added in
//! halves, and the sums of the runs are added in order in f64.

/// Logits whose weights are summed together.
const RUN: usize = 64;
const LANES: usize = 16;

/// The weights `e^(logit - max)` of a row and their sum.
pub(super) struct Softmax {
    max: f32,
    runs: Vec<f32>,
    total: f64,
}

impl Softmax {
    /// Of `logits` whose largest is `max`. Negative infinity has the weight 0.
    pub(super) fn of(logits: &[f32], max: f32) -> Softmax {
        let runs: Vec<f32> = logits.chunks(RUN).map(|run| run_sum(run, max)).collect();
        let total = runs.iter().map(|&run| f64::from(run)).sum();
        Softmax { max, runs, total }
    }

    /// The probability of a token with this logit.
    pub(super) fn probability(&self, logit: f32) -> f64 {
        f64::from(weight(logit, self.max)) / self.total
    }

    /// `ln(sum e^logit)`: a logit minus this is its log probability.
    pub(super) fn log_sum(&self) -> f64 {
        f64::from(self.max) + self.total.ln()
    }

    /// The entropy in nats of the row that this was made of.
    pub(super) fn entropy(&self, logits: &[f32]) -> f64 {
        let max = self.max;
        let moment = lane_sum(logits, |logit| {
            let w = weight(logit, max);
            // A logit of negative infinity has no share, and its distance times 0 would be NaN.
            if w > 0.0 { f64::from(w) * f64::from(logit - max) } else { 0.0 }
        });
        self.total.ln() - moment / self.total
    }

    /// The index where the running sum of weights exceeds `share`, in [0, 1), of their total.
    pub(super) fn index_at(&self, logits: &[f32], share: f64) -> usize {
        let mut rest = share * self.total;
        let last = self.runs.iter().rposition(|&sum| sum > 0.0).unwrap_or(0);
        let mut run = 0;
        while run < last && rest >= f64::from(self.runs[run]) {
            rest -= f64::from(self.runs[run]);
            run += 1;
        }
        let mut taken = run * RUN;
        for (index, &logit) in logits.iter().enumerate().skip(run * RUN).take(RUN) {
            let weight = weight(logit, self.max);
            if weight > 0.0 {
                // Rounding may leave a crumb: the last candidate of the run takes it.
                taken = index;
                rest -= f64::from(weight);
                if rest < 0.0 {
                    break;
                }
            }
        }
        taken
    }
}

fn run_sum(run: &[f32], max: f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let mut chunks = run.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            *lane += weight(logit, max);
        }
    }
    for (lane, &logit) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane += weight(logit, max);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The sum of `value` over a row, in f64: lane `l` of 8 takes `l, l + 8, …`, then the lanes in order.
pub(super) fn lane_sum(logits: &[f32], value: impl Fn(f32) -> f64) -> f64 {
    let mut lanes = [0.0f64; 8];
    for chunk in logits.chunks(8) {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            *lane += value(logit);
        }
    }
    lanes.iter().sum()
}

/// `e^(logit - max)` for a logit that is at most `max`: within 4 units in the last place, and 0 below e^-87.
///
/// Method: `x = n ln 2 + r` with `|r| <= ln 2 / 2`, the Taylor polynomial of degree 6 in `r`, times `2^n`. Products and
/// sums are rounded one by one: a fused multiply-add would be a call where the CPU that the program is built for has
/// none.
#[inline]
pub(super) fn weight(logit: f32, max: f32) -> f32 {
    /// Adding it to a small number leaves the nearest integer in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23
    const LN2_HIGH: f32 = 0.693_359_4; // 355/512, exact in few bits
    const LN2_LOW: f32 = -2.121_944_4e-4; // ln 2 - LN2_HIGH
    const LOWEST: f32 = -87.0;
    let x = logit - max;
    let clamped = if x > LOWEST { x } else { LOWEST };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = 1.0 / 720.0;
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = p * r + coefficient;
    }
    let n_bits = shifted.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed();
    let power = f32::from_bits(((n_bits + 127) << 23).cast_unsigned());
    if x > LOWEST { p * power } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_within_four_units_in_the_last_place() {
        for i in 0..870_000u32 {
            #[expect(clippy::cast_precision_loss, reason = "test points")]
            let x = -(i as f32) / 10_000.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(weight(x, 0.0)) - exact).abs() / exact;
            assert!(error < 4.0 * f64::from(f32::EPSILON), "e^{x} is off by {error:e}");
        }
        assert_eq!(weight(5.0, 5.0), 1.0);
        assert_eq!(weight(f32::NEG_INFINITY, 0.0), 0.0);
        assert_eq!(weight(f32::MIN, f32::MAX), 0.0);
    }

    #[test]
    fn every_share_finds_the_index_that_the_plain_running_sum_finds() {
        let logits: Vec<f32> = (0..1000u16).map(|i| f32::from(i * 59 % 613) / 100.0).collect();
        let softmax = Softmax::of(&logits, 6.12);
        let mut sum = 0.0;
        for (index, &logit) in logits.iter().enumerate() {
            let p = softmax.probability(logit);
            assert_eq!(softmax.index_at(&logits, sum + p / 2.0), index);
            sum += p;
        }
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn a_share_never_falls_on_a_weight_of_nothing() {
        let mut logits = vec![f32::NEG_INFINITY; 200];
        logits[100] = 1.0;
        let softmax = Softmax::of(&logits, 1.0);
        for share in [0.0, 0.5, 0.999_999_999_999] {
            assert_eq!(softmax.index_at(&logits, share), 100);
        }
        let logits = [0.0, f32::NEG_INFINITY];
        assert_eq!(Softmax::of(&logits, 0.0).index_at(&logits, 1.0 - f64::EPSILON), 0);
    }

    #[test]
    fn entropy_is_that_of_the_distribution() {
        let entropy = |logits: &[f32], max| Softmax::of(logits, max).entropy(logits);
        assert!((entropy(&[2.0; 8], 2.0) - 8f64.ln()).abs() < 1e-6);
        assert!(entropy(&[0.0, f32::NEG_INFINITY], 0.0).abs() < 1e-6);
    }
}
