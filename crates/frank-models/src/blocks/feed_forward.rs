//! What follows attention in a layer: one MLP, or a mixture of experts.

use crate::blocks::linear::Bias;
use crate::blocks::mlp::{Activation, GatedMlp};
use crate::blocks::moe::{Moe, MoeTensors};
use crate::error::ArchError;
use crate::shape::Shape;
use crate::weights::WeightTable;

/// The second half of a layer.
#[derive(Debug)]
pub(crate) enum FeedForward {
    /// The same for every token.
    Dense(GatedMlp),
    /// What a router chooses.
    Experts(Box<Moe>),
}

impl FeedForward {
    /// A gated MLP with SiLU in the leading layers and in models without experts, a mixture in the others. `mlp_bias` says
    /// what is true of the MLP, `tensors` of the mixture.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        shape: &Shape,
        i: usize,
        (mlp_bias, tensors): (Bias, MoeTensors),
    ) -> Result<Self, ArchError> {
        match shape.moe {
            Some(moe) if i >= moe.n_leading_dense => Self::experts(table, shape, i, tensors),
            _ => Self::dense(table, shape, i, Activation::Silu, mlp_bias),
        }
    }

    /// See [`GatedMlp::place`].
    pub(crate) fn dense(
        table: &mut WeightTable<'_>,
        shape: &Shape,
        i: usize,
        activation: Activation,
        bias: Bias,
    ) -> Result<Self, ArchError> {
        GatedMlp::place(table, shape, i, activation, bias).map(Self::Dense)
    }

    /// See [`Moe::place`].
    pub(crate) fn experts(
        table: &mut WeightTable<'_>,
        shape: &Shape,
        i: usize,
        tensors: MoeTensors,
    ) -> Result<Self, ArchError> {
        Moe::place(table, shape, i, tensors).map(|moe| Self::Experts(Box::new(moe)))
    }

    /// Hidden units of the MLP that every token uses; 0 where there is none.
    pub(crate) fn n_ff(&self) -> usize {
        match self {
            Self::Dense(mlp) => mlp.n_ff,
            Self::Experts(moe) => moe.n_ff_shared(),
        }
    }

    /// The mixture, where it is one.
    pub(crate) fn moe(&self) -> Option<&Moe> {
        match self {
            Self::Dense(_) => None,
            Self::Experts(moe) => Some(moe),
        }
    }
}
