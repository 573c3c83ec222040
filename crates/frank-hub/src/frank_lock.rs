//! `frank.lock`: which bytes a project runs, written by pulls and kept with the project. Never says where they lie.

mod edited;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::beside::{read_beside, update_beside};
use crate::digest::{Sha1, Sha256};
use crate::fetch::FailureKind;
use crate::listing::Role;
use crate::reference::{Reference, ReferenceError, printable};
use crate::store::{LockedFile, Payload, Pulled, same_words, source_of};

use self::edited::edited;

/// Name of the file in a project's folder.
pub const FRANK_LOCK: &str = "frank.lock";

const HEADER: &str =
    "# Written by `frank pull`, which also checks what stands here against the source.\n\n";

/// What a project pins: TOML with a `[[payload]]` for each payload and a `[[payload.file]]` for each of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrankLock {
    /// The payloads.
    #[serde(default)]
    pub payload: Vec<PinnedPayload>,
}

/// A payload as it should be. Whatever is left out is not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedPayload {
    /// The reference that it is pulled by, without a digest.
    pub source: String,
    /// The commit that is pulled until somebody refreshes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Its files.
    #[serde(default)]
    pub file: Vec<PinnedFile>,
}

/// A file as it should be. Whatever is left out is not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedFile {
    /// Its name in the store.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Its path at the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Its digest as a git blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_sha1: Option<Sha1>,
}

/// Why a `frank.lock` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrankLockError {
    /// It cannot be read or written.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{}: {}", path.display(), source.to_string().trim_end())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and on which line.
        source: Box<toml::de::Error>,
    },
    /// A payload, or a file of one, is pinned two times.
    #[error("{}: `{what}` is pinned twice; remove one of both entries", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The source of the payload, or the name of the file.
        what: String,
    },
    /// A source in it is no reference.
    #[error("{}: `{text}` is no source", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// The text.
        text: String,
        /// What is wrong with it.
        source: ReferenceError,
    },
}

impl FrankLockError {
    /// The kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            FrankLockError::Io { .. } => FailureKind::Failed,
            FrankLockError::Malformed { .. }
            | FrankLockError::Source { .. }
            | FrankLockError::Twice { .. } => FailureKind::Input,
        }
    }

    /// A word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            FrankLockError::Io { .. } => "io",
            FrankLockError::Malformed { .. }
            | FrankLockError::Source { .. }
            | FrankLockError::Twice { .. } => "frank_lock",
        }
    }
}

impl FrankLock {
    /// Reads the file at `path`; `None` where there is none.
    /// # Errors
    /// [`FrankLockError`] with the line where it is at fault.
    pub fn read(path: &Path) -> Result<Option<FrankLock>, FrankLockError> {
        let text = read_beside(path);
        let text = text.map_err(|source| FrankLockError::Io {
            doing: "read",
            path: path.to_owned(),
            source,
        })?;
        let Some(text) = text else { return Ok(None) };
        let lock: FrankLock = toml::from_str(&text).map_err(|source| {
            FrankLockError::Malformed { path: path.to_owned(), source: Box::new(source) }
        })?;
        for payload in &lock.payload {
            payload.reference().map_err(|source| FrankLockError::Source {
                path: path.to_owned(),
                text: printable(&payload.source).to_owned(),
                source,
            })?;
        }
        match lock.twice() {
            Some(what) => Err(FrankLockError::Twice { path: path.to_owned(), what }),
            None => Ok(Some(lock)),
        }
    }

    /// What it pins two times, of which one would be passed over.
    fn twice(&self) -> Option<String> {
        let mut payloads = self.payload.iter().enumerate();
        payloads.find_map(|(index, pinned)| {
            if self.payload[..index].iter().any(|earlier| earlier.is_from(&pinned.source)) {
                return Some(printable(&pinned.source).to_owned());
            }
            let mut files = pinned.file.iter().enumerate();
            let is_again = |&(at, file): &(usize, &PinnedFile)| {
                pinned.file[..at].iter().any(|earlier| earlier.name == file.name)
            };
            files.find(is_again).map(|(_, file)| file.name.clone())
        })
    }

