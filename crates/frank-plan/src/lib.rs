//! Memory planner: pure functions from model, machine and limits to a plan or a refusal. Never reads a file, a
//! clock or the machine it runs on.

mod limits;
mod machine;
mod needs;
mod obstacle;
mod outcome;
mod plan;
mod predict;
mod refusal;
mod size;

pub use limits::{CTX_SIZE_DEFAULT, Limits, PARALLEL_DEFAULT, UBATCH_DEFAULT};
pub use machine::{
    Device, Drive, HEADROOM_MAX, HEADROOM_SHARE, Host, Machine, MachineError, default_headroom,
};
pub use needs::{ComputeNeeds, LayerState, ModelNeeds};
pub use outcome::Outcome;
pub use plan::{
    ARENA_BYTES, DevicePlan, DeviceUse, ExpertPlan, KV_BLOCK_TOKENS, ModelSummary, Plan,
    kv_block_count, kv_cache_bytes, plan,
};
pub use predict::{Bound, Prediction};
pub use refusal::Refusal;
pub use size::{Size, SizeError, parse_size};
