//! The tensors that a usual decoder of these sizes has, for models of which only the metadata is there: some publishers
//! leave the first part without a tensor.

use frank_gguf::{ModelHeader, TensorInfo, type_id};

/// Types that most weights of a file have, by `general.file_type`: llama.cpp's `llama_ftype`.
const FILE_TYPES: [(u32, u32); 33] = [
    (0, 0),
    (1, 1),
    (2, 2),
    (3, 3),
    (7, 8),
    (8, 6),
    (9, 7),
    (10, 10),
    (11, 11),
    (12, 11),
    (13, 11),
    (14, 12),
    (15, 12),
    (16, 13),
    (17, 13),
    (18, 14),
    (19, 16),
    (20, 17),
    (21, 10),
    (22, 18),
    (23, 18),
    (24, 19),
    (25, 20),
    (26, 21),
    (27, 21),
    (28, 22),
    (29, 22),
    (30, 23),
    (31, 29),
    (32, 30),
    (36, 34),
    (37, 35),
    (38, 39),
];

/// Tensors of a decoder with the sizes of the metadata; none where it does not say enough.
pub(super) fn tensors(
    header: &ModelHeader,
    count: &dyn Fn(&str) -> Option<usize>,
    n_layers: usize,
) -> Vec<TensorInfo> {
    let sizes = Sizes::read(header, count);
    let Some(sizes) = sizes.filter(|_| n_layers > 0) else { return Vec::new() };
    let mut tensors = vec![
        sizes.tensor("token_embd.weight", &[sizes.n_embd, sizes.n_vocab]),
        sizes.vector("output_norm.weight", sizes.n_embd),
        sizes.tensor("output.weight", &[sizes.n_embd, sizes.n_vocab]),
    ];
    for layer in 0..n_layers {
        tensors.extend(sizes.attention(layer));
        tensors.extend(sizes.feed_forward(layer));
    }
    tensors
}

/// Sizes of a decoder, and the type of its matrices.
struct Sizes {
    type_id: u32,
    n_vocab: u64,
    n_embd: u64,
    n_ff: u64,
    /// Queries of all heads, and keys or values of all.
    n_q: u64,
    n_kv: u64,
    n_leading_dense: usize,
    latent: Option<Latent>,
    experts: Option<Experts>,
}

/// Keys and values of all heads from one vector: multi-head latent attention.
struct Latent {
    n_head: u64,
    n: u64,
    n_rotary: u64,
    /// Keys and values of a head, as the matrices make them.
    n_key: u64,
    n_value: u64,
    /// Queries come from a vector too, of so many values.
    n_query: Option<u64>,
}

impl Latent {
    fn read(size: &dyn Fn(&str) -> Option<u64>, n_head: u64) -> Option<Self> {
        let n = size("attention.kv_lora_rank")?;
        let length = |own: &str, usual: &str| size(own).or_else(|| size(usual));
        Some(Self {
            n_head,
            n,
            n_rotary: size("rope.dimension_count")?,
            n_key: length("attention.key_length_mla", "attention.key_length")?,
            n_value: length("attention.value_length_mla", "attention.value_length")?,
            n_query: size("attention.q_lora_rank").filter(|&n| n > 0),
        })
    }
}

struct Experts {
    n: u64,
    n_ff: u64,
    n_ff_shared: u64,
}

impl Sizes {
    fn read(header: &ModelHeader, count: &dyn Fn(&str) -> Option<usize>) -> Option<Self> {
        let size = |key: &str| count(key).map(|n| n as u64);
        let file_type = header.metadata.u32("general.file_type").ok().flatten()?;
        let type_id = FILE_TYPES.iter().find(|(known, _)| *known == file_type)?.1;
        let n_embd = size("embedding_length")?;
        let n_head = size("attention.head_count")?;
        let head_dim = size("attention.key_length").or_else(|| n_embd.checked_div(n_head))?;
        let n_vocab = header.metadata.strings("tokenizer.ggml.tokens").ok().flatten()?.len();
        let n_ff = size("feed_forward_length");
        Some(Self {
            type_id,
            n_vocab: n_vocab as u64,
            n_embd,
            n_ff: n_ff.unwrap_or(0),
            n_q: n_head.saturating_mul(head_dim),
            n_kv: size("attention.head_count_kv").unwrap_or(n_head).saturating_mul(head_dim),
            n_leading_dense: count("leading_dense_block_count").unwrap_or(0),
            latent: Latent::read(&size, n_head),
            experts: size("expert_count").filter(|&n| n > 0).and_then(|n| {
                let n_ff = size("expert_feed_forward_length").or(n_ff)?;
                let n_shared = size("expert_shared_count").unwrap_or(0);
                let n_ff_shared = size("expert_shared_feed_forward_length");
                let n_ff_shared = n_ff_shared.unwrap_or_else(|| n_shared.saturating_mul(n_ff));
                Some(Experts { n, n_ff, n_ff_shared })
            }),
        })
    }

