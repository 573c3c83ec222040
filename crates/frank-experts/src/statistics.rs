//! What an expert store has done so far. Never what a number means.

/// Counts since a store was opened; loading the resident experts is not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStatistics {
    /// Experts on the primary device.
    pub n_primary: usize,
    /// Experts on other devices.
    pub n_secondary: usize,
    /// Experts that are streamed.
    pub n_streamed: usize,
    /// Slots that streamed experts share.
    pub n_slots: usize,
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// Wanted experts of the primary device.
    pub primary_visits: u64,
    /// Wanted experts of other devices.
    pub secondary_visits: u64,
    /// Wanted streamed experts that lay in a slot.
    pub hits: u64,
    /// Wanted streamed experts that had to be read.
    pub misses: u64,
    /// Misses whose slot held another expert.
    pub evictions: u64,
    /// Calls of `compute`.
    pub waves: u64,
    /// Bytes of the files that misses asked for.
    pub bytes_read: u64,
}

impl StoreStatistics {
    /// Share of wanted streamed experts that lay in a slot, 0 to 1; `None` before any was wanted.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        let wanted = self.hits + self.misses;
        (wanted > 0).then(|| self.hits as f64 / wanted as f64)
    }
}
