//! What a model needs, before any choice of context or batch is made. Never says where it lies.

/// The memory facts of a model, from its header alone.
///
/// All sizes are bytes as they will be held, rounded as the allocations will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelNeeds {
    /// Architecture as the file spells it (`general.architecture`).
    pub arch: String,
    /// Bytes of all parts of the file together.
    pub file_bytes: u64,
    /// Layers (`X.block_count`).
    pub layers: u32,
    /// Routed experts of one layer; 0 for a dense model.
    pub experts: u32,
    /// Routed experts that one token uses in one layer.
    pub experts_used: u32,
    /// Positions the model was trained on; 0 when the file does not say.
    pub context_train: u32,
    /// Bytes of all weights but the routed experts.
    pub dense_bytes: u64,
    /// Bytes of all routed experts together; 0 for a dense model. The sum over `expert_layers` where there are any.
    pub expert_bytes: u64,
    /// The layers that have routed experts, rising, each once. Where the header does not tell them apart, none, and
    /// `expert_bytes` are then resident as a whole.
    pub expert_layers: Vec<ExpertLayer>,
    /// Bytes of the buffers that streamed experts pass through. They are there only when an expert is streamed.
    pub expert_staging_bytes: u64,
    /// What each layer remembers of a sequence.
    pub state: Vec<LayerState>,
    /// Scratch memory of one step.
    pub compute: ComputeNeeds,
    /// Bytes of tokenizer, code and heap.
    pub runtime_bytes: u64,
    /// Bytes of memory that one byte of page tables maps. 0 where they are not counted.
    pub page_table_reach: u64,
    /// Bytes of buffers that weights pass through on their way from the file.
    pub io_staging_bytes: u64,
    /// Bytes of weights that one decoded token reads.
    pub decode_bytes_per_token: u64,
    /// Arithmetic of one token of a prompt.
    pub prompt: PromptWork,
    /// What the reader of the plan should know, each a sentence.
    pub warnings: Vec<String>,
}

/// The routed experts of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpertLayer {
    /// Number of the layer: N of `blk.N`.
    pub layer: u32,
    /// Its experts.
    pub n_experts: u32,
    /// Experts that one token uses.
    pub n_used: u32,
    /// Bytes of one expert as it will be held.
    pub slot_bytes: u64,
}

/// What one layer remembers of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerState {
    /// Keys and values in blocks of [`crate::KV_BLOCK_TOKENS`] tokens.
    Paged {
        /// Bytes of keys and values of one token.
        bytes_per_token: u64,
        /// Tokens that attention looks back, its own included; `None` for all.
        window: Option<u32>,
    },
}

/// Scratch memory of one step, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ComputeNeeds {
    /// Whatever the settings are.
    pub fixed: u64,
    /// For each row of a step (`--ubatch-size` rows at most).
    pub per_row: u64,
    /// For each row whose logits are wanted (one for each parallel request).
    pub per_output_row: u64,
    /// For each parallel request beside that row.
    pub per_request: u64,
    /// For each token of context.
    pub per_context_token: u64,
}

/// Arithmetic of one token of a prompt, in multiplications with an addition. Zeros where the header does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromptWork {
    /// Of the matrices of all layers.
    pub multiply_adds: u64,
    /// Of attention in all layers, for each position that is looked at.
    pub attention_multiply_adds: u64,
}
