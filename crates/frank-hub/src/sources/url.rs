//! Files on a web server: what their names tell, since such a server lists nothing. Never asks it.

use url::Url;

use super::ListError;
use super::listed::{FILES_MAX, Listed};
use crate::digest::Digest;
use crate::listing::{Listing, RemoteFile, pieces_of};
use crate::reference::UrlReference;

/// The file of the reference, with all others where it is one piece of several.
pub(super) fn list(reference: &UrlReference) -> Result<Listing, ListError> {
    let name = reference.file_name();
    let names = pieces_of(&name).ok_or_else(|| ListError::OpenEnd { name: name.clone() })?;
    if names.len() > FILES_MAX {
        return Err(ListError::TooManyFiles);
    }
    let mut listed = Listed::default();
    for piece in &names {
        let is_named = *piece == name;
        let url = if is_named { reference.url.clone() } else { beside(&reference.url, piece) };
        let digest = reference.sha256.filter(|_| is_named).map(Digest::Sha256);
        listed.add(RemoteFile { path: piece.clone(), bytes: None, digest, url })?;
    }
    let files = listed.into_files()?;
    // Whichever piece is given, and whatever signs the request, the source is the same.
    let first = files.first().map(|first| UrlReference { url: first.url.clone(), sha256: None });
    let source = first.map_or_else(String::new, |first| first.source());
    Ok(Listing { source, revision: String::new(), files })
}

/// `url` with another last component.
fn beside(url: &Url, name: &str) -> Url {
    let mut url = url.clone();
    url.path_segments_mut()
        .expect("a reference is an http or https URL, which has a path")
        .pop()
        .push(name);
    url
}
