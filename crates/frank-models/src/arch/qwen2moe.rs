//! `qwen2moe`: mixtures of experts of Qwen 1.5 and 2.
//!
//! As `qwen2`, with experts in the place of the MLP, and one that every token uses, weighed by a gate of its own. The
//! weights of a token's experts are their softmax among all, so that they sum to less than 1.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::{Attend, Attention};
use crate::blocks::embedding::Embedding;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::head::Head;
use crate::blocks::linear::Bias;
use crate::blocks::moe::{MoeTensors, Shared};
use crate::blocks::rope::RopeShape;
use crate::decoder::{self, Decoder, DecoderLayer, Step};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::{ExpertWidth, Gating, MoeDefaults, MoeShape};
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
    const ARCH: &'static str = "qwen2moe";

    const MOE: Option<MoeDefaults> = Some(MoeDefaults {
        required: true,
        gating: Gating::Softmax,
        normalize: false,
        width: ExpertWidth::FeedForwardByUsed,
    });

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self>, ArchError> {
        refuse_window(keys, shape)?;
        let shape = &shared_width(shape);
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

/// The shared expert has the size of an MLP unless the file says otherwise.
fn shared_width(shape: &Shape) -> Shape {
    let moe = shape.moe.map(|moe| {
        let n_ff_shared = if moe.n_ff_shared == 0 { shape.n_ff } else { moe.n_ff_shared };
        MoeShape { n_ff_shared, ..moe }
    });
    Shape { moe, ..*shape }
}

fn place_layer(shape: &Shape, table: &mut WeightTable<'_>, i: usize) -> Result<Layer, ArchError> {
    let norm = |part: &str| format!("blk.{i}.{part}_norm.weight");
    let tensors = MoeTensors { shared: Shared::Gated, ..MoeTensors::PLAIN };
    Ok(Layer {
        attention_norm: table.vector(&norm("attn"), shape.n_embd)?,
        attention: Attention::place(table, shape, i, (Bias::Required, Bias::None))?,
        mlp_norm: table.vector(&norm("ffn"), shape.n_embd)?,
        mlp: FeedForward::experts(table, shape, i, tensors)?,
    })
}
