//! Sizes of a decoder, read from its metadata and checked; what no family computes is refused here by name.

pub(crate) mod moe;

use frank_gguf::ModelHeader;
use frank_kernels::AttentionShape;

use crate::error::ArchError;
use crate::keys::Keys;
use moe::{MoeDefaults, MoeShape};

/// Reads what a layer keeps of each token, from the width of the hidden state and the number of query heads.
type ReadAttention = fn(&Keys<'_>, usize, usize) -> Result<AttentionShape, ArchError>;

/// Sizes that every decoder has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) n_vocab: usize,
    pub(crate) n_embd: usize,
    pub(crate) n_ff: usize,
    /// Layers that are computed.
    pub(crate) n_layers: usize,
    /// Layers behind them that only draft further tokens (`nextn_predict_layers`), and are left out.
    pub(crate) n_drafting: usize,
    /// Without a window: those are a family's, layer by layer.
    pub(crate) attention: AttentionShape,
    pub(crate) norm_epsilon: f32,
    /// Soft cap of the logits.
    pub(crate) logit_cap: Option<f32>,
    /// Positions of the training; 0 when the file does not say.
    pub(crate) context_train: usize,
    /// `None` for a model without experts.
    pub(crate) moe: Option<MoeShape>,
}

impl Shape {
    /// `moe` is what the family assumes of its mixtures; `None` for a family that has none.
    pub(crate) fn read(
        keys: &Keys<'_>,
        header: &ModelHeader,
        moe: Option<MoeDefaults>,
        attention: ReadAttention,
    ) -> Result<Self, ArchError> {
        refuse_variants(keys)?;
        if moe.is_none() {
            refuse_experts(keys)?;
        }
        let n_embd = keys.required_count("embedding_length")?;
        let n_head = keys.required_count("attention.head_count")?;
        let n_ff = keys.required_count("feed_forward_length")?;
        let (n_layers, n_drafting) = n_layers(keys)?;
        Ok(Self {
            n_vocab: n_vocab(keys, header)?,
            n_embd,
            n_ff,
            n_layers,
            n_drafting,
            attention: attention(keys, n_embd, n_head)?,
            norm_epsilon: keys
                .positive_float("attention.layer_norm_rms_epsilon")?
                .ok_or_else(|| keys.missing("attention.layer_norm_rms_epsilon"))?,
            logit_cap: keys.nonzero_float("final_logit_softcapping")?,
            context_train: keys.count("context_length")?.unwrap_or(0),
            moe: moe.map(|defaults| MoeShape::read(keys, defaults, n_ff)).transpose()?.flatten(),
        })
    }
}

/// Layers that are computed, and those that only draft.
fn n_layers(keys: &Keys<'_>) -> Result<(usize, usize), ArchError> {
    const DRAFTING: &str = "nextn_predict_layers";
    let (n, n_drafting) = (keys.required_count("block_count")?, keys.count(DRAFTING)?.unwrap_or(0));
    match n.checked_sub(n_drafting) {
        None | Some(0) => Err(keys.value_error(DRAFTING, &n_drafting, "no layer is left")),
        Some(n) => Ok((n, n_drafting)),
    }
}

/// Refuses experts, for families that have none.
fn refuse_experts(keys: &Keys<'_>) -> Result<(), ArchError> {
    match keys.count("expert_count")? {
        Some(n) if n > 0 => Err(keys.value_error(
            "expert_count",
            &n,
            "mixtures of experts of this family are not supported",
        )),
        _ => Ok(()),
    }
}

/// Refuses what the metadata says and no family computes.
fn refuse_variants(keys: &Keys<'_>) -> Result<(), ArchError> {
    if keys.flag("attention.causal")? == Some(false) {
        return Err(keys.value_error(
            "attention.causal",
            &false,
            "only models that look back are supported",
        ));
    }
    for name in ["embedding_scale", "residual_scale", "logit_scale"] {
        if let Some(scale) = keys.float(name)?.filter(|&scale| scale != 1.0) {
            return Err(keys.value_error(name, &scale, "only 1 is supported"));
        }
    }
    Ok(())
}

