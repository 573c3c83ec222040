//! The programming interface of the mock hub: what a repository is at a revision, and its listing in pages. Field names,
//! status codes and error headers are those of the real hub. Never the bytes of a file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::message::{Answer, Head, encode};
use super::repository::{Access, Commit, ObjectName, Repository, StoredFile};
use super::shelf::Held;

/// Entries of a page of the listing, where nobody says another number: with and without details.
const PAGE_ENTRIES: (usize, usize) = (50, 1000);

/// Answers `/api/models/…`, of which `path` is the rest in parts.
pub(super) fn answer(held: &Held, head: &Head, path: &[String], endpoint: &str) -> Answer {
    let [organisation, repository, rest @ ..] = path else { return Answer::status(404) };
    let name = format!("{organisation}/{repository}");
    let repository = match find(held, head, &name) {
        Ok(repository) => repository,
        Err(refusal) => return refusal,
    };
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let (revision, folder) = match rest.as_slice() {
        [] => ("main", None),
        ["revision", revision] => (*revision, None),
        ["tree", revision, folder @ ..] => (*revision, Some(folder.join("/"))),
        _ => return Answer::status(404),
    };
    let Some(commit) = repository.at(revision) else { return no_revision(revision) };
    match folder {
        None => Answer::json(200, &describe(repository, commit, head)),
        Some(folder) => Page { repository, commit, head, folder: &folder }.answer(endpoint),
    }
}

/// The repository, where this client may know of it.
pub(super) fn find<'a>(held: &'a Held, head: &Head, name: &str) -> Result<&'a Repository, Answer> {
    let visible = |repository: &&Repository| match &repository.access {
        Access::Private(token) => head.token() == Some(token),
        Access::Open | Access::Gated(_) | Access::Refused(_) => true,
    };
    held.repository(name).filter(visible).ok_or_else(|| {
        // The hub does not tell strangers which repositories there are.
        let status = if head.token().is_some() { 404 } else { 401 };
        refusal(status, "RepoNotFound", "Repository not found")
    })
}

/// Refuses whoever may not read the files of a repository.
pub(super) fn check_access(repository: &Repository, head: &Head) -> Result<(), Answer> {
    let name = &repository.name;
    let (token, granted) = match &repository.access {
        Access::Open => return Ok(()),
        Access::Gated(token) | Access::Private(token) => (token, true),
        Access::Refused(token) => (token, false),
    };
    let restricted = format!("Access to model {name} is restricted");
    match head.token() {
        None => Err(refusal(401, "GatedRepo", &format!("{restricted}. Please log in."))),
        Some(shown) if shown != token => {
            Err(refusal(401, "", "Invalid credentials in Authorization header"))
        }
        Some(_) if granted => Ok(()),
        Some(_) => {
            Err(refusal(403, "GatedRepo", &format!("{restricted} and you are not authorized.")))
        }
    }
}

pub(super) fn no_revision(revision: &str) -> Answer {
    refusal(404, "RevisionNotFound", &format!("Invalid rev id: {revision}"))
}

pub(super) fn no_file() -> Answer {
    refusal(404, "EntryNotFound", "Entry not found")
}

/// An error as the hub words it: for programs in headers, and in the body.
fn refusal(status: u16, code: &str, message: &str) -> Answer {
    let answer = Answer::json(status, &json!({ "error": message }));
    let answer = answer.header("x-error-message", message);
    if code.is_empty() { answer } else { answer.header("x-error-code", code) }
}

/// What there is, as `/api/models/NAME` says it.
fn describe(repository: &Repository, commit: &Commit, head: &Head) -> Value {
    let with_blobs = head.query("blobs").is_some_and(|value| is_true(&value));
    let siblings: Vec<Value> = commit
        .files
        .iter()
        .map(|(path, file)| {
            let mut sibling = json!({ "rfilename": path });
            if with_blobs {
                sibling["size"] = json!(file.declared_bytes);
                sibling["blobId"] = json!(file.git_sha1());
                if let ObjectName::Lfs { sha256, pointer_bytes, .. } = &file.name {
                    sibling["lfs"] = json!({
                        "sha256": sha256, "size": file.declared_bytes, "pointerSize": pointer_bytes
                    });
                }
            }
            sibling
        })
        .collect();
    let gated = match repository.access {
        Access::Open | Access::Private(_) => json!(false),
        Access::Gated(_) | Access::Refused(_) => json!("manual"),
    };
    let name = &repository.name;
    json!({
        "_id": "0123456789abcdef01234567",
        "id": name,
        "modelId": name,
        "author": name.split('/').next(),
        "sha": commit.id(name),
        "lastModified": "2026-01-02T03:04:05.000Z",
        "createdAt": "2026-01-02T03:04:05.000Z",
        "private": matches!(repository.access, Access::Private(_)),
        "gated": gated,
        "disabled": false,
        "downloads": 0,
        "likes": 0,
        "tags": ["gguf"],
        "spaces": [],
        "siblings": siblings,
    })
}

