//! Files that a generation of an endpoint needs as they are, which no pull takes from it. Never changes a file.

use super::Job;
use super::examine::Task;
use super::failure::PullFailure;
use crate::fetch::FetchError;
use crate::store::discard::check_unused;
use crate::store::durable::file_metadata;
use crate::store::payload_lock::LockedFile;
use crate::store::wanted::WantedFile;

impl Job<'_> {
    /// Refuses, before the first byte, to put other bytes in place of what somebody needs. What is missing or damaged comes
    /// in for them too.
    pub(super) fn check_unused(&self, tasks: &[Task]) -> Result<(), PullFailure> {
        let files = self.wanted.file.iter().zip(tasks).filter(|(_, task)| task.replaces.is_some());
        let takes = |file: &WantedFile| match self.held(file) {
            Some(held) => held.is_of(&file.segment) == Some(false),
            // No lock file says that it is not what they run.
            None => true,
        };
        if files.map(|(file, _)| file).any(takes) {
            check_unused(&self.chosen.payload, &self.folder)?;
        }
        Ok(())
    }

    /// The same right before files get their names: a generation may have been started meanwhile, and now it is known which
    /// bytes came.
    pub(super) fn check_still_unused(&self, tasks: &[Task]) -> Result<(), PullFailure> {
        let files = self.wanted.file.iter().zip(tasks).filter(|(_, task)| !task.is_held());
        for (file, _) in files {
            let path = self.path(&file.name);
            let there = file_metadata(&path).map_err(FetchError::io("read", &path))?;
            let was = self.held(file).map(|held| held.sha256);
            let is_same = was.is_some() && was == file.verified.map(|verified| verified.sha256);
            if there.is_some() && !is_same {
                return Ok(check_unused(&self.chosen.payload, &self.folder)?);
            }
        }
        Ok(())
    }

    /// What the lock file says of a file.
    fn held(&self, file: &WantedFile) -> Option<&LockedFile> {
        self.lock.as_ref()?.file(&file.name)
    }
}
