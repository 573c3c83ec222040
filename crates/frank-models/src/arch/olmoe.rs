//! `olmoe`: mixtures of experts of OLMoE.
//!
//! As `qwen3moe`, with RMS norms over the whole row of queries and of keys. The weights of a token's experts are their
//! softmax among all, so that they sum to less than 1.

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

pub(super) const ARCH: Arch = decoder::arch::<Olmoe>();

struct Olmoe;

impl Family for Olmoe {
    type Layer = PreNorm<Attention>;

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
    ) -> Result<Decoder<Self::Layer>, ArchError> {
        refuse_window(keys, shape)?;
        refuse_clamp(keys)?;
        let rope = RopeShape::read(keys, shape.attention.head_dim, RopePairs::Halves)?;
        Decoder::place(table, shape, vec![rope], |table, i| {
            let attention = Attention::place(table, shape, i, (Bias::None, Bias::None))?;
            let attention = attention.with_row_norms(table, shape.norm_epsilon)?;
            let experts = FeedForward::experts(table, shape, i, MoeTensors::PLAIN)?;
            PreNorm::place(table, shape, i, attention, (FFN_NORM, experts))
        })
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
