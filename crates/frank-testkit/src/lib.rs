//! Test support: tiny models, a GGUF writer and test assets.

pub mod assets;
pub mod gguf_writer;
