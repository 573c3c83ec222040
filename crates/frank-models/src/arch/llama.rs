//! `llama`: decoders of the Llama family (Llama, SmolLM, and others converted to this name), dense or with experts as
//! Mixtral has them.
//!
//! RMS norms before attention and MLP, grouped-query attention with adjacent-pair RoPE (the converter permutes the
//! query and key rows), gated SiLU MLP, biases where the file has them, an output head of its own or tied to the
//! embedding. Llama 3 stretches positions by factors in the file, one for each pair. The weights of a token's experts
//! are their softmax among those alone.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::linear::Bias;
use crate::decoder;
use crate::decoder::plain::PlainFamily;
use crate::shape::moe::MoeDefaults;

pub(super) const ARCH: Arch = decoder::arch::<Llama>();

struct Llama;

impl PlainFamily for Llama {
    const ARCH: &'static str = "llama";
    const ATTENTION_BIASES: (Bias, Bias) = (Bias::Optional, Bias::Optional);
    const ROPE_PAIRS: RopePairs = RopePairs::Adjacent;
    const MAY_HAVE_ROPE_FACTORS: bool = true;
    const MLP_BIAS: Bias = Bias::Optional;
    const MOE: Option<MoeDefaults> =
        Some(MoeDefaults { required: false, normalize: true, ..MoeDefaults::USUAL });
}
