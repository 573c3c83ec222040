//! The tensors of routed experts: found, checked, and listed for the expert store. They are no part of the dense
//! weights.

use std::ops::Range;

use frank_experts::{ExpertPart, ExpertTable, FilePlace, LayerExperts};
use frank_gguf::{ModelHeader, TensorInfo};
use frank_kernels::{MatrixShape, WeightType};

use super::{MATRIX_TYPE_NAMES, WeightTable, wrong_type};
use crate::error::ArchError;

/// The matrices of one layer's experts, in the order in which they lie in an expert.
const PARTS: [&str; 3] = ["gate", "up", "down"];

/// The experts of one layer in a [`WeightTable`].
#[derive(Debug)]
pub(crate) struct Experts {
    pub(crate) gate: ExpertMatrix,
    pub(crate) up: ExpertMatrix,
    pub(crate) down: ExpertMatrix,
}

/// One matrix of each expert of a layer.
#[derive(Debug)]
pub(crate) struct ExpertMatrix {
    pub(crate) shape: MatrixShape,
    /// Where it lies in the bytes of an expert.
    pub(crate) range: Range<usize>,
}

/// Tensors of one layer's experts. Places are made of them when the file is loaded: a header alone may claim any number
/// of experts.
#[derive(Debug)]
pub(super) struct LayerTensors {
    layer: usize,
    n_experts: usize,
    parts: [PartTensors; 3],
}

#[derive(Debug)]
struct PartTensors {
    shape: MatrixShape,
    /// One of three dimensions, or one for each expert.
    tensors: Vec<TensorInfo>,
}

impl WeightTable<'_> {
    /// `blk.{i}.ffn_{gate,up,down}_exps.weight`, or with a tensor for each expert, as older files have it,
    /// `blk.{i}.ffn_{gate,up,down}.{expert}.weight`.
    pub(crate) fn experts(
        &mut self,
        i: usize,
        n_experts: usize,
        (n_embd, n_ff): (usize, usize),
    ) -> Result<Experts, ArchError> {
        let sizes = [(n_embd, n_ff), (n_embd, n_ff), (n_ff, n_embd)];
        let part = |part: usize| self.find_part(i, PARTS[part], n_experts, sizes[part]);
        let layer = LayerTensors { layer: i, n_experts, parts: [part(0)?, part(1)?, part(2)?] };
        let unplaced = layer.experts(|_| Vec::new());
        let matrix = |part: usize| ExpertMatrix {
            shape: unplaced.parts[part].shape,
            range: unplaced.part_range(part),
        };
        let [gate, up, down] = [matrix(0), matrix(1), matrix(2)];
        self.experts.push(layer);
        Ok(Experts { gate, up, down })
    }

    fn find_part(
        &self,
        i: usize,
        part: &str,
        n_experts: usize,
        (n_in, n_out): (usize, usize),
    ) -> Result<PartTensors, ArchError> {
        let stacked = format!("blk.{i}.ffn_{part}_exps.weight");
        let single = |expert: usize| format!("blk.{i}.ffn_{part}.{expert}.weight");
        let (n_in_dim, n_out_dim) = (n_in as u64, n_out as u64);
        let tensors = if !self.has(&stacked) && (self.has(&single(0)) || self.has(&single(1))) {
            let find = |expert| self.find(&single(expert), &[n_in_dim, n_out_dim]).cloned();
            (0..n_experts).map(find).collect::<Result<Vec<_>, _>>()?
        } else {
            vec![self.find(&stacked, &[n_in_dim, n_out_dim, n_experts as u64])?.clone()]
        };
        let first = &tensors[0];
        let Some(weight_type) = WeightType::of(first.type_id) else {
            return Err(wrong_type(first, &MATRIX_TYPE_NAMES));
        };
        if let Some(other) = tensors.iter().find(|tensor| tensor.type_id != first.type_id) {
            let (name, first) = (other.name.clone(), first.name.clone());
            return Err(ArchError::ExpertTypes { name, first });
        }
        let shape = MatrixShape::new(weight_type, n_in, n_out)
            .map_err(|source| ArchError::Pack { name: first.name.clone(), source })?;
        Ok(PartTensors { shape, tensors })
    }

    /// The layers with experts, each with its number of experts and the bytes of one in memory.
    pub(crate) fn expert_layers(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        self.experts.iter().map(|layer| {
            let slot_bytes = layer.experts(|_| Vec::new()).slot_bytes() as u64;
            (layer.layer, layer.n_experts, slot_bytes)
        })
    }

    /// Bytes of the largest expert in the file; 0 without experts.
    pub(crate) fn expert_file_bytes_max(&self) -> u64 {
        let bytes = |layer: &LayerTensors| layer.experts(|_| Vec::new()).file_bytes();
        self.experts.iter().map(bytes).max().unwrap_or(0)
    }

    /// Where the experts of a model of `n_layers` layers lie in its files; `None` without experts.
    pub(crate) fn expert_table(&self, n_layers: usize) -> Option<ExpertTable> {
        let places =
            |layer: &LayerTensors| layer.experts(|part| part.places(self.header, layer.n_experts));
        (!self.experts.is_empty())
            .then(|| ExpertTable { n_layers, layers: self.experts.iter().map(places).collect() })
    }
}

impl LayerTensors {
    /// For the expert store, with the places that `places` gives each part.
    fn experts(&self, places: impl Fn(&PartTensors) -> Vec<FilePlace>) -> LayerExperts {
        let as_u32 = |n| u32::try_from(n).expect("counts of the metadata have 32 bits");
        let parts = self.parts.iter();
        LayerExperts {
            layer: as_u32(self.layer),
            n_experts: as_u32(self.n_experts),
            parts: parts
                .map(|part| ExpertPart { shape: part.shape, places: places(part) })
                .collect(),
        }
    }

    /// Names of all its tensors.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let tensors = self.parts.iter().flat_map(|part| &part.tensors);
        tensors.map(|tensor| tensor.name.as_str())
    }
}

impl PartTensors {
    fn places(&self, header: &ModelHeader, n_experts: usize) -> Vec<FilePlace> {
        let place = |tensor: &TensorInfo, bytes: u64| FilePlace {
            file: tensor.part,
            offset: header.parts[tensor.part]
                .data_start
                .saturating_add(tensor.offset)
                .saturating_add(bytes),
        };
        if let [stacked] = self.tensors.as_slice() {
            let slice = self.shape.n_out() as u64 * self.shape.file_row_bytes() as u64;
            return (0..n_experts as u64).map(|expert| place(stacked, expert * slice)).collect();
        }
        self.tensors.iter().map(|tensor| place(tensor, 0)).collect()
    }
}
