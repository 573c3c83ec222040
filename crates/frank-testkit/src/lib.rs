//! Test support: tiny models, a GGUF writer, a model hub and test assets.

pub mod assets;
pub mod broken;
pub mod gguf_writer;
pub mod mock_hub;
mod property_cases;
mod random;
pub mod synthetic_moe;

pub use property_cases::property_cases;
