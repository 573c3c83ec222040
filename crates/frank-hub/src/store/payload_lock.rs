//! `payload.lock`: what a payload is made of and how it was verified. Never looks at the payload itself.

use std::fs::Metadata;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::durable;
use crate::digest::{Digest, Sha1, Sha256};
use crate::listing::Role;
use crate::reference::Reference;
use crate::stamp::Stamp;

/// Name of the lock file beside the payload's files.
pub(crate) const LOCK_FILE: &str = "payload.lock";

/// What a payload consists of, as it was when every digest was taken.
///
/// The file is TOML: `source`, `revision` and a `[[file]]` for each file. Readers take fields that they do not know for
/// granted, and files without `role` and `path` are models whose source names no path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadLock {
    /// The reference it came from, without a digest.
    pub source: String,
    /// Other references that led to it: the words of earlier pulls find it still.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// What the source calls this state of it: a commit, the versions of packages, or nothing.
    pub revision: String,
    /// Every file of the payload.
    pub file: Vec<LockedFile>,
}

/// One file, as it was when its digest was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedFile {
    /// Its name beside the lock file.
    pub name: String,
    /// What it is for.
    #[serde(default = "model")]
    pub role: Role,
    /// Its path at the source; empty where that has none, or where it was joined from fragments.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Sha256,
    /// Its digest as a git blob, where that is what the source declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_sha1: Option<Sha1>,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i64,
    /// The time of the last change of anything about it, likewise. While both times, the number and the size stay, the
    /// digest is taken to hold; a file of which the lock file says no such time is read once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_ns: Option<i64>,
    /// Its number on its drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<i64>,
    /// Whether it was found to have other bytes than these digests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
    /// What it was joined from, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragment: Vec<SourceFile>,
}

/// A file as its source declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Its path there.
    pub path: String,
    /// Its size, where the source says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Its digest, where that is of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Its digest as a git blob, where that is what the source declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_sha1: Option<Sha1>,
}

fn model() -> Role {
    Role::Model
}

impl PayloadLock {
    /// Reads the lock file in `folder`. `None` where there is none, or where it is none that can be read: what it
    /// should say is then found out anew.
    pub(crate) fn read(folder: &Path) -> io::Result<Option<PayloadLock>> {
        let text = durable::read(&folder.join(LOCK_FILE))?;
        Ok(text.and_then(|text| toml::from_str(&text).ok()))
    }

    /// Writes the lock file in `folder` in one step: a reader sees the old one or the new one.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        durable::write(folder, LOCK_FILE, &text)
    }

    /// Keeps the words that found the payload when it was `before`, and those of `asked`, beside its own.
    pub(crate) fn keep_words(&mut self, before: &PayloadLock, asked: &str) {
        let words = before.also.iter().chain([&before.source]).map(String::as_str).chain([asked]);
        let mut others: Vec<String> = words.map(unsigned_words).collect();
        others.retain(|words| !same_words(words, &self.source));
        others.sort_unstable_by_key(|words| (words.to_ascii_lowercase(), words.clone()));
        others.dedup_by(|one, other| same_words(one, other));
        self.also = others;
    }

    /// The entry for `name`.
    pub fn file(&self, name: &str) -> Option<&LockedFile> {
        self.file.iter().find(|file| file.name == name)
    }
}

/// Words without what signs a request, which older versions kept.
fn unsigned_words(words: &str) -> String {
    match words.parse() {
        Ok(Reference::Url(url)) => url.source(),
        _ => words.to_owned(),
    }
}

/// Whether two references say the same: the hub takes names of repositories in any case, and quants are found in any.
pub(crate) fn same_words(one: &str, other: &str) -> bool {
    one == other || (one.starts_with("hf:") && one.eq_ignore_ascii_case(other))
}

impl LockedFile {
    /// How it was when its digest was taken; `None` where the lock file does not say all of it.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let (modified_ns, changed_ns, inode) = (self.modified_ns, self.changed_ns?, self.inode?);
        Some(Stamp { modified_ns, changed_ns, inode })
    }

    /// The same file after it was found good as it is now.
    pub(super) fn stamped(self, stamp: Stamp) -> LockedFile {
        let Stamp { modified_ns, changed_ns, inode } = stamp;
        LockedFile { modified_ns, changed_ns: Some(changed_ns), inode: Some(inode), ..self }
    }

    /// Whether nobody touched it since its digest was taken.
    pub(super) fn is_untouched(&self, now: &Metadata) -> bool {
        now.len() == self.bytes && !self.damaged && self.stamp() == Some(Stamp::of(now))
    }

    /// Its paths at the source: those of its fragments where it was joined, none where the source names none.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let whole = Some(self.path.as_str()).filter(|path| !path.is_empty());
        self.fragment.iter().map(|fragment| fragment.path.as_str()).chain(whole)
    }

    /// Whether this is what the source has as `segments` now; `None` where it declares too little to tell.
    pub(crate) fn is_of(&self, segments: &[SourceFile]) -> Option<bool> {
        if let [whole] = segments {
            return same(self.bytes, Some(self.sha256), self.git_sha1, whole);
        }
        if self.fragment.len() != segments.len() {
            return Some(false);
        }
        let pairs = self.fragment.iter().zip(segments);
        let told: Vec<Option<bool>> = pairs
            .map(|(mine, theirs)| {
                same(mine.bytes.or(theirs.bytes)?, mine.sha256, mine.git_sha1, theirs)
            })
            .collect();
        // One fragment that differs decides, and one that cannot be told leaves the whole untold.
        if told.contains(&Some(false)) {
            return Some(false);
        }
        told.into_iter().all(|told| told == Some(true)).then_some(true)
    }
}

