//! A step under way: the rows' hidden state, and what the blocks of a layer pass to each other.

use frank_kernels::{add, rms_norm, rms_norm_in_place};

use crate::blocks::Compute;
use crate::blocks::attention::{Attend, AttentionScratch};
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::moe::MoeStep;
use crate::blocks::rope::Rope;
use crate::kv::KvTensors;
use crate::model::Batch;
use crate::shape::Shape;
use crate::weights::VectorId;

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
}

impl Step<'_> {
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
    pub(crate) fn transform(&mut self, feed_forward: &FeedForward) {
        let n_embd = self.shape.n_embd;
        let (compute, mlp) = (&mut self.compute, (&mut *self.gate, &mut *self.up));
        match feed_forward {
            FeedForward::Dense(block) => {
                block.forward(compute, n_embd, self.normed, mlp, self.delta);
            }
            FeedForward::Experts(block) => {
                let moe = self.moe.as_mut().expect("a model with such a layer has experts");
                block.forward(compute, moe, self.normed, mlp, self.delta);
            }
        }
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
