//! Speed that a plan lets expect, from measured rates. Never a guess where nobody measured.

use serde::Serialize;

use crate::machine::Device;
use crate::needs::{LayerState, ModelNeeds};

/// Tokens of the prompt whose speed is predicted, or the context if that is less: what benches of other programs take.
const PROMPT_TOKENS: u32 = 512;

/// Seconds that a layer of a decode step takes beside reading its weights: starting the threads for each of its products,
/// and what is done between them.
///
/// Source: decode of three models with one thread and with two, see `docs/measurements.md`.
const LAYER_SECONDS: f64 = 20e-6;

/// What a multiplication of attention costs in those of products with quantized weights, since it is made in floats.
///
/// Source: prompts of 512 tokens of three models, see `docs/measurements.md`.
const ATTENTION_COST: f64 = 4.0;

/// What a byte of a row's scratch costs in multiplications of products with quantized weights: norms, rotations, gates,
/// making activations 8-bit, and that a model's matrices are smaller than the one whose rate is measured.
///
/// Source: as [`ATTENTION_COST`].
const SCRATCH_COST: f64 = 90.0;

/// What is read or computed longest for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Reading weights and KV cache from memory.
    Dram,
    /// Reading experts from a drive.
    Nvme,
    /// Arithmetic.
    Compute,
}

/// Expected speed of one request alone; `None` (JSON `null`) where the measurement that it needs is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Prediction {
    /// Tokens per second while answering, with half the context filled. Needs a measured bandwidth.
    pub decode_tok_s: Option<f64>,
    /// Tokens per second while reading a prompt of 512 tokens, or one that fills the context if that is less. Needs a
    /// measured rate of arithmetic.
    pub prefill_tok_s: Option<f64>,
    /// What bounds decoding.
    pub bound: Option<Bound>,
}

impl Prediction {
    /// The speed of a model whose weights all lie in memory of `device`.
    pub(crate) fn resident(needs: &ModelNeeds, ctx_size: u32, device: Option<&Device>) -> Self {
        let rate = |of: fn(&Device) -> Option<u64>| device.and_then(of).filter(|&rate| rate > 0);
        let decode = rate(|device| device.bandwidth)
            .and_then(|bandwidth| decode_seconds(needs, ctx_size / 2, bandwidth as f64));
        let prefill = rate(|device| device.arithmetic).and_then(|arithmetic| {
            prefill_seconds(needs, ctx_size.min(PROMPT_TOKENS), arithmetic as f64)
        });
        Self {
            decode_tok_s: decode.map(|(reading, rest)| 1.0 / (reading + rest)),
            prefill_tok_s: prefill.map(|seconds| 1.0 / seconds),
            bound: decode
                .map(|(reading, rest)| if reading >= rest { Bound::Dram } else { Bound::Compute }),
        }
    }
}

/// Seconds that a token after `n_tokens` others takes: for reading, and for the rest. `None` when nothing is known to be
/// read.
fn decode_seconds(needs: &ModelNeeds, n_tokens: u32, bandwidth: f64) -> Option<(f64, f64)> {
    let bytes = decode_step_bytes(needs, n_tokens, 1);
    let rest = f64::from(needs.layers) * LAYER_SECONDS;
    (bytes > 0).then_some((bytes as f64 / bandwidth, rest))
}

/// Seconds for each token of a prompt of `n_tokens`. `None` when no work is known.
fn prefill_seconds(needs: &ModelNeeds, n_tokens: u32, arithmetic: f64) -> Option<f64> {
    let work = needs.prompt;
    let products = work.multiply_adds as f64;
    let attention = work.attention_multiply_adds as f64 * mean_reach(needs, n_tokens / 2);
    let scratch = needs.compute.per_row.saturating_mul(u64::from(needs.layers)) as f64;
    let cost = products + ATTENTION_COST * attention + SCRATCH_COST * scratch;
    (work.multiply_adds > 0).then_some(cost / arithmetic)
}

/// Positions that a row after `n_tokens` others looks at, on average over the layers.
fn mean_reach(needs: &ModelNeeds, n_tokens: u32) -> f64 {
    let reach: u64 = needs.state.iter().map(|layer| u64::from(reach(layer, n_tokens))).sum();
    reach as f64 / needs.state.len().max(1) as f64
}

/// Bytes that a step reads in which each of `n_streams` sequences decodes one token after `n_tokens` others: the weights
/// once, and the keys and values in reach of each; saturates.
pub fn decode_step_bytes(needs: &ModelNeeds, n_tokens: u32, n_streams: u32) -> u64 {
    let state: u128 = needs.state.iter().map(|layer| state_bytes(layer, n_tokens)).sum();
    let state = state.saturating_mul(u128::from(n_streams));
    u64::try_from(state.saturating_add(u128::from(needs.decode_bytes_per_token)))
        .unwrap_or(u64::MAX)
}

fn state_bytes(layer: &LayerState, n_tokens: u32) -> u128 {
    let LayerState::Paged { bytes_per_token, .. } = *layer;
    u128::from(bytes_per_token) * u128::from(reach(layer, n_tokens))
}

fn reach(layer: &LayerState, n_tokens: u32) -> u32 {
    let LayerState::Paged { window, .. } = *layer;
    window.map_or(n_tokens, |window| window.min(n_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(window: Option<u32>) -> LayerState {
        LayerState::Paged { bytes_per_token: 100, window }
    }

    #[test]
    fn a_window_bounds_what_is_read() {
        assert_eq!(state_bytes(&layer(None), 1000), 100_000);
        assert_eq!(state_bytes(&layer(Some(64)), 1000), 6_400);
        assert_eq!(state_bytes(&layer(Some(4096)), 1000), 100_000);
        assert_eq!(state_bytes(&layer(None), u32::MAX), 100 * u128::from(u32::MAX));
    }
}
