//! `qwen2moe`: mixtures of experts of Qwen 1.5 and 2.
//!
//! As `qwen2`, with experts in the place of the MLP, and one that every token uses, weighed by a gate of its own. The
//! weights of a token's experts are their softmax among all, so that they sum to less than 1.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::Attention;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::linear::Bias;
use crate::blocks::moe::{MoeTensors, Shared};
use crate::blocks::rope::RopeShape;
use crate::decoder::pre_norm::{FFN_NORM, PreNorm};
use crate::decoder::{self, Decoder, Family};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::{ExpertWidth, Gating, MoeDefaults, MoeShape};
use crate::shape::{Shape, refuse_window};
use crate::weights::WeightTable;

pub(super) const ARCH: Arch = decoder::arch::<Qwen2Moe>();

struct Qwen2Moe;

impl Family for Qwen2Moe {
    type Layer = PreNorm<Attention>;

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
    ) -> Result<Decoder<Self::Layer>, ArchError> {
        refuse_window(keys, shape)?;
        let shape = &shared_width(shape);
        let rope = RopeShape::read(keys, shape.attention.head_dim, RopePairs::Halves)?;
        let tensors = MoeTensors { shared: Shared::Gated, ..MoeTensors::PLAIN };
        Decoder::place(table, shape, vec![rope], |table, i| {
            let attention = Attention::place(table, shape, i, (Bias::Required, Bias::None))?;
            let experts = FeedForward::experts(table, shape, i, tensors)?;
            PreNorm::place(table, shape, i, attention, (FFN_NORM, experts))
        })
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
