//! Test support: tiny models, a GGUF writer and test assets.

pub mod assets;
pub mod broken;
pub mod gguf_writer;
mod property_cases;
mod random;
pub mod synthetic_moe;

pub use property_cases::property_cases;
