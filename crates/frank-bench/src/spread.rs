//! Several measurements of one thing as median and range. Never measures.

use std::fmt;

use serde::Serialize;

/// Median and range of measurements, in their unit.
///
/// The median and not the mean: one repetition that another program disturbed does not move it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value, or halfway between the two middle ones.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// Number of values.
    pub n: usize,
}

impl Spread {
    /// The spread of `values`; `None` when there are none, or one is not a number.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = sorted.first().zip(sorted.last())?;
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Self { median, min, max, n: values.len() })
    }

    /// The spread of the values divided by `unit`, which is above 0.
    #[must_use]
    pub fn in_units_of(self, unit: f64) -> Self {
        let Self { median, min, max, n } = self;
        Self { median: median / unit, min: min / unit, max: max / unit, n }
    }
}

/// `161.0 (147.2 to 166.1)`.
impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{:.1} ({:.1} to {:.1})", self.median, self.min, self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], text: &str) {
        assert_eq!(Spread::of(values).unwrap().to_string(), text);
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        check(&[5.0], "5.0 (5.0 to 5.0)");
        check(&[9.0, 1.0, 2.0], "2.0 (1.0 to 9.0)");
        check(&[4.0, 1.0, 2.0, 9.0], "3.0 (1.0 to 9.0)");
    }

    #[test]
    fn one_disturbed_repetition_does_not_move_the_median() {
        check(&[100.0, 101.0, 3.0, 100.0, 102.0], "100.0 (3.0 to 102.0)");
    }

    #[test]
    fn nothing_and_no_number_have_no_spread() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn a_unit_divides_every_value() {
        let spread = Spread::of(&[2e9, 4e9, 9e9]).unwrap().in_units_of(1e9);
        assert_eq!(spread, Spread { median: 4.0, min: 2.0, max: 9.0, n: 3 });
    }
}
