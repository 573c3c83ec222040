//! Continuous batching: many requests share one step loop over one model.
//!
//! The engine is one thread that runs the model and a bounded queue in front of it. It knows token ids and
//! nothing of HTTP, text or any model's name.

mod constraint;
mod disk_cache;
mod engine;
mod kv_cache;
mod prefix_cache;
mod request;
mod sampler;
mod sampling;
mod scheduler;
mod sequence;

pub use constraint::{Constraint, ConstraintError};
pub use disk_cache::{DiskCache, DiskCacheError, DiskCacheStats, EntryKey, Stored};
pub use engine::{Engine, EngineOptions, EngineStats, Health};
pub use request::{
    CacheScope, EngineEvent, FinishReason, Generation, Request, SubmitError, Token, TokenLogprobs,
    Usage,
};
pub use sampler::{DryBreakers, SampleContext, Sampler, SamplerError, Stage};
pub use sampling::{Dry, Mirostat, MirostatVersion, SamplingParams};
