//! A hub on loopback, a store in a temporary folder, and pulls between them.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use frank_hub::http::{Client, Patience, Tokens};
use frank_hub::store::{
    FileOutcome, Note, PullError, PullEvent, PullOptions, Pulled, Trashed, Upstream,
};
use frank_hub::{Reference, Store};
use frank_testkit::gguf_writer::GgufWriter;
use frank_testkit::mock_hub::{MockHub, Repository};
use tempfile::TempDir;

/// The repository that most tests pull from.
pub(crate) const REPO: &str = "org/tiny-GGUF";
/// What they pull of it.
pub(crate) const TINY: &str = "hf:org/tiny-GGUF:Q4_K_M";
pub(crate) const MODEL: &str = "tiny-Q4_K_M.gguf";
pub(crate) const PROJECTOR: &str = "mmproj-tiny-F16.gguf";
pub(crate) const TEMPLATE: &str = "chat_template.jinja";

pub(crate) struct Scene {
    pub(crate) hub: MockHub,
    dir: TempDir,
}

impl Scene {
    pub(crate) fn new(repositories: Vec<Repository>) -> Scene {
        Scene { hub: MockHub::start(repositories), dir: tempfile::tempdir().unwrap() }
    }

    /// A hub with a model, its projector and its template.
    pub(crate) fn tiny() -> Scene {
        Scene::new(vec![tiny(REPO)])
    }

    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().join(inside)
    }

    pub(crate) fn store(&self) -> Store {
        Store::at(self.path("models"))
    }

    /// A client that makes no pauses.
    pub(crate) fn upstream(&self) -> Upstream {
        let patience =
            Patience { attempts: 3, pause: Arc::new(|_| Duration::ZERO), ..Patience::default() };
        let client = Client::new(Tokens::none(), None).unwrap().with_patience(patience).unwrap();
        let endpoint = format!("{}/", self.hub.endpoint().trim_end_matches('/'));
        Upstream { client, endpoint: endpoint.parse().unwrap() }
    }

    pub(crate) fn pull(&self, reference: &str) -> Result<Pulled, PullError> {
        self.pull_with(reference, PullOptions::default())
    }

    pub(crate) fn refresh(&self, reference: &str) -> Result<Pulled, PullError> {
        self.pull_with(reference, PullOptions { refresh: true, pins: None })
    }

    pub(crate) fn pull_with(
        &self,
        reference: &str,
        options: PullOptions<'_>,
    ) -> Result<Pulled, PullError> {
        self.store().pull(&self.upstream(), &parse(reference), options, &|_| ())
    }

    /// A pull that is watched; the steps of its events come back with it, each once.
    pub(crate) fn pull_watched(
        &self,
        reference: &str,
        watch: &dyn Fn(&PullEvent<'_>),
    ) -> Result<Pulled, PullError> {
        let options = PullOptions::default();
        self.store().pull(&self.upstream(), &parse(reference), options, &|event| watch(&event))
    }

    /// Runs a pull that dies, as a killed process does, when it reports `step` for `file`.
    pub(crate) fn pull_killed_at(&self, reference: &str, step: &str, file: &str) {
        let dies = |event: &PullEvent<'_>| {
            if let PullEvent::Progress { step: at, file: of, .. } = event {
                assert!(at.to_string() != step || *of != file, "killed here");
            }
        };
        let pull = || self.pull_watched(reference, &dies);
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(pull));
        assert!(killed.is_err(), "the pull never came to {step} of {file}");
    }

    /// All files of the store and its trash without the locks between processes, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        for folder in ["models", "trash"] {
            collect(&self.path(folder), folder, &mut files);
        }
        files.retain(|file| !file.starts_with("models/.locks/"));
        files.sort();
        files
    }

    pub(crate) fn trash(&self) -> Vec<Trashed> {
        self.store().trash().unwrap()
    }

    /// The files of which bytes were sent since `before` requests.
    pub(crate) fn sent_since(&self, before: usize) -> Vec<String> {
        let requests = self.hub.requests().into_iter().skip(before);
        let sent = requests.filter(|request| !request.sent.is_empty());
        let mut files: Vec<String> = sent.filter_map(|request| request.file).collect();
        files.sort();
        files.dedup();
        files
    }
}

fn collect(folder: &Path, name: &str, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(Result::unwrap) {
        let name = format!("{name}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &name, files);
        } else {
            files.push(name);
        }
    }
}

pub(crate) fn parse(reference: &str) -> Reference {
    reference.parse().unwrap()
}

/// A repository with a model in LFS, its projector in LFS, and its template in git.
pub(crate) fn tiny(name: &str) -> Repository {
    Repository::new(name)
        .lfs(MODEL, gguf(1))
        .lfs(PROJECTOR, gguf(2))
        .git(TEMPLATE, "{{ messages }}")
        .git("README.md", "# tiny")
}

/// A small GGUF file that differs from those of other numbers.
pub(crate) fn gguf(number: u32) -> Vec<u8> {
    let values: Vec<f32> = (0..2048).map(|index| (index + number) as f32).collect();
    GgufWriter::new("llama")
        .value("general.file_type", 15_u32)
        .value("test.number", number)
        .f32_tensor("token_embd.weight", &[2048], &values)
        .to_bytes()
}

pub(crate) fn outcomes(pulled: &Pulled) -> Vec<(&str, FileOutcome)> {
    pulled.files.iter().map(|file| (file.name.as_str(), file.outcome)).collect()
}

pub(crate) fn codes(pulled: &Pulled) -> Vec<&'static str> {
    pulled.notes.iter().map(Note::code).collect()
}

pub(crate) fn received(pulled: &Pulled) -> u64 {
    pulled.files.iter().filter_map(|file| file.received).sum()
}

pub(crate) fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// Changes one byte of a file, as a failing drive does: its time stays.
pub(crate) fn rot(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

/// Remembers what was said of a pull.
#[derive(Default)]
pub(crate) struct Ledger(RefCell<Vec<String>>);

impl Ledger {
    pub(crate) fn hear(&self, event: &PullEvent<'_>) {
        match event {
            PullEvent::Done(done) => {
                let told = format!("{done:?}");
                let word = told.split([' ', '{']).next().unwrap_or_default().to_lowercase();
                self.0.borrow_mut().push(word);
            }
            PullEvent::Note(note) => self.0.borrow_mut().push(note.to_string()),
            PullEvent::Progress { .. } => {}
        }
    }

    pub(crate) fn lines(self) -> Vec<String> {
        self.0.into_inner()
    }
}
