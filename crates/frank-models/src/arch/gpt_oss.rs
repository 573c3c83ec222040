//! `gpt-oss`: mixtures of experts of gpt-oss.
//!
//! Grouped-query attention with RoPE over the halves of a head and a sink for each head: a logit that takes part in the
//! softmax and has no value. Every other layer, from the first on, looks back a window only. The experts are chosen by
//! the router's products, and the softmax of those alone weighs them; the gated unit is clamped. Every linear layer has
//! a bias, those of the router and of the experts too. Scaling of positions is YaRN whose ramp begins and ends between
//! pairs, as the family's configurations say (`truncate` is false); files have no key for that.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::Attention;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::linear::Bias;
use crate::blocks::mlp::Activation;
use crate::blocks::moe::MoeTensors;
use crate::blocks::rope::RopeShape;
use crate::decoder::pre_norm::{POST_ATTENTION_NORM, PreNorm};
use crate::decoder::{self, Decoder, Family};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::Shape;
use crate::shape::moe::{Gating, MoeDefaults};
use crate::weights::WeightTable;

pub(super) const ARCH: Arch = decoder::arch::<GptOss>();

/// Of so many layers the last looks back on everything.
const PERIOD: usize = 2;

/// The mixtures: everything has a bias, and what bends the gates is clamped.
const TENSORS: MoeTensors = MoeTensors {
    router_bias: Bias::Required,
    expert_bias: Bias::Required,
    activation: Activation::ClampedSwiglu { alpha: 1.702, limit: 7.0 },
    ..MoeTensors::PLAIN
};

struct GptOss;

impl Family for GptOss {
    type Layer = PreNorm<Attention>;

    const ARCH: &'static str = "gpt-oss";

    const MOE: Option<MoeDefaults> =
        Some(MoeDefaults { gating: Gating::SoftmaxOfChosen, ..MoeDefaults::USUAL });

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self::Layer>, ArchError> {
        refuse_other_windows(keys, shape.n_layers)?;
        let window = keys.required_count("attention.sliding_window")?;
        let rope = RopeShape::read(keys, shape.attention.head_dim, RopePairs::Halves)?;
        let rope = rope.with_fractional_ramp();
        Decoder::place(table, shape, vec![rope], |table, i| {
            let attention = Attention::place(table, shape, i, (Bias::Required, Bias::Required))?;
            let mut attention = attention.with_sinks(table)?;
            attention.shape.window = has_window(i).then_some(window);
            let experts = FeedForward::experts(table, shape, i, TENSORS)?;
            PreNorm::place(table, shape, i, attention, (POST_ATTENTION_NORM, experts))
        })
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