/// A page of the listing of a folder.
struct Page<'a> {
    repository: &'a Repository,
    commit: &'a Commit,
    head: &'a Head,
    folder: &'a str,
}

impl Page<'_> {
    fn answer(&self, endpoint: &str) -> Answer {
        let asked = |name| self.head.query(name).is_some_and(|value| is_true(&value));
        let (recursive, expand) = (asked("recursive"), asked("expand"));
        let entries = self.entries(recursive);
        if entries.is_empty() && !self.folder.is_empty() {
            return no_file();
        }
        let most = if expand { PAGE_ENTRIES.0 } else { PAGE_ENTRIES.1 };
        let most = self.repository.page_entries.unwrap_or(most);
        let limit = self.head.query("limit").and_then(|limit| limit.parse().ok());
        let n = limit.unwrap_or(most).clamp(1, most);
        let cursor = self
            .head
            .query("cursor")
            .and_then(|cursor| cursor.strip_prefix("after:")?.parse().ok());
        let begin: usize = cursor.unwrap_or(0).min(entries.len());
        let end = (begin + n).min(entries.len());
        let page: Vec<Value> = entries
            .iter()
            .skip(begin)
            .take(n)
            .map(|(path, file)| self.entry(path, *file, expand))
            .collect();
        let answer = Answer::json(200, &Value::Array(page));
        if end == entries.len() {
            return answer;
        }
        let path = self.head.target.split('?').next().unwrap_or_default();
        let cursor = encode(&format!("after:{end}"));
        let next = format!(
            "{endpoint}{path}?recursive={recursive}&expand={expand}&limit={n}&cursor={cursor}"
        );
        answer.header("link", &format!("<{next}>; rel=\"next\""))
    }

    /// Files and folders below the folder, by their paths; a folder has no file.
    fn entries(&self, recursive: bool) -> BTreeMap<&str, Option<&StoredFile>> {
        let prefix =
            if self.folder.is_empty() { String::new() } else { format!("{}/", self.folder) };
        let mut entries = BTreeMap::new();
        for (path, file) in &self.commit.files {
            let Some(inside) = path.strip_prefix(&prefix) else { continue };
            let folders = inside.match_indices('/').map(|(at, _)| &path[..prefix.len() + at]);
            let depth = if recursive { usize::MAX } else { 1 };
            entries.extend(folders.take(depth).map(|folder| (folder, None)));
            if recursive || !inside.contains('/') {
                entries.insert(path, Some(file));
            }
        }
        entries
    }

    fn entry(&self, path: &str, file: Option<&StoredFile>, expand: bool) -> Value {
        let mut entry = match file {
            None => {
                json!({ "type": "directory", "oid": self.commit.id(path), "size": 0, "path": path })
            }
            Some(file) => json!({
                "type": "file", "oid": file.git_sha1(), "size": file.declared_bytes, "path": path
            }),
        };
        if let Some(ObjectName::Lfs { sha256, pointer_bytes, .. }) = file.map(|file| &file.name) {
            entry["lfs"] = json!({
                "oid": sha256,
                "size": file.map(|file| file.declared_bytes),
                "pointerSize": pointer_bytes,
            });
        }
        if expand {
            entry["lastCommit"] = json!({
                "id": self.repository.commit(), "title": "Add files", "date": "2026-01-02T03:04:05.000Z"
            });
        }
        entry
    }
}

/// How the clients write a parameter that is set.
fn is_true(value: &str) -> bool {
    matches!(value, "1" | "true" | "True")
}
