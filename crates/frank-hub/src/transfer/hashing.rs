//! Hashes the file from its first byte on, close behind the bytes that come. Never writes, and never judges a digest.

use frank_os::{DataFile, OsError};

use crate::digest::{Digest, DigestHasher, Hasher, Sha256};

use super::board::Board;

/// How many bytes are read at a time: they stay in the cache of the core until they are hashed.
const READ_BYTES: usize = 256 << 10;

/// The digests of a complete file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hashed {
    pub(super) sha256: Sha256,
    /// For each segment whose digest is declared, its digest of the same kind.
    pub(super) segments: Vec<Option<Digest>>,
}

/// Hashes all of `data`, waiting for bytes that are not there yet. `None` when they will not come.
pub(super) fn follow(
    board: &Board,
    data: &DataFile,
    declared: &[Option<Digest>],
) -> Result<Option<Hashed>, OsError> {
    let spans = board.layout().segments();
    let mut whole = Hasher::new();
    let mut segments = Vec::with_capacity(spans.len());
    let mut buffer = vec![0; READ_BYTES];
    let mut position = 0;
    for (span, declared) in spans.iter().zip(declared) {
        // The digest of the only segment is that of the whole file.
        let is_whole = spans.len() == 1 && matches!(declared, Some(Digest::Sha256(_)));
        let mut own = declared.filter(|_| !is_whole).map(|digest| digest.hasher(span.bytes));
        let end = span.offset + span.bytes;
        while position < end {
            let Some(frontier) = board.wait_past(position) else { return Ok(None) };
            let chunk = chunk(&mut buffer, frontier.min(end) - position);
            data.read_at(position, chunk)?;
            whole.update(chunk);
            if let Some(own) = &mut own {
                own.update(chunk);
            }
            position += chunk.len() as u64;
            board.set_hashed(position);
        }
        segments.push(own.map(DigestHasher::finish));
    }
    let sha256 = whole.finish();
    if let [Some(Digest::Sha256(_))] = declared {
        segments = vec![Some(Digest::Sha256(sha256))];
    }
    Ok(Some(Hashed { sha256, segments }))
}

/// As much of the buffer as may be filled.
fn chunk(buffer: &mut [u8], bytes_max: u64) -> &mut [u8] {
    let n = usize::try_from(bytes_max).map_or(buffer.len(), |max| max.min(buffer.len()));
    &mut buffer[..n]
}
