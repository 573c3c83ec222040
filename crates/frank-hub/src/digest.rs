//! SHA-256 digests and their text form. Never decides what to do about a mismatch.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Digest as _;

/// How many bytes are read and hashed at a time.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// A SHA-256 digest. Its text form is 64 lower-case hexadecimal digits; upper case is read too.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256([u8; 32]);

/// A text that is no SHA-256 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a sha256: 64 hexadecimal digits are wanted")]
pub struct DigestError {
    /// The text as it was given.
    pub text: String,
}

impl Sha256 {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Sha256 {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }
}

/// Reads once into `chunk`, again where a signal came between; 0 is the end.
pub(crate) fn read_some(source: &mut impl Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// A running digest that also counts its bytes.
pub(crate) struct Hasher {
    state: sha2::Sha256,
    bytes: u64,
}

impl Hasher {
    pub(crate) fn new() -> Hasher {
        Hasher { state: sha2::Sha256::new(), bytes: 0 }
    }

    pub(crate) fn update(&mut self, chunk: &[u8]) {
        self.state.update(chunk);
        self.bytes += chunk.len() as u64;
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn finish(self) -> Sha256 {
        Sha256(self.state.finalize().into())
    }
}

impl FromStr for Sha256 {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Sha256, DigestError> {
        let refused = || DigestError { text: text.to_owned() };
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = (hex_digit(pair[0]), hex_digit(pair[1]));
            *byte = high.zip(low).map(|(high, low)| high << 4 | low).ok_or_else(refused)?;
        }
        Ok(Sha256(bytes))
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

impl fmt::Display for Sha256 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sha256({self})")
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sha256, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1: the digest of `abc`.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn digest_of_abc_is_the_published_one() {
        assert_eq!(Sha256::of(b"abc").to_string(), ABC);
        let mut hasher = Hasher::new();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.bytes(), 3);
        assert_eq!(hasher.finish().to_string(), ABC);
    }

    #[test]
    fn text_round_trips_and_upper_case_is_read() {
        let digest: Sha256 = ABC.to_uppercase().parse().unwrap();
        assert_eq!(digest.to_string(), ABC);
    }

    #[test]
    fn wrong_length_and_wrong_digits_are_refused() {
        for text in
            ["", "ba78", &ABC[1..], &format!("{ABC}0"), &ABC.replace('b', "g"), &"é".repeat(32)]
        {
            assert!(text.parse::<Sha256>().is_err(), "{text}");
        }
    }
}
