//! The directory of a disk cache: whose it is, who may use it, which files lie in it. Never decides what is kept.
//!
//! Below the directory lies one folder for each fingerprint, in it one for each first byte of a key, and there the
//! entries, all named in hex. `frank-cache.lock` marks the directory as frank's and is locked while a process uses it.

use std::fs::{self, DirBuilder, DirEntry, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use thiserror::Error;

use super::EntryKey;
use super::entry_file::{EntryHeader, HEADER_BYTES};
use super::index::{Entry, EntryId};

const LOCK_NAME: &str = "frank-cache.lock";

/// What a file is called until it is whole.
const UNFINISHED_PREFIX: &str = "unfinished-";

/// Folders of new file systems that are no sign of somebody else's files.
const NOBODYS: [&str; 1] = ["lost+found"];

/// File systems give space in units of this, or of parts of it.
const ALLOCATION_BYTES: u64 = 4096;

/// Why a directory cannot be a disk cache. Nothing in it was changed then.
#[derive(Debug, Error)]
pub enum DiskCacheError {
    /// There is something else at the path.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// Another process, or another cache of this one, uses it.
    #[error("the cache directory {} is in use by another process", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// It holds files and never was a cache: making it one would change the rights of somebody's files.
    #[error("{} is no cache directory: it holds {found:?}", path.display())]
    NotACache {
        /// The directory.
        path: PathBuf,
        /// One of the names in it.
        found: String,
    },
    /// Whoever may write in it could have put answers there.
    #[error("others may write in the cache directory {}: its mode is {mode:03o}", path.display())]
    WritableByOthers {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It belongs to another user, who may change what is in it.
    #[error("the cache directory {} belongs to another user", path.display())]
    NotOwner {
        /// The directory.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot use {} as a cache directory: {source}", path.display())]
    Io {
        /// What was to be used or made.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A locked directory with the folders of all fingerprints in it.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    /// Fingerprints in hex, as folders are named. The first is that of this process.
    folders: Vec<String>,
    /// Unlocked when it is closed.
    _lock: File,
}

/// What an earlier process left.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Entries of all fingerprints, from the one used longest ago to the last.
    pub(super) entries: Vec<(EntryId, Entry)>,
    /// When the last of them was used.
    pub(super) last_used: Option<SystemTime>,
    /// Files that were no entries and are removed.
    pub(super) n_damaged: usize,
}

impl Directory {
    /// Takes `root`, which is made if it is missing, for one process. Its mode is 700 afterwards.
    pub(super) fn open(root: &Path, fingerprint: &[u8; 32]) -> Result<Self, DiskCacheError> {
        match fs::metadata(root) {
            Ok(metadata) if !metadata.is_dir() => {
                return Err(DiskCacheError::NotADirectory { path: root.to_owned() });
            }
            Ok(_) => check_content(root)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut builder = DirBuilder::new();
                builder.recursive(true).mode(0o700).create(root).map_err(io_error(root))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(DiskCacheError::NotADirectory { path: root.to_owned() });
            }
            Err(error) => return Err(io_error(root)(error)),
        }
        let lock = lock(root)?;
        check_owner(root)?;
        fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(io_error(root))?;
        let own = hex(fingerprint);
        make_folder(&root.join(&own)).map_err(io_error(root))?;
        let mut folders = fingerprint_folders(root).map_err(io_error(root))?;
        folders.retain(|folder| *folder != own);
        folders.insert(0, own);
        Ok(Self { root: root.to_owned(), folders, _lock: lock })
    }

    /// Reads the headers of all entries, and removes what a process left unfinished, is damaged or is empty.
    pub(super) fn scan(&self) -> Result<Found, DiskCacheError> {
        let mut n_damaged = 0;
        let mut entries = Vec::new();
        for (index, fingerprint) in self.folders.iter().enumerate() {
            let path = self.root.join(fingerprint);
            for folder in folders_of(&path).map_err(io_error(&path))? {
                n_damaged += scan_folder(&folder, index, fingerprint, &mut entries)?;
                // Refused while something lies there.
                drop(fs::remove_dir(&folder));
            }
        }
        entries.sort_unstable_by_key(|(used, id, _)| (*used, *id));
        let last_used = entries.last().map(|(used, ..)| *used);
        let entries = entries.into_iter().map(|(_, id, entry)| (id, entry)).collect();
        Ok(Found { entries, last_used, n_damaged })
    }

    /// Where an entry lies.
    pub(super) fn path(&self, id: &EntryId) -> PathBuf {
        let name = hex(&id.key);
        self.root.join(&self.folders[id.folder]).join(&name[..2]).join(name)
    }

    /// Writes an entry under another name and gives it its own when it is whole. Returns it with its charge.
    pub(super) fn write(&self, header: EntryHeader, payload: &[u8]) -> io::Result<(File, u64)> {
        let path = self.path(&own(&header.key));
        let parent = path.parent().expect("an entry lies in a folder");
        make_folder(parent)?;
        let unfinished = parent.join(format!("{UNFINISHED_PREFIX}{}", hex(&header.key)));
        // Only a process that was killed between two steps leaves one, and opening removes those.
        let written = header.write(&unfinished, payload).and_then(|file| {
            fs::rename(&unfinished, &path)?;
            let charge = charge(&file.metadata()?);
            Ok((file, charge))
        });
        if written.is_err() {
            remove_quietly(&unfinished);
            remove_quietly(&path);
        }
        written
    }

    /// Removes an entry, and its folder when that is empty now.
    pub(super) fn remove(&self, id: &EntryId) -> io::Result<()> {
        let path = self.path(id);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Refused while other entries lie there.
        drop(path.parent().map(fs::remove_dir));
        Ok(())
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> DiskCacheError {
    |source| DiskCacheError::Io { path: path.to_owned(), source }
}

/// The entry of `key` in the folder of this process.
pub(super) fn own(key: &EntryKey) -> EntryId {
    EntryId { folder: 0, key: *key }
}

/// What a file of `payload_bytes` takes of the budget before it is written.
pub(super) fn expected_charge(payload_bytes: usize) -> u64 {
    charge_of(payload_bytes as u64 + HEADER_BYTES as u64, 0)
}

/// What a file takes of the budget.
fn charge(metadata: &fs::Metadata) -> u64 {
    charge_of(metadata.len(), metadata.blocks().saturating_mul(512))
}

/// A file system that allocates late says 0 at first, so the length counts too. One unit more is the entry's share of
/// the folders: there are never more of them than entries.
fn charge_of(len: u64, allocated: u64) -> u64 {
    len.next_multiple_of(ALLOCATION_BYTES).max(allocated) + ALLOCATION_BYTES
}

/// An existing directory may become a cache when it is one or holds nothing.
fn check_content(root: &Path) -> Result<(), DiskCacheError> {
    let mut foreign = None;
    for file in fs::read_dir(root).map_err(io_error(root))? {
        let name = file.map_err(io_error(root))?.file_name();
        if name == LOCK_NAME {
            let mode = fs::metadata(root).map_err(io_error(root))?.mode() & 0o777;
            if mode & 0o022 != 0 {
                return Err(DiskCacheError::WritableByOthers { path: root.to_owned(), mode });
            }
            return Ok(());
        }
        if !NOBODYS.iter().any(|nobodys| name == *nobodys) {
            foreign = Some(name.to_string_lossy().into_owned());
        }
    }
    match foreign {
        Some(found) => Err(DiskCacheError::NotACache { path: root.to_owned(), found }),
        None => Ok(()),
    }
}

fn lock(root: &Path) -> Result<File, DiskCacheError> {
    let path = root.join(LOCK_NAME);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(io_error(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DiskCacheError::InUse { path: root.to_owned() }),
        Err(TryLockError::Error(source)) => Err(DiskCacheError::Io { path, source }),
    }
}

/// Compares the owner of the directory with that of a file that was just made.
fn check_owner(root: &Path) -> Result<(), DiskCacheError> {
    let path = root.join(format!("{UNFINISHED_PREFIX}probe"));
    remove_quietly(&path);
    let probe = File::options().write(true).create_new(true).mode(0o600).open(&path);
    let probe = probe.and_then(|file| file.metadata()).map_err(io_error(&path));
    remove_quietly(&path);
    let owner = fs::metadata(root).map_err(io_error(root))?.uid();
    if probe?.uid() == owner {
        Ok(())
    } else {
        Err(DiskCacheError::NotOwner { path: root.to_owned() })
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn fingerprint_folders(root: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for file in fs::read_dir(root)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if file.file_type()?.is_dir() && parse_hex(&name).is_some() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn folders_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for folder in fs::read_dir(path)? {
        let folder = folder?;
        if folder.file_type()?.is_dir() {
            folders.push(folder.path());
        }
    }
    Ok(folders)
}

/// The files of a folder. Symbolic links are no files.
fn files_of(folder: &Path) -> io::Result<Vec<DirEntry>> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        if file.file_type()?.is_file() {
            files.push(file);
        }
    }
    Ok(files)
}

/// Adds the entries of `path` to `entries` and removes other files that frank wrote. Returns how many were damaged.
fn scan_folder(
    path: &Path,
    folder: usize,
    fingerprint: &str,
    entries: &mut Vec<(SystemTime, EntryId, Entry)>,
) -> Result<usize, DiskCacheError> {
    let mut n_damaged = 0;
    for file in files_of(path).map_err(io_error(path))? {
        match identify(&file, fingerprint) {
            Some(Identity::Entry { key, parent, charge, used }) => {
                entries.push((used, EntryId { folder, key }, Entry { parent, charge }));
            }
            Some(Identity::Unfinished) => remove_quietly(&file.path()),
            Some(Identity::Damaged) => {
                n_damaged += 1;
                remove_quietly(&file.path());
            }
            None => {}
        }
    }
    Ok(n_damaged)
}

enum Identity {
    Entry { key: EntryKey, parent: Option<EntryKey>, charge: u64, used: SystemTime },
    Unfinished,
    Damaged,
}

/// What a file of the folder `fingerprint` is; `None` when frank did not write it.
fn identify(file: &DirEntry, fingerprint: &str) -> Option<Identity> {
    let name = file.file_name().to_string_lossy().into_owned();
    if name.starts_with(UNFINISHED_PREFIX) {
        return Some(Identity::Unfinished);
    }
    let key = parse_hex(&name)?;
    let is_in_place = file.path().parent().is_some_and(|folder| folder.ends_with(&name[..2]));
    let read = EntryHeader::read(&file.path()).ok();
    let header = read.filter(|header| {
        is_in_place && header.key == key && hex(&header.fingerprint) == fingerprint
    });
    let (Some(header), Ok(metadata)) = (header, file.metadata()) else {
        return Some(Identity::Damaged);
    };
    let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Some(Identity::Entry { key, parent: header.parent, charge: charge(&metadata), used })
}

fn remove_quietly(path: &Path) {
    // It is missed by nobody; one that stays is met again at the next start.
    drop(fs::remove_file(path));
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit).collect()
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).expect("4 bits are one digit")
}

/// 32 bytes from 64 lower-case digits, as [`hex`] writes them.
fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (hex(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hex_in_one_spelling() {
        let key: [u8; 32] = std::array::from_fn(|i| i as u8 * 7);
        assert_eq!(parse_hex(&hex(&key)), Some(key));
        assert!(hex(&key).starts_with("00070e15"));
        for text in
            ["", "00", &"0G".repeat(32), &"AB".repeat(32), &"+1".repeat(32), &"é1".repeat(32)]
        {
            assert_eq!(parse_hex(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_is_charged_in_whole_units_and_one_for_its_folders() {
        assert_eq!(charge_of(1, 0), 8192);
        assert_eq!(charge_of(4096, 4096), 8192);
        assert_eq!(charge_of(4097, 4096), 12288);
        assert_eq!(charge_of(100, 65536), 65536 + 4096);
    }
}
