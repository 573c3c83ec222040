//! `deepseek2`: mixtures of experts with latent attention, of DeepSeek (V2, V3, R1) and those that share their form
//! (Kimi K2, GLM-4.7-Flash, Moonlight).
//!
//! Latent attention with adjacent-pair RoPE on a part of each head; leading layers with one MLP, then a mixture with
//! experts that every token uses. There are two kinds of routers, and which one a file has is not always written in it.
//! V3 takes the logistic function of each product, chooses by that plus a bias, and ranks groups by their two best. V2
//! takes the softmax, has no bias, and ranks groups by their best. `expert_gating_func` names the function, but files of
//! V2 are older than that key, and the converter leaves it out as well where a V3 configuration does not spell out what
//! is always so. Where it is missing, the biases tell: they belong to V3's choice. llama.cpp takes softmax for every
//! such file (but for one size it knows), and is then off by 2e-3 in log probability on a V3 of random weights; with the
//! key it agrees with transformers to 7e-7, as a forward pass in 64-bit floats does without it.
//!
//! `yarn_log_multiplier` is a tenth of the configuration's `mscale_all_dim` in this family. What positions beyond the
//! training make longer are the scores, by its square, and not the rotated parts.

use frank_kernels::{AttentionShape, RopePairs};

use crate::arch::Arch;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::linear::Bias;
use crate::blocks::mla::{Mla, MlaShape};
use crate::blocks::moe::MoeTensors;
use crate::blocks::rope::RopeShape;
use crate::blocks::routes::GroupScore;
use crate::decoder::pre_norm::{FFN_NORM, PreNorm};
use crate::decoder::{self, Decoder, Family};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::shape::moe::{Gating, MoeDefaults, MoeShape};
use crate::shape::{Shape, refuse_window};
use crate::weights::WeightTable;

pub(super) const ARCH: Arch = decoder::arch::<DeepSeek2>();

/// Components of a query or value head at most; published models have 256.
const HEAD_DIM_MAX: usize = 1024;

struct DeepSeek2;

impl Family for DeepSeek2 {
    type Layer = PreNorm<Mla>;

    const ARCH: &'static str = "deepseek2";

    const MOE: Option<MoeDefaults> = Some(MoeDefaults::USUAL);

    fn attention_shape(
        keys: &Keys<'_>,
        _n_embd: usize,
        _n_head: usize,
    ) -> Result<AttentionShape, ArchError> {
        cached_shape(keys, &sizes(keys)?)
    }

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self::Layer>, ArchError> {
        refuse_window(keys, shape)?;
        refuse_scaled_scores(keys)?;
        let sizes = sizes(keys)?;
        let rope = RopeShape::read(keys, sizes.n_rotary, RopePairs::Adjacent)?;
        let (rope, score_factor) = rope.with_longer_scores(keys)?;
        let mut shape = *shape;
        shape.attention.scale = score_scale(sizes.n_plain + sizes.n_rotary, score_factor);
        let router = Router::of(keys, &shape, table)?;
        shape.moe = shape.moe.map(|moe| MoeShape { gating: router.gating, ..moe });
        let shape = &shape;
        Decoder::place(table, shape, vec![rope], |table, i| {
            let attention = Mla::place(table, shape, sizes, i)?;
            let feed_forward = FeedForward::place(table, shape, i, (Bias::None, router.tensors))?;
            PreNorm::place(table, shape, i, attention, (FFN_NORM, feed_forward))
        })
    }
}

/// Sizes of latent attention. Files whose heads' matrices are apart have the lengths of heads in keys of their own, and
/// those of what is cached in the usual ones.
fn sizes(keys: &Keys<'_>) -> Result<MlaShape, ArchError> {
    let length = |own: &'static str, usual: &'static str| -> Result<usize, ArchError> {
        // The usual key is read whether or not it decides: one that is no count is a fault of the file.
        let (own_length, _) = (keys.count(own)?, keys.count(usual)?);
        let name = if own_length.is_some() { own } else { usual };
        match keys.required_count(name)? {
            n if n > HEAD_DIM_MAX => Err(keys.value_error(name, &n, "at most 1024 are supported")),
            n => Ok(n),
        }
    };
    let n_key = length("attention.key_length_mla", "attention.key_length")?;
    let n_value = length("attention.value_length_mla", "attention.value_length")?;
    let n_rotary = keys.required_count("rope.dimension_count")?;
    let Some(n_plain) = n_key.checked_sub(n_rotary).filter(|&n| n > 0) else {
        let reason = "keys must be longer than what rotates of them";
        return Err(keys.value_error("rope.dimension_count", &n_rotary, reason));
    };
    Ok(MlaShape {
        n_head: keys.required_count("attention.head_count")?,
        n_latent: keys.required_count("attention.kv_lora_rank")?,
        n_rotary,
        n_plain,
        n_value,
        n_query_latent: keys.count("attention.q_lora_rank")?.filter(|&n| n > 0),
    })
}

