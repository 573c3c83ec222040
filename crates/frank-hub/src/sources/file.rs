//! Files of this machine as a source: the one that is named, with all its pieces. Never changes one.

use std::fs::{self, OpenOptions};
use std::io::{self, BufReader};
use std::path::Path;

use frank_gguf::Header;
use frank_os::{OsError, open_regular};
use url::Url;

use super::ListError;
use super::listed::Listed;
use crate::listing::{Listing, RemoteFile, glued_split, groups};

/// Lists the file at `path`, and those in its folder that are pieces of the same model. Parts that were glued into one file
/// are refused here, before anything is copied.
pub(super) fn list(path: &Path) -> Result<Listing, ListError> {
    let path = std::path::absolute(path).map_err(|source| unreadable(path, source))?;
    let file = open_regular(&path, OpenOptions::new().read(true)).map_err(refused)?;
    let metadata = file.metadata().map_err(|source| unreadable(&path, source))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(folder), Some(name)) = (path.parent(), name) else {
        return Err(ListError::NotAFile { path });
    };
    // What is no GGUF file, or a damaged one, is for whoever opens it to refuse.
    if let Ok(header) = Header::read(&mut BufReader::new(&file), metadata.len())
        && let Ok(split) = header.split()
    {
        glued_split(split, name)?;
    }
    let all = Listing {
        source: format!("file:{}", path.display()),
        revision: String::new(),
        files: files_in(folder).map_err(|source| unreadable(folder, source))?,
    };
    let has_it = |files: &[RemoteFile]| files.iter().any(|file| file.path == name);
    let pieces = groups(&all).into_iter().find(|group| has_it(&group.files));
    let mut listed = Listed::default();
    for file in pieces.map(|group| group.files).unwrap_or_default() {
        listed.add(file)?;
    }
    let files = listed.into_files()?;
    // Whichever piece is given, the source is the same.
    let source = files
        .first()
        .map_or(all.source, |first| format!("file:{}", folder.join(&first.path).display()));
    Ok(Listing { source, revision: String::new(), files })
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
