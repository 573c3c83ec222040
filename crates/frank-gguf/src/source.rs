//! A reader that counts: every length is compared with the bytes that the file has left before it is believed.

use std::fmt;
use std::io::{BufReader, ErrorKind, Read};

use crate::error::{GgufError, label};

/// Bytes that are read, and at most allocated, ahead of the data that proves them.
const CHUNK_BYTES: u64 = 64 * 1024;

/// What is being read, for error texts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// Magic, version and counts.
    FileHeader,
    /// A metadata key, by its number from 0.
    Key(u64),
    /// The value of a metadata key.
    Value(&'a str),
    /// The name of a tensor, by its number from 0.
    TensorName(u64),
    /// The rest of a tensor's line.
    Tensor(&'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Place::FileHeader => write!(f, "the file header"),
            Place::Key(index) => write!(f, "metadata key number {index}"),
            Place::Value(key) => write!(f, "the value of key {:?}", label(key)),
            Place::TensorName(index) => write!(f, "the name of tensor number {index}"),
            Place::Tensor(name) => write!(f, "tensor {:?}", label(name)),
        }
    }
}

/// A little-endian reader over the first `end` bytes of a file.
pub(crate) struct Source<R> {
    reader: BufReader<R>,
    position: u64,
    end: u64,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(reader: R, file_bytes: u64) -> Source<R> {
        Source {
            reader: BufReader::with_capacity(CHUNK_BYTES as usize, reader),
            position: 0,
            end: file_bytes,
        }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes that the file still has.
    pub(crate) fn left(&self) -> u64 {
        self.end - self.position
    }

    /// Refuses a count of things that need at least `bytes_each` bytes each.
    pub(crate) fn check_count(
        &self,
        place: Place<'_>,
        count: u64,
        bytes_each: u64,
    ) -> Result<(), GgufError> {
        match count.checked_mul(bytes_each) {
            Some(bytes) if bytes <= self.left() => Ok(()),
            _ => Err(GgufError::Count { place: place.to_string(), count, left: self.left() }),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self, place: Place<'_>) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.fill(place, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn u32(&mut self, place: Place<'_>) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array(place)?))
    }

    pub(crate) fn u64(&mut self, place: Place<'_>) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array(place)?))
    }

    /// A string: u64 length, then UTF-8 bytes.
    pub(crate) fn string(&mut self, place: Place<'_>, bytes_max: u64) -> Result<String, GgufError> {
        let length = self.u64(place)?;
        if length > self.left() {
            return Err(self.truncated(place, length));
        }
        if length > bytes_max {
            return Err(GgufError::StringTooLong {
                place: place.to_string(),
                bytes: length,
                max: bytes_max,
            });
        }
        // In chunks: the vector grows with the data, not with the promise.
        let mut bytes = Vec::with_capacity(length.min(CHUNK_BYTES) as usize);
        let mut missing = length;
        while missing > 0 {
            let chunk = missing.min(CHUNK_BYTES);
            let start = bytes.len();
            bytes.resize(start + chunk as usize, 0);
            self.fill(place, &mut bytes[start..])?;
            missing -= chunk;
        }
        String::from_utf8(bytes).map_err(|_| GgufError::NotUtf8 { place: place.to_string() })
    }

    /// `count` values of `N` bytes each.
    pub(crate) fn values<T, const N: usize>(
        &mut self,
        place: Place<'_>,
        count: u64,
        decode: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, GgufError> {
        self.check_count(place, count, N as u64)?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(decode(self.array(place)?));
        }
        values.shrink_to_fit();
        Ok(values)
    }

    fn fill(&mut self, place: Place<'_>, bytes: &mut [u8]) -> Result<(), GgufError> {
        let want = bytes.len() as u64;
        if want > self.left() {
            return Err(self.truncated(place, want));
        }
        self.reader.read_exact(bytes).map_err(|source| match source.kind() {
            // The reader has less than it was said to have: a file that shrank, or a stream that broke off.
            ErrorKind::UnexpectedEof => self.truncated(place, want),
            _ => GgufError::Io { place: place.to_string(), source },
        })?;
        self.position += want;
        Ok(())
    }

    fn truncated(&self, place: Place<'_>, want: u64) -> GgufError {
        GgufError::Truncated {
            place: place.to_string(),
            offset: self.position,
            want,
            left: self.left(),
        }
    }
}