/// Whether a file of these facts is `theirs`, as far as what is declared can be compared.
fn same(
    bytes: u64,
    sha256: Option<Sha256>,
    git_sha1: Option<Sha1>,
    theirs: &SourceFile,
) -> Option<bool> {
    if theirs.bytes.is_some_and(|declared| declared != bytes) {
        return Some(false);
    }
    let by_sha256 = sha256.zip(theirs.sha256).map(|(mine, theirs)| mine == theirs);
    by_sha256.or_else(|| git_sha1.zip(theirs.git_sha1).map(|(mine, theirs)| mine == theirs))
}

impl SourceFile {
    /// A file with the digest that its source declares.
    pub(crate) fn new(path: String, bytes: Option<u64>, digest: Option<Digest>) -> SourceFile {
        let (sha256, git_sha1) = match digest {
            Some(Digest::Sha256(sha256)) => (Some(sha256), None),
            Some(Digest::GitBlob(sha1)) => (None, Some(sha1)),
            None => (None, None),
        };
        SourceFile { path, bytes, sha256, git_sha1 }
    }

    /// The digest that the source declares.
    pub fn digest(&self) -> Option<Digest> {
        self.sha256.map(Digest::Sha256).or(self.git_sha1.map(Digest::GitBlob))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_of_the_first_format_is_read() {
        let text = format!(
            "source = \"pip:a==1#x.gguf\"\nrevision = \"1\"\n\n[[file]]\nname = \"x.gguf\"\nbytes = 3\n\
             sha256 = \"{}\"\nmodified_ns = 7\n",
            Sha256::of(b"abc")
        );
        let lock: PayloadLock = toml::from_str(&text).unwrap();
        let file = lock.file("x.gguf").unwrap();
        assert_eq!((file.role, file.path.as_str(), file.damaged), (Role::Model, "", false));
        assert_eq!(toml::from_str::<PayloadLock>(&toml::to_string(&lock).unwrap()).unwrap(), lock);
    }

    #[test]
    fn a_file_is_compared_with_its_source_by_what_both_declare() {
        let source = |bytes: u64, content: Option<&[u8]>| {
            let digest = content.map(|content| Digest::Sha256(Sha256::of(content)));
            SourceFile::new("x".to_owned(), Some(bytes), digest)
        };
        let mut file = LockedFile {
            name: "x".to_owned(),
            role: Role::Model,
            path: "x".to_owned(),
            bytes: 3,
            sha256: Sha256::of(b"abc"),
            git_sha1: None,
            modified_ns: 0,
            changed_ns: None,
            inode: None,
            damaged: false,
            fragment: Vec::new(),
        };
        assert_eq!(file.is_of(&[source(3, Some(b"abc"))]), Some(true));
        assert_eq!(file.is_of(&[source(3, Some(b"abd"))]), Some(false));
        assert_eq!(file.is_of(&[source(4, Some(b"abc"))]), Some(false));
        assert_eq!(file.is_of(&[source(3, None)]), None);
        let halves = [source(1, Some(b"a")), source(2, Some(b"bc"))];
        assert_eq!(file.is_of(&halves), Some(false), "it was never joined from these");
        file.fragment = halves.to_vec();
        assert_eq!(file.is_of(&halves), Some(true));
        assert_eq!(file.is_of(&[source(1, None), source(2, Some(b"bc"))]), None);
        assert_eq!(file.is_of(&[source(1, None), source(2, Some(b"bd"))]), Some(false));
    }

    #[test]
    fn words_of_earlier_pulls_are_kept_once_each() {
        let lock = |source: &str, also: &[&str]| PayloadLock {
            source: source.to_owned(),
            also: also.iter().map(|&words| words.to_owned()).collect(),
            revision: String::new(),
            file: Vec::new(),
        };
        let mut longer = lock("hf:o/r:Q8_0,draft", &[]);
        longer.keep_words(&lock("hf:o/r:q8_0", &["hf:o/r", "hf:O/r"]), "hf:o/r:Q8_0,draft");
        assert_eq!(longer.also, ["hf:O/r", "hf:o/r:q8_0"]);
        let mut shorter = lock("hf:o/r:Q8_0,draft", &[]);
        shorter.keep_words(&longer, "hf:o/r:Q8_0");
        assert_eq!(shorter.also, ["hf:O/r", "hf:o/r:Q8_0"]);
    }
}
