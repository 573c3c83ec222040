//! `qwen3moe`: mixtures of experts of Qwen 3.
//!
//! As `qwen3`, with experts in the place of the MLP. The weights of a token's experts are their softmax among those
//! alone.

use crate::arch::Arch;
use crate::blocks::linear::Bias;
use crate::decoder;
use crate::decoder::plain::{PlainFamily, QueryKeyNorms};
use crate::shape::moe::{ExpertWidth, MoeDefaults};

pub(super) const ARCH: Arch = decoder::arch::<Qwen3Moe>();

struct Qwen3Moe;

impl PlainFamily for Qwen3Moe {
    const ARCH: &'static str = "qwen3moe";
    const ATTENTION_BIASES: (Bias, Bias) = (Bias::Optional, Bias::Optional);
    const QUERY_KEY_NORMS: QueryKeyNorms = QueryKeyNorms::OfHeads;
    const MOE: Option<MoeDefaults> = Some(MoeDefaults {
        normalize: true,
        width: ExpertWidth::FeedForwardByUsed,
        ..MoeDefaults::USUAL
    });
}
