//! Model families: shapes, weights and forward passes.
//!
//! One file per family under `arch/`, made of the blocks that have a name in the field. What a family needs in
//! memory is known from its header alone; loading checks the same description against the file.

mod arch;
mod blocks;
mod decoder;
mod error;
mod expert_major;
mod keys;
mod kv;
mod model;
mod needs;
mod scratch;
mod shape;
mod tensor_name;
mod weights;
mod work;

pub use arch::{ARCHS, Arch, LoadOptions, arch};
pub use error::{ArchError, LoadError, StepError};
pub use expert_major::{EXPERT_ALIGNMENT, ExpertMajor, ExpertMajorError, expert_major};
pub use kv::KvTypes;
pub use model::{Batch, KvGroup, Model};
pub use needs::needs;
