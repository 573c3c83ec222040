//! A made mixture of experts, large enough to lie in several huge pages and small enough for a test.

use std::path::PathBuf;

use frank_testkit::assets;
use frank_testkit::synthetic_moe::{SyntheticMoe, SyntheticQuant};

use crate::files::Folder;

/// Layers, experts of each and experts that a token uses.
pub(crate) const LAYERS: usize = 3;
pub(crate) const EXPERTS: usize = 16;
pub(crate) const COUNT: u64 = (LAYERS * EXPERTS) as u64;
pub(crate) const USED: u64 = 2;

/// Bytes of one expert: three matrices of 256 x 256 in Q8_0.
pub(crate) const EXPERT_BYTES: u64 = 3 * 256 * 256 / 32 * 34;

/// No expert stays in memory, and the slots hold the 6 experts of one token and 4 more, in one huge page.
pub(crate) const STREAMED: [&str; 4] = ["--expert-budget", "cpu:0=0", "--stream-cache", "2MiB"];
pub(crate) const SLOTS: u64 = (2 << 20) / EXPERT_BYTES;

/// A folder with the model.
pub(crate) struct Moe {
    pub(crate) folder: Folder,
    pub(crate) model: PathBuf,
}

impl Moe {
    pub(crate) fn new() -> Self {
        Self::of_layers(LAYERS)
    }

    pub(crate) fn of_layers(layers: usize) -> Self {
        let folder = Folder::new();
        let model = folder.path().join("moe.gguf");
        let shape = SyntheticMoe {
            layers: layers as u32,
            hidden: 256,
            experts: EXPERTS as u32,
            top: USED as u32,
            ff: 256,
            heads: 4,
            kv_heads: 2,
            head_dim: 64,
            context_length: 1024,
            quant: SyntheticQuant::Q8_0,
            seed: 1,
            skew: 0.5,
        };
        shape.write(&assets::tiny("qwen3moe.gguf"), &model).expect("a new file");
        Self { folder, model }
    }
}
