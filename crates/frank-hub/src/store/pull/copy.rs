//! Files of this machine, copied into the store and hashed on the way. Never keeps half a copy.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::digest::{CHUNK_BYTES, Hasher, Sha256, read_some};
use crate::fetch::{FetchError, Stage, Watch};

/// Copies `sources`, one behind the other, to `partial`, and makes that durable. Returns size and digest.
pub(super) fn copy(
    sources: &[PathBuf],
    partial: &Path,
    total: Option<u64>,
    watch: Watch<'_>,
) -> Result<(u64, Sha256), FetchError> {
    let mut target = File::create(partial).map_err(FetchError::io("create", partial))?;
    let mut hasher = Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    for path in sources {
        let mut source = File::open(path).map_err(FetchError::io("open", path))?;
        loop {
            let n = read_some(&mut source, &mut chunk).map_err(FetchError::io("read", path))?;
            if n == 0 {
                break;
            }
            hasher.update(&chunk[..n]);
            target.write_all(&chunk[..n]).map_err(FetchError::io("write", partial))?;
            watch.report(Stage::Download, hasher.bytes(), total)?;
        }
    }
    target.sync_all().map_err(FetchError::io("sync", partial))?;
    Ok((hasher.bytes(), hasher.finish()))
}
