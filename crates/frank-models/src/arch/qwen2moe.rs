//! `qwen2moe`: mixtures of experts of Qwen 1.5 and 2.
//!
//! As `qwen2`, with experts in the place of the MLP, and one that every token uses, weighed by a gate of its own and of
//! the size of an MLP unless the file says otherwise. The weights of a token's experts are their softmax among all, so
//! that they sum to less than 1.

use crate::arch::Arch;
use crate::blocks::linear::Bias;
use crate::blocks::moe::{MoeTensors, Shared};
use crate::decoder;
use crate::decoder::plain::PlainFamily;
use crate::shape::moe::{ExpertWidth, MoeDefaults};

pub(super) const ARCH: Arch = decoder::arch::<Qwen2Moe>();

struct Qwen2Moe;

impl PlainFamily for Qwen2Moe {
    const ARCH: &'static str = "qwen2moe";
    const ATTENTION_BIASES: (Bias, Bias) = (Bias::Required, Bias::None);
    const MOE: Option<MoeDefaults> = Some(MoeDefaults {
        width: ExpertWidth::FeedForwardByUsed,
        has_shared: true,
        ..MoeDefaults::USUAL
    });
    const MOE_TENSORS: MoeTensors = MoeTensors { shared: Shared::Gated, ..MoeTensors::PLAIN };
}
