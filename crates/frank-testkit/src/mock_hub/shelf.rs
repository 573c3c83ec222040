//! What the mock hub holds at a time, and how it changes while clients read. Never a socket.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::content::Content;
use super::repository::{ObjectName, Repository, StoredFile};

/// All repositories, and every large file there ever was: links to the other host lead to contents, and stay valid.
#[derive(Debug)]
pub struct Shelf(Mutex<Held>);

#[derive(Debug)]
pub(super) struct Held {
    repositories: BTreeMap<String, Repository>,
    objects: BTreeMap<String, StoredFile>,
}

impl Shelf {
    pub(super) fn new(repositories: Vec<Repository>) -> Shelf {
        let mut held = Held { repositories: BTreeMap::new(), objects: BTreeMap::new() };
        for repository in repositories {
            for file in repository.commits.iter().flat_map(|commit| commit.files.values()) {
                held.keep(file);
            }
            held.repositories.insert(repository.name.clone(), repository);
        }
        Shelf(Mutex::new(held))
    }

    /// Makes a new commit in which the file at `path` is another one; one that was not there is large.
    pub fn push(&self, repository: &str, path: &str, content: impl Into<Content>) {
        let mut held = self.held();
        let repository = held.repository_mut(repository);
        let mut commit = repository.newest().clone();
        commit.insert(path, renewed(repository, path, content.into()));
        repository.commits.push(commit);
        held.keep_all();
    }

    /// Makes a new commit without the file at `path`.
    pub fn remove(&self, repository: &str, path: &str) {
        let mut held = self.held();
        let repository = held.repository_mut(repository);
        let mut commit = repository.newest().clone();
        commit.remove(path);
        repository.commits.push(commit);
    }

    /// Changes the file at `path` under the feet of its readers: the addresses stay, and the newest commit holds it.
    pub fn overwrite(&self, repository: &str, path: &str, content: impl Into<Content>) {
        let mut held = self.held();
        let repository = held.repository_mut(repository);
        let file = renewed(repository, path, content.into());
        // The commit keeps its id, which nothing but this changes the contents of.
        repository.commit();
        repository.newest().files.insert(path.to_owned(), file);
        held.keep_all();
    }

    /// What is held, locked.
    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().expect("no reader of the shelf panics")
    }
}

/// `content` in the place and of the kind of the newest file at `path`.
fn renewed(repository: &mut Repository, path: &str, content: Content) -> StoredFile {
    match repository.newest().files.get(path).map(|file| &file.name) {
        Some(ObjectName::Git(_)) => StoredFile::git(content),
        Some(ObjectName::Lfs { .. }) | None => StoredFile::lfs(content),
    }
}

impl Held {
    pub(super) fn repository(&self, name: &str) -> Option<&Repository> {
        self.repositories.get(name)
    }

    /// The large file with this sha256.
    pub(super) fn object(&self, sha256: &str) -> Option<&StoredFile> {
        self.objects.get(sha256)
    }

    fn repository_mut(&mut self, name: &str) -> &mut Repository {
        self.repositories.get_mut(name).unwrap_or_else(|| panic!("no repository {name}"))
    }

    fn keep(&mut self, file: &StoredFile) {
        if let ObjectName::Lfs { sha256, .. } = &file.name {
            self.objects.insert(sha256.clone(), file.clone());
        }
    }

    fn keep_all(&mut self) {
        let commits = self.repositories.values().flat_map(|repository| &repository.commits);
        let files: Vec<_> = commits.flat_map(|commit| commit.files.values()).cloned().collect();
        files.iter().for_each(|file| self.keep(file));
    }
}