    /// Takes over `pinned` into the file at `path`, in the place of what stands there from the source `replaces`, beside what
    /// others wrote there since it was read, and returns what it says now. Comments and a link stay.
    /// # Errors
    /// [`FrankLockError::Io`]; the file is as it was then.
    pub fn add(
        path: &Path,
        pinned: &PinnedPayload,
        replaces: &str,
    ) -> Result<FrankLock, FrankLockError> {
        let mut lock = FrankLock::default();
        let written = update_beside(path, |old| {
            if let Some(old) = old {
                lock = toml::from_str(old)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
            let before = lock.payload.len();
            let index = lock.set(pinned.clone(), replaces);
            let fresh = toml::to_string(&lock).map_err(io::Error::other)?;
            let kept = match old {
                // Nothing but comments, or nothing at all.
                Some(old) if before == 0 => Some(format!("{old}\n{fresh}")),
                Some(old) => {
                    edited(old, Some(index).filter(|&index| index < before), &lock.payload[index])
                }
                None => None,
            };
            let says_all =
                |text: &String| toml::from_str(text).is_ok_and(|it: FrankLock| it == lock);
            Ok(kept.filter(says_all).unwrap_or_else(|| format!("{HEADER}{fresh}")))
        });
        let io = |source| FrankLockError::Io { doing: "write", path: path.to_owned(), source };
        written.map_err(io)?;
        Ok(lock)
    }

    /// What it says of what `reference` is pulled as.
    pub fn pins(&self, reference: &Reference) -> Option<&PinnedPayload> {
        self.entry(&source_of(reference))
    }

    /// What it says of this very payload, whichever of the words was used that lead to it.
    pub fn pins_of(&self, payload: &Payload) -> Option<&PinnedPayload> {
        let is_of = |pinned: &&PinnedPayload| {
            let is_here = |pin: &PinnedFile| payload.files.iter().any(|file| file.name == pin.name);
            pinned.file.is_empty() || pinned.file.iter().any(is_here)
        };
        let words = payload.source.iter().chain(&payload.also);
        words.filter_map(|words| self.entry(words)).find(is_of)
    }

    fn entry(&self, source: &str) -> Option<&PinnedPayload> {
        self.payload.iter().find(|pinned| pinned.is_from(source))
    }

    /// Takes over `pinned` in the place of what it said of that source before, or else of the source `replaces`, and returns
    /// which payload that is. Files keep their order.
    pub fn set(&mut self, pinned: PinnedPayload, replaces: &str) -> usize {
        let place = |source: &str| self.payload.iter().position(|old| old.is_from(source));
        let Some(index) = place(&pinned.source).or_else(|| place(replaces)) else {
            self.payload.push(pinned);
            return self.payload.len() - 1;
        };
        let old = std::mem::replace(&mut self.payload[index], pinned);
        let before = |file: &PinnedFile| old.file.iter().position(|old| old.name == file.name);
        self.payload[index].file.sort_by_key(|file| before(file).unwrap_or(usize::MAX));
        index
    }
}

impl PinnedPayload {
    /// What a project pins of a pull: the words that lead to it, and the files that these bring.
    pub fn of(pulled: &Pulled) -> PinnedPayload {
        let lock = &pulled.lock;
        let is_brought =
            |file: &&LockedFile| pulled.files.iter().any(|brought| brought.name == file.name);
        PinnedPayload {
            source: pulled.words.clone(),
            revision: Some(lock.revision.clone()).filter(|revision| !revision.is_empty()),
            file: lock.file.iter().filter(is_brought).map(PinnedFile::of).collect(),
        }
    }

    /// The same for who asked by a name, and had pinned the payload by other words, those of `old`, with the files that these
    /// bring.
    #[must_use]
    pub fn under(mut self, old: &PinnedPayload) -> PinnedPayload {
        if old.is_from(&self.source) {
            return self;
        }
        self.source.clone_from(&old.source);
        self.file.retain(|file| old.file.is_empty() || old.file(&file.name).is_some());
        self
    }

    /// The reference that it is pulled by.
    /// # Errors
    /// [`ReferenceError`] when the source is none.
    pub fn reference(&self) -> Result<Reference, ReferenceError> {
        self.source.parse()
    }

    /// What is pinned of the file `name`.
    pub fn file(&self, name: &str) -> Option<&PinnedFile> {
        self.file.iter().find(|file| file.name == name)
    }

