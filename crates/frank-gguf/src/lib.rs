//! GGUF file format: header, tensor table, split files, quant block layouts and their scalar reference.
//!
//! Never opens a file, starts a thread or knows a model: it reads bytes from a reader it is given, treats every count
//! and offset in them as a claim by a stranger, and refuses what does not add up by the name of the key or tensor.

mod encode;
mod error;
mod file_type;
mod header;
mod layout;
mod metadata;
mod model_header;
pub mod quant;
mod source;
mod split;
mod tensor;

pub use encode::{encode_header, encode_unpadded, lay_out};
pub use error::GgufError;
pub use file_type::file_type_name;
pub use header::{ALIGNMENT_DEFAULT, Header};
pub use layout::{TypeLayout, is_removed, type_id, type_layout, type_name};
pub use metadata::{Array, Metadata, Value};
pub use model_header::{ModelHeader, PartHeader};
pub use split::{PartName, SplitInfo, parse_part_name, part_name};
pub use tensor::TensorInfo;
