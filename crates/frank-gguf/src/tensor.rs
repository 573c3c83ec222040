//! One line of the tensor table. Never the tensor's bytes.

use crate::error::{GgufError, label};
use crate::layout::{TypeLayout, type_layout, type_name};
use crate::quant::{QUANTS, QuantType, quant_type};

/// Where a tensor lies and how it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name as the file spells it, for example `blk.0.attn_q.weight`.
    pub name: String,
    /// Dimensions in ggml order: the first is the row length, whose values lie side by side.
    pub dims: Vec<u64>,
    /// Tensor type, see [`crate::type_id`].
    pub type_id: u32,
    /// Bytes from the start of its part's data section.
    pub offset: u64,
    /// Index of its part in [`crate::ModelHeader::parts`]; 0 in a header that was read by itself.
    pub part: usize,
}

impl TensorInfo {
    /// Number of values: the product of the dimensions (1 for none).
    ///
    /// Reading a header refuses products over 63 bits; one made by hand saturates.
    #[must_use]
    pub fn n_values(&self) -> u64 {
        self.dims.iter().fold(1, |product: u64, &dim| product.saturating_mul(dim))
    }

    /// The layout of its type; `None` for a removed or unknown type.
    #[must_use]
    pub fn layout(&self) -> Option<TypeLayout> {
        type_layout(self.type_id)
    }

    /// Bytes of the tensor; `None` for a removed or unknown type.
    ///
    /// [`crate::ModelHeader::stored_bytes`] also answers for those, from the offsets.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let layout = self.layout()?;
        Some((self.n_values() / layout.values_per_block).saturating_mul(layout.bytes_per_block))
    }

    /// The reference routines of its type.
    ///
    /// # Errors
    /// [`GgufError::TensorType`] names the tensor, its type and the types that can be loaded.
    pub fn quant(&self) -> Result<&'static QuantType, GgufError> {
        quant_type(self.type_id).ok_or_else(|| GgufError::TensorType {
            tensor: label(&self.name),
            type_id: self.type_id,
            type_name: type_name(self.type_id).unwrap_or("unknown"),
            loadable: QUANTS.iter().map(|quant| quant.layout.name).collect::<Vec<_>>().join(", "),
        })
    }
}
