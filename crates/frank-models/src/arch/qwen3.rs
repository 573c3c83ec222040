//! `qwen3`: dense decoders of Qwen 3.
//!
//! As `qwen2`, with an RMS norm of each query and key head before the rotation, heads whose size the file gives, and
//! biases of attention only where the file has them.

use crate::arch::Arch;
use crate::blocks::linear::Bias;
use crate::decoder;
use crate::decoder::plain::{PlainFamily, QueryKeyNorms};

pub(super) const ARCH: Arch = decoder::arch::<Qwen3>();

struct Qwen3;

impl PlainFamily for Qwen3 {
    const ARCH: &'static str = "qwen3";
    const ATTENTION_BIASES: (Bias, Bias) = (Bias::Optional, Bias::Optional);
    const QUERY_KEY_NORMS: QueryKeyNorms = QueryKeyNorms::OfHeads;
}
