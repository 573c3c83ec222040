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
use crate::store::{LockedFile, Note, Payload, Pulled, same_words, source_of};

use self::edited::edited;

/// Name of the file in a project's folder.
pub const FRANK_LOCK: &str = "frank.lock";

/// Bytes of a lock at most.
const LOCK_BYTES_MAX: u64 = 64 << 20;

/// What is being done with a lock that takes no change.
const WRITE: &str = "write";

const HEADER: &str =
    "# Written by `frank pull`, which also checks what stands here against the source.\n\n";

/// What a project pins: TOML with a `[[payload]]` for each payload and a `[[payload.file]]` for each of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrankLock {
    /// The payloads.
    #[serde(default)]
    pub payload: Vec<PinnedPayload>,
    /// Images of containers, as a `[[image]]` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image: Vec<PinnedImage>,
    /// Runtimes, as a `[[runtime]]` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime: Vec<PinnedRuntime>,
}

/// The bytes that an image is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedImage {
    /// Its name, with its tag where it has one, as it stands in `frank.toml`.
    pub name: String,
    /// Its digest, as `sha256:…`.
    pub digest: String,
}

/// The version of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedRuntime {
    /// Its name, as it stands in `frank.toml`.
    pub name: String,
    /// What it says of its version.
    pub version: String,
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
    /// Something else than a text stands there.
    #[error("{} is {what}", path.display())]
    NoText {
        /// The place.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It is not what it should be.
    #[error("{}, line {line}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is wrong there, in one line.
        what: String,
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
            FrankLockError::NoText { .. }
            | FrankLockError::Malformed { .. }
            | FrankLockError::Source { .. }
            | FrankLockError::Twice { .. } => FailureKind::Input,
        }
    }

    /// A word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            FrankLockError::Io { .. } => "io",
            FrankLockError::NoText { .. }
            | FrankLockError::Malformed { .. }
            | FrankLockError::Source { .. }
            | FrankLockError::Twice { .. } => "frank_lock",
        }
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            FrankLockError::NoText { .. } => {
                Some("move it away, or name another file with `--lock FILE`")
            }
            FrankLockError::Io { doing: WRITE, .. } => {
                Some("`--lock FILE` takes a file in a folder that is there and may be written")
            }
            _ => None,
        }
    }
}

impl FrankLock {
    /// Reads the file at `path`; `None` where there is none.
    /// # Errors
    /// [`FrankLockError`] with the line where it is at fault.
    pub fn read(path: &Path) -> Result<Option<FrankLock>, FrankLockError> {
        let Some(text) = read_text(path)? else { return Ok(None) };
        let lock = parsed(path, &text)?;
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
        let images: Vec<&str> = self.image.iter().map(|pinned| pinned.name.as_str()).collect();
        let runtimes: Vec<&str> = self.runtime.iter().map(|it| it.name.as_str()).collect();
        self.payload_twice().or_else(|| again(&images)).or_else(|| again(&runtimes))
    }

    fn payload_twice(&self) -> Option<String> {
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
        let mut malformed = None;
        let written = update_beside(path, |old| {
            if let Some(old) = old {
                lock = parsed(path, old).map_err(|error| {
                    malformed = Some(error);
                    io::Error::from(io::ErrorKind::InvalidData)
                })?;
            }
            let before = lock.payload.len();
            let index = lock.set(pinned.clone(), replaces);
            let fresh = toml::to_string(&lock).map_err(io::Error::other)?;
            // Other pins stand there already.
            let only = FrankLock { payload: lock.payload.clone(), ..FrankLock::default() };
            let only = toml::to_string(&only).map_err(io::Error::other)?;
            let says_all =
                |text: &String| toml::from_str(text).is_ok_and(|it: FrankLock| it == lock);
            let place = Some(index).filter(|&index| index < before);
            let kept = old.and_then(|old| {
                // Nothing but comments, or nothing at all.
                let appended = Some(format!("{old}\n{only}")).filter(|_| before == 0);
                let renewed = || edited(old, place, &lock.payload[index]);
                appended.filter(says_all).or_else(renewed).filter(says_all)
            });
            Ok(kept.unwrap_or_else(|| format!("{HEADER}{fresh}")))
        });
        match (malformed, written) {
            (Some(malformed), _) => Err(malformed),
            (None, Err(source)) => {
                Err(FrankLockError::Io { doing: WRITE, path: path.to_owned(), source })
            }
            (None, Ok(())) => Ok(lock),
        }
    }

    /// Makes sure that a file can be written at `path`, and writes none: known late, a pull of hours would be in no lock.
    /// # Errors
    /// [`FrankLockError::Io`].
    pub fn check_place(path: &Path) -> Result<(), FrankLockError> {
        let target = if path.is_symlink() { path.canonicalize() } else { Ok(path.to_owned()) };
        let made = target.and_then(|target| {
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            folder.metadata()?;
            // As a write does: the old file stays until the new one is whole.
            tempfile::Builder::new().prefix(".frank.lock.").tempfile_in(folder)
        });
        let io = |source| FrankLockError::Io { doing: WRITE, path: path.to_owned(), source };
        made.map(drop).map_err(io)
    }

