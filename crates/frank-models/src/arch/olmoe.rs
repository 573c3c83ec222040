//! `olmoe`: mixtures of experts of OLMoE.
//!
//! As `qwen3moe`, with RMS norms over the whole row of queries and of keys. The weights of a token's experts are their
//! softmax among all, so that they sum to less than 1.

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
    const ARCH: &'static str = "olmoe";

    const MOE: Option<MoeDefaults> = Some(MoeDefaults {
        required: true,
        gating: Gating::Softmax,
        normalize: false,
        width: ExpertWidth::FeedForward,
    });

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self>, ArchError> {
        refuse_window(keys, shape)?;
        refuse_clamp(keys)?;
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

/// Refuses a bound of queries, keys and values, which no file of this family is known to have.
fn refuse_clamp(keys: &Keys<'_>) -> Result<(), ArchError> {
    const CLAMP: &str = "attention.clamp_kqv";
    match keys.float(CLAMP)? {
        Some(clamp) if clamp != 0.0 => {
            Err(keys.value_error(CLAMP, &clamp, "this family is computed without a clamp"))
        }
        _ => Ok(()),
    }
}

fn place_layer(shape: &Shape, table: &mut WeightTable<'_>, i: usize) -> Result<Layer, ArchError> {
    let norm = |part: &str| format!("blk.{i}.{part}_norm.weight");
    let attention = Attention::place(table, shape, i, (Bias::None, Bias::None))?;
    Ok(Layer {
        attention_norm: table.vector(&norm("attn"), shape.n_embd)?,
        attention: attention.with_row_norms(table, shape.norm_epsilon)?,
        mlp_norm: table.vector(&norm("ffn"), shape.n_embd)?,
        mlp: FeedForward::experts(table, shape, i, MoeTensors::PLAIN)?,
    })
}
