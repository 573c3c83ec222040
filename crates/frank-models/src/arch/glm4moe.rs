//! `glm4moe`: mixtures of experts of GLM 4.5 and 4.6.
//!
//! Grouped-query attention with RoPE over the halves of the first part of a head, biases on queries, keys and values,
//! and in the large model norms of each query and key head. Leading layers with one MLP, then a mixture: the logistic
//! function of each product, chosen by that plus a bias, with experts that every token uses. The last layers of most
//! files only draft further tokens and are not read.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::Attention;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::linear::Bias;
use crate::blocks::moe::MoeTensors;
use crate::blocks::rope::RopeShape;
use crate::decoder::pre_norm::{POST_ATTENTION_NORM, PreNorm};
use crate::decoder::{self, Decoder, Family};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::{ExpertWidth, Gating, MoeDefaults};
use crate::shape::{Shape, refuse_window};
use crate::weights::WeightTable;

pub(super) const ARCH: Arch = decoder::arch::<Glm4Moe>();

struct Glm4Moe;

impl Family for Glm4Moe {
    type Layer = PreNorm<Attention>;

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
    ) -> Result<Decoder<Self::Layer>, ArchError> {
        refuse_window(keys, shape)?;
        refuse_sections(keys)?;
        let rope = RopeShape::read(keys, shape.attention.head_dim, RopePairs::Halves)?;
        let tensors = MoeTensors { selection_bias: Bias::Optional, ..MoeTensors::PLAIN };
        Decoder::place(table, shape, vec![rope], |table, i| {
            let mut attention = Attention::place(table, shape, i, (Bias::Optional, Bias::None))?;
            if table.has(&format!("blk.{i}.attn_q_norm.weight")) {
                attention = attention.with_head_norms(table, shape.norm_epsilon)?;
            }
            let feed_forward = FeedForward::place(table, shape, i, tensors)?;
            PreNorm::place(table, shape, i, attention, (POST_ATTENTION_NORM, feed_forward))
        })
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
