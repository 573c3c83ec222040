//! Digests of files, SHA-256 and git's SHA-1 of a blob, and their text form. Never decides what to do about a mismatch.

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

/// A SHA-1 digest. Its text form is 40 lower-case hexadecimal digits; upper case is read too.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha1([u8; 20]);

/// What a source says a file's bytes hash to. The text form is the digits alone: their number tells which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Digest {
    /// SHA-256 of the bytes.
    Sha256(Sha256),
    /// SHA-1 of the bytes as git stores them: behind the header `blob <length>` and a zero byte.
    GitBlob(Sha1),
}

/// A text that is no digest of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {wanted} hexadecimal digits are wanted")]
pub struct DigestError {
    /// The text as it was given.
    pub text: String,
    /// The kind that was wanted, and its length.
    pub wanted: &'static str,
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

/// A running digest of either kind.
pub(crate) enum DigestHasher {
    Sha256(Hasher),
    GitBlob(sha1::Sha1),
}

impl Digest {
    /// Begins to hash `bytes` bytes into a digest of the same kind, to be compared with this one.
    pub(crate) fn hasher(self, bytes: u64) -> DigestHasher {
        match self {
            Digest::Sha256(_) => DigestHasher::Sha256(Hasher::new()),
            Digest::GitBlob(_) => {
                DigestHasher::GitBlob(sha1::Sha1::new_with_prefix(format!("blob {bytes}\0")))
            }
        }
    }

    /// The kind of this digest, as reports and reason codes name it.
    pub fn kind(self) -> &'static str {
        match self {
            Digest::Sha256(_) => "sha256",
            Digest::GitBlob(_) => "git_sha1",
        }
    }
}

impl DigestHasher {
    pub(crate) fn update(&mut self, chunk: &[u8]) {
        match self {
            DigestHasher::Sha256(hasher) => hasher.update(chunk),
            DigestHasher::GitBlob(state) => state.update(chunk),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        match self {
            DigestHasher::Sha256(hasher) => Digest::Sha256(hasher.finish()),
            DigestHasher::GitBlob(state) => Digest::GitBlob(Sha1(state.finalize().into())),
        }
    }
}

impl FromStr for Sha256 {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Sha256, DigestError> {
        let wanted = "sha256: 64";
        let bytes = from_hex(text).ok_or_else(|| DigestError { text: text.to_owned(), wanted })?;
        Ok(Sha256(bytes))
    }
}

impl FromStr for Sha1 {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Sha1, DigestError> {
        let wanted = "sha1: 40";
        let bytes = from_hex(text).ok_or_else(|| DigestError { text: text.to_owned(), wanted })?;
        Ok(Sha1(bytes))
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let wanted = "digest: 64 (sha256) or 40 (git sha1)";
        let sha256 = || from_hex(text).map(|bytes| Digest::Sha256(Sha256(bytes)));
        let git = || from_hex(text).map(|bytes| Digest::GitBlob(Sha1(bytes)));
        sha256().or_else(git).ok_or_else(|| DigestError { text: text.to_owned(), wanted })
    }
}

/// Exactly `N` bytes from twice as many hexadecimal digits.
fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(bytes)
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn write_hex(out: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

impl fmt::Display for Sha256 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(out, &self.0)
    }
}

impl fmt::Display for Sha1 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(out, &self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Digest::Sha256(digest) => digest.fmt(out),
            Digest::GitBlob(digest) => digest.fmt(out),
        }
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sha256({self})")
    }
}

impl fmt::Debug for Sha1 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sha1({self})")
    }
}

/// Writes and reads a digest as its text form.
macro_rules! serde_as_text {
    ($($digest:ty),*) => {$(
        impl Serialize for $digest {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $digest {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$digest, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

serde_as_text!(Sha256, Sha1, Digest);

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

    #[test]
    fn a_git_blob_is_hashed_behind_its_header() {
        // What `git hash-object` says of an empty file, and of one that holds `hello` and a line feed.
        for (bytes, expected) in [
            (&b""[..], "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            (b"hello\n", "ce013625030ba8dba906f756967f9e9ca394464a"),
        ] {
            let wanted: Digest = expected.parse().unwrap();
            let mut hasher = wanted.hasher(bytes.len() as u64);
            hasher.update(bytes);
            assert_eq!(hasher.finish(), wanted);
            assert_eq!((wanted.kind(), wanted.to_string()), ("git_sha1", expected.to_owned()));
        }
    }

    #[test]
    fn the_number_of_digits_tells_which_digest_it_is() {
        let digest: Digest = ABC.parse().unwrap();
        assert_eq!((digest.kind(), digest.to_string()), ("sha256", ABC.to_owned()));
        for text in ["", &ABC[..39], &ABC[..41], &ABC[..63]] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