    fn is_from(&self, source: &str) -> bool {
        let mine = self.reference().map_or_else(|_| self.source.clone(), |mine| source_of(&mine));
        same_words(&mine, source)
    }
}

impl PinnedFile {
    fn of(file: &LockedFile) -> PinnedFile {
        PinnedFile {
            name: file.name.clone(),
            role: Some(file.role),
            path: Some(file.path.clone()).filter(|path| !path.is_empty()),
            bytes: Some(file.bytes),
            sha256: Some(file.sha256),
            git_sha1: file.git_sha1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(source: &str, bytes: u64) -> PinnedPayload {
        let file = PinnedFile {
            name: "m.gguf".to_owned(),
            role: Some(Role::Model),
            path: Some("sub/m.gguf".to_owned()),
            bytes: Some(bytes),
            sha256: Some(Sha256::of(b"abc")),
            git_sha1: None,
        };
        let (source, revision) = (source.to_owned(), Some("0123456".to_owned()));
        PinnedPayload { source, revision, file: vec![file] }
    }

    /// Pins at `path`, in the place of the same source.
    fn add(path: &Path, pinned: &PinnedPayload) -> FrankLock {
        FrankLock::add(path, pinned, &pinned.source).unwrap()
    }

    #[test]
    fn what_was_pulled_is_written_and_read_back_and_set_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        assert_eq!(FrankLock::read(&path).unwrap(), None);
        let mut lock = FrankLock::default();
        for (source, bytes) in
            [("hf:org/one:Q4_K_M", 3), ("hf:org/two", 4), ("hf:org/one:q4_k_m", 5)]
        {
            lock.set(pinned(source, bytes), source);
        }
        assert_eq!(lock.payload.len(), 2);
        // Two who had read it before either wrote.
        add(&path, &pinned("hf:org/one:q4_k_m", 5));
        let added = add(&path, &pinned("hf:org/two", 4));
        assert_eq!(added, lock);
        assert_eq!(FrankLock::read(&path).unwrap(), Some(lock.clone()));
        let pins = lock.pins(&"hf:ORG/one:Q4_K_M".parse().unwrap()).unwrap();
        assert_eq!(pins.file("m.gguf").unwrap().bytes, Some(5));
        assert!(
            lock.pins(&"hf:org/one".parse().unwrap()).is_none(),
            "another pick is another payload"
        );
    }

    #[test]
    fn comments_and_the_order_of_what_a_person_wrote_stay_when_pins_are_renewed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        let text = "# Models of the shop.

[[payload]]
# The one that customers see.
source = \"hf:org/one\" # asked for by Ada
revision = \"fffffff\"

[[payload.file]]
bytes = 3 # by hand
name = \"m.gguf\"

# The small one.
[[payload]]
source = \"hf:org/two\"

# The end.
";
        std::fs::write(&path, text).unwrap();
        let lock = add(&path, &pinned("hf:org/one", 5));
        let now = std::fs::read_to_string(&path).unwrap();
        for kept in text.lines().filter(|line| line.contains('#') && !line.contains("bytes")) {
            assert!(now.lines().any(|line| line == kept), "{kept} is not in\n{now}");
        }
        assert!(now.contains("bytes = 5 # by hand\nname"), "{now}");
        assert!(now.contains("revision = \"0123456\"\n"), "{now}");
        assert_eq!(FrankLock::read(&path).unwrap(), Some(lock.clone()));
        assert_eq!(lock.payload.len(), 2);
        // What is new comes behind its like, and what was right is not written anew.
        let mut more = pinned("hf:org/one", 5);
        more.file.insert(0, PinnedFile { name: "mmproj.gguf".to_owned(), ..more.file[0].clone() });
        let lock = add(&path, &more);
        let names: Vec<&str> = lock.payload[0].file.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["m.gguf", "mmproj.gguf"]);
        let now = std::fs::read_to_string(&path).unwrap();
        let at = |part: &str| now.find(part).unwrap_or_else(|| panic!("{part} is not in\n{now}"));
        assert!(
            at("# by hand") < at("mmproj.gguf") && at("mmproj.gguf") < at("# The small one."),
            "{now}"
        );
        add(&path, &pinned("hf:org/three", 6));
        let now = std::fs::read_to_string(&path).unwrap();
        assert!(now.contains("# The small one.") && now.contains("hf:org/three"), "{now}");
        assert_eq!(FrankLock::read(&path).unwrap().unwrap().payload.len(), 3);
    }

    #[test]
    fn a_lock_in_another_form_is_renewed_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        let text = "payload = [{ source = \"hf:org/one\", file = [{ name = \"m.gguf\" }] }]\n";
        std::fs::write(&path, text).unwrap();
        let lock = add(&path, &pinned("hf:org/one", 5));
        assert_eq!(lock.payload, [pinned("hf:org/one", 5)]);
        assert_eq!(FrankLock::read(&path).unwrap(), Some(lock));
    }

    #[test]
    fn an_address_is_pinned_whatever_signs_the_request() {
        let mut lock = FrankLock::default();
        lock.set(pinned("https://h.example/m.gguf", 5), "");
        let signed = "https://h.example/m.gguf?X-Amz-Signature=secret&X-Amz-Expires=9";
        assert!(lock.pins(&signed.parse().unwrap()).is_some());
        assert!(lock.pins(&"https://h.example/m.gguf?version=2".parse().unwrap()).is_none());
    }

    #[test]
    fn a_misspelt_key_and_a_source_that_is_none_are_refused_by_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        let refusal = |text: &str| {
            std::fs::write(&path, text).unwrap();
            FrankLock::read(&path).unwrap_err().to_string()
        };
        let misspelt = refusal(
            "[[payload]]\nsource = \"hf:org/repo\"\n[[payload.file]]\nname = \"x\"\nsize = 3\n",
        );
        assert!(misspelt.contains("line 5") && misspelt.contains("size"), "{misspelt}");
        let no_source = refusal("[[payload]]\nsource = \"ollama:x\"\n");
        assert!(no_source.contains("`ollama:x` is no source"), "{no_source}");
        let payload = "[[payload]]\nsource = \"hf:org/repo\"\n";
        let file = "[[payload.file]]\nname = \"x.gguf\"\n";
        let twice = refusal(&format!("{payload}{payload}"));
        assert!(twice.contains("`hf:org/repo` is pinned twice"), "{twice}");
        let twice = refusal(&format!("{payload}{file}{file}"));
        assert!(twice.contains("`x.gguf` is pinned twice"), "{twice}");
    }
}
