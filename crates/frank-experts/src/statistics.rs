//! What an expert store has done so far. Never what a number means.

use std::time::Duration;

use frank_os::IoBackend;

/// Counts since a store was opened.
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
    /// Slots that hold an expert.
    pub slots_used: usize,
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// How experts are read; `None` after resident ones were loaded, when nothing is streamed.
    pub backend: Option<IoBackend>,
    /// Whether reads pass the page cache by.
    pub direct: bool,
    /// Wanted experts of the primary device.
    pub primary_visits: u64,
    /// Wanted experts of other devices.
    pub secondary_visits: u64,
    /// Wanted streamed experts that lay in a slot.
    pub hits: u64,
    /// Wanted streamed experts that lay in no slot; those that a prefetch had read or was reading too.
    pub misses: u64,
    /// Misses whose slot held another expert.
    pub evictions: u64,
    /// Calls of `compute`.
    pub waves: u64,
    /// Bytes of the files that were read when the primary device's experts were loaded.
    pub primary_bytes_read: u64,
    /// The same of other devices.
    pub secondary_bytes_read: u64,
    /// Bytes of the files that were read for streamed experts: for misses, ahead of them and for the warm start.
    pub bytes_read: u64,
    /// Time for which reads of those bytes were under way: until the store took note of their end, which it does when it
    /// has nothing else to do.
    pub primary_read_time: Duration,
    /// The same of other devices.
    pub secondary_read_time: Duration,
    /// The same of streamed experts.
    pub read_time: Duration,
    /// Reads that failed and were done again, those of a load included.
    pub reread: u64,
    /// Time for which visits computed nothing and waited for a read, or did it themselves where none runs beside them.
    pub demand_wait: Duration,
    /// Experts whose read was started because a prediction named them.
    pub prefetch_started: u64,
    /// Of those, the ones that the next visit wanted.
    pub prefetch_useful: u64,
    /// Of those, the ones that it did not want, or that failed. What is neither is not decided yet.
    pub prefetch_wasted: u64,
    /// Bytes of the files that were read for predictions.
    pub prefetch_bytes: u64,
    /// Of those, the bytes of experts that were not wanted.
    pub prefetch_wasted_bytes: u64,
    /// Experts that the warm start brought into slots.
    pub warmed: u64,
    /// Experts that predictions named, in memory or not.
    pub predicted: u64,
    /// Of those, the ones that were wanted.
    pub predicted_right: u64,
}
