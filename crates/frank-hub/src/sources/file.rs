//! Files of this machine as a source: the one that is named, with all its pieces. Never changes one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use frank_gguf::Header;
use frank_os::{OsError, open_regular};
use url::Url;

use super::ListError;
use super::listed::Listed;
use crate::listing::{Group, Listing, RemoteFile, Role, Scheme, glued_split, groups};
use crate::model_file::{MAGIC, is_safetensors};

/// Lists the file at `path`, and those in its folder that are pieces of the same model. What is no model, or parts that were
/// glued into one, is refused here, before anything is copied.
pub(super) fn list(path: &Path) -> Result<Listing, ListError> {
    let file = open_regular(path, OpenOptions::new().read(true)).map_err(refused)?;
    let path = place_of(path).map_err(|source| unreadable(path, source))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(folder), Some(name)) = (path.parent(), name) else {
        return Err(ListError::NotAFile { path });
    };
    let bytes = file.metadata().map_err(|source| unreadable(&path, source))?.len();
    check_split(&file, bytes, name)?;
    let all = Listing {
        source: source(&path),
        revision: String::new(),
        files: files_in(folder).map_err(|source| unreadable(folder, source))?,
    };
    let has_it = |files: &[RemoteFile]| files.iter().any(|file| file.path == name);
    let group = groups(&all).into_iter().find(|group| has_it(&group.files));
    if group.as_ref().is_none_or(is_for_weights) {
        check_magic(&file, bytes, &path)?;
    }
    let mut listed = Listed::default();
    for file in group.map(|group| group.files).unwrap_or_default() {
        listed.add(file)?;
    }
    let files = listed.into_files()?;
    // Whichever piece is given, the source is the same.
    let source = files.first().map_or(all.source, |first| source(&folder.join(&first.path)));
    Ok(Listing { source, revision: String::new(), files })
}

/// The reference that the file at `path` is listed under, however the path is written.
pub(crate) fn file_source(path: &Path) -> String {
    source(&place_of(path).unwrap_or_else(|_| path.to_owned()))
}

fn source(place: &Path) -> String {
    format!("file:{}", place.display())
}

/// Where a file is, whichever way leads there. It keeps its name: a link may give it the one that it is known by.
fn place_of(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    Ok(match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    })
}

/// Refuses parts that were glued into one file. What is no GGUF file, or a damaged one, is for others to refuse.
fn check_split(file: &File, bytes: u64, name: &str) -> Result<(), ListError> {
    if let Ok(header) = Header::read(&mut BufReader::new(file), bytes)
        && let Ok(split) = header.split()
    {
        glued_split(split, name)?;
    }
    Ok(())
}

/// Whether every file of a group begins as a model does, going by what it is for: of slices only the first does.
fn is_for_weights(group: &Group) -> bool {
    let is_other = matches!(group.role, Some(Role::Template | Role::Config));
    let is_slice = matches!(group.scheme, Scheme::Fragments { .. });
    !(is_other || is_slice || is_safetensors(&group.files[0].path))
}

/// Refuses what does not begin as a model does. A file that says it is empty may still have bytes without an end, as those
/// of the system have.
fn check_magic(file: &File, bytes: u64, path: &Path) -> Result<(), ListError> {
    let mut start = [0; MAGIC.len()];
    if bytes >= start.len() as u64 {
        file.read_exact_at(&mut start, 0).map_err(|source| unreadable(path, source))?;
    }
    if start == MAGIC { Ok(()) } else { Err(ListError::NotGguf { path: path.to_owned() }) }
}

/// The plain files of `folder` whose names are text, sorted.
fn files_in(folder: &Path) -> io::Result<Vec<RemoteFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let (Some(name), Ok(url)) =
            (path.file_name().and_then(|name| name.to_str()), Url::from_file_path(&path))
        else {
            continue;
        };
        // A link that leads nowhere is no file.
        if let Ok(metadata) = fs::metadata(&path)
            && metadata.is_file()
        {
            let (path, bytes) = (name.to_owned(), Some(metadata.len()));
            files.push(RemoteFile { path, bytes, digest: None, url });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// What stands in place of a file is said as it is.
fn refused(error: OsError) -> ListError {
    match error {
        OsError::Open { path, source } => ListError::Unreadable { path, source },
        other => ListError::Os(other),
    }
}

fn unreadable(path: &Path, source: io::Error) -> ListError {
    ListError::Unreadable { path: path.to_owned(), source }
}
