//! A file that is being written: without a name where the file system has such files, so that nothing is left of it when
//! the process is killed, and else under a name that nobody asks for. Never replaces a file.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use frank_os::NamelessFile;
use tempfile::NamedTempFile;

/// A file that is gone unless it is finished.
pub(super) enum Unfinished {
    Nameless(NamelessFile),
    /// Of this one a killed process leaves something.
    Hidden(NamedTempFile),
}

impl Unfinished {
    /// Makes an empty file on the file system of `folder`. As any new file, those may read it whom the umask lets.
    pub(super) fn create_in(folder: &Path) -> io::Result<Self> {
        if let Some(file) = NamelessFile::create_in(folder)? {
            return Ok(Self::Nameless(file));
        }
        let permissions = Permissions::from_mode(0o666);
        let hidden = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
        Ok(Self::Hidden(hidden))
    }

    pub(super) fn as_file(&self) -> &File {
        match self {
            Self::Nameless(file) => file.as_file(),
            Self::Hidden(file) => file.as_file(),
        }
    }

    /// Where this process can open it.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Nameless(file) => file.path(),
            Self::Hidden(file) => file.path().to_owned(),
        }
    }

    /// Gives it its name; [`io::ErrorKind::AlreadyExists`] when something is there.
    pub(super) fn finish(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Nameless(file) => file.give_name(path),
            Self::Hidden(file) => {
                file.persist_noclobber(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn both_ways_end_with_the_whole_file_and_replace_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let hidden = NamedTempFile::new_in(dir.path()).expect("a file");
        let ways = [Unfinished::create_in(dir.path()).expect("a file"), Unfinished::Hidden(hidden)];
        let name = |name: &str| dir.path().join(name);
        for (path, way) in [name("a"), name("b")].into_iter().zip(ways) {
            way.as_file().write_all(b"whole").expect("written");
            assert_eq!(std::fs::read(way.path()).expect("read"), b"whole");
            way.finish(&path).expect("the name is free");
            assert_eq!(std::fs::read(&path).expect("read"), b"whole");
        }
        let hidden = Unfinished::Hidden(NamedTempFile::new_in(dir.path()).expect("a file"));
        for way in [Unfinished::create_in(dir.path()).expect("a file"), hidden] {
            let error = way.finish(&name("a")).expect_err("it is taken");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("the folder").count(), 2);
    }
}
