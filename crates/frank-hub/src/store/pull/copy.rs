//! Files of this machine, copied into the store and hashed on the way. Never keeps half a copy, or one of a file that
//! somebody wrote to meanwhile.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use frank_os::{DataFile, OsError, open_regular};

use crate::digest::{CHUNK_BYTES, Hasher, Sha256};
use crate::fetch::{FetchError, Stage, Watch};

/// Copies `sources`, one behind the other, to `partial`, and makes that durable. Returns size and digest. `total` is what
/// they were listed with.
pub(super) fn copy(
    sources: &[PathBuf],
    partial: &Path,
    total: Option<u64>,
    watch: Watch<'_>,
) -> Result<(u64, Sha256), FetchError> {
    let sources: Vec<DataFile> =
        sources.iter().map(|path| DataFile::open(path)).collect::<Result<_, OsError>>()?;
    check_total(&sources, total)?;
    let copied = copy_all(&sources, partial, total, watch);
    if copied.is_err() {
        // A copy begins anew, so nothing of this one is worth its room.
        fs::remove_file(partial).ok();
    }
    copied
}

/// Refuses files that are not those of the listing any more, before anything is copied.
fn check_total(sources: &[DataFile], total: Option<u64>) -> Result<(), FetchError> {
    let got: u64 = sources.iter().map(DataFile::len).sum();
    match total {
        Some(want) if want != got => {
            let paths: Vec<String> =
                sources.iter().map(|source| source.path().display().to_string()).collect();
            Err(FetchError::Size { file: paths.join(" + "), got, want })
        }
        _ => Ok(()),
    }
}

fn copy_all(
    sources: &[DataFile],
    partial: &Path,
    total: Option<u64>,
    watch: Watch<'_>,
) -> Result<(u64, Sha256), FetchError> {
    let mut target =
        open_regular(partial, File::options().write(true).create(true).truncate(true))?;
    let mut hasher = Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    for source in sources {
        let mut offset = 0;
        while offset < source.len() {
            let left = usize::try_from(source.len() - offset).unwrap_or(usize::MAX);
            let chunk = &mut chunk[..left.min(CHUNK_BYTES)];
            // A file that ends early was cut since it was opened.
            let read = source.read_at(offset, chunk);
            read.map_err(|error| source.changed().unwrap_or(error))?;
            hasher.update(chunk);
            target.write_all(chunk).map_err(FetchError::io("write", partial))?;
            offset += chunk.len() as u64;
            watch.report(Stage::Download, hasher.bytes(), total)?;
        }
        if let Some(changed) = source.changed() {
            return Err(changed.into());
        }
    }
    target.sync_all().map_err(FetchError::io("sync", partial))?;
    Ok((hasher.bytes(), hasher.finish()))
}
