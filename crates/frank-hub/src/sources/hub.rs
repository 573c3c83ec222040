//! The model hub: the files of a repository at one commit, and where each of them is. Never fetches a file.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Number;
use url::Url;

use super::ListError;
use super::listed::{Listed, check_path};
use crate::digest::Digest;
use crate::http::{Client, Delay};
use crate::listing::{Listing, RemoteFile};
use crate::reference::HubReference;

/// The revision that is meant where none is given.
const MAIN: &str = "main";
/// Most pages of one tree. The hub puts a thousand files on each.
const PAGES_MAX: usize = 200;
/// Digits of a commit: a SHA-1, or a SHA-256 in repositories of the newer kind.
const COMMIT_DIGITS: [usize; 2] = [40, 64];

/// What the hub says about a revision.
#[derive(Deserialize)]
struct Revision {
    sha: String,
}

/// One line of a tree.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    size: Option<Number>,
    oid: Option<String>,
    lfs: Option<Pointer>,
}

/// What stands in git for a large file.
#[derive(Deserialize)]
struct Pointer {
    oid: String,
    size: Number,
}

/// Asks the hub at `endpoint` for the commit of the revision, and for all files at that commit.
pub(super) fn list(
    reference: &HubReference,
    endpoint: &Url,
    client: &Client,
    tell: &dyn Fn(&Delay),
) -> Result<Listing, ListError> {
    let revision = reference.revision.as_deref().unwrap_or(MAIN);
    let revision_url = api(endpoint, &reference.repo, "revision", revision);
    let answer = client.json::<Revision>(&revision_url, tell)?;
    let commit = checked_commit(revision, answer.value.sha)?;
    let mut url = api(endpoint, &reference.repo, "tree", &commit);
    url.set_query(Some("recursive=true"));
    let mut listed = Listed::default();
    let mut asked = BTreeSet::new();
    loop {
        if asked.len() == PAGES_MAX || !asked.insert(url.clone()) {
            return Err(ListError::TooManyPages { origin: reference.source() });
        }
        let page = client.json::<Vec<Entry>>(&url, tell)?;
        for entry in page.value.into_iter().filter(|entry| entry.kind == "file") {
            listed.add(file(entry, endpoint, &reference.repo, &commit)?)?;
        }
        match page.next {
            Some(next) if next.origin() == endpoint.origin() => url = next,
            Some(next) => return Err(ListError::ForeignPage { host: host(&next) }),
            None => break,
        }
    }
    Ok(Listing { source: reference.source(), revision: commit, files: listed.into_files()? })
}

/// Where the file at `path` is: at the commit, so that it stays the same file whatever is pushed meanwhile.
fn file_url(endpoint: &Url, repo: &str, commit: &str, path: &str) -> Url {
    let segments = repo.split('/').chain(["resolve", commit]).chain(path.split('/'));
    below(endpoint, segments)
}

/// The commit that the hub names for `revision`, when it is one that may be meant.
fn checked_commit(revision: &str, commit: String) -> Result<String, ListError> {
    let is_other = is_commit(revision) && !revision.eq_ignore_ascii_case(&commit);
    if !is_commit(&commit) || is_other {
        let text = commit.chars().take(COMMIT_DIGITS[1]).collect();
        return Err(ListError::BadCommit { revision: revision.to_owned(), commit: text });
    }
    Ok(commit)
}

fn is_commit(text: &str) -> bool {
    COMMIT_DIGITS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn api(endpoint: &Url, repo: &str, what: &str, revision: &str) -> Url {
    below(endpoint, ["api", "models"].into_iter().chain(repo.split('/')).chain([what, revision]))
}

/// `endpoint` with these components behind its path, each percent-encoded.
fn below<'a>(endpoint: &Url, segments: impl IntoIterator<Item = &'a str>) -> Url {
    let mut url = endpoint.clone();
    url.path_segments_mut()
        .expect("an endpoint is an http or https URL, which has a path")
        .pop_if_empty()
        .extend(segments);
    url
}

