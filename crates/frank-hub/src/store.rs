//! The model store: verified payloads on disk, each fetched once. Never opens a model.
//!
//! ```text
//! models/<payload>/<name>             a file under its original name, once it is verified
//! models/<payload>/payload.lock       source, revision, and role, path, size and digests of each file
//! models/<payload>/.partial/          what is on its way: partial files, their range maps, and what is wanted
//! models/<payload>/used-by/           one file <endpoint>.<generation> for each generation that needs the payload
//! models/.locks/<payload>             who fetches it right now
//! trash/<date>/<name>                 what was removed or replaced, with a note in .<name>.toml
//! ```
//!
//! Where `models` lies on another drive through a link, so does the trash: nothing is ever copied into it.

mod discard;
pub(crate) mod durable;
mod error;
mod exclusion;
mod held;
mod package;
mod payload_lock;
mod pull;
mod ready;
mod trash;
mod uses;
mod verify;
mod wanted;

use std::env;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use frank_os::open_regular;

use self::trash::Trash;
use crate::digest::{CHUNK_BYTES, Hasher, Sha256, read_some};
use crate::fetch::{Expected, FetchError, Progress, Stage, Watch};
use crate::reference::{Reference, words_of};

pub use error::StoreError;
pub(crate) use held::source_of;
pub use held::{FileState, Payload, PayloadFile, PayloadState};
pub(crate) use payload_lock::same_words;
pub use payload_lock::{LockedFile, PayloadLock, SourceFile};
pub use pull::{
    Done, FileOutcome, ManifestMismatch, Note, PullError, PullEvent, PullFailure, PullOptions,
    Pulled, PulledFile, Step, Upstream,
};
pub use ready::{Ready, ReadyError};
pub use trash::Trashed;
pub use uses::Use;
pub use verify::{Verdict, Verification, VerifiedFile, VerifyError};

/// Names in a payload's folder that none of its files may have.
pub(crate) const RESERVED_NAMES: [&str; 2] = [payload_lock::LOCK_FILE, uses::USED_BY_DIR];
/// Folder inside a payload's folder where bytes wait that are not verified yet.
const PARTIAL_DIR: &str = ".partial";

/// The folder of all payloads: `<name>/` holds the files under their original names and `payload.lock`.
///
/// A file stands at its final name only after its size and digest were checked. Names that begin with a dot are not
/// payloads. Any number of processes may use one store: the same payload is fetched by one of them while the others wait.
#[derive(Debug, Clone)]
pub struct Store {
    models: PathBuf,
    python: PathBuf,
    interrupt: Option<Arc<AtomicBool>>,
}

impl Store {
    /// The store in the folder `models`, which need not exist. Its trash lies beside it in `trash`, or on the drive that
    /// `models` leads to.
    pub fn at(models: impl Into<PathBuf>) -> Store {
        Store { models: models.into(), python: PathBuf::from("python3"), interrupt: None }
    }

    /// `$XDG_DATA_HOME/frank/models`, else `~/.local/share/frank/models`.
    /// # Errors
    /// [`FetchError::NoDataHome`] when neither variable holds an absolute path.
    pub fn default_dir() -> Result<PathBuf, FetchError> {
        let absolute =
            |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let data =
            absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
        Ok(data.ok_or(FetchError::NoDataHome)?.join("frank/models"))
    }

    /// Makes fetches end with [`FetchError::Interrupted`] soon after `flag` became true.
    #[must_use]
    pub fn with_interrupt(self, flag: Arc<AtomicBool>) -> Store {
        Store { interrupt: Some(flag), ..self }
    }

    /// Uses this Python interpreter to run pip, instead of the `python3` on the `PATH`.
    #[must_use]
    pub fn with_python(self, program: impl Into<PathBuf>) -> Store {
        Store { python: program.into(), ..self }
    }

    /// Makes sure that the file `reference` names is on this machine and as expected, and returns its path.
    ///
    /// What is in the store already is not fetched again: while size, times and number are those in `payload.lock`,
    /// nothing is run and no byte is read. Otherwise the file is hashed, and one that is damaged goes to the trash and
    /// is fetched anew.
    /// # Errors
    /// [`FetchError`]; nothing stands at the final name then that did not stand there before.
    pub fn fetch(
        &self,
        reference: &Reference,
        expected: &Expected,
        progress: &dyn Fn(Progress),
    ) -> Result<PathBuf, FetchError> {
        let watch = Watch { progress, interrupt: self.interrupt.as_deref() };
        watch.report(Stage::Check, 0, expected.bytes)?;
        match reference {
            Reference::Path(path) => check_path(path, expected, watch),
            Reference::Pip(pip) => self.fetch_pip(pip, expected.with_reference(pip.sha256)?, watch),
            Reference::Name(_) | Reference::Hub(_) | Reference::Url(_) => {
                Err(FetchError::NotOneFile { reference: words_of(reference) })
            }
        }
    }

    /// Where what is thrown away goes.
    fn trash_folder(&self) -> Trash {
        Trash::of(&self.models)
    }
}

/// A path is not fetched: it is there, and as expected, or refused.
fn check_path(path: &Path, expected: &Expected, watch: Watch<'_>) -> Result<PathBuf, FetchError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(FetchError::NotFound { path: path.to_owned() });
        }
        Err(error) => return Err(FetchError::io("read", path)(error)),
    };
    let name = path.display().to_string();
    expected.check_bytes(&name, metadata.len())?;
    if expected.sha256.is_some() {
        expected.check(&name, metadata.len(), hash(path, metadata.len(), watch)?)?;
    }
    Ok(path.to_owned())
}

/// Hashes the whole file.
fn hash(path: &Path, total: u64, watch: Watch<'_>) -> Result<Sha256, FetchError> {
    let mut file = open_regular(path, OpenOptions::new().read(true))?;
    let mut hasher = Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let n = read_some(&mut file, &mut chunk).map_err(FetchError::io("read", path))?;
        if n == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&chunk[..n]);
        watch.report(Stage::Check, hasher.bytes(), Some(total))?;
    }
}
