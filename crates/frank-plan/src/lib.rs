//! Memory planner: pure functions from model, machine and limits to a plan or a refusal. Never reads a file, a
//! clock or the machine it runs on.

mod bounds;
mod device_use;
mod draft;
mod kv;
mod limits;
mod machine;
mod needs;
mod obstacle;
mod optimize;
mod outcome;
mod page_tables;
mod plan;
mod predict;
mod ranked;
mod ranking;
mod refusal;
mod size;
mod split;
mod tiers;
mod warnings;

pub use device_use::DeviceUse;
pub use kv::{
    ARENA_BYTES, DISK_CACHE_BUFFERS, KV_BLOCK_TOKENS, KvGroupPlan, kv_request_blocks, kv_windows,
};
pub use limits::{CTX_SIZE_DEFAULT, Limits, PARALLEL_DEFAULT, StreamCache, UBATCH_DEFAULT};
pub use machine::{
    DEVICES_MAX, Device, Drive, HEADROOM_MAX, HEADROOM_SHARE, Host, Machine, MachineError,
    default_headroom,
};
pub use needs::{ComputeNeeds, ExpertLayer, LayerState, ModelNeeds, PromptWork};
pub use optimize::{Goal, optimize};
pub use outcome::Outcome;
pub use plan::{DevicePlan, ExpertPlan, ModelSummary, Plan, plan};
pub use predict::{Bound, Prediction, decode_step_bytes};
pub use ranked::EXPERTS_MAX;
pub use ranking::{Hotness, Owner, Placement, Protected, Ranking, RankingError, parse_router_bias};
pub use refusal::Refusal;
pub use size::{Size, SizeError, parse_size};
pub use tiers::{ExpertTiers, Tier};
