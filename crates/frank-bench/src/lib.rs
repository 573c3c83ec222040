//! Benchmarks: prompts that no cache has seen, measurements of a machine, statistics, reports. Never reaches into an
//! engine further than a client can; a model in this process is driven by the binary.

mod compute;
mod drive;
mod memory;
mod model_drive;
mod salt;
mod spread;
mod throughput;

pub use compute::arithmetic_rate;
pub use drive::{DRIVE_BLOCK_BYTES, DRIVE_DEPTH, DriveError, DriveRate, drive_rate};
pub use memory::memory_rates;
pub use model_drive::{FileBlock, ModelDriveError, model_drive_rate};
pub use salt::SaltedPrompts;
pub use spread::Spread;
pub use throughput::{Row, Test, Throughput};
