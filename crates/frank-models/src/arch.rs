//! The table of model families. A new one is a file under `arch/` and a line in [`ARCHS`].

mod deepseek2;
mod gemma3;
mod glm4moe;
mod gpt_oss;
mod llama;
mod olmoe;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen3moe;

use frank_gguf::ModelHeader;
use frank_hub::ModelFile;
use frank_os::{Faults, IoBackend};
use frank_plan::{ExpertTiers, ModelNeeds};

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
pub static ARCHS: &[Arch] = &[
    deepseek2::ARCH,
    gemma3::ARCH,
    glm4moe::ARCH,
    gpt_oss::ARCH,
    llama::ARCH,
    olmoe::ARCH,
    qwen2::ARCH,
    qwen2moe::ARCH,
    qwen3::ARCH,
    qwen3moe::ARCH,
];

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
    /// Where each routed expert lies, and how many slots the streamed ones share.
    pub experts: ExpertTiers,
    /// `[n_layers, n_expert]`: added to what experts are chosen by, and not to their weights (`--router-bias`).
    pub router_bias: Option<Vec<f32>>,
    /// How experts are read; `None` takes what the system gives, io_uring first.
    pub io: Option<IoBackend>,
    /// Whether streamed experts that the next layer will probably choose are read ahead.
    pub prefetch: bool,
    /// Failures that tests inject into reads of experts.
    pub faults: Faults,
    /// `[n_layers, n_expert]`: how many tokens chose each expert in earlier runs.
    pub usage: Option<Vec<u64>>,
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
