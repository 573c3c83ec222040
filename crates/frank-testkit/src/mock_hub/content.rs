//! What a file of the mock hub holds, readable from any offset. Never holds a large one in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::random::Random;

/// How many bytes are made or read at a time.
pub(super) const CHUNK_BYTES: usize = 1 << 16;

/// The bytes of a file.
#[derive(Debug, Clone)]
pub enum Content {
    /// Bytes in memory.
    Bytes(Arc<[u8]>),
    /// Random bytes that are made anew wherever they are read, so their number costs nothing.
    Seeded {
        /// Files of different seeds differ everywhere.
        seed: u64,
        /// How many there are.
        bytes: u64,
    },
    /// A file on a disk, which the kernel sends by itself.
    File {
        /// Where it lies; it must not change while the hub runs.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
}

impl Content {
    /// `bytes` random bytes, the same in every run.
    pub fn seeded(seed: u64, bytes: u64) -> Content {
        Content::Seeded { seed, bytes }
    }

    /// A file on a disk.
    /// # Errors
    /// What the operating system says.
    pub fn file(path: impl Into<PathBuf>) -> io::Result<Content> {
        let path = path.into();
        let bytes = path.metadata()?.len();
        Ok(Content::File { path, bytes })
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        match self {
            Content::Bytes(content) => content.len() as u64,
            Content::Seeded { bytes, .. } | Content::File { bytes, .. } => *bytes,
        }
    }

    /// Whether there is no byte at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `chunk` with the bytes that begin at `offset`; there are as many.
    pub fn read_at(&self, offset: u64, chunk: &mut [u8]) {
        match self {
            Content::Bytes(content) => {
                let begin = usize::try_from(offset).expect("it is in memory");
                chunk.copy_from_slice(&content[begin..begin + chunk.len()]);
            }
            Content::Seeded { seed, .. } => read_seeded(*seed, offset, chunk),
            Content::File { path, .. } => File::open(path)
                .and_then(|file| file.read_exact_at(chunk, offset))
                .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display())),
        }
    }

    /// All of it, which is meant for small ones.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.len()).expect("it is small")];
        self.read_at(0, &mut bytes);
        bytes
    }

    /// SHA-256 in hexadecimal digits: how LFS names a file.
    pub fn sha256(&self) -> String {
        let mut state = Sha256::new();
        self.each_chunk(|chunk| state.update(chunk));
        hex(&state.finalize())
    }

    /// SHA-1 of the git blob in hexadecimal digits: how git names a file.
    pub fn git_sha1(&self) -> String {
        let mut state = Sha1::new();
        state.update(format!("blob {}\0", self.len()));
        self.each_chunk(|chunk| state.update(chunk));
        hex(&state.finalize())
    }

    fn each_chunk(&self, mut take: impl FnMut(&[u8])) {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut offset = 0;
        while offset < self.len() {
            let n = usize::try_from(self.len() - offset).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            self.read_at(offset, &mut chunk[..n]);
            take(&chunk[..n]);
            offset += n as u64;
        }
    }
}

impl From<&[u8]> for Content {
    fn from(bytes: &[u8]) -> Content {
        Content::Bytes(bytes.into())
    }
}

impl<const N: usize> From<&[u8; N]> for Content {
    fn from(bytes: &[u8; N]) -> Content {
        Content::Bytes(bytes.as_slice().into())
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Content {
        Content::Bytes(bytes.into())
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content::Bytes(text.as_bytes().into())
    }
}

/// The random bytes of `seed` from `offset` on: whole words are made, and the ends of the first and last are left out.
fn read_seeded(seed: u64, offset: u64, chunk: &mut [u8]) {
    let mut random = Random::new(seed, 0);
    random.skip(offset / 8);
    let lead = usize::try_from(offset % 8).expect("it is below 8");
    let lead_bytes = if lead == 0 { 0 } else { chunk.len().min(8 - lead) };
    let (first, rest) = chunk.split_at_mut(lead_bytes);
    if lead != 0 {
        first.copy_from_slice(&random.next_u64().to_le_bytes()[lead..lead + lead_bytes]);
    }
    random.fill(rest);
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_bytes_are_the_same_from_every_offset() {
        let content = Content::seeded(7, 100);
        let whole = content.to_vec();
        for begin in 0..20 {
            for n in 0..30 {
                let mut part = vec![0; n];
                content.read_at(begin as u64, &mut part);
                assert_eq!(part, whole[begin..begin + n], "{begin} {n}");
            }
        }
    }

    #[test]
    fn names_of_known_contents_are_those_of_git_and_lfs() {
        let hello = Content::from("hello\n");
        assert_eq!(hello.git_sha1(), "ce013625030ba8dba906f756967f9e9ca394464a");
        let abc = Content::from("abc");
        assert_eq!(
            abc.sha256(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
