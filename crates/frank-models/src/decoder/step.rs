//! A step under way: the rows' hidden state, and what the blocks of a layer pass to each other.

use frank_kernels::{add, rms_norm, rms_norm_in_place};

use crate::blocks::Compute;
use crate::blocks::attention::{Attend, AttentionScratch};
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::moe::{Moe, MoeStep};
use crate::blocks::rope::Rope;
use crate::decoder::DecoderLayer;
use crate::error::StepError;
use crate::kv::KvTensors;
use crate::model::Batch;
use crate::shape::Shape;
use crate::weights::VectorId;

const HAS_EXPERTS: &str = "a model with such a layer has experts";

/// What a layer computes with.
pub(crate) struct Step<'a> {
    pub(super) compute: Compute<'a>,
    pub(super) batch: &'a Batch<'a>,
    pub(super) kv: &'a mut KvTensors,
    pub(super) ropes: &'a [Rope],
    pub(super) shape: &'a Shape,
    /// `[n_rows, n_embd]`, as are `normed` and `delta`.
    pub(super) hidden: &'a mut [f32],
    pub(super) normed: &'a mut [f32],
    pub(super) delta: &'a mut [f32],
    pub(super) attention: AttentionScratch<'a>,
    /// `[n_rows, n_ff]`, as is `up`.
    pub(super) gate: &'a mut [f32],
    pub(super) up: &'a mut [f32],
    /// `None` in a model without experts.
    pub(super) moe: Option<MoeStep<'a>>,
    /// That of the layer after the one that is computed, where it has one.
    pub(super) next: Option<NextMixture<'a>>,
}

/// A mixture that will be computed after this layer's: what its router says of rows that are not quite ready for it is a
/// guess at the experts that it will want.
#[derive(Clone, Copy)]
pub(super) struct NextMixture<'a> {
    moe: &'a Moe,
    norm: VectorId,
}

impl<'a> NextMixture<'a> {
    pub(super) fn of<L: DecoderLayer>(layer: &'a L) -> Option<Self> {
        Some(Self { moe: layer.feed_forward().moe()?, norm: layer.feed_forward_norm() })
    }
}

impl<'a> Step<'a> {
    /// `normed = norm(hidden)`.
    pub(crate) fn norm(&mut self, weight: VectorId) {
        let weight = self.compute.weights.vector(weight);
        rms_norm(self.compute.pool, self.hidden, weight, self.shape.norm_epsilon, self.normed);
    }

    /// `delta = attention(normed)`.
    pub(crate) fn attend(&mut self, attention: &dyn Attend) {
        let rows = (self.batch, &self.ropes[attention.rope()]);
        let scratch = &mut self.attention;
        attention.forward(&mut self.compute, rows, self.kv, scratch, self.normed, self.delta);
    }

    /// `delta = feed_forward(normed)`.
    ///
    /// # Errors
    /// [`StepError`] when an expert cannot be read.
    pub(crate) fn transform(&mut self, feed_forward: &FeedForward) -> Result<(), StepError> {
        let n_embd = self.shape.n_embd;
        match feed_forward {
            FeedForward::Dense(block) => {
                let (compute, mlp) = (&mut self.compute, (&mut *self.gate, &mut *self.up));
                block.forward(compute, n_embd, self.normed, mlp, self.delta);
                Ok(())
            }
            FeedForward::Experts(block) => {
                let next = self.predict();
                let moe = self.moe.as_mut().expect(HAS_EXPERTS);
                let (compute, mlp) = (&mut self.compute, (&mut *self.gate, &mut *self.up));
                block.forward(compute, moe, next, self.normed, mlp, self.delta)
            }
        }
    }

    /// Asks the router of the next mixture what it would choose for the rows as they are now, if that is of use; gives that
    /// mixture. Overwrites `delta`.
    fn predict(&mut self) -> Option<&'a Moe> {
        let step = self.moe.as_mut().expect(HAS_EXPERTS);
        let NextMixture { moe, norm } =
            self.next.filter(|next| next.moe.is_worth_predicting(step))?;
        let weight = self.compute.weights.vector(norm);
        rms_norm(self.compute.pool, self.hidden, weight, self.shape.norm_epsilon, self.delta);
        moe.predict(&mut self.compute, step, self.delta);
        Some(moe)
    }

    /// `delta = norm(delta)`.
    pub(crate) fn norm_delta(&mut self, weight: VectorId) {
        let weight = self.compute.weights.vector(weight);
        rms_norm_in_place(self.compute.pool, self.delta, weight, self.shape.norm_epsilon);
    }

    /// `hidden += delta`.
    pub(crate) fn add(&mut self) {
        add(self.compute.pool, self.hidden, self.delta);
    }
}
