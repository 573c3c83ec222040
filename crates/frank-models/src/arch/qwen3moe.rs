//! `qwen3moe`: mixtures of experts of Qwen 3.
//!
//! As `qwen3`, with experts in the place of the MLP. The weights of a token's experts are their softmax among those
//! alone.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::Attention;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::linear::Bias;
use crate::blocks::moe::MoeTensors;
use crate::blocks::rope::RopeShape;
use crate::decoder::pre_norm::{FFN_NORM, PreNorm};
use crate::decoder::{self, Decoder, Family};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::{ExpertWidth, Gating, MoeDefaults};
use crate::shape::{Shape, refuse_window};
use crate::weights::WeightTable;

pub(super) const ARCH: Arch = decoder::arch::<Qwen3Moe>();

struct Qwen3Moe;

impl Family for Qwen3Moe {
    type Layer = PreNorm<Attention>;

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
    ) -> Result<Decoder<Self::Layer>, ArchError> {
        refuse_window(keys, shape)?;
        let rope = RopeShape::read(keys, shape.attention.head_dim, RopePairs::Halves)?;
        Decoder::place(table, shape, vec![rope], |table, i| {
            let attention = Attention::place(table, shape, i, (Bias::Optional, Bias::Optional))?;
            let attention = attention.with_head_norms(table, shape.norm_epsilon)?;
            let experts = FeedForward::experts(table, shape, i, MoeTensors::PLAIN)?;
            PreNorm::place(table, shape, i, attention, (FFN_NORM, experts))
        })
    }
}
