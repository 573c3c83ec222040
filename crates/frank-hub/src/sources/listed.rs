//! What every source's listing must be, whoever wrote it: paths that stay where they belong, once each. Never fetches.

use std::collections::BTreeSet;

use super::ListError;
use crate::listing::RemoteFile;
use crate::reference::is_component;

/// Most files of one listing.
pub(super) const FILES_MAX: usize = 20_000;
/// Longest path in bytes.
const PATH_BYTES_MAX: usize = 1000;

/// The files of a listing in the making.
#[derive(Default)]
pub(super) struct Listed {
    files: Vec<RemoteFile>,
    paths: BTreeSet<String>,
}

impl Listed {
    /// Adds a file, unless its path leaves its folder, cannot be printed or came before.
    pub(super) fn add(&mut self, file: RemoteFile) -> Result<(), ListError> {
        check_path(&file.path)?;
        if self.files.len() == FILES_MAX {
            return Err(ListError::TooManyFiles);
        }
        if !self.paths.insert(file.path.clone()) {
            return Err(ListError::SamePath { path: file.path });
        }
        self.files.push(file);
        Ok(())
    }

    /// The files in the order in which they came. Their sizes add up to what a file system can hold.
    pub(super) fn into_files(self) -> Result<Vec<RemoteFile>, ListError> {
        let mut sizes = self.files.iter().map(|file| file.bytes.unwrap_or(0));
        let sum = sizes.try_fold(0u64, u64::checked_add);
        match sum.and_then(|sum| i64::try_from(sum).ok()) {
            Some(_) => Ok(self.files),
            None => Err(ListError::TooLarge),
        }
    }
}

/// Refuses a path that is no relative one below its folder.
pub(super) fn check_path(path: &str) -> Result<(), ListError> {
    if path.len() <= PATH_BYTES_MAX && path.split('/').all(is_component) {
        return Ok(());
    }
    let shown = path.chars().take(PATH_BYTES_MAX).collect();
    Err(ListError::BadPath { path: shown })
}