/// Refuses a window that would hide something, for families whose layers all look back on everything.
pub(crate) fn refuse_window(keys: &Keys<'_>, shape: &Shape) -> Result<(), ArchError> {
    const WINDOW: &str = "attention.sliding_window";
    match keys.count(WINDOW)? {
        Some(window)
            if window > 0 && (window < shape.context_train || shape.context_train == 0) =>
        {
            Err(keys.value_error(WINDOW, &window, "this family is computed without a window"))
        }
        _ => Ok(()),
    }
}

/// The usual attention: all heads of one length, keys and values alike.
pub(crate) fn attention_shape(
    keys: &Keys<'_>,
    n_embd: usize,
    n_head: usize,
) -> Result<AttentionShape, ArchError> {
    let n_head_kv = keys.count("attention.head_count_kv")?.unwrap_or(n_head);
    let head_dim = keys.count("attention.key_length")?.unwrap_or(n_embd / n_head);
    if let Some(n) = keys.count("attention.value_length")?.filter(|&n| n != head_dim) {
        return Err(keys.value_error(
            "attention.value_length",
            &n,
            "keys and values must have one length",
        ));
    }
    let scale = match keys.nonzero_float("attention.scale")? {
        Some(scale) => scale,
        None => inverse_square_root(head_dim),
    };
    let soft_cap = keys.nonzero_float("attn_logit_softcapping")?;
    let value_dim = head_dim;
    let shape =
        AttentionShape { n_head, n_head_kv, head_dim, value_dim, scale, window: None, soft_cap };
    if !shape.is_supported() {
        let heads = format!("{n_head} over {n_head_kv} heads of {head_dim}");
        return Err(keys.value_error(
            "attention.head_count",
            &heads,
            "query heads must be a multiple of key heads, and heads a multiple of 16 of at most 1024",
        ));
    }
    Ok(shape)
}

/// `1 / sqrt(n)`, the usual factor of scores.
#[expect(clippy::cast_precision_loss, reason = "a head has far fewer than 2^24 values")]
pub(crate) fn inverse_square_root(n: usize) -> f32 {
    1.0 / (n as f32).sqrt()
}

/// The vocabulary is what the embedding holds; a key that says otherwise is an error of the file.
fn n_vocab(keys: &Keys<'_>, header: &ModelHeader) -> Result<usize, ArchError> {
    let missing = || ArchError::MissingTensor { name: "token_embd.weight".to_owned() };
    let rows =
        header.tensor("token_embd.weight").ok_or_else(missing)?.dims.get(1).copied().unwrap_or(1);
    let n_vocab = usize::try_from(rows)
        .map_err(|_| keys.value_error("vocab_size", &rows, "it is too large"))?;
    match keys.count("vocab_size")? {
        Some(n) if n != n_vocab => {
            Err(keys.value_error("vocab_size", &n, "token_embd.weight has another number of rows"))
        }
        _ => Ok(n_vocab),
    }
}

#[cfg(test)]
mod tests {
    use frank_gguf::{Metadata, Value};

    use super::*;

    #[test]
    fn scores_are_scaled_by_the_root_of_the_heads_length_unless_the_file_says_otherwise() {
        let scale = |entries: &[(&str, f32)]| {
            let entries = entries.iter().map(|&(key, x)| (format!("x.{key}"), Value::F32(x)));
            let metadata = Metadata::new(entries.collect()).expect("no key twice");
            attention_shape(&Keys::new(&metadata, "x"), 256, 4).expect("heads of 64").scale
        };
        assert_eq!(scale(&[]), 0.125);
        assert_eq!(scale(&[("attention.scale", 0.0)]), 0.125);
        assert_eq!(scale(&[("attention.scale", 0.5)]), 0.5);
    }
}
