//! The table of model families. A new one is a file under `arch/` and a line in [`ARCHS`].

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;

use frank_gguf::ModelHeader;
use frank_hub::ModelFile;
use frank_plan::ModelNeeds;

use crate::error::{ArchError, LoadError};
use crate::kv::KvTypes;
use crate::model::Model;

/// A model family.
#[derive(Debug)]
pub struct Arch {
    /// As files spell it in `general.architecture`.
    pub name: &'static str,
    /// What a model of this family needs in memory, from its header alone.
    pub needs: fn(&ModelHeader, KvTypes) -> Result<ModelNeeds, ArchError>,
    /// Reads the weights and takes all memory that the model will use.
    pub load: Load,
}

/// Loads a model of one family.
type Load = fn(&ModelFile, &LoadOptions) -> Result<Box<dyn Model>, LoadError>;

/// All families that can be loaded.
pub static ARCHS: &[Arch] = &[gemma3::ARCH, llama::ARCH, qwen2::ARCH, qwen3::ARCH];

/// Sizes that the plan gave.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Threads that compute.
    pub n_threads: usize,
    /// Rows of a step at most.
    pub n_rows_max: usize,
    /// Rows of a step at most whose logits are wanted.
    pub n_outputs_max: usize,
    /// KV blocks of each group of layers, in the plan's order.
    pub kv_blocks: Vec<u32>,
    /// How keys and values are stored.
    pub kv_types: KvTypes,
}

/// The family of a file.
///
/// # Errors
/// [`ArchError::Unknown`] names what is known.
pub fn arch(header: &ModelHeader) -> Result<&'static Arch, ArchError> {
    let name = header.architecture()?;
    ARCHS.iter().find(|arch| arch.name == name).ok_or_else(|| ArchError::Unknown {
        name: name.to_owned(),
        known: ARCHS.iter().map(|arch| arch.name).collect::<Vec<_>>().join(", "),
    })
}
