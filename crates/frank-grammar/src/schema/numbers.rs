//! Numbers in a schema. The compiler keeps them as doubles, which hold whole numbers exactly up to 2^53.

use serde_json::{Value, json};

use super::bad;
use crate::error::GrammarError;

/// Whole numbers up to it are doubles.
const INTEGER_MAX: u64 = 1 << 53;
/// Remainders of all steps of a document.
const STEPS_MAX: u64 = 20_000;
/// The next double is so much further, at the most, for numbers of 64 bits.
const STEP_MAX: u64 = 1 << 11;

/// A bound as a double, within what it was by less than one part in 2^52.
pub(super) fn bound(name: &str, value: &Value) -> Value {
    let is_lower = name.to_lowercase().contains("min");
    if let Some(outside) = outside(value, is_lower) {
        return outside;
    }
    let magnitude = magnitude(value);
    if magnitude.is_none_or(|magnitude| magnitude <= INTEGER_MAX) {
        return value.clone();
    }
    let inwards = if is_lower { 1 } else { -1 };
    match (value.as_i64(), value.as_u64()) {
        (Some(number), _) => {
            let exact = (0..=STEP_MAX as i64).map(|n| number.saturating_add(inwards * n));
            json!(exact.clone().find(|&number| is_double(i128::from(number))).unwrap_or(number))
        }
        // No number of 64 bits with a sign is above it.
        (None, Some(_)) if !is_lower => json!(i64::MAX - (STEP_MAX as i64 / 2 - 1)),
        _ => value.clone(),
    }
}

/// The least or largest number of 64 bits with a sign for a bound beyond it: the compiler fails at its own ends.
fn outside(value: &Value, is_lower: bool) -> Option<Value> {
    let number = value.as_f64()?;
    let end = i64::MAX as f64;
    if is_lower && number <= -end {
        return Some(json!(i64::MIN + STEP_MAX as i64 / 2));
    }
    (!is_lower && value.is_f64() && number >= end)
        .then(|| json!(i64::MAX - (STEP_MAX as i64 / 2 - 1)))
}

/// Refuses whole numbers that a double cannot hold.
///
/// # Errors
/// [`GrammarError::BadKeyword`] with such a number.
pub(super) fn check(value: &Value, place: &str) -> Result<(), GrammarError> {
    match value {
        Value::Number(number) => {
            if magnitude(value).is_some_and(|magnitude| magnitude > INTEGER_MAX) {
                return Err(bad(place, format!("{number} is beyond 2^53")));
            }
            Ok(())
        }
        Value::Array(values) => values.iter().try_for_each(|value| check(value, place)),
        Value::Object(map) => map.values().try_for_each(|value| check(value, place)),
        _ => Ok(()),
    }
}

/// Refuses steps whose remainders are too many: the compiler has a state for each. Steps of one number are multiplied, so
/// that all of a document count together.
///
/// # Errors
/// [`GrammarError::BadKeyword`] at the step that is too much.
pub(super) fn add_step(all: &mut u64, value: &Value, place: &str) -> Result<(), GrammarError> {
    let digits: String = format!("{:.15}", value.as_f64().unwrap_or(1.0).abs());
    let digits = digits.replace('.', "");
    let step = digits.trim_matches('0').parse::<u64>().unwrap_or(1).max(1);
    let together = all.checked_mul(step / common_divisor(*all, step));
    match together.filter(|together| *together <= STEPS_MAX) {
        Some(together) => {
            *all = together;
            Ok(())
        }
        None => {
            let what = format!("steps of numbers may have {STEPS_MAX} remainders together");
            Err(bad(place, what))
        }
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn magnitude(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_i64().map(i64::unsigned_abs))
}

fn is_double(number: i128) -> bool {
    number as f64 as i128 == number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_by_their_digits_and_together() {
        let mut all = 1;
        for (step, expected) in [
            (json!(0.01), 1),
            (json!(1000), 1),
            (json!(0.25), 25),
            (json!(7), 175),
            (json!(5), 175),
        ] {
            add_step(&mut all, &step, "/multipleOf").expect("few remainders");
            assert_eq!(all, expected, "{step}");
        }
        assert!(add_step(&mut all, &json!(9_999_991), "/multipleOf").is_err());
        assert!(add_step(&mut all, &json!(191), "/multipleOf").is_err());
    }

    #[test]
    fn a_bound_at_or_beyond_the_ends_of_numbers_moves_inside() {
        for value in [json!(i64::MIN), json!(-1e19), json!(-1e300)] {
            assert_eq!(bound("minimum", &value), json!(i64::MIN + 1024), "{value}");
        }
        assert_eq!(bound("maximum", &json!(1e19)), json!(i64::MAX - 1023));
    }

    #[test]
    fn a_bound_beyond_what_a_double_holds_moves_inwards() {
        for (name, value) in
            [("maximum", i64::MAX), ("minimum", i64::MIN + 1), ("exclusiveMaximum", (1 << 53) + 1)]
        {
            let moved = bound(name, &json!(value)).as_i64().expect("a whole number");
            assert!(is_double(moved.into()) && moved.abs() <= value.saturating_abs(), "{moved}");
            assert!(moved.abs_diff(value) <= STEP_MAX, "{moved}");
        }
        assert_eq!(bound("maximum", &json!(10)), json!(10));
        assert_eq!(bound("minimum", &json!(-0.5)), json!(-0.5));
    }
}
