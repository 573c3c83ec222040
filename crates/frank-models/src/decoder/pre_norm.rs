//! The layer that most families have: norm, attend, add, norm, transform, add.

use super::{DecoderLayer, Step};
use crate::blocks::attention::Attend;
use crate::blocks::feed_forward::FeedForward;
use crate::error::{ArchError, StepError};
use crate::shape::Shape;
use crate::weights::{VectorId, WeightTable};

/// `blk.{i}.ffn_norm.weight`, for [`PreNorm::place`].
pub(crate) const FFN_NORM: &str = "ffn";

/// `blk.{i}.post_attention_norm.weight`: some converters name the norm by what comes before it.
pub(crate) const POST_ATTENTION_NORM: &str = "post_attention";

/// A layer with one norm before its attention and one before what follows.
#[derive(Debug)]
pub(crate) struct PreNorm<A> {
    attention_norm: VectorId,
    attention: A,
    feed_forward_norm: VectorId,
    feed_forward: FeedForward,
}

impl<A> PreNorm<A> {
    /// Layer `i`, made of what its family placed, and of `blk.{i}.attn_norm.weight` and `blk.{i}.{norm}_norm.weight`.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        shape: &Shape,
        i: usize,
        attention: A,
        (norm, feed_forward): (&str, FeedForward),
    ) -> Result<Self, ArchError> {
        Ok(Self {
            attention_norm: table.vector(&format!("blk.{i}.attn_norm.weight"), shape.n_embd)?,
            attention,
            feed_forward_norm: table
                .vector(&format!("blk.{i}.{norm}_norm.weight"), shape.n_embd)?,
            feed_forward,
        })
    }
}

impl<A: Attend + Send + 'static> DecoderLayer for PreNorm<A> {
    fn attention(&self) -> &dyn Attend {
        &self.attention
    }

    fn feed_forward(&self) -> &FeedForward {
        &self.feed_forward
    }

    fn feed_forward_norm(&self) -> VectorId {
        self.feed_forward_norm
    }

    fn forward(&self, step: &mut Step<'_>) -> Result<(), StepError> {
        step.norm(self.attention_norm);
        step.attend(&self.attention);
        step.add();
        step.norm(self.feed_forward_norm);
        step.transform(&self.feed_forward)?;
        step.add();
        Ok(())
    }
}
