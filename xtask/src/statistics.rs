//! Numbers about measurements: median, spread, slope. Never measures.

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
