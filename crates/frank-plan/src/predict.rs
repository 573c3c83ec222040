//! Speed that a plan lets expect, from measured rates. Never a guess where nobody measured.

mod traffic;

use serde::Serialize;

use crate::machine::Machine;
use crate::needs::{LayerState, ModelNeeds};
use crate::plan::Plan;
use crate::ranking::Hotness;
use traffic::{Places, Traffic};

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

/// Of reading experts from a drive and of all else that a step takes, the part of the shorter one that does not run beside
/// the longer: a layer's last experts are computed when no read is left, and its first reads wait for its router.
///
/// Source: decode of a model of 24 layers of 128 experts, of which a half and a quarter were in memory, see
/// `docs/measurements.md`.
const UNHIDDEN_SHARE: f64 = 0.4;

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

/// Expected speed of one request alone; `None` (JSON `null`) where the measurement that it needs is missing. Experts are
/// expected to be chosen as often as before where that is known, and else evenly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Prediction {
    /// Tokens per second while answering, with half the context filled. Needs a measured bandwidth of each device that
    /// holds weights, and of the machine's first drive when experts are streamed.
    pub decode_tok_s: Option<f64>,
    /// Tokens per second while reading a prompt of 512 tokens, or one that fills the context if that is less. Needs a
    /// measured rate of arithmetic, and that of the drive.
    pub prefill_tok_s: Option<f64>,
    /// What bounds decoding.
    pub bound: Option<Bound>,
}

impl Plan {
    /// Predicts the speed anew. `machine` is the one that the plan is for, with rates that were measured since; `usage` says
    /// how often each expert was chosen, where that is known.
    pub fn predict_on(&mut self, needs: &ModelNeeds, machine: &Machine, usage: Option<&Hotness>) {
        let cache_device = self.devices.iter().position(|device| device.uses.stream_cache > 0);
        let places = Places {
            tiers: &self.expert_tiers,
            cache_device,
            n_devices: machine.devices.len().max(self.devices.len()),
        };
        let traffic = Traffic::new(needs, places, usage);
        let decode = decode_times(machine, needs, &traffic, self.ctx_size / 2);
        let n_tokens = self.ctx_size.min(PROMPT_TOKENS);
        let n_rows = self.ubatch.min(n_tokens).max(1);
        let arithmetic = machine.primary().and_then(|device| known(device.arithmetic));
        let prefill = arithmetic
            .and_then(|arithmetic| prefill_seconds(needs, n_tokens, arithmetic))
            .and_then(|seconds| {
                Some(together(seconds, missing_seconds(machine, &traffic, n_rows)?))
            });
        self.predict = Prediction {
            decode_tok_s: decode.map(|times| 1.0 / times.total()),
            prefill_tok_s: prefill.map(|seconds| 1.0 / seconds),
            bound: decode.map(Times::bound),
        };
    }
}

/// Seconds of a decode step.
#[derive(Debug, Clone, Copy)]
struct Times {
    dram: f64,
    nvme: f64,
    rest: f64,
}

impl Times {
    fn total(self) -> f64 {
        together(self.dram + self.rest, self.nvme)
    }

    fn bound(self) -> Bound {
        let Self { dram, nvme, rest } = self;
        if nvme > 0.0 && nvme >= dram.max(rest) {
            Bound::Nvme
        } else if dram >= rest {
            Bound::Dram
        } else {
            Bound::Compute
        }
    }
}

/// Seconds for a step that computes for so long and reads from a drive for so long.
fn together(compute: f64, nvme: f64) -> f64 {
    compute.max(nvme) + UNHIDDEN_SHARE * compute.min(nvme)
}

/// A rate that somebody measured.
fn known(rate: Option<u64>) -> Option<f64> {
    rate.filter(|&rate| rate > 0).map(|rate| rate as f64)
}

/// What a token after `n_tokens` others takes. `None` when nothing is known to be read, or one of the rates that it needs
/// is not.
fn decode_times(
    machine: &Machine,
    needs: &ModelNeeds,
    traffic: &Traffic,
    n_tokens: u32,
) -> Option<Times> {
    let bytes = decode_step_bytes(needs, n_tokens, 1);
    let primary = machine.primary()?;
    let mut here = bytes as f64;
    let mut dram = 0.0;
    for (device, &bytes) in machine.devices.iter().zip(&traffic.elsewhere) {
        if bytes > 0.0 && device.id != primary.id {
            here -= bytes;
            dram += bytes / known(device.bandwidth)?;
        }
    }
    let dram = dram + here.max(0.0) / known(primary.bandwidth)?;
    let nvme = missing_seconds(machine, traffic, 1)?;
    let rest = f64::from(needs.layers) * LAYER_SECONDS;
    (bytes > 0).then_some(Times { dram, nvme, rest })
}

/// Seconds for each of `n_rows` rows of a step in which experts are read that are in no slot. `None` when some are and
/// nobody measured the first drive.
fn missing_seconds(machine: &Machine, traffic: &Traffic, n_rows: u32) -> Option<f64> {
    if !traffic.is_streamed {
        return Some(0.0);
    }
    let bandwidth = machine.drives.first().and_then(|drive| known(drive.bandwidth))?;
    Some(traffic.missed(n_rows) / bandwidth / f64::from(n_rows))
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
