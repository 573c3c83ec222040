//! The mock hub's answers for files: where a large one is, and the bytes of a range. Never the listing.

use super::api;
use super::content::Content;
use super::fault::{Circumstances, Fault, Place, Rules};
use super::mark::{Mark, Marks};
use super::message::{Answer, Asked, Head, encode};
use super::repository::{ObjectName, StoredFile};
use super::shelf::Held;

/// What is sent in answer to a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// Something short.
    Answer(Answer),
    /// Bytes of a file.
    File(Part),
}

/// Bytes of a file with the head they are sent under.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content: Content,
    /// The first byte that is sent.
    pub(super) begin: u64,
    /// The byte before which it ends.
    pub(super) end: u64,
    pub(super) fault: Option<Fault>,
}

/// A request for a file.
pub(super) struct FileRequest<'a> {
    pub(super) held: &'a Held,
    pub(super) rules: &'a Rules,
    pub(super) head: &'a Head,
    /// Address of the host of large files.
    pub(super) storage: &'a str,
}

impl FileRequest<'_> {
    /// `/ORGANISATION/REPOSITORY/resolve/REVISION/PATH`: says which file that is and sends the client to its bytes.
    pub(super) fn resolve(&self, repository: &str, revision: &str, path: &str) -> Reply {
        let (file, commit) = match self.find(repository, revision, path) {
            Ok(found) => found,
            Err(refusal) => return Reply::Answer(refusal),
        };
        if let Some(Fault::Answer(answer) | Fault::WithoutRange(answer)) =
            self.strike(Place::Resolve, path, file)
        {
            return Reply::Answer(answer);
        }
        let encoded = path.split('/').map(encode).collect::<Vec<_>>().join("/");
        let name = file.object_name();
        let answer = match &file.name {
            ObjectName::Git(_) => {
                let location = format!(
                    "/api/resolve-cache/models/{repository}/{commit}/{encoded}?etag=%22{name}%22"
                );
                Answer::redirect(307, &location)
            }
            ObjectName::Lfs { .. } => {
                let location = format!(
                    "{}/objects/{name}/{repository}/{encoded}?Expires=1798761600&Signature=mock",
                    self.storage
                );
                Answer::redirect(302, &location)
            }
        };
        Reply::Answer(
            answer
                .header("x-repo-commit", &commit)
                .header("x-linked-size", &file.declared_bytes.to_string())
                .header("x-linked-etag", &format!("\"{name}\""))
                .header("accept-ranges", "bytes"),
        )
    }

    /// `/api/resolve-cache/models/ORGANISATION/REPOSITORY/COMMIT/PATH`: the bytes of a small file.
    pub(super) fn cached(&self, repository: &str, commit: &str, path: &str) -> Reply {
        match self.find(repository, commit, path) {
            Ok((file, commit)) => {
                let headers = vec![("x-repo-commit".to_owned(), commit)];
                self.serve(path, file, &Marks::etag(file.object_name()), headers)
            }
            Err(refusal) => Reply::Answer(refusal),
        }
    }

    /// `/objects/SHA256/…/PATH` of the other host: the bytes of a large file, whatever became of it at the hub.
    pub(super) fn object(&self, sha256: &str, path: &str) -> Reply {
        match self.held.object(sha256) {
            Some(file) => self.serve(path, file, &Marks::etag(&file.storage_etag()), Vec::new()),
            None => Reply::Answer(Answer::status(404)),
        }
    }

    /// `/web/MARK/ORGANISATION/REPOSITORY/PATH` of the other host: a plain web server with the newest files.
    pub(super) fn web(&self, repository: &str, path: &str, mark: Mark) -> Reply {
        let repository = self.held.repository(repository);
        let commit = repository.and_then(|repository| repository.at("main"));
        match commit.and_then(|commit| commit.files.get(path)) {
            Some(file) => self.serve(path, file, &Marks::of(file, mark), Vec::new()),
            None => Reply::Answer(Answer::status(404)),
        }
    }

    fn find(
        &self,
        repository: &str,
        revision: &str,
        path: &str,
    ) -> Result<(&StoredFile, String), Answer> {
        let repository = api::find(self.held, self.head, repository)?;
        api::check_access(repository, self.head)?;
        let commit = repository.at(revision).ok_or_else(|| api::no_revision(revision))?;
        let file = commit.files.get(path).ok_or_else(api::no_file)?;
        Ok((file, commit.id(&repository.name)))
    }

    fn strike(&self, place: Place, path: &str, file: &StoredFile) -> Option<Fault> {
        let range = self.head.header("range");
        let total = file.content.len();
        let wanted = match Asked::of(range, total) {
            Asked::Whole => (0, total),
            Asked::Part(begin, end) => (begin, end),
            Asked::Outside => (total, total),
        };
        self.rules.strike(Circumstances { place, path, ranged: range.is_some(), wanted })
    }

    /// The bytes of a file, or of the range that is asked for while the file is still the one that the client means.
    fn serve(
        &self,
        path: &str,
        file: &StoredFile,
        marks: &Marks,
        mut headers: Vec<(String, String)>,
    ) -> Reply {
        let fault = self.strike(Place::Bytes, path, file);
        if let Some(Fault::Answer(answer) | Fault::WithoutRange(answer)) = fault {
            return Reply::Answer(answer);
        }
        let total = file.content.len();
        let same = self.head.header("if-range").is_none_or(|meant| marks.are(meant));
        let ignored = matches!(fault, Some(Fault::IgnoreRange | Fault::NoLength));
        let range = self.head.header("range").filter(|_| same && !ignored);
        let shift = if let Some(Fault::ShiftRange(shift)) = fault { shift } else { 0 };
        headers.extend(marks.headers());
        headers.extend([
            ("accept-ranges".to_owned(), "bytes".to_owned()),
            ("content-type".to_owned(), "binary/octet-stream".to_owned()),
        ]);
        let (status, begin, end) = match Asked::of(range, total) {
            Asked::Whole => (200, 0, total),
            Asked::Part(begin, end) => (206, (begin + shift).min(end - 1), end),
            Asked::Outside => {
                let answer =
                    Answer::status(416).header("content-range", &format!("bytes */{total}"));
                return Reply::Answer(answer);
            }
        };
        if status == 206 {
            headers
                .push(("content-range".to_owned(), format!("bytes {begin}-{}/{total}", end - 1)));
        }
        Reply::File(Part { status, headers, content: file.content.clone(), begin, end, fault })
    }
}
