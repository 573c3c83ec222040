//! Files that a generation of an endpoint needs as they are, which no refresh takes from it. Never changes a file.

use super::Job;
use super::examine::Task;
use super::failure::PullFailure;
use crate::store::discard::check_unused;

impl Job<'_> {
    /// Refuses to put other bytes in place of what somebody needs. What is missing or damaged comes in for them too.
    pub(super) fn check_unused(&self, tasks: &[Task]) -> Result<(), PullFailure> {
        let Some(lock) = &self.lock else { return Ok(()) };
        let files = self.wanted.file.iter().zip(tasks).filter(|(_, task)| task.replaces.is_some());
        let mut replaced = files.filter_map(|(file, _)| Some((lock.file(&file.name)?, file)));
        if replaced.any(|(held, file)| held.is_of(&file.segment) == Some(false)) {
            check_unused(&self.chosen.payload, &self.folder)?;
        }
        Ok(())
    }
}
