//! Where a picture will be written. Replaces a picture, and never anything else.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::report::Failure;

/// What a file of `frank fit --svg` begins with, and those of most other programs.
const STARTS: [&[u8]; 2] = [b"<svg", b"<?xml"];

/// A place for a picture, taken before there is anything to write.
#[derive(Debug)]
pub(super) struct SvgPlace {
    path: PathBuf,
    partial: tempfile::NamedTempFile,
}

impl SvgPlace {
    /// Takes `path`.
    ///
    /// # Errors
    /// Exit code 2 when something else than a picture is there, or nothing can be written there.
    pub(super) fn take(path: &Path) -> anyhow::Result<Self> {
        // What is there will be replaced, so it has to be something of the kind: no model, no folder, no device.
        if path.exists() && !(path.is_file() && is_picture(path)) {
            return Err(anyhow::anyhow!("what is there is no .svg file").context(refused(path)));
        }
        let folder =
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As any new file: readable for whom the umask lets read.
        let permissions = Permissions::from_mode(0o666);
        let partial = tempfile::Builder::new().permissions(permissions).tempfile_in(folder);
        Ok(Self { path: path.to_owned(), partial: partial.with_context(|| refused(path))? })
    }

    /// Writes the picture; it is there whole or not at all.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn write(mut self, picture: &str) -> anyhow::Result<()> {
        let fact = || format!("write {}", self.path.display());
        self.partial.write_all(picture.as_bytes()).with_context(fact)?;
        self.partial
            .persist(&self.path)
            .with_context(|| format!("write {}", self.path.display()))?;
        Ok(())
    }
}

fn is_picture(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(5).read_to_end(&mut start));
    read.is_ok() && STARTS.iter().any(|known| start.starts_with(known))
}

fn refused(path: &Path) -> Failure {
    Failure::usage(format!("cannot write the plan to {}", path.display()))
}
