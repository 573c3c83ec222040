//! `glm4moe`: mixtures of experts of GLM 4.5 and 4.6.
//!
//! Grouped-query attention with RoPE over the halves of the first part of a head, biases on queries, keys and values,
//! and in the large model norms of each query and key head. Leading layers with one MLP, then a mixture: the logistic
//! function of each product, chosen by that plus a bias, with experts that every token uses. The last layers of most
//! files only draft further tokens and are not read.

use crate::arch::Arch;
use crate::blocks::linear::Bias;
use crate::blocks::moe::MoeTensors;
use crate::decoder;
use crate::decoder::plain::{PlainFamily, QueryKeyNorms};
use crate::decoder::pre_norm::POST_ATTENTION_NORM;
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::{ExpertWidth, Gating, MoeDefaults};

pub(super) const ARCH: Arch = decoder::arch::<Glm4Moe>();

struct Glm4Moe;

impl PlainFamily for Glm4Moe {
    const ARCH: &'static str = "glm4moe";
    const ATTENTION_BIASES: (Bias, Bias) = (Bias::Optional, Bias::None);
    const QUERY_KEY_NORMS: QueryKeyNorms = QueryKeyNorms::OfHeadsWherePresent;
    const FEED_FORWARD_NORM: &'static str = POST_ATTENTION_NORM;
    const MOE: Option<MoeDefaults> = Some(MoeDefaults {
        gating: Gating::Sigmoid,
        normalize: true,
        width: ExpertWidth::FeedForwardByUsed,
        ..MoeDefaults::USUAL
    });
    const MOE_TENSORS: MoeTensors =
        MoeTensors { selection_bias: Bias::Optional, ..MoeTensors::PLAIN };

    /// Refuses positions of several dimensions, which the models that see images have.
    fn refuse(keys: &Keys<'_>) -> Result<(), ArchError> {
        const SECTIONS: &str = "rope.dimension_sections";
        match keys.flags(SECTIONS)? {
            Some(sections) if sections.contains(&true) => {
                let got = format!("an array of {}", sections.len());
                let reason = "only positions of one dimension are supported";
                Err(keys.value_error(SECTIONS, &got, reason))
            }
            _ => Ok(()),
        }
    }
}
