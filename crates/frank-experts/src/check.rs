//! Whether a table of experts fits its files and its tiers. Everything in it comes from a file and is hostile until here.

use std::sync::Arc;

use frank_os::DataFile;
use frank_plan::Tier;

use crate::error::StoreError;
use crate::table::{ExpertTable, LayerExperts};

/// Refuses a table that names a layer, a file or bytes that are not there, or that has not a tier for each expert.
///
/// Afterwards every expert's rows lie in their file, and so no size of a single expert saturates.
pub(crate) fn check(
    table: &ExpertTable,
    files: &[Arc<DataFile>],
    tiers: &[Tier],
) -> Result<(), StoreError> {
    let mut next_layer = 0;
    for layer in &table.layers {
        if layer.layer < next_layer || layer.layer as usize >= table.n_layers {
            return Err(StoreError::Layer { layer: layer.layer, n_layers: table.n_layers });
        }
        next_layer = layer.layer.saturating_add(1);
        check_counts(layer)?;
        check_places(layer, files)?;
    }
    check_tiers(table, tiers)
}

fn check_counts(layer: &LayerExperts) -> Result<(), StoreError> {
    let LayerExperts { layer, n_experts, ref parts } = *layer;
    if n_experts == 0 || parts.is_empty() {
        return Err(StoreError::NoExperts { layer, n_experts, n_parts: parts.len() });
    }
    let odd = parts.iter().position(|part| part.places.len() as u64 != u64::from(n_experts));
    match odd {
        None => Ok(()),
        Some(part) => {
            let got = parts[part].places.len();
            Err(StoreError::Places { layer, part, got, want: n_experts })
        }
    }
}

fn check_places(layer: &LayerExperts, files: &[Arc<DataFile>]) -> Result<(), StoreError> {
    let LayerExperts { layer, ref parts, .. } = *layer;
    for (part, matrix) in parts.iter().enumerate() {
        let bytes = matrix.file_bytes();
        for (expert, place) in (0..).zip(&matrix.places) {
            let Some(file) = files.get(place.file) else {
                let (file, n_files) = (place.file, files.len());
                return Err(StoreError::File { layer, expert, part, file, n_files });
            };
            let end = bytes.and_then(|bytes| place.offset.checked_add(bytes));
            if end.is_none_or(|end| end > file.len()) {
                return Err(StoreError::PastEnd {
                    layer,
                    expert,
                    part,
                    offset: place.offset,
                    bytes: bytes.unwrap_or(u64::MAX),
                    file_bytes: file.len(),
                });
            }
        }
    }
    Ok(())
}

fn check_tiers(table: &ExpertTable, tiers: &[Tier]) -> Result<(), StoreError> {
    let n_experts = table.layers.iter().map(|layer| layer.n_experts).max().unwrap_or(0);
    let wanted = table.n_layers.checked_mul(n_experts as usize);
    if wanted != Some(tiers.len()) {
        let n_layers = table.n_layers;
        return Err(StoreError::Tiers { got: tiers.len(), n_layers, n_experts });
    }
    Ok(())
}
