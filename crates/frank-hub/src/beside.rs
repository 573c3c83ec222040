//! Small files beside a model: written whole or not at all. Never knows what they say.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bytes of such a file at most.
const FILE_BYTES_MAX: u64 = 64 << 20;

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
    // A pipe would wait for a writer for good.
    if !kind.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a file"));
    }
    let file = File::open(path)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 64 MiB"));
    }
    Ok(Some(text))
}

/// Puts `text` at `path` in place of what is there. Nobody ever sees a part of it, and when it fails the old text stays.
///
/// # Errors
/// What the system says.
pub fn write_beside(path: &Path, text: &str) -> io::Result<()> {
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
fn is_full() -> bool {
    let faults = || std::env::var("FRANK_FAULTS").unwrap_or_default();
    cfg!(debug_assertions) && faults().split(',').any(|fault| fault.trim() == "no-space")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_replaces_what_was_there_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = path_beside(&dir.path().join("m.gguf"), ".frank-usage");
        assert_eq!(path.file_name().and_then(|name| name.to_str()), Some("m.gguf.frank-usage"));
        assert_eq!(read_beside(&path).expect("no file is no error"), None);
        for text in ["long enough", "short"] {
            write_beside(&path, text).expect("written");
            assert_eq!(read_beside(&path).expect("read").as_deref(), Some(text));
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 1);
        assert!(write_beside(&dir.path().join("no/such/folder"), "x").is_err());
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
