//! Families that differ in settings only: every layer norms, attends, adds, norms, transforms and adds, with the tensors
//! that the family's constants name. Nothing here asks which family it is.

use frank_kernels::RopePairs;

use super::pre_norm::{FFN_NORM, PreNorm};
use super::{Decoder, Family};
use crate::blocks::attention::Attention;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::linear::Bias;
use crate::blocks::moe::MoeTensors;
use crate::blocks::rope::RopeShape;
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::MoeDefaults;
use crate::shape::{Shape, refuse_window};
use crate::weights::WeightTable;

/// What such a family says of itself. What it leaves out is as in most of them.
pub(crate) trait PlainFamily {
    /// As [`Family::ARCH`].
    const ARCH: &'static str;

    /// As [`Family::MOE`].
    const MOE: Option<MoeDefaults> = None;

    /// What its mixtures have beside the usual tensors.
    const MOE_TENSORS: MoeTensors = MoeTensors::PLAIN;

    /// Biases of queries, keys and values, and of the output of attention.
    const ATTENTION_BIASES: (Bias, Bias);

    /// Norms of queries and keys.
    const QUERY_KEY_NORMS: QueryKeyNorms = QueryKeyNorms::None;

    /// Which components of a head rotate together.
    const ROPE_PAIRS: RopePairs = RopePairs::Halves;

    /// Whether files may divide the frequencies by factors of their own, `rope_freqs.weight`.
    const MAY_HAVE_ROPE_FACTORS: bool = false;

    /// The norm before the MLP or the mixture, for [`PreNorm::place`].
    const FEED_FORWARD_NORM: &'static str = FFN_NORM;

    /// Biases of the MLP, where there is one.
    const MLP_BIAS: Bias = Bias::None;

    /// Refuses what the metadata may say and this family does not compute.
    fn refuse(_keys: &Keys<'_>) -> Result<(), ArchError> {
        Ok(())
    }
}

/// RMS norms of queries and keys before the rotation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QueryKeyNorms {
    None,
    /// Of each head.
    OfHeads,
    /// Of each head, in the layers that have them.
    OfHeadsWherePresent,
    /// Of the whole row.
    OfRows,
}

impl<F: PlainFamily> Family for F {
    type Layer = PreNorm<Attention>;

    const ARCH: &'static str = F::ARCH;

    const MOE: Option<MoeDefaults> = F::MOE;

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self::Layer>, ArchError> {
        refuse_window(keys, shape)?;
        F::refuse(keys)?;
        let mut rope = RopeShape::read(keys, shape.attention.head_dim, F::ROPE_PAIRS)?;
        if F::MAY_HAVE_ROPE_FACTORS {
            rope.place_factors(table)?;
        }
        let tensors = (F::MLP_BIAS, F::MOE_TENSORS);
        Decoder::place(table, shape, vec![rope], |table, i| {
            let attention = Attention::place(table, shape, i, F::ATTENTION_BIASES)?;
            let attention = F::QUERY_KEY_NORMS.place(table, shape, i, attention)?;
            let feed_forward = FeedForward::place(table, shape, i, tensors)?;
            PreNorm::place(table, shape, i, attention, (F::FEED_FORWARD_NORM, feed_forward))
        })
    }
}

impl QueryKeyNorms {
    /// The attention of layer `i` with these norms.
    fn place(
        self,
        table: &mut WeightTable<'_>,
        shape: &Shape,
        i: usize,
        attention: Attention,
    ) -> Result<Attention, ArchError> {
        let has_norm = |table: &WeightTable<'_>| table.has(&format!("blk.{i}.attn_q_norm.weight"));
        match self {
            Self::None => Ok(attention),
            Self::OfHeadsWherePresent if !has_norm(table) => Ok(attention),
            Self::OfHeads | Self::OfHeadsWherePresent => {
                attention.with_head_norms(table, shape.norm_epsilon)
            }
            Self::OfRows => attention.with_row_norms(table, shape.norm_epsilon),
        }
    }
}
