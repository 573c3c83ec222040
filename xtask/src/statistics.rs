//! Numbers about measurements: median, spread, ratio, slope. Never measures.

use std::fmt;

/// Several measurements of one thing, as median and range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// # Panics
    /// When there is no value, or one is not a number.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(|a, b| a.partial_cmp(b).expect("measurements are numbers"));
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            panic!("there is a measurement");
        };
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Self { median, min, max }
    }

    /// The same in another unit.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        let Self { median, min, max } = self;
        Self { median: median * factor, min: min * factor, max: max * factor }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = out.precision().unwrap_or(1);
        write!(out, "{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.min, self.max)
    }
}

/// How many times as much one thing is as another that was measured in turns with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) of_medians: f64,
    /// The smallest and the largest of two that were measured in one round.
    pub(crate) by_round: (f64, f64),
}

impl Ratio {
    /// Of values by rounds.
    ///
    /// # Panics
    /// When there is no round of both, or a value is not a number.
    pub(crate) fn of(values: &[f64], others: &[f64]) -> Self {
        let by_round: Vec<f64> = values.iter().zip(others).map(|(a, b)| a / b).collect();
        let Spread { min, max, .. } = Spread::of(&by_round);
        let of_medians = Spread::of(values).median / Spread::of(others).median;
        Self { of_medians, by_round: (min, max) }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = self.by_round;
        write!(out, "{:.2} ({min:.2} to {max:.2} by round)", self.of_medians)
    }
}

/// Slope of the line of least squares through points `(x, y)`: change of y for each unit of x. 0 where the points
/// have no two different x.
pub(crate) fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let square: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if square > 0.0 { both / square } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        let check = |values: &[f64], text: &str| assert_eq!(Spread::of(values).to_string(), text);
        check(&[5.0], "5.0 (5.0 to 5.0)");
        check(&[9.0, 1.0, 2.0], "2.0 (1.0 to 9.0)");
        assert_eq!(format!("{:.2}", Spread::of(&[0.25]).scaled(2.0)), "0.50 (0.50 to 0.50)");
        check(&[4.0, 1.0, 2.0, 9.0], "3.0 (1.0 to 9.0)");
    }

    #[test]
    fn a_ratio_is_that_of_the_medians_with_the_range_of_single_rounds() {
        let ratio = Ratio::of(&[10.0, 30.0, 20.0], &[5.0, 10.0, 20.0]);
        assert_eq!(ratio.to_string(), "2.00 (1.00 to 3.00 by round)");
    }

    #[test]
    fn the_slope_is_that_of_the_nearest_line() {
        let check = |points: &[(f64, f64)], expected: f64| {
            assert!((slope(points) - expected).abs() < 1e-12, "{points:?}: {}", slope(points));
        };
        check(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)], 2.0);
        check(&[(10.0, 3.0), (20.0, 3.0)], 0.0);
        check(&[(0.0, 0.0), (1.0, 1.0), (2.0, 0.0), (3.0, 1.0)], 0.2);
        check(&[(1.0, 5.0), (1.0, 9.0)], 0.0);
        check(&[], 0.0);
    }
}
