//! The expert-major form of a model: where each tensor of a file goes when the three matrices of every expert are to lie
//! beside each other. Never reads a weight.

use std::collections::{BTreeMap, BTreeSet};

use frank_gguf::{ModelHeader, TensorInfo};
use frank_hub::TensorCopy;
use thiserror::Error;

use crate::tensor_name::{expert_of, layer_and_part};

/// Bytes that each tensor of such a file begins at a multiple of: what reads past the page cache are aligned to.
pub const EXPERT_ALIGNMENT: u32 = 4096;

/// Most experts of a file. The largest models have some 25,000; a header may claim any number.
const EXPERTS_MAX: u64 = 1 << 20;

/// The matrices of an expert, in the order in which they are read.
const PARTS: [&str; 3] = ["gate", "up", "down"];

/// Why a model has no expert-major form.
#[derive(Debug, Error)]
pub enum ExpertMajorError {
    /// It is dense.
    #[error("this {arch} model has no experts")]
    NoExperts {
        /// Its architecture.
        arch: String,
    },
    /// More experts than any model has.
    #[error("{got} experts, at most {EXPERTS_MAX} expected")]
    TooMany {
        /// How many the file claims.
        got: u64,
    },
    /// Tensors of one layer's experts that do not belong together.
    #[error("tensor {name} does not fit the other experts of layer {layer}")]
    Mismatch {
        /// The layer.
        layer: u32,
        /// The first tensor that does not fit.
        name: String,
    },
}

/// The tensors of an expert-major file in their order, and what they are made of.
#[derive(Debug)]
pub struct ExpertMajor {
    /// First everything that is no expert, in the order of the file; then layer by layer and expert by expert
    /// `blk.{layer}.ffn_{gate,up,down}.{expert}.weight`.
    pub copies: Vec<TensorCopy>,
    /// Layers that have experts.
    pub n_layers: usize,
    /// Experts of all layers together.
    pub n_experts: usize,
}

/// The expert-major form of the model of `header`, which has its experts in one tensor of three dimensions for each
/// matrix and layer, or has a tensor for each of them.
///
/// # Errors
/// [`ExpertMajorError`] when it has no experts, or they do not belong together.
pub fn expert_major(header: &ModelHeader) -> Result<ExpertMajor, ExpertMajorError> {
    let mut layers: BTreeMap<u32, BTreeSet<(u32, usize)>> = BTreeMap::new();
    let mut copies = Vec::new();
    let mut n_experts = 0;
    for (index, tensor) in header.tensors.iter().enumerate() {
        match place_of(tensor) {
            Some((layer, part, expert)) => {
                let count = if expert.is_none() { tensor.dims.get(2).copied() } else { Some(1) };
                n_experts += u64::from(part == 0) * count.unwrap_or(0).min(EXPERTS_MAX + 1);
                layers.entry(layer).or_default().insert((expert.unwrap_or(0), index));
            }
            None => copies.push(TensorCopy::whole(header, index)),
        }
    }
    if layers.is_empty() {
        let arch = header.architecture().unwrap_or_default().to_owned();
        return Err(ExpertMajorError::NoExperts { arch });
    }
    if n_experts > EXPERTS_MAX {
        return Err(ExpertMajorError::TooMany { got: n_experts });
    }
    let n_layers = layers.len();
    let n_others = copies.len();
    for (layer, tensors) in layers {
        add_layer(&mut copies, header, layer, tensors.into_iter().map(|(_, index)| index))?;
    }
    let n_experts = (copies.len() - n_others) / PARTS.len();
    Ok(ExpertMajor { copies, n_layers, n_experts })
}

/// Layer, part and, in a tensor of its own, the expert.
fn place_of(tensor: &TensorInfo) -> Option<(u32, usize, Option<u32>)> {
    let (layer, expert) = expert_of(&tensor.name)?;
    let (_, name) = layer_and_part(&tensor.name)?;
    let name = name.strip_prefix("ffn_")?;
    let part = PARTS.iter().position(|part| {
        name.strip_prefix(part).is_some_and(|rest| rest.starts_with('.') || rest == "_exps.weight")
    })?;
    Some((layer, part, expert))
}

/// Adds the experts of one layer, whose tensors come by expert.
fn add_layer(
    copies: &mut Vec<TensorCopy>,
    header: &ModelHeader,
    layer: u32,
    tensors: impl Iterator<Item = usize>,
) -> Result<(), ExpertMajorError> {
    let mut parts: [Vec<TensorCopy>; 3] = Default::default();
    for index in tensors {
        let tensor = &header.tensors[index];
        let (_, part, expert) = place_of(tensor).expect("only such tensors were collected");
        match expert {
            Some(_) => parts[part].push(TensorCopy::whole(header, index)),
            None => parts[part].extend(slices(header, index, layer, PARTS[part])?),
        }
    }
    let n_experts = parts[0].len();
    if let Some(other) = parts.iter().find(|part| part.len() != n_experts) {
        let name =
            other.first().map_or_else(|| format!("blk.{layer}.ffn_*"), |copy| copy.name.clone());
        return Err(ExpertMajorError::Mismatch { layer, name });
    }
    let [gate, up, down] = parts;
    copies
        .extend(gate.into_iter().zip(up).zip(down).flat_map(|((gate, up), down)| [gate, up, down]));
    Ok(())
}

/// The matrices of a tensor of three dimensions.
fn slices(
    header: &ModelHeader,
    index: usize,
    layer: u32,
    part: &str,
) -> Result<Vec<TensorCopy>, ExpertMajorError> {
    let tensor = &header.tensors[index];
    let mismatch = || ExpertMajorError::Mismatch { layer, name: tensor.name.clone() };
    let (&[n_in, n_out, n_experts], Some(bytes)) = (tensor.dims.as_slice(), tensor.bytes()) else {
        return Err(mismatch());
    };
    if n_experts > EXPERTS_MAX {
        return Err(mismatch());
    }
    let slice = bytes / n_experts.max(1);
    let copy = |expert| TensorCopy {
        name: format!("blk.{layer}.ffn_{part}.{expert}.weight"),
        dims: vec![n_in, n_out],
        source: index,
        offset: expert * slice,
        bytes: slice,
    };
    Ok((0..n_experts).map(copy).collect())
}
