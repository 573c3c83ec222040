//! Repositories of the mock hub: files, commits, and who may read them. Never a socket.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use sha1::Sha1;
use sha2::Digest as _;

use super::content::{Content, hex};

/// A repository with its history. `main` is the newest commit; older ones stay readable by their ids.
#[derive(Debug, Clone)]
pub struct Repository {
    pub(super) name: String,
    pub(super) commits: Vec<Commit>,
    tags: BTreeMap<String, usize>,
    pub(super) access: Access,
    pub(super) page_entries: Option<usize>,
}

/// Who may read a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// Everybody.
    Open,
    /// Everybody sees what there is, and whoever shows this token reads the files.
    Gated(String),
    /// Whoever shows this token; for others there is no such repository.
    Private(String),
    /// Everybody sees what there is, and whoever shows this token is told with 403 that access was not granted.
    Refused(String),
}

/// All files as they were at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct Commit {
    pub(super) files: BTreeMap<String, StoredFile>,
    id: OnceLock<String>,
}

/// A file as the hub stores and declares it.
#[derive(Debug, Clone)]
pub(super) struct StoredFile {
    pub(super) content: Content,
    /// The size that listings and headers say, which a test may have made a lie.
    pub(super) declared_bytes: u64,
    pub(super) name: ObjectName,
}

/// What a file is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ObjectName {
    /// A small file in git itself, by the sha1 of its blob.
    Git(String),
    /// A large file in LFS, by its sha256; git holds a pointer to it with a blob of its own.
    Lfs { sha256: String, pointer_sha1: String, pointer_bytes: u64 },
}

impl Repository {
    /// An empty repository that everybody may read; `name` is `organisation/repository`.
    pub fn new(name: &str) -> Repository {
        assert_eq!(name.split('/').count(), 2, "{name:?} is not organisation/repository");
        Repository {
            name: name.to_owned(),
            commits: vec![Commit::default()],
            tags: BTreeMap::new(),
            access: Access::Open,
            page_entries: None,
        }
    }

    /// Adds a small file that lies in git itself and is named by the sha1 of its blob.
    #[must_use]
    pub fn git(mut self, path: &str, content: impl Into<Content>) -> Repository {
        self.newest().insert(path, StoredFile::git(content.into()));
        self
    }

    /// Adds a large file that lies in LFS, is named by its sha256 and is served by the other host.
    #[must_use]
    pub fn lfs(mut self, path: &str, content: impl Into<Content>) -> Repository {
        self.newest().insert(path, StoredFile::lfs(content.into()));
        self
    }

    /// Adds a large file whose sha256 is known, so that it is not read for it.
    #[must_use]
    pub fn lfs_named(mut self, path: &str, content: Content, sha256: &str) -> Repository {
        self.newest().insert(path, StoredFile::lfs_named(content, sha256.to_owned()));
        self
    }

    /// Makes listings and headers say that the file at `path` has `bytes` bytes, whatever it has.
    #[must_use]
    pub fn declaring(mut self, path: &str, bytes: u64) -> Repository {
        let file = self.newest().files.get_mut(path);
        file.unwrap_or_else(|| panic!("no file {path}")).declared_bytes = bytes;
        self
    }

    /// Lets everybody see the listing, and only those read the files who show `token`.
    #[must_use]
    pub fn gated(self, token: &str) -> Repository {
        Repository { access: Access::Gated(token.to_owned()), ..self }
    }

    /// Lets only those know of it who show `token`.
    #[must_use]
    pub fn private(self, token: &str) -> Repository {
        Repository { access: Access::Private(token.to_owned()), ..self }
    }

    /// Lets nobody read the files, and tells whoever shows `token` that access was not granted.
    #[must_use]
    pub fn refusing(self, token: &str) -> Repository {
        Repository { access: Access::Refused(token.to_owned()), ..self }
    }

    /// Makes pages of the listing hold at most `n` entries, where a request does not ask for fewer.
    #[must_use]
    pub fn paged(self, n: usize) -> Repository {
        assert!(n > 0, "a page without entries never ends");
        Repository { page_entries: Some(n), ..self }
    }

    /// Names the commit as it is now, so that `name` is a revision.
    #[must_use]
    pub fn tagged(mut self, name: &str) -> Repository {
        self.tags.insert(name.to_owned(), self.commits.len() - 1);
        self
    }

    /// The id of the newest commit: 40 hexadecimal digits.
    pub fn commit(&self) -> String {
        self.commits.last().expect("a repository has a commit").id(&self.name)
    }

    /// The commit that `revision` names.
    pub(super) fn at(&self, revision: &str) -> Option<&Commit> {
        if revision == "main" {
            return self.commits.last();
        }
        let tagged = self.tags.get(revision).map(|number| &self.commits[*number]);
        tagged.or_else(|| self.commits.iter().find(|commit| commit.id(&self.name) == revision))
    }

    pub(super) fn newest(&mut self) -> &mut Commit {
        self.commits.last_mut().expect("a repository has a commit")
    }
}

impl Commit {
    /// Puts a file in, which makes it another commit.
    pub(super) fn insert(&mut self, path: &str, file: StoredFile) {
        self.files.insert(path.to_owned(), file);
        self.id = OnceLock::new();
    }

    /// Takes a file out, which makes it another commit.
    pub(super) fn remove(&mut self, path: &str) {
        self.files.remove(path).unwrap_or_else(|| panic!("no file {path}"));
        self.id = OnceLock::new();
    }

    /// Differs between repositories and between contents.
    pub(super) fn id(&self, repository: &str) -> String {
        self.id.get_or_init(|| self.new_id(repository)).clone()
    }

    fn new_id(&self, repository: &str) -> String {
        let mut state = Sha1::new();
        state.update(repository);
        for (path, file) in &self.files {
            state.update(format!("\n{path} {}", file.git_sha1()));
        }
        hex(&state.finalize())
    }
}

impl StoredFile {
    pub(super) fn git(content: Content) -> StoredFile {
        let name = ObjectName::Git(content.git_sha1());
        StoredFile { declared_bytes: content.len(), content, name }
    }

    pub(super) fn lfs(content: Content) -> StoredFile {
        let sha256 = content.sha256();
        StoredFile::lfs_named(content, sha256)
    }

    fn lfs_named(content: Content, sha256: String) -> StoredFile {
        let pointer = format!(
            "version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {}\n",
            content.len()
        );
        let pointer_bytes = pointer.len() as u64;
        let pointer_sha1 = Content::from(pointer.as_str()).git_sha1();
        let name = ObjectName::Lfs { sha256, pointer_sha1, pointer_bytes };
        StoredFile { declared_bytes: content.len(), content, name }
    }

    /// The name git has for it: of the blob itself, or of the pointer.
    pub(super) fn git_sha1(&self) -> &str {
        match &self.name {
            ObjectName::Git(sha1) => sha1,
            ObjectName::Lfs { pointer_sha1, .. } => pointer_sha1,
        }
    }

    /// What the hub sends as the ETag of the file: its name in git or LFS.
    pub(super) fn object_name(&self) -> &str {
        match &self.name {
            ObjectName::Git(sha1) => sha1,
            ObjectName::Lfs { sha256, .. } => sha256,
        }
    }

    /// What the other host sends as ETag. As with the real hub it is not the file's name, so a client that takes one for
    /// the other asks in vain.
    pub(super) fn storage_etag(&self) -> String {
        format!("{}-1", &self.object_name()[..32])
    }
}
