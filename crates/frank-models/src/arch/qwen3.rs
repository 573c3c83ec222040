//! `qwen3`: dense decoders of Qwen 3.
//!
//! As `qwen2`, with an RMS norm of each query and key head before the rotation, heads whose size the file gives, and
//! biases of attention only where the file has them.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::Attention;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::linear::Bias;
use crate::blocks::mlp::Activation;
use crate::blocks::rope::RopeShape;
use crate::decoder::pre_norm::{FFN_NORM, PreNorm};
use crate::decoder::{self, Decoder, Family};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::{Shape, refuse_window};
use crate::weights::WeightTable;

pub(super) const ARCH: Arch = decoder::arch::<Qwen3>();

struct Qwen3;

impl Family for Qwen3 {
    type Layer = PreNorm<Attention>;

    const ARCH: &'static str = "qwen3";

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
            let mlp = FeedForward::dense(table, shape, i, Activation::Silu, Bias::None)?;
            PreNorm::place(table, shape, i, attention, (FFN_NORM, mlp))
        })
    }
}
