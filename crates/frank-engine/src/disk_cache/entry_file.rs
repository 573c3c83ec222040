//! The file of one entry: a header that says whose it is, then the payload. Never decides what is kept.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::EntryKey;

const MAGIC: [u8; 8] = *b"frank kv";

/// Counts the layouts of this header.
const FORMAT_VERSION: u32 = 1;

/// Magic, version, four zero bytes, fingerprint, key, parent, length of the payload, all little-endian. The SHA-256 of
/// these and the payload follows.
const FACTS_BYTES: usize = 8 + 4 + 4 + 3 * 32 + 8;

/// Bytes of a file before its payload.
pub(super) const HEADER_BYTES: usize = FACTS_BYTES + 32;

/// Stands for no parent. No SHA-256 is known to be this.
const NO_PARENT: EntryKey = [0; 32];

/// Whose entry a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryHeader {
    /// Of the model and the layout that the payload belongs to.
    pub(super) fingerprint: [u8; 32],
    pub(super) key: EntryKey,
    pub(super) parent: Option<EntryKey>,
    pub(super) payload_bytes: u64,
}

/// Why a file is no entry that can be used.
#[derive(Debug, Error)]
pub(super) enum EntryError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Damaged(&'static str),
}

impl EntryHeader {
    fn to_bytes(self) -> [u8; FACTS_BYTES] {
        let mut bytes = [0; FACTS_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.fingerprint);
        bytes[48..80].copy_from_slice(&self.key);
        bytes[80..112].copy_from_slice(&self.parent.unwrap_or(NO_PARENT));
        bytes[112..].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; FACTS_BYTES]) -> Result<Self, EntryError> {
        let part = |at: usize| -> [u8; 32] {
            bytes[at..at + 32].try_into().expect("a range of 32 bytes within the header")
        };
        let parent = part(80);
        let length = bytes[112..].try_into().expect("the last 8 bytes of the header");
        let header = Self {
            fingerprint: part(16),
            key: part(48),
            parent: (parent != NO_PARENT).then_some(parent),
            payload_bytes: u64::from_le_bytes(length),
        };
        // One comparison for magic, version and the zero bytes.
        if header.to_bytes() == *bytes {
            Ok(header)
        } else {
            Err(EntryError::Damaged("it is no entry of this format"))
        }
    }

    /// Reads the header of the file at `path` and checks that its length is the one that the header promises.
    pub(super) fn read(path: &Path) -> Result<Self, EntryError> {
        Self::read_from(&mut File::open(path)?).map(|(header, _)| header)
    }

    fn read_from(file: &mut File) -> Result<(Self, [u8; 32]), EntryError> {
        let (mut facts, mut checksum) = ([0; FACTS_BYTES], [0; 32]);
        file.read_exact(&mut facts)?;
        file.read_exact(&mut checksum)?;
        let header = Self::from_bytes(&facts)?;
        let want = header.payload_bytes.saturating_add(HEADER_BYTES as u64);
        if file.metadata()?.len() == want {
            Ok((header, checksum))
        } else {
            Err(EntryError::Damaged("it is cut off, or something follows it"))
        }
    }

    /// Writes a new file. It is not synced: what a power cut tears, the checksum finds.
    pub(super) fn write(self, path: &Path, payload: &[u8]) -> io::Result<File> {
        let facts = self.to_bytes();
        let checksum = checksum(&facts, payload);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&[facts.as_slice(), checksum.as_slice()].concat())?;
        file.write_all(payload)?;
        Ok(file)
    }
}

/// Fills `payload` from the open file of the entry of `key`. It holds anything after an error.
pub(super) fn read_payload(
    file: &mut File,
    fingerprint: &[u8; 32],
    key: &EntryKey,
    payload: &mut [u8],
) -> Result<(), EntryError> {
    let (header, expected) = EntryHeader::read_from(file)?;
    if header.fingerprint != *fingerprint || header.key != *key {
        return Err(EntryError::Damaged("it is another entry"));
    }
    if header.payload_bytes != payload.len() as u64 {
        return Err(EntryError::Damaged("it has another length"));
    }
    file.read_exact(payload)?;
    if checksum(&header.to_bytes(), payload) == expected {
        Ok(())
    } else {
        Err(EntryError::Damaged("its checksum is wrong"))
    }
}

fn checksum(facts: &[u8; FACTS_BYTES], payload: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(facts).chain_update(payload).finalize().into()
}
