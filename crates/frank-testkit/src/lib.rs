//! Test support: tiny models, a GGUF writer and test assets.

pub mod assets;
pub mod broken;
pub mod gguf_writer;
mod property_cases;

pub use property_cases::property_cases;
