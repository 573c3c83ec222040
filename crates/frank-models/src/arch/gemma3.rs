//! `gemma3`: dense decoders of Gemma 3, the text side.
//!
//! Embeddings times the root of their length; norms before and after attention and MLP; a norm of each query and key
//! head; gated GELU. Most layers look back a window and rotate by a base of their own, every sixth looks back on
//! everything; scaling of positions is for those alone. The file holds norm weights with the 1 added.

use frank_kernels::RopePairs;

use crate::arch::Arch;
use crate::blocks::attention::{Attend, Attention};
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::linear::Bias;
use crate::blocks::mlp::Activation;
use crate::blocks::rope::RopeShape;
use crate::decoder::{self, Decoder, DecoderLayer, Family, Step};
use crate::error::{ArchError, StepError};
use crate::keys::Keys;
use crate::shape::{Shape, inverse_square_root};
use crate::weights::{VectorId, WeightTable};

pub(super) const ARCH: Arch = decoder::arch::<Gemma3>();

/// Of so many layers one looks back on everything, unless the file says otherwise.
const PATTERN_DEFAULT: usize = 6;

/// Layers of the one size, 27B, whose scores are scaled by the width for each head; no key says so.
const N_LAYERS_27B: usize = 62;

/// Places of the two rotations.
const GLOBAL: usize = 0;
const LOCAL: usize = 1;

struct Layer {
    attention_norm: VectorId,
    attention: Attention,
    attention_post_norm: VectorId,
    mlp_norm: VectorId,
    mlp: FeedForward,
    mlp_post_norm: VectorId,
}

struct Gemma3;

impl Family for Gemma3 {
    type Layer = Layer;

    const ARCH: &'static str = "gemma3";

    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Layer>, ArchError> {
        let mut shape = *shape;
        shape.attention.scale = score_scale(keys, &shape)?;
        let windows = Windows::read(keys, shape.n_layers)?;
        let rope = RopeShape::read(keys, shape.attention.head_dim, RopePairs::Halves)?;
        let local = rope.local(keys)?;
        let shape = &shape;
        let mut decoder = Decoder::place(table, shape, vec![rope, local], |table, i| {
            place_layer(shape, table, i, windows.of_layer(i))
        })?;
        #[expect(clippy::cast_precision_loss, reason = "a row has far fewer than 2^24 values")]
        let root = (shape.n_embd as f32).sqrt();
        decoder.embedding.scale = Some(root);
        Ok(decoder)
    }
}

impl DecoderLayer for Layer {
    fn attention(&self) -> &dyn Attend {
        &self.attention
    }

    fn feed_forward(&self) -> &FeedForward {
        &self.mlp
    }

    fn feed_forward_norm(&self) -> VectorId {
        self.mlp_norm
    }

    fn forward(&self, step: &mut Step<'_>) -> Result<(), StepError> {
        step.norm(self.attention_norm);
        step.attend(&self.attention);
        step.norm_delta(self.attention_post_norm);
        step.add();
        step.norm(self.mlp_norm);
        step.transform(&self.mlp)?;
        step.norm_delta(self.mlp_post_norm);
        step.add();
        Ok(())
    }
}

/// The factor of the scores.
fn score_scale(keys: &Keys<'_>, shape: &Shape) -> Result<f32, ArchError> {
    let is_said = keys.nonzero_float("attention.scale")?.is_some();
    if is_said || shape.n_layers != N_LAYERS_27B {
        return Ok(shape.attention.scale);
    }
    Ok(inverse_square_root((shape.n_embd / shape.attention.n_head).max(1)))
}

/// Which layers look back a window only. Says so layer by layer, since a header may claim any number of layers.
enum Windows {
    /// The file has no window, and so no layer does.
    None,
    /// The last of every `period` layers has none.
    Period { window: usize, period: usize },
    /// A flag for each layer.
    Flags { window: usize, flags: Vec<bool> },
}

impl Windows {
    fn read(keys: &Keys<'_>, n_layers: usize) -> Result<Self, ArchError> {
        const WINDOW: &str = "attention.sliding_window";
        const PATTERN: &str = "attention.sliding_window_pattern";
        if keys.count(WINDOW)?.is_none() {
            return Ok(Self::None);
        }
        let window = keys.required_count(WINDOW)?;
        if let Some(flags) = keys.flags(PATTERN)? {
            if flags.len() != n_layers {
                let n = format!("an array of {}", flags.len());
                return Err(keys.value_error(PATTERN, &n, "one for each layer is expected"));
            }
            return Ok(Self::Flags { window, flags });
        }
        let period = match keys.count(PATTERN)? {
            None => PATTERN_DEFAULT,
            Some(_) => keys.required_count(PATTERN)?,
        };
        Ok(Self::Period { window, period })
    }

    fn of_layer(&self, i: usize) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Period { window, period } => {
                (!(i + 1).is_multiple_of(*period)).then_some(*window)
            }
            Self::Flags { window, flags } => flags[i].then_some(*window),
        }
    }
}

fn place_layer(
    shape: &Shape,
    table: &mut WeightTable<'_>,
    i: usize,
    window: Option<usize>,
) -> Result<Layer, ArchError> {
    let norm = |part: &str| format!("blk.{i}.{part}_norm.weight");
    let attention = Attention::place(table, shape, i, (Bias::None, Bias::None))?;
    let mut attention = attention.with_head_norms(table, shape.norm_epsilon)?;
    attention.shape.window = window;
    attention.rope = if window.is_some() { LOCAL } else { GLOBAL };
    Ok(Layer {
        attention_norm: table.vector(&norm("attn"), shape.n_embd)?,
        attention,
        attention_post_norm: table.vector(&norm("post_attention"), shape.n_embd)?,
        mlp_norm: table.vector(&norm("ffn"), shape.n_embd)?,
        mlp: FeedForward::dense(table, shape, i, Activation::GeluTanh, Bias::None)?,
        mlp_post_norm: table.vector(&norm("post_ffw"), shape.n_embd)?,
    })
}

#[cfg(test)]
mod tests {
    use frank_gguf::{Metadata, Value};
    use frank_kernels::AttentionShape;

    use super::*;

    #[test]
    fn scores_of_27b_alone_are_scaled_by_the_width_for_each_head() {
        let scale = |n_layers, entries: &[(String, Value)]| {
            let metadata = Metadata::new(entries.to_vec()).expect("no key twice");
            // 27B: 32 heads of 128 on a width of 5376.
            let attention = AttentionShape {
                n_head: 32,
                n_head_kv: 16,
                head_dim: 128,
                value_dim: 128,
                scale: 0.25,
                window: None,
                soft_cap: None,
            };
            let shape = Shape {
                n_vocab: 1,
                n_embd: 5376,
                n_ff: 1,
                n_layers,
                n_drafting: 0,
                attention,
                norm_epsilon: 1e-6,
                logit_cap: None,
                context_train: 0,
                moe: None,
            };
            score_scale(&Keys::new(&metadata, "gemma3"), &shape).expect("a good key")
        };
        assert_eq!(scale(62, &[]), 1.0 / 168f32.sqrt());
        assert_eq!(scale(48, &[]), 0.25);
        assert_eq!(scale(62, &[("gemma3.attention.scale".to_owned(), Value::F32(0.25))]), 0.25);
    }
}