    /// What it says of what `reference` is pulled as.
    pub fn pins(&self, reference: &Reference) -> Option<&PinnedPayload> {
        self.entry(&source_of(reference))
    }

    /// What it says of this very payload, one of `all`, whichever of the words was used that lead to it. Pins none of whose
    /// files is in it are of another payload that these words led to, or else they are of this one, and mistyped.
    pub fn pins_of(&self, payload: &Payload, all: &[Payload]) -> Option<&PinnedPayload> {
        let is_of_another = |pinned: &PinnedPayload| {
            let others = all.iter().filter(|other| other.name != payload.name);
            let mut led = others.filter(|other| self.entries(other).any(|entry| entry == pinned));
            led.any(|other| pinned.is_of(other))
        };
        let mut mine = self.entries(payload).filter(|pinned| pinned.is_of(payload));
        let mistyped = || self.entries(payload).find(|pinned| !is_of_another(pinned));
        mine.next().or_else(mistyped)
    }

    /// What stands by the words that led to a payload.
    fn entries(&self, payload: &Payload) -> impl Iterator<Item = &PinnedPayload> {
        let words = payload.source.iter().chain(&payload.also);
        words.filter_map(|words| self.entry(words))
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

    /// The same with the files that were pinned before, that their source has no longer, and that are here.
    #[must_use]
    pub fn with_gone(mut self, old: &PinnedPayload, pulled: &Pulled) -> PinnedPayload {
        let gone = pulled.notes.iter().filter_map(|note| match note {
            Note::UpstreamGone { file } => pulled.lock.file(file),
            _ => None,
        });
        let pinned = gone.filter(|gone| old.file(&gone.name).is_some());
        for file in pinned {
            if self.file(&file.name).is_none() {
                self.file.push(PinnedFile::of(file));
            }
        }
        self
    }

    /// Whether a pull that agrees with it has nothing to add.
    pub fn is_full(&self) -> bool {
        let is_full = |file: &PinnedFile| {
            file.role.is_some() && file.bytes.is_some() && file.sha256.is_some()
        };
        let has_revision = self.revision.is_some() || !self.source.starts_with("hf:");
        has_revision && !self.file.is_empty() && self.file.iter().all(is_full)
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

    /// Whether a payload has one of its files, where it names some.
    fn is_of(&self, payload: &Payload) -> bool {
        let is_here = |pin: &PinnedFile| payload.files.iter().any(|file| file.name == pin.name);
        self.file.is_empty() || self.file.iter().any(is_here)
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

/// A name that comes two times.
fn again(names: &[&str]) -> Option<String> {
    let mut all = names.iter().enumerate();
    let is_again = |&(at, name): &(usize, &&str)| names[..at].contains(name);
    all.find(is_again).map(|(_, name)| printable(name).to_owned())
}

/// The text at `path`; `None` where nothing is.
fn read_text(path: &Path) -> Result<Option<String>, FrankLockError> {
    let no_text = |what| FrankLockError::NoText { path: path.to_owned(), what };
    match read_beside(path) {
        Ok(None) if path.is_symlink() => Err(no_text("a link that leads to nothing")),
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(no_text(kind_at(path))),
        Err(source) => Err(FrankLockError::Io { doing: "read", path: path.to_owned(), source }),
    }
}

/// What stands at `path`, which is no text.
fn kind_at(path: &Path) -> &'static str {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => "a folder and not a file",
        Ok(metadata) if !metadata.is_file() => "a pipe, socket or device and not a file",
        Ok(metadata) if metadata.len() > LOCK_BYTES_MAX => "larger than 64 MiB",
        _ => "not text in UTF-8",
    }
}

/// What a text says.
fn parsed(path: &Path, text: &str) -> Result<FrankLock, FrankLockError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let what = error.message().lines().collect::<Vec<_>>().join(", ");
        FrankLockError::Malformed { path: path.to_owned(), line, what }
    })
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
    fn images_and_runtimes_stay_when_payloads_are_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        let text = "[[image]]\nname = \"h/llama:b1\"\ndigest = \"sha256:00\"\n\n\
            [[runtime]]\nname = \"vllm\"\nversion = \"0.12\" # asked for by Ada\n";
        std::fs::write(&path, text).unwrap();
        for bytes in [3, 5] {
            let lock = add(&path, &pinned("hf:org/one", bytes));
            assert_eq!((lock.image.len(), lock.runtime.len(), lock.payload.len()), (1, 1, 1));
            let now = std::fs::read_to_string(&path).unwrap();
            assert!(now.contains("# asked for by Ada"), "{now}");
            assert_eq!(FrankLock::read(&path).unwrap(), Some(lock));
        }
        std::fs::write(&path, format!("{text}{}", text.split("\n\n").next().unwrap())).unwrap();
        let error = FrankLock::read(&path).unwrap_err().to_string();
        assert!(error.contains("`h/llama:b1` is pinned twice"), "{error}");
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
    fn comments_of_inline_tables_stay_when_they_are_written_out() {
        let text = "# Models of the shop.
payload = [ # all of them
  # The one that customers see.
  { source = \"hf:org/one\", file = [
    # Bytes by hand.
    { name = \"m.gguf\", bytes = 3 }, # asked for by Ada
  ] },
  # The small one.
  { source = \"hf:org/two\", file = [{ name = \"n.gguf\" }] },
  # No more.
] # and that is all
# The end.
";
        let now = renewed(text, &pinned("hf:org/one", 5));
        let comments = text.lines().filter_map(|line| line.split_once('#'));
        for (_, comment) in comments {
            assert!(now.contains(&format!("#{comment}")), "{comment} is not in\n{now}");
        }
        let at = |part: &str| now.find(part).unwrap_or_else(|| panic!("{part} is not in\n{now}"));
        assert!(
            at("customers see") < at("hf:org/one") && at("hf:org/one") < at("# The small one.")
        );
        assert!(at("hf:org/one") < at("by hand") && at("by hand") < at("bytes = 5"), "{now}");
        assert!(at("# The small one.") < at("hf:org/two"), "{now}");
        let files =
            "[[payload]]\nsource = \"hf:org/one\"\nfile = [{ name = \"m.gguf\" }] # Ada's\n";
        assert!(renewed(files, &pinned("hf:org/one", 5)).contains("# Ada's"));
        let none = "payload = [] # none yet\n";
        assert!(renewed(none, &pinned("hf:org/one", 5)).contains("# none yet"));
    }

    #[test]
    fn comments_of_a_key_that_goes_stay() {
        let text = "[[payload]]
source = \"hf:org/one\"
# Held back, ask Ada.
revision = \"fffffff\" # until June

[[payload.file]]
# Made by git.
git_sha1 = \"9d2e33818ac6130a1e5e8a4ee766bd943c70541d\" # of May
name = \"m.gguf\"
";
        let mut fresh = pinned("hf:org/one", 5);
        fresh.revision = None;
        let now = renewed(text, &fresh);
        for kept in ["# Held back, ask Ada.", "# until June", "# Made by git.", "# of May"] {
            assert!(now.lines().any(|line| line == kept), "{kept} is not in\n{now}");
        }
        assert!(!now.contains("revision") && !now.contains("git_sha1"), "{now}");
    }

    /// What stands in a lock of `text` after `pinned` was pinned in it.
    fn renewed(text: &str, pinned: &PinnedPayload) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        std::fs::write(&path, text).unwrap();
        let lock = add(&path, pinned);
        assert_eq!(FrankLock::read(&path).unwrap(), Some(lock));
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn what_stands_in_place_of_a_lock_is_named_and_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        let check = |told: &str| {
            let error = FrankLock::read(&path).unwrap_err();
            assert_eq!((error.reason(), error.kind()), ("frank_lock", FailureKind::Input));
            assert_eq!(error.to_string(), format!("{} is {told}", path.display()));
            assert!(error.hint().is_some_and(|hint| hint.contains("--lock")));
        };
        std::fs::create_dir(&path).unwrap();
        check("a folder and not a file");
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, b"source = \"\xff\"").unwrap();
        check("not text in UTF-8");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(dir.path().join("none"), &path).unwrap();
        check("a link that leads to nothing");
    }

    #[test]
    fn what_is_wrong_with_the_text_is_said_once_and_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        let check = |text: &str, line: usize, part: &str| {
            std::fs::write(&path, text).unwrap();
            let error = FrankLock::read(&path).unwrap_err();
            let told = error.to_string();
            let begin = format!("{}, line {line}: ", path.display());
            assert!(told.starts_with(&begin) && told.contains(part), "{told}");
            assert_eq!(told.lines().count(), 1, "{told}");
            assert!(std::error::Error::source(&error).is_none(), "it would be printed again");
        };
        check("[[payload]]\nsauce = 1\n", 2, "unknown field `sauce`");
        check("[[payload]]\nsource = \"hf:org/one\n", 2, "string");
        check("[[payload]]\n\nsource = 3\n", 3, "string");
        check("[[payload]]\nrevision = \"x\"\n", 1, "missing field `source`");
    }

    #[test]
    fn a_place_that_takes_no_file_is_found_before_anything_is_written_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        FrankLock::check_place(&path).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it left nothing");
        for path in [&dir.path().join("none/frank.lock"), Path::new("/proc/frank.lock")] {
            let error = FrankLock::check_place(path).unwrap_err();
            assert_eq!((error.reason(), error.kind()), ("io", FailureKind::Failed), "{error}");
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        }
        // What is written is the file that a link leads to.
        std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
        std::fs::write(dir.path().join("elsewhere/lock"), "").unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere/lock"), &path).unwrap();
        FrankLock::check_place(&path).unwrap();
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
