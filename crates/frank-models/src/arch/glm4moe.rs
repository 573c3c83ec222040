//! `glm4moe`: mixtures of experts of GLM 4.5 and 4.6.
//!
//! Grouped-query attention with RoPE over the halves of the first part of a head, biases on queries, keys and values,
//! and in the large model norms of each query and key head. Leading layers with one MLP, then a mixture: the logistic
//! function of each product, chosen by that plus a bias, with experts that every token uses. The last layers of most
//! files only draft further tokens and are not read.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::{Attend, Attention};
use crate::blocks::embedding::Embedding;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::head::Head;
use crate::blocks::linear::Bias;
use crate::blocks::moe::MoeTensors;
use crate::blocks::rope::RopeShape;
use crate::decoder::{self, Decoder, DecoderLayer, Step};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::{ExpertWidth, Gating, MoeDefaults};
use crate::shape::{Shape, refuse_window};
use crate::weights::{VectorId, WeightTable};

pub(super) const ARCH: Arch = decoder::arch::<Layer>();

struct Layer {
    attention_norm: VectorId,
    attention: Attention,
    mlp_norm: VectorId,
    mlp: FeedForward,
}

impl DecoderLayer for Layer {
    const ARCH: &'static str = "glm4moe";

    const MOE: Option<MoeDefaults> = Some(MoeDefaults {
        required: true,
        gating: Gating::Sigmoid,
        normalize: true,
        width: ExpertWidth::FeedForwardByUsed,
    });

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self>, ArchError> {
        refuse_window(keys, shape)?;
        refuse_sections(keys)?;
        let rope = RopeShape::read(keys, shape.attention.head_dim, RopePairs::Halves)?;
        let embedding = Embedding::place(table, shape.n_embd, shape.n_vocab)?;
        let layers =
            (0..shape.n_layers).map(|i| place_layer(shape, table, i)).collect::<Result<_, _>>()?;
        let head = Head::place(table, &embedding, shape)?;
        Ok(Decoder { embedding, layers, head, ropes: vec![rope] })
    }

    fn attention(&self) -> &dyn Attend {
        &self.attention
    }

    fn feed_forward(&self) -> &FeedForward {
        &self.mlp
    }

    fn forward(&self, step: &mut Step<'_>) {
        step.norm(self.attention_norm);
        step.attend(&self.attention);
        step.add();
        step.norm(self.mlp_norm);
        step.transform(&self.mlp);
        step.add();
    }
}

/// Refuses positions of several dimensions, which the models that see images have.
fn refuse_sections(keys: &Keys<'_>) -> Result<(), ArchError> {
    const SECTIONS: &str = "rope.dimension_sections";
    match keys.flags(SECTIONS)? {
        Some(sections) if sections.contains(&true) => {
            let got = format!("an array of {}", sections.len());
            Err(keys.value_error(SECTIONS, &got, "only positions of one dimension are supported"))
        }
        _ => Ok(()),
    }
}

fn place_layer(shape: &Shape, table: &mut WeightTable<'_>, i: usize) -> Result<Layer, ArchError> {
    let norm = |part: &str| format!("blk.{i}.{part}_norm.weight");
    let mut attention = Attention::place(table, shape, i, (Bias::Optional, Bias::None))?;
    if table.has(&norm("attn_q")) {
        attention = attention.with_head_norms(table, shape.norm_epsilon)?;
    }
    let tensors = MoeTensors { selection_bias: Bias::Optional, ..MoeTensors::PLAIN };
    Ok(Layer {
        attention_norm: table.vector(&norm("attn"), shape.n_embd)?,
        attention,
        mlp_norm: table.vector(&norm("post_attention"), shape.n_embd)?,
        mlp: FeedForward::place(table, shape, i, tensors)?,
    })
}
