//! What `frank pull` prints of payloads, as JSON and as lines. Never of a token.

use frank_hub::Role;
use frank_hub::store::{
    FileOutcome, LockedFile, ManifestMismatch, Note, Pulled, Step, Verdict, Verification,
    VerifiedFile,
};
use frank_plan::Size;
use serde::Serialize;

use crate::pulling::Ended;
use crate::report::{Code, Failure};

/// What was pulled.
#[derive(Serialize)]
pub(super) struct PayloadFacts {
    name: String,
    source: String,
    revision: String,
    path: String,
    bytes: u64,
    /// Bytes that came over the network in this pull; `null` where nobody counted.
    received: Option<u64>,
    files: Vec<FileFacts>,
    notes: Vec<NoteFacts>,
}

#[derive(Serialize)]
struct FileFacts {
    name: String,
    role: Role,
    /// Path at the source; empty where it has none.
    path: String,
    bytes: u64,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_sha1: Option<String>,
    /// What was done; `null` for a file that was not asked for.
    outcome: Option<FileOutcome>,
}

#[derive(Serialize)]
struct NoteFacts {
    code: &'static str,
    text: String,
}

impl PayloadFacts {
    pub(super) fn of(pulled: &Pulled) -> Self {
        let outcome = |name: &str| {
            let file = pulled.files.iter().find(|file| file.name == name);
            file.map(|file| file.outcome)
        };
        let files = pulled.lock.file.iter();
        let received = pulled.files.iter().map(|file| file.received);
        Self {
            name: pulled.payload.clone(),
            source: pulled.lock.source.clone(),
            revision: pulled.lock.revision.clone(),
            path: pulled.folder.display().to_string(),
            bytes: pulled.lock.file.iter().map(|file| file.bytes).sum(),
            received: received.sum(),
            files: files.map(|file| FileFacts::of(file, outcome(&file.name))).collect(),
            notes: pulled.notes.iter().map(NoteFacts::of).collect(),
        }
    }

    /// One line for people.
    pub(super) fn line(&self) -> String {
        let received = match self.received {
            Some(bytes) => format!("{} received", Size(bytes)),
            None => "fetched".to_owned(),
        };
        let Self { name, path, bytes, files, .. } = self;
        let n = files.len();
        let files = if n == 1 { "1 file".to_owned() } else { format!("{n} files") };
        format!("{name}: {files}, {}, {received}, in {path}\n", Size(*bytes))
    }
}

impl FileFacts {
    fn of(file: &LockedFile, outcome: Option<FileOutcome>) -> Self {
        Self {
            name: file.name.clone(),
            role: file.role,
            path: file.path.clone(),
            bytes: file.bytes,
            sha256: file.sha256.to_string(),
            git_sha1: file.git_sha1.map(|sha1| sha1.to_string()),
            outcome,
        }
    }
}

impl NoteFacts {
    fn of(note: &Note) -> Self {
        Self { code: note.code(), text: note.to_string() }
    }
}

/// What `--verify-only` found of one payload.
#[derive(Serialize)]
pub(super) struct VerifiedPayload {
    name: String,
    files: Vec<VerifiedFile>,
    /// What could not be done beside reading.
    notes: Vec<String>,
    /// What the reference says otherwise of a file.
    reference_mismatch: Option<String>,
    #[serde(skip)]
    demanded: Option<Fault>,
    /// What `frank.lock` says otherwise of files that are as their source had them.
    manifest_mismatch: Vec<String>,
}

/// The first thing that is wrong with a payload that was read.
#[derive(Clone)]
pub(super) struct Fault {
    file: Option<String>,
    reason: &'static str,
    told: String,
    hint: &'static str,
}

impl VerifiedPayload {
    /// `demanded` is what is wrong by the digest in the reference, `mismatches` what `frank.lock` says otherwise.
    pub(super) fn new(
        name: String,
        found: Verification,
        demanded: Option<Fault>,
        mismatches: &[ManifestMismatch],
    ) -> Self {
        let Verification { files, notes } = found;
        let told = |one: &ManifestMismatch| {
            format!("{}: {} {} in frank.lock, {} here", one.file, one.what, one.pinned, one.source)
        };
        let reference_mismatch = demanded.as_ref().map(|fault| fault.told.clone());
        let manifest_mismatch = mismatches.iter().map(told).collect();
        Self { name, files, notes, reference_mismatch, demanded, manifest_mismatch }
    }

    /// One line for each file.
    pub(super) fn text(&self) -> String {
        let line = |file: &VerifiedFile| format!("{}: {} {}\n", self.name, file.name, told(file));
        self.files.iter().map(line).collect()
    }

    /// The first thing that is wrong.
    pub(super) fn fault(&self) -> Option<Fault> {
        let wrong = self.files.iter().find(|file| file.verdict != Verdict::Verified);
        let wrong = wrong.map(|file| Fault {
            file: Some(file.name.clone()),
            reason: file.verdict.reason(),
            told: format!("{}: {} {}", self.name, file.name, told(file)),
            hint: "`frank pull` with the same name brings what is damaged or missing",
        });
        wrong.or_else(|| self.demanded.clone()).or_else(|| {
            let mismatch = self.manifest_mismatch.first()?;
            let told = format!("manifest_mismatch: {mismatch}; the file is good");
            let hint = "correct frank.lock, or let `--refresh` write it anew";
            Some(Fault { file: None, reason: "manifest_mismatch", told, hint })
        })
    }
}

impl Fault {
    /// A file of the payload `name` that was read and is not what the reference names.
    pub(super) fn of_reference(name: &str, file: String, told: &str) -> Self {
        let told = format!("{name}: {file} {told}");
        let hint = "what is here is what was pulled; `frank pull` with this digest looks for the other bytes";
        Self { file: Some(file), reason: "sha256", told, hint }
    }

    /// The failure that it is.
    pub(super) fn ended(self) -> Ended {
        let failure = Failure::new(Code::Verification, format!("verify failed: {}", self.told));
        let mut ended = Ended::told(Step::Verify.to_string(), self.reason, failure.hint(self.hint));
        ended.facts.file = self.file;
        ended
    }
}

fn told(file: &VerifiedFile) -> String {
    match file.verdict {
        Verdict::Verified => format!("is right, {}", Size(file.bytes)),
        Verdict::Missing => "is missing".to_owned(),
        Verdict::Size { got } => format!("has {got} bytes, {} expected (size)", file.bytes),
        Verdict::Sha256 { got } => format!("has sha256 {got}, {} expected", file.sha256),
    }
}
