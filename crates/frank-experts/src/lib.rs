//! Expert store: which experts of a mixture lie in memory, reads of the others into slots, eviction, statistics. Never
//! multiplies, and never chooses its own budget.

mod cache;
mod check;
mod error;
mod fetches;
mod pieces;
mod residents;
mod shares;
mod staging;
mod statistics;
mod store;
mod streaming;
mod table;
mod warm;

pub use error::StoreError;
pub use staging::staging_bytes;
pub use statistics::StoreStatistics;
pub use store::{ExpertStore, ResidentExpert, StoreOptions, Visit};
pub use table::{ExpertPart, ExpertTable, FilePlace, LayerExperts};
