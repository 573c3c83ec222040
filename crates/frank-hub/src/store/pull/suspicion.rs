//! What looks wrong about bytes though nothing refuses them: parts that are all the same, and a transfer that is quicker
//! than the network. An error page that was stored three times once passed for a model in this way. Never refuses anything.

use std::time::Duration;

use url::Url;

use super::Job;
use super::note::Note;
use crate::digest::Digest;
use crate::listing::Role;
use crate::store::payload_lock::PayloadLock;
use crate::store::wanted::WantedFile;

/// A part of a model: its name, digest and size.
type Part<'a> = (&'a str, Digest, u64);

impl Job<'_> {
    /// Tells of parts that are the same by what the source declares, before the first byte of them comes.
    pub(super) fn suspect_declared(&self) {
        let segments = self.models().flat_map(|file| &file.segment);
        let parts = segments
            .filter_map(|segment| Some((segment.path.as_str(), segment.digest()?, segment.bytes?)));
        self.suspect_same(&parts.collect::<Vec<_>>());
    }

    /// Tells of parts that turned out to be the same, where the source did not declare that.
    pub(super) fn suspect_brought(&self, lock: &PayloadLock) {
        let is_declared =
            |file: &WantedFile| file.segment.iter().all(|segment| segment.digest().is_some());
        if self.models().all(is_declared) {
            return;
        }
        let locked = self.models().filter_map(|file| lock.file(&file.name));
        let parts =
            locked.map(|file| (file.name.as_str(), Digest::Sha256(file.sha256), file.bytes));
        self.suspect_same(&parts.collect::<Vec<_>>());
    }

    /// Tells of a file of which more came in this time than the network can bring.
    pub(super) fn suspect_pace(&self, file: &str, url: &Url, bytes: u64, took: Duration) {
        let Some(link_bytes) = self.client.link_bytes(url) else { return };
        if u128::from(bytes) * 1_000_000_000 > u128::from(link_bytes) * took.as_nanos() {
            let file = file.to_owned();
            self.reporter.note(Note::TooQuick { file, bytes, took, link_bytes });
        }
    }

    fn models(&self) -> impl Iterator<Item = &WantedFile> {
        self.wanted.file.iter().filter(|file| file.role == Role::Model)
    }

    fn suspect_same(&self, parts: &[Part<'_>]) {
        for (index, &(_, digest, bytes)) in parts.iter().enumerate() {
            let is_same = |part: &&Part<'_>| part.1 == digest;
            let is_first = !parts[..index].iter().any(|part| part.1 == digest);
            let files: Vec<String> =
                parts.iter().filter(is_same).map(|part| part.0.to_owned()).collect();
            if is_first && files.len() > 1 {
                self.reporter.note(Note::SameBytes { files, digest, bytes });
            }
        }
    }
}
