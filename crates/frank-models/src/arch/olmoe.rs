//! `olmoe`: mixtures of experts of OLMoE.
//!
//! As `qwen3moe`, with RMS norms over the whole row of queries and of keys. The weights of a token's experts are their
//! softmax among all, so that they sum to less than 1.

use crate::arch::Arch;
use crate::blocks::linear::Bias;
use crate::decoder;
use crate::decoder::plain::{PlainFamily, QueryKeyNorms};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::MoeDefaults;

pub(super) const ARCH: Arch = decoder::arch::<Olmoe>();

struct Olmoe;

impl PlainFamily for Olmoe {
    const ARCH: &'static str = "olmoe";
    const ATTENTION_BIASES: (Bias, Bias) = (Bias::None, Bias::None);
    const QUERY_KEY_NORMS: QueryKeyNorms = QueryKeyNorms::OfRows;
    const MOE: Option<MoeDefaults> = Some(MoeDefaults::USUAL);

    /// Refuses a bound of queries, keys and values, which no file of this family is known to have.
    fn refuse(keys: &Keys<'_>) -> Result<(), ArchError> {
        const CLAMP: &str = "attention.clamp_kqv";
        match keys.float(CLAMP)? {
            Some(clamp) if clamp != 0.0 => {
                Err(keys.value_error(CLAMP, &clamp, "this family is computed without a clamp"))
            }
            _ => Ok(()),
        }
    }
}
