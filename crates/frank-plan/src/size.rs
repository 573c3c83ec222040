//! Sizes in bytes as people write them, always with a unit. Never a rate, and never a bare number in print.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Accepted units and their bytes, the largest of each kind first.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Units that sizes are printed in, the largest first.
const PRINT_UNITS: [(&str, u64); 4] = [UNITS[0], UNITS[1], UNITS[2], UNITS[3]];

/// More digits than this after the point cannot change a byte of any size below 16 EiB that people write.
const FRACTION_DIGITS_MAX: usize = 15;

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number followed by a known unit.
    #[error(
        "`{text}` is not a size: a number with one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, or plain bytes"
    )]
    Malformed {
        /// What was given.
        text: String,
    },
    /// A part of a byte.
    #[error("`{text}` is not a whole number of bytes")]
    PartOfByte {
        /// What was given.
        text: String,
    },
    /// More than 64 bits can count.
    #[error("`{text}` is more than 16 EiB")]
    TooLarge {
        /// What was given.
        text: String,
    },
}

/// Bytes that print with a unit: `1.50 GiB`, `512 B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(
    /// Bytes.
    pub u64,
);

impl Size {
    /// The shortest spelling that [`parse_size`] reads back to the same bytes: `512MiB`, `1000B`.
    pub fn exact(self) -> String {
        let fits = |&&(_, unit_bytes): &&(&str, u64)| {
            self.0 >= unit_bytes && self.0.is_multiple_of(unit_bytes)
        };
        match PRINT_UNITS.iter().find(fits) {
            Some((unit, unit_bytes)) => format!("{}{unit}", self.0 / unit_bytes),
            None => format!("{}B", self.0),
        }
    }
}

/// Two digits after the point, rounded to nearest; bytes below 1 KiB exactly.
impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((unit, unit_bytes)) =
            PRINT_UNITS.iter().find(|(_, unit_bytes)| self.0 >= *unit_bytes)
        else {
            return formatter.pad(&format!("{} B", self.0));
        };
        let hundredths =
            (u128::from(self.0) * 100 + u128::from(unit_bytes / 2)) / u128::from(*unit_bytes);
        formatter.pad(&format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100))
    }
}

/// Reads a size: `1.5GiB`, `500 MB`, `123` (bytes). A fraction of a larger unit is rounded down to whole bytes.
///
/// # Errors
/// [`SizeError`] for signs, exponents, other units and spellings, parts of a byte, and more than 64 bits hold.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let malformed = || SizeError::Malformed { text: text.to_owned() };
    let number_len =
        text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_len);
    let unit = if unit.is_empty() { "B" } else { unit.strip_prefix(' ').unwrap_or(unit) };
    let (_, unit_bytes) =
        UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(malformed)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if is_digits(whole) && is_digits(fraction) => (whole, fraction),
        None if is_digits(number) => (number, ""),
        _ => return Err(malformed()),
    };
    if unit_bytes == 1 && !fraction.is_empty() {
        return Err(SizeError::PartOfByte { text: text.to_owned() });
    }
    let too_large = || SizeError::TooLarge { text: text.to_owned() };
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let whole_bytes = whole.checked_mul(unit_bytes).ok_or_else(too_large)?;
    whole_bytes.checked_add(fraction_bytes(fraction, unit_bytes)).ok_or_else(too_large)
}

/// Bytes of `0.{fraction}` units, rounded down.
fn fraction_bytes(fraction: &str, unit_bytes: u64) -> u64 {
    let digits = fraction.bytes().take(FRACTION_DIGITS_MAX);
    let (value, scale) = digits.fold((0u128, 1u128), |(value, scale), digit| {
        (value * 10 + u128::from(digit - b'0'), scale * 10)
    });
    u64::try_from(value * u128::from(unit_bytes) / scale)
        .expect("a fraction of a unit is smaller than the unit")
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads a size that is an integer (bytes) or a text with a unit, for `#[serde(deserialize_with)]`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(SizeVisitor)
}

/// [`deserialize`] for a field that may be absent.
pub(crate) fn deserialize_optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    deserialize(deserializer).map(Some)
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = u64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .write_str("a size: bytes as an integer that is not negative, or a text like \"64GiB\"")
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
        Ok(bytes)
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
        u64::try_from(bytes)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(bytes), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        parse_size(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact_and_rounded_down() {
        assert_eq!(fraction_bytes("5", 1 << 30), 1 << 29);
        assert_eq!(fraction_bytes("1", 1 << 10), 102);
        assert_eq!(fraction_bytes("", 1 << 40), 0);
        assert_eq!(fraction_bytes("999999999999999999999999999999", 1 << 40), (1 << 40) - 1);
    }
}
