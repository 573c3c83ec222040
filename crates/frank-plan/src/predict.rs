//! Speed that a plan lets expect, from measured bandwidth. Never a guess where nobody measured.

use serde::Serialize;

use crate::needs::{LayerState, ModelNeeds};

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
    /// Tokens per second while answering, with half the context filled.
    pub decode_tok_s: Option<f64>,
    /// Tokens per second while reading the prompt. Needs a measured rate of arithmetic, which no machine
    /// description carries yet.
    pub prefill_tok_s: Option<f64>,
    /// What bounds decoding.
    pub bound: Option<Bound>,
}

impl Prediction {
    /// The speed of a model whose weights all lie in memory that is read at `bandwidth` bytes per second.
    pub(crate) fn resident(needs: &ModelNeeds, ctx_size: u32, bandwidth: Option<u64>) -> Self {
        let bytes = decode_bytes(needs, ctx_size / 2);
        match bandwidth {
            Some(bandwidth) if bandwidth > 0 && bytes > 0 => Self {
                decode_tok_s: Some(bandwidth as f64 / bytes as f64),
                prefill_tok_s: None,
                bound: Some(Bound::Dram),
            },
            _ => Self::default(),
        }
    }
}

/// Bytes that one decoded token reads after `n_tokens` others: weights, and the keys and values in reach.
fn decode_bytes(needs: &ModelNeeds, n_tokens: u32) -> u128 {
    let state: u128 = needs.state.iter().map(|layer| state_bytes(layer, n_tokens)).sum();
    u128::from(needs.decode_bytes_per_token) + state
}

fn state_bytes(layer: &LayerState, n_tokens: u32) -> u128 {
    let LayerState::Paged { bytes_per_token, window } = *layer;
    let reach = window.map_or(n_tokens, |window| window.min(n_tokens));
    u128::from(bytes_per_token) * u128::from(reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_bounds_what_is_read() {
        let layer = |window| LayerState::Paged { bytes_per_token: 100, window };
        assert_eq!(state_bytes(&layer(None), 1000), 100_000);
        assert_eq!(state_bytes(&layer(Some(64)), 1000), 6_400);
        assert_eq!(state_bytes(&layer(Some(4096)), 1000), 100_000);
        assert_eq!(state_bytes(&layer(None), u32::MAX), 100 * u128::from(u32::MAX));
    }
}
