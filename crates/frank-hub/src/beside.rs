//! Small files beside a model: written whole or not at all. Never knows what they say.

use std::fs::{File, FileType, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of such a file at most.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// How long somebody else may take with the same file, who writes it in milliseconds.
const LOCK_TIME_MAX: Duration = Duration::from_secs(2);

/// Time between two looks at whether they have ended.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The path of `model` with `ending` behind it: `m.gguf` and `.frank-usage` are `m.gguf.frank-usage`.
pub fn path_beside(model: &Path, ending: &str) -> PathBuf {
    let mut path = model.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// The text of a file; `None` when there is none.
///
/// # Errors
/// What the system says, and [`io::ErrorKind::InvalidData`] for more than 64 MiB or what is not UTF-8.
pub fn read_beside(path: &Path) -> io::Result<Option<String>> {
    let kind = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?.file_type(),
    };
    check_kind(kind)?;
    let file = File::open(path)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 64 MiB"));
    }
    Ok(Some(text))
}

/// Refuses what is no regular file: a pipe would wait for a writer for good.
fn check_kind(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a file"))
}

/// Puts the text that `update` makes of the one at `path` in its place; an empty file is as good as none. Nobody ever sees a
/// part of it, and when it fails the old text stays. Those who do this at the same time do it one after the other, so
/// nothing is lost between them. Where `path` is a link, it stays one, and the file that it leads to is replaced.
///
/// # Errors
/// What `update` says, what [`read_beside`] says, what the system says, and [`io::ErrorKind::WouldBlock`] when somebody else
/// does not come to an end.
pub fn update_beside(
    path: &Path,
    update: impl FnOnce(Option<&str>) -> io::Result<String>,
) -> io::Result<()> {
    let path = behind_links(path)?;
    let _lock = lock(&path)?;
    let old = read_beside(&path)?.filter(|text| !text.is_empty());
    let written = update(old.as_deref()).and_then(|text| replace(&path, &text));
    if written.is_err() && old.is_none() {
        // What was there only to be locked.
        std::fs::remove_file(&path)?;
    }
    written
}

/// The path of the file that `path` leads to.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => path.canonicalize(),
        _ => Ok(path.to_owned()),
    }
}

/// The file at `path`, made if there is none, and locked for everybody else who does this.
fn lock(path: &Path) -> io::Result<File> {
    let start = Instant::now();
    loop {
        let Some(file) = open_or_create(path)? else { continue };
        match file.try_lock() {
            // When it was replaced meanwhile, its lock keeps nobody away.
            Ok(()) if is_at(&file, path) => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIME_MAX => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            // A file system without locks: of two writers the last one wins.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
}

/// `None` when the file went away between two looks.
fn open_or_create(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made.map(Some),
    }
    let opened = path.metadata().and_then(|metadata| {
        check_kind(metadata.file_type())?;
        File::open(path)
    });
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), path.metadata()) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

/// Puts a file with `text` in place of the one at `path`.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // As any new file: readable for whom the umask lets read.
    let permissions = Permissions::from_mode(0o666);
    let mut partial = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
    if is_full() {
        return Err(io::ErrorKind::StorageFull.into());
    }
    partial.write_all(text.as_bytes())?;
    partial.as_file().sync_data()?;
    partial.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Whether a test asks for a full disk, with `no-space` in `FRANK_FAULTS`. Never in a release build.
pub(crate) fn is_full() -> bool {
    let faults = || std::env::var("FRANK_FAULTS").unwrap_or_default();
    cfg!(debug_assertions) && faults().split(',').any(|fault| fault.trim() == "no-space")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds `more` to the text at `path`.
    fn add(path: &Path, more: &str) -> io::Result<()> {
        update_beside(path, |old| Ok(format!("{}{more}", old.unwrap_or_default())))
    }

    #[test]
    fn an_update_sees_the_old_text_and_leaves_nothing_but_the_new_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = path_beside(&dir.path().join("m.gguf"), ".frank-usage");
        assert_eq!(path.file_name().and_then(|name| name.to_str()), Some("m.gguf.frank-usage"));
        assert_eq!(read_beside(&path).expect("no file is no error"), None);
        add(&path, "some").expect("written");
        add(&path, " and more").expect("written");
        assert_eq!(read_beside(&path).expect("read").as_deref(), Some("some and more"));
        update_beside(&path, |_| Ok("less".to_owned())).expect("written");
        assert_eq!(read_beside(&path).expect("read").as_deref(), Some("less"));
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 1);
        assert!(add(&dir.path().join("no/such/folder"), "x").is_err());
    }

    #[test]
    fn an_update_that_is_refused_leaves_what_was_there_be_it_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("usage");
        let refuse = || update_beside(&path, |_| Err(io::Error::other("no")));
        assert_eq!(refuse().expect_err("refused").to_string(), "no");
        assert_eq!(read_beside(&path).expect("read"), None);
        add(&path, "old").expect("written");
        assert!(refuse().is_err());
        assert_eq!(read_beside(&path).expect("read").as_deref(), Some("old"));
    }

    #[test]
    fn updates_at_the_same_time_are_all_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("usage");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| add(&path, "+").expect("written")));
            }
        });
        assert_eq!(read_beside(&path).expect("read"), Some("+".repeat(40)));
    }

    #[test]
    fn a_link_stays_a_link_and_one_to_nothing_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let (path, target) = (dir.path().join("usage"), dir.path().join("elsewhere"));
        std::os::unix::fs::symlink(&target, &path).expect("a link");
        assert_eq!(add(&path, "x").expect_err("a dead end").kind(), io::ErrorKind::NotFound);
        std::fs::write(&target, "old ").expect("written");
        add(&path, "new").expect("written");
        assert!(path.symlink_metadata().expect("it is there").is_symlink());
        assert_eq!(std::fs::read_to_string(&target).expect("read"), "old new");
    }

    #[test]
    fn what_is_no_text_or_endless_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("latin");
        std::fs::write(&path, b"\xff").expect("written");
        let kind = |path: &Path| read_beside(path).expect_err("refused").kind();
        assert_eq!(kind(&path), io::ErrorKind::InvalidData);
        assert_eq!(kind(Path::new("/dev/zero")), io::ErrorKind::InvalidData);
        assert_eq!(kind(dir.path()), io::ErrorKind::InvalidData);
    }
}
