//! Expert store: which experts of a mixture lie in memory, reads of the others into slots, eviction, statistics. Never
//! multiplies, and never chooses its own budget.

mod cache;
mod check;
mod error;
mod reading;
mod residents;
mod shares;
mod slots;
mod statistics;
mod store;
mod table;

pub use error::StoreError;
pub use reading::staging_bytes;
pub use statistics::StoreStatistics;
pub use store::{ExpertStore, ResidentExpert, StoreOptions};
pub use table::{ExpertPart, ExpertTable, FilePlace, LayerExperts};
