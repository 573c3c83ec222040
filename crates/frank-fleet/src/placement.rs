//! An endpoint on its host, with everything that a runtime needs to render it.

use crate::fleet_file::{Endpoint, Host, Model};
use crate::host_facts::HostFacts;
use crate::runtimes::learned::Learned;

/// An endpoint on its host.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// Its name in `frank.toml`.
    pub name: &'a str,
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    /// Its host.
    pub host: &'a Host,
    /// What is known of the host.
    pub facts: &'a HostFacts,
    /// Its model.
    pub model: &'a Model,
    /// Path of the model's first file on the host.
    pub model_path: &'a str,
    /// Path of its draft model or head on the host.
    pub draft_path: Option<&'a str>,
    /// Path of its projector on the host.
    pub projector_path: Option<&'a str>,
    /// Path of its template on the host.
    pub template_path: Option<&'a str>,
    /// `general.architecture` of the model, where it is known.
    pub architecture: Option<&'a str>,
    /// What else was found out.
    pub known: Known<'a>,
}

/// What was found out about the parts of a placement. What nobody looked at is `None`, and then nothing is refused for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// The build of the runtime.
    pub build: Option<&'a BuildFacts>,
    /// The draft model or head.
    pub draft: Option<&'a DraftFacts>,
    /// The model's `config.json`, where it has one.
    pub checkpoint: Option<&'a CheckpointFacts>,
}

/// What is known of a build of a runtime: from its `--help` and `--version`, the labels of its image, and its list of models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildFacts {
    /// What it says of itself.
    pub learned: Option<Learned>,
    /// Instruction sets of devices that it was compiled for, as `gfx1201` or `sm_86`; empty where nobody says.
    pub device_archs: Vec<String>,
    /// Major version of the user space that it brings, as 7 of ROCm 7.1.
    pub rocm_major: Option<u32>,
    /// Values of `general.architecture` that it loads; empty where nobody says.
    pub architectures: Vec<String>,
    /// Whether its attention kernels on CUDA were built for every type of keys and values.
    pub all_kv_types: Option<bool>,
}

/// What is known of a draft model or head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftFacts {
    /// Tokens that it makes in one block, the one it starts from among them.
    pub block_size: Option<u32>,
    /// Whether its weights are quantized.
    pub is_quantized: Option<bool>,
}

/// What a checkpoint's `config.json` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointFacts {
    /// `quantization_config.quant_method`, as `fp8` or `mxfp4`.
    pub quantization: Option<String>,
    /// Sizes of the heads of its attention layers, each once.
    pub head_sizes: Vec<u32>,
    /// Whether it has an encoder for images or sound.
    pub is_multimodal: bool,
}
