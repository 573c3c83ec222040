//! `qwen2`: dense decoders of Qwen 1.5, 2 and 2.5.
//!
//! As `llama`, with RoPE over the halves of a head and biases on queries, keys and values.

use crate::arch::Arch;
use crate::blocks::linear::Bias;
use crate::decoder;
use crate::decoder::plain::PlainFamily;

pub(super) const ARCH: Arch = decoder::arch::<Qwen2>();

struct Qwen2;

impl PlainFamily for Qwen2 {
    const ARCH: &'static str = "qwen2";
    const ATTENTION_BIASES: (Bias, Bias) = (Bias::Required, Bias::None);
}
