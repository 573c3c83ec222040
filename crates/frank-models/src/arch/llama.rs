//! `llama`: decoders of the Llama family (Llama, SmolLM, and others converted to this name), dense or with experts as
//! Mixtral has them.
//!
//! RMS norms before attention and MLP, grouped-query attention with adjacent-pair RoPE (the converter permutes the
//! query and key rows), gated SiLU MLP, biases where the file has them, an output head of its own or tied to the
//! embedding. Llama 3 stretches positions by factors in the file, one for each pair. The weights of a token's experts
//! are their softmax among those alone.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::Attention;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::linear::Bias;
use crate::blocks::mlp::Activation;
use crate::blocks::moe::MoeTensors;
use crate::blocks::rope::RopeShape;
use crate::decoder::pre_norm::{FFN_NORM, PreNorm};
use crate::decoder::{self, Decoder, Family};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::{ExpertWidth, Gating, MoeDefaults};
use crate::shape::{Shape, refuse_window};
use crate::weights::WeightTable;

pub(super) const ARCH: Arch = decoder::arch::<Llama>();

struct Llama;

impl Family for Llama {
    type Layer = PreNorm<Attention>;

    const ARCH: &'static str = "llama";

    const MOE: Option<MoeDefaults> = Some(MoeDefaults {
        required: false,
        gating: Gating::Softmax,
        normalize: true,
        width: ExpertWidth::FeedForward,
    });

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self::Layer>, ArchError> {
        refuse_window(keys, shape)?;
        let mut rope = RopeShape::read(keys, shape.attention.head_dim, RopePairs::Adjacent)?;
        rope.place_factors(table)?;
        Decoder::place(table, shape, vec![rope], |table, i| {
            let attention = Attention::place(table, shape, i, (Bias::Optional, Bias::Optional))?;
            let feed_forward = match shape.moe {
                None => FeedForward::dense(table, shape, i, Activation::Silu, Bias::Optional)?,
                Some(_) => FeedForward::place(table, shape, i, MoeTensors::PLAIN)?,
            };
            PreNorm::place(table, shape, i, attention, (FFN_NORM, feed_forward))
        })
    }
}
