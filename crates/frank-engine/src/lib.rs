//! Continuous batching: many requests share one step loop over one model.
//!
//! The engine is one thread that runs the model and a bounded queue in front of it. It knows token ids and
//! nothing of HTTP, text or any model's name.

mod constraint;
mod engine;
mod kv_cache;
mod request;
mod sampler;
mod sampling;
mod scheduler;
mod sequence;

pub use constraint::{Constraint, ConstraintError};
pub use engine::{Engine, EngineOptions, EngineStats, Health};
pub use kv_cache::{BlockTable, KvBlocks};
pub use request::{
    CacheScope, EngineEvent, FinishReason, Generation, Request, SubmitError, Token, TokenLogprobs,
    Usage,
};
pub use sampler::{Sampler, SamplerError};
pub use sampling::SamplingParams;
pub use scheduler::{Progress, Rows, plan_step};