/// What the cache holds: one key head and one value head for all.
fn cached_shape(keys: &Keys<'_>, sizes: &MlaShape) -> Result<AttentionShape, ArchError> {
    const RANK: &str = "attention.kv_lora_rank";
    const HEADS: &str = "attention.head_count_kv";
    let MlaShape { n_head, n_latent, n_rotary, .. } = *sizes;
    if let Some(n) = keys.count(HEADS)?.filter(|&n| n != 1 && n != n_head) {
        return Err(keys.value_error(HEADS, &n, "1 or as many as there are query heads expected"));
    }
    let shape = AttentionShape {
        n_head,
        n_head_kv: 1,
        head_dim: n_latent.saturating_add(n_rotary),
        value_dim: n_latent,
        scale: score_scale(sizes.n_plain + n_rotary, 1.0),
        window: None,
        soft_cap: None,
    };
    if !shape.is_supported() {
        let reason = "with rope.dimension_count it must be at most 1024, and both multiples of 16";
        return Err(keys.value_error(RANK, &n_latent, reason));
    }
    Ok(shape)
}

/// `factor / sqrt(n)`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a head has far fewer than 2^52 values, and rounding to f32 is the point"
)]
fn score_scale(n: usize, factor: f64) -> f32 {
    (factor / (n as f64).sqrt()) as f32
}

/// Refuses what else changes scores in files of this family's name.
fn refuse_scaled_scores(keys: &Keys<'_>) -> Result<(), ArchError> {
    for name in ["attention.scale", "attention.temperature_scale", "attn_logit_softcapping"] {
        if let Some(x) = keys.float(name)?.filter(|&x| x != 0.0) {
            return Err(keys.value_error(name, &x, "this family is computed without it"));
        }
    }
    Ok(())
}

/// Which of the family's two routers a file has.
struct Router {
    gating: Gating,
    tensors: MoeTensors,
}

impl Router {
    fn of(keys: &Keys<'_>, shape: &Shape, table: &WeightTable<'_>) -> Result<Self, ArchError> {
        let moe = shape.moe.expect("the family requires experts");
        let has_bias = table.has(&format!("blk.{}.exp_probs_b.bias", moe.n_leading_dense));
        let is_named = keys.count("expert_gating_func")?.is_some_and(|n| n > 0);
        let gating = if !is_named && has_bias { Gating::Sigmoid } else { moe.gating };
        let (selection_bias, group_score) = if has_bias {
            (Bias::Required, GroupScore::SumOfTopTwo)
        } else {
            (Bias::None, GroupScore::Max)
        };
        let tensors = MoeTensors { selection_bias, group_score, ..MoeTensors::PLAIN };
        Ok(Self { gating, tensors })
    }
}

#[cfg(test)]
mod tests {
    use frank_gguf::{Metadata, Value};
    use frank_hub::ModelFile;
    use frank_testkit::assets;

    use super::*;

    /// The gating and the rank of groups of a tiny model, with another value of `expert_gating_func`.
    fn router(name: &str, gating: Option<u32>) -> (Gating, GroupScore) {
        const KEY: &str = "deepseek2.expert_gating_func";
        let file = ModelFile::open(&assets::tiny(&format!("{name}.gguf"))).expect("it opens");
        let mut header = file.header;
        let entries = header.metadata.iter().filter(|(key, _)| *key != KEY);
        let mut entries: Vec<_> = entries.map(|(k, v)| (k.to_owned(), v.clone())).collect();
        entries.extend(gating.map(|gating| (KEY.to_owned(), Value::U32(gating))));
        header.metadata = Metadata::new(entries).expect("no key twice");
        let keys = Keys::new(&header.metadata, DeepSeek2::ARCH);
        let shape = Shape::read(&keys, &header, DeepSeek2::MOE, DeepSeek2::attention_shape);
        let table = WeightTable::new(&header);
        let router = Router::of(&keys, &shape.expect("good keys"), &table).expect("good keys");
        (router.gating, router.tensors.group_score)
    }

    #[test]
    fn without_a_key_for_the_router_its_biases_tell_which_one_it_is() {
        let (v2, v3) = ("deepseek2-softmax", "deepseek2");
        assert_eq!(router(v3, None), (Gating::Sigmoid, GroupScore::SumOfTopTwo));
        assert_eq!(router(v3, Some(0)), (Gating::Sigmoid, GroupScore::SumOfTopTwo));
        assert_eq!(router(v2, None), (Gating::Softmax, GroupScore::Max));
        assert_eq!(router(v3, Some(1)), (Gating::Softmax, GroupScore::SumOfTopTwo));
        assert_eq!(router(v2, Some(2)), (Gating::Sigmoid, GroupScore::Max));
    }
}