fn file(entry: Entry, endpoint: &Url, repo: &str, commit: &str) -> Result<RemoteFile, ListError> {
    // Before the URL is made: it would be of another file when the path had `..` in it.
    check_path(&entry.path)?;
    let url = file_url(endpoint, repo, commit, &entry.path);
    let bad_size = || ListError::BadSize { path: entry.path.clone() };
    let bad_digest = || ListError::BadDigest { path: entry.path.clone() };
    let (size, digest) = match &entry.lfs {
        Some(Pointer { oid, size }) => (Some(size), oid.parse().map(Digest::Sha256).ok()),
        None => (
            entry.size.as_ref(),
            entry.oid.as_ref().and_then(|oid| oid.parse().map(Digest::GitBlob).ok()),
        ),
    };
    let bytes = size.and_then(Number::as_u64).ok_or_else(bad_size)?;
    let digest = digest.ok_or_else(bad_digest)?;
    Ok(RemoteFile { bytes: Some(bytes), digest: Some(digest), url, path: entry.path })
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or("no host").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(json: &str) -> Result<RemoteFile, ListError> {
        let endpoint: Url = "https://hub.example/mirror/".parse().unwrap();
        let entry = serde_json::from_str(json).unwrap();
        file(entry, &endpoint, "o/r", &"c".repeat(40))
    }

    const OID: &str = "ce013625030ba8dba906f756967f9e9ca394464a";

    #[test]
    fn small_files_have_a_git_digest_and_large_ones_a_sha256() {
        let small = entry(&format!(
            r#"{{"type": "file", "path": "config.json", "size": 6, "oid": "{OID}"}}"#
        ));
        let small = small.unwrap();
        assert_eq!((small.bytes, small.digest), (Some(6), Some(OID.parse().unwrap())));
        let sha256 = "ab".repeat(32);
        let large = entry(&format!(
            r#"{{"type": "file", "path": "a b/m.gguf", "size": 99, "oid": "{OID}",
                "lfs": {{"oid": "{sha256}", "size": 405349859328, "pointerSize": 135}}, "xetHash": "x"}}"#
        ));
        let large = large.unwrap();
        assert_eq!(large.bytes, Some(405_349_859_328));
        assert_eq!(large.digest, Some(sha256.parse().unwrap()));
        let expected =
            format!("https://hub.example/mirror/o/r/resolve/{}/a%20b/m.gguf", "c".repeat(40));
        assert_eq!(large.url.as_str(), expected);
    }

    #[test]
    fn every_character_of_a_path_reaches_the_server_as_it_is() {
        let endpoint: Url = "https://hub.example".parse().unwrap();
        let url = file_url(&endpoint, "o/r", "c", "50%/a?b#c+d&é.gguf");
        assert_eq!(url.as_str(), "https://hub.example/o/r/resolve/c/50%25/a%3Fb%23c+d&%C3%A9.gguf");
        let api = api(&endpoint, "o/r", "revision", "refs/pr/3");
        assert_eq!(api.as_str(), "https://hub.example/api/models/o/r/revision/refs%2Fpr%2F3");
    }

    #[test]
    fn sizes_and_digests_that_are_none_are_refused_by_the_name_of_the_file() {
        for size in ["-1", "1.5", "18446744073709551616", "null"] {
            let json =
                format!(r#"{{"type": "file", "path": "x", "size": {size}, "oid": "{OID}"}}"#);
            assert!(
                matches!(entry(&json), Err(ListError::BadSize { path }) if path == "x"),
                "{size}"
            );
        }
        for oid in ["", "xyz", &OID[1..]] {
            let json = format!(r#"{{"type": "file", "path": "x", "size": 1, "oid": "{oid}"}}"#);
            assert!(matches!(entry(&json), Err(ListError::BadDigest { path }) if path == "x"));
        }
        let json = r#"{"type": "file", "path": "x", "size": 1}"#;
        assert!(matches!(entry(json), Err(ListError::BadDigest { .. })));
    }
}
