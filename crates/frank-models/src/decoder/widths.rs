//! How much scratch a step takes for each of its rows: what the planner counts and the model then takes.

use frank_kernels::Activations;

use super::DecoderLayer;
use crate::blocks::attention::{AttentionScratch, AttentionWidths};
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::moe::MoeScratch;
use crate::blocks::routes::Routes;
use crate::scratch::Scratch;
use crate::shape::Shape;
use crate::shape::moe::MoeShape;

/// Matrices of the scratch, see [`Widths::columns`].
pub(super) const N_COLUMNS: usize = 17;

/// Values of the 8-bit form of activations that share a scale.
const QUANT_BLOCK: usize = 32;

/// The widths of the scratch, each the largest of all layers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widths {
    n_embd: usize,
    n_ff: usize,
    attention: AttentionWidths,
    moe: Option<MoeShape>,
}

impl Widths {
    pub(super) fn of<L: DecoderLayer>(shape: &Shape, layers: &[L]) -> Self {
        let attention = layers.iter().map(|layer| layer.attention().widths());
        let feed_forward = || layers.iter().map(L::feed_forward);
        Self {
            n_embd: shape.n_embd,
            n_ff: feed_forward().map(FeedForward::n_ff).max().unwrap_or(0),
            attention: attention.fold(AttentionWidths::default(), AttentionWidths::max),
            moe: feed_forward().find_map(FeedForward::moe).map(|moe| moe.shape),
        }
    }

    /// In the order of [`Columns::of`].
    pub(super) fn columns(&self) -> [usize; N_COLUMNS] {
        let Self { n_embd, n_ff, attention, .. } = *self;
        let AttentionWidths { q, k, v, mixed, latent, heads, rotated, .. } = attention;
        let (gates, x, expert_ff) = match self.moe {
            None => (0, 0, 0),
            Some(MoeShape { n_expert, n_used, n_ff_expert, .. }) => {
                (n_expert, n_used.saturating_mul(n_embd), n_used.saturating_mul(n_ff_expert))
            }
        };
        [
            n_embd, n_embd, n_embd, q, k, v, mixed, latent, heads, rotated, n_ff, n_ff, gates, x,
            expert_ff, expert_ff, x,
        ]
    }

    /// Values that one job of products reads of a row at most.
    pub(super) fn n_in(&self) -> usize {
        let of_experts = self.moe.map_or(0, |moe| {
            let n_in = self.n_embd.max(moe.n_ff_expert);
            let padded = n_in.checked_next_multiple_of(QUANT_BLOCK).unwrap_or(usize::MAX);
            moe.n_used.saturating_mul(padded)
        });
        self.n_embd.max(self.n_ff).max(self.attention.n_in).max(of_experts)
    }

    /// Bytes for each row, without the angles of rotations. Routes are kept twice: those of a mixture, and what is predicted
    /// for the next one.
    pub(super) fn row_bytes(&self) -> usize {
        let routes = self.moe.map_or(0, |moe| 2 * Routes::row_bytes(moe.n_used));
        let quants = Activations::row_bytes(self.n_in());
        Scratch::row_bytes(self.columns()).saturating_add(quants).saturating_add(routes)
    }

    /// Memory for the routes of a step; of no use without experts.
    pub(super) fn routes(&self, n_rows_max: usize) -> Routes {
        let (n_expert, n_used) = self.moe.map_or((0, 0), |moe| (moe.n_expert, moe.n_used));
        Routes::new(n_rows_max, n_expert, n_used)
    }
}

/// The scratch of a step by what it is for.
pub(super) struct Columns<'a> {
    /// `[n_rows, n_embd]`, as are `normed` and `delta`.
    pub(super) hidden: &'a mut [f32],
    pub(super) normed: &'a mut [f32],
    pub(super) delta: &'a mut [f32],
    pub(super) attention: AttentionScratch<'a>,
    /// Of an MLP, `[n_rows, n_ff]`, as is `up`.
    pub(super) gate: &'a mut [f32],
    pub(super) up: &'a mut [f32],
    pub(super) moe: MoeScratch<'a>,
}

impl<'a> Columns<'a> {
    /// Names matrices of the widths of [`Widths::columns`].
    pub(super) fn of(columns: [&'a mut [f32]; N_COLUMNS]) -> Self {
        let [hidden, normed, delta, columns @ ..] = columns;
        let [q, k, v, mixed, latent, heads, rotated, columns @ ..] = columns;
        let [gate, up, columns @ ..] = columns;
        let [gates, x, expert_gate, expert_up, out] = columns;
        Self {
            hidden,
            normed,
            delta,
            attention: AttentionScratch { q, k, v, mixed, latent, heads, rotated },
            gate,
            up,
            moe: MoeScratch { gates, x, gate: expert_gate, up: expert_up, out },
        }
    }
}
