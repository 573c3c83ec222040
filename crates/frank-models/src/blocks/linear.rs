//! A linear layer: a matrix of the file and, where the family has one, a bias.

use crate::error::ArchError;
use crate::weights::{MatrixId, VectorId, WeightTable};

/// A matrix and the bias of its output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linear {
    pub(crate) matrix: MatrixId,
    pub(crate) bias: Option<VectorId>,
}

/// Whether a linear layer of a family has a bias.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bias {
    /// Never: a file with one is of another kind and refused.
    None,
    /// Where the file has one.
    Optional,
    /// Always.
    Required,
}

impl Bias {
    /// Whether a layer that has this bias has the tensor `name`.
    pub(crate) fn is_in(self, table: &WeightTable<'_>, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::Optional => table.has(name),
            Self::Required => true,
        }
    }
}

impl Linear {
    /// The tensors `name.weight` and `name.bias`, from `n_in` values to `n_out`.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        name: &str,
        (n_in, n_out): (usize, usize),
        bias: Bias,
    ) -> Result<Self, ArchError> {
        let matrix = table.matrix(&format!("{name}.weight"), n_in, n_out)?;
        let bias_name = format!("{name}.bias");
        let bias =
            bias.is_in(table, &bias_name).then(|| table.vector(&bias_name, n_out)).transpose()?;
        Ok(Self { matrix, bias })
    }
}
