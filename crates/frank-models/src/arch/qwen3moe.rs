//! `qwen3moe`: mixtures of experts of Qwen 3.
//!
//! As `qwen3`, with experts in the place of the MLP. The weights of a token's experts are their softmax among those
//! alone.

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
    const ARCH: &'static str = "qwen3moe";

    const MOE: Option<MoeDefaults> = Some(MoeDefaults {
        required: true,
        gating: Gating::Softmax,
        normalize: true,
        width: ExpertWidth::FeedForwardByUsed,
    });

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self>, ArchError> {
        refuse_window(keys, shape)?;
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

fn place_layer(shape: &Shape, table: &mut WeightTable<'_>, i: usize) -> Result<Layer, ArchError> {
    let norm = |part: &str| format!("blk.{i}.{part}_norm.weight");
    let attention = Attention::place(table, shape, i, (Bias::Optional, Bias::Optional))?;
    Ok(Layer {
        attention_norm: table.vector(&norm("attn"), shape.n_embd)?,
        attention: attention.with_head_norms(table, shape.norm_epsilon)?,
        mlp_norm: table.vector(&norm("ffn"), shape.n_embd)?,
        mlp: FeedForward::experts(table, shape, i, MoeTensors::PLAIN)?,
    })
}