    fn tensor(&self, name: &str, dims: &[u64]) -> TensorInfo {
        let (name, dims) = (name.to_owned(), dims.to_vec());
        TensorInfo { name, dims, type_id: self.type_id, offset: 0, part: 0 }
    }

    fn vector(&self, name: &str, n: u64) -> TensorInfo {
        TensorInfo { type_id: type_id::F32, ..self.tensor(name, &[n]) }
    }

    fn attention(&self, layer: usize) -> Vec<TensorInfo> {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let Self { n_embd, n_q, n_kv, .. } = *self;
        let mut tensors =
            vec![self.vector(&name("attn_norm"), n_embd), self.vector(&name("ffn_norm"), n_embd)];
        match &self.latent {
            Some(latent) => tensors.extend(self.latent_attention(latent, &name)),
            None => tensors.extend([
                self.tensor(&name("attn_q"), &[n_embd, n_q]),
                self.tensor(&name("attn_k"), &[n_embd, n_kv]),
                self.tensor(&name("attn_v"), &[n_embd, n_kv]),
                self.tensor(&name("attn_output"), &[n_q, n_embd]),
            ]),
        }
        tensors
    }

    fn latent_attention(&self, latent: &Latent, name: &dyn Fn(&str) -> String) -> Vec<TensorInfo> {
        let Latent { n_head, n, n_rotary, n_key, n_value, n_query } = *latent;
        let n_embd = self.n_embd;
        let n_q = n_head.saturating_mul(n_key);
        let n_plain = n_key.saturating_sub(n_rotary);
        let mut tensors = vec![
            self.tensor(&name("attn_kv_a_mqa"), &[n_embd, n.saturating_add(n_rotary)]),
            self.vector(&name("attn_kv_a_norm"), n),
            self.tensor(&name("attn_k_b"), &[n_plain, n, n_head]),
            self.tensor(&name("attn_v_b"), &[n, n_value, n_head]),
            self.tensor(&name("attn_output"), &[n_head.saturating_mul(n_value), n_embd]),
        ];
        match n_query {
            None => tensors.push(self.tensor(&name("attn_q"), &[n_embd, n_q])),
            Some(n_query) => tensors.extend([
                self.tensor(&name("attn_q_a"), &[n_embd, n_query]),
                self.vector(&name("attn_q_a_norm"), n_query),
                self.tensor(&name("attn_q_b"), &[n_query, n_q]),
            ]),
        }
        tensors
    }

    fn feed_forward(&self, layer: usize) -> Vec<TensorInfo> {
        let experts = self.experts.as_ref().filter(|_| layer >= self.n_leading_dense);
        let Some(experts) = experts else { return self.gated(layer, "", self.n_ff) };
        let n_embd = self.n_embd;
        let name = |part: &str| format!("blk.{layer}.ffn_{part}.weight");
        let router = self.tensor(&name("gate_inp"), &[n_embd, experts.n]);
        let mut tensors = vec![
            TensorInfo { type_id: type_id::F32, ..router },
            self.tensor(&name("gate_exps"), &[n_embd, experts.n_ff, experts.n]),
            self.tensor(&name("up_exps"), &[n_embd, experts.n_ff, experts.n]),
            self.tensor(&name("down_exps"), &[experts.n_ff, n_embd, experts.n]),
        ];
        if experts.n_ff_shared > 0 {
            tensors.extend(self.gated(layer, "_shexp", experts.n_ff_shared));
        }
        tensors
    }

    fn gated(&self, layer: usize, suffix: &str, n_ff: u64) -> Vec<TensorInfo> {
        let name = |part: &str| format!("blk.{layer}.ffn_{part}{suffix}.weight");
        vec![
            self.tensor(&name("gate"), &[self.n_embd, n_ff]),
            self.tensor(&name("up"), &[self.n_embd, n_ff]),
            self.tensor(&name("down"), &[n_ff, self.n_embd]),
        ]
    }
}
