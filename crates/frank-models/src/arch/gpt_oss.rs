//! `gpt-oss`: mixtures of experts of gpt-oss.
//!
//! Grouped-query attention with RoPE over the halves of a head and a sink for each head: a logit that takes part in the
//! softmax and has no value. Every other layer, from the first on, looks back a window only. The experts are chosen by
//! the router's products, and the softmax of those alone weighs them; the gated unit is clamped. Every linear layer has
//! a bias, those of the router and of the experts too. Scaling of positions is YaRN whose ramp begins and ends between
//! pairs, as the family's configurations say (`truncate` is false); files have no key for that.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::{Attend, Attention};
use crate::blocks::embedding::Embedding;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::head::Head;
use crate::blocks::linear::Bias;
use crate::blocks::mlp::Activation;
use crate::blocks::moe::MoeTensors;
use crate::blocks::rope::RopeShape;
use crate::decoder::{self, Decoder, DecoderLayer, Step};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::Shape;
use crate::shape::moe::{ExpertWidth, Gating, MoeDefaults};
use crate::weights::{VectorId, WeightTable};

pub(super) const ARCH: Arch = decoder::arch::<Layer>();

/// Of so many layers the last looks back on everything.
const PERIOD: usize = 2;

/// What bends the gates of experts.
const ACTIVATION: Activation = Activation::ClampedSwiglu { alpha: 1.702, limit: 7.0 };

struct Layer {
    attention_norm: VectorId,
    attention: Attention,
    mlp_norm: VectorId,
    mlp: FeedForward,
}

impl DecoderLayer for Layer {
    const ARCH: &'static str = "gpt-oss";

    const MOE: Option<MoeDefaults> = Some(MoeDefaults {
        required: true,
        gating: Gating::SoftmaxOfChosen,
        normalize: false,
        width: ExpertWidth::FeedForward,
    });

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self>, ArchError> {
        refuse_other_windows(keys, shape.n_layers)?;
        let window = keys.required_count("attention.sliding_window")?;
        let rope = RopeShape::read(keys, shape.attention.head_dim, RopePairs::Halves)?;
        let rope = rope.with_fractional_ramp();
        let embedding = Embedding::place(table, shape.n_embd, shape.n_vocab)?;
        let layers = (0..shape.n_layers)
            .map(|i| place_layer(shape, table, i, window))
            .collect::<Result<_, _>>()?;
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

/// Whether layer `i` looks back a window only.
fn has_window(i: usize) -> bool {
    !(i + 1).is_multiple_of(PERIOD)
}

/// Refuses windows in other layers, and a base of their own for positions in them.
fn refuse_other_windows(keys: &Keys<'_>, n_layers: usize) -> Result<(), ArchError> {
    const PATTERN: &str = "attention.sliding_window_pattern";
    const REASON: &str = "every second layer has a window in this family";
    if let Some(flags) = keys.flags(PATTERN)? {
        let is_usual = flags.len() == n_layers
            && flags.iter().enumerate().all(|(i, &flag)| flag == has_window(i));
        if !is_usual {
            return Err(keys.value_error(PATTERN, &format!("an array of {}", flags.len()), REASON));
        }
    } else if let Some(period) = keys.count(PATTERN)?.filter(|&period| period != PERIOD) {
        return Err(keys.value_error(PATTERN, &period, REASON));
    }
    const BASE: &str = "rope.freq_base_swa";
    match keys.float(BASE)? {
        Some(base) if Some(base) != keys.float("rope.freq_base")? => {
            Err(keys.value_error(BASE, &base, "all layers have one base in this family"))
        }
        _ => Ok(()),
    }
}

fn place_layer(
    shape: &Shape,
    table: &mut WeightTable<'_>,
    i: usize,
    window: usize,
) -> Result<Layer, ArchError> {
    let norm = |part: &str| format!("blk.{i}.{part}_norm.weight");
    let attention = Attention::place(table, shape, i, (Bias::Required, Bias::Required))?;
    let mut attention = attention.with_sinks(table)?;
    attention.shape.window = has_window(i).then_some(window);
    let tensors = MoeTensors {
        router_bias: Bias::Required,
        expert_bias: Bias::Required,
        activation: ACTIVATION,
        ..MoeTensors::PLAIN
    };
    Ok(Layer {
        attention_norm: table.vector(&norm("attn"), shape.n_embd)?,
        attention,
        mlp_norm: table.vector(&norm("post_attention"), shape.n_embd)?,
        mlp: FeedForward::experts(table, shape, i, tensors)?,
    })
}
