//! What a device holds, by purpose. Never says why.

use serde::Serialize;

/// What is held on a device, in bytes by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DeviceUse {
    /// Weights but the routed experts.
    pub dense: u64,
    /// Resident routed experts.
    pub experts: u64,
    /// Slots for experts read from a drive.
    pub stream_cache: u64,
    /// Keys and values.
    pub kv_cache: u64,
    /// State of layers that have no pages.
    pub state: u64,
    /// Keys and values kept for later requests.
    pub prefix_cache: u64,
    /// Scratch memory of a step.
    pub compute: u64,
    /// Buffers that weights pass through on their way from the file, and then prefixes on their way to and from a disk.
    pub io_staging: u64,
    /// The draft model.
    pub draft: u64,
    /// The image projector.
    pub projector: u64,
    /// Tokenizer, code and heap, and the page tables of all that is held.
    pub runtime: u64,
}

impl DeviceUse {
    /// Each purpose with its bytes, in the order of the JSON.
    pub fn entries(&self) -> [(&'static str, u64); 11] {
        [
            ("dense", self.dense),
            ("experts", self.experts),
            ("stream_cache", self.stream_cache),
            ("kv_cache", self.kv_cache),
            ("state", self.state),
            ("prefix_cache", self.prefix_cache),
            ("compute", self.compute),
            ("io_staging", self.io_staging),
            ("draft", self.draft),
            ("projector", self.projector),
            ("runtime", self.runtime),
        ]
    }

    /// All purposes together; saturates.
    pub fn total(&self) -> u64 {
        self.entries().into_iter().fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
    }

    /// Both together, purpose by purpose; saturates.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let sum = |of: fn(&Self) -> u64| of(self).saturating_add(of(other));
        Self {
            dense: sum(|uses| uses.dense),
            experts: sum(|uses| uses.experts),
            stream_cache: sum(|uses| uses.stream_cache),
            kv_cache: sum(|uses| uses.kv_cache),
            state: sum(|uses| uses.state),
            prefix_cache: sum(|uses| uses.prefix_cache),
            compute: sum(|uses| uses.compute),
            io_staging: sum(|uses| uses.io_staging),
            draft: sum(|uses| uses.draft),
            projector: sum(|uses| uses.projector),
            runtime: sum(|uses| uses.runtime),
        }
    }
}
