//! The formats of ranking files, checked against the model that they are for. Never opens a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Hotness, Owner, RankingError};
use crate::needs::ModelNeeds;

/// Bytes of one router bias.
const BIAS_BYTES: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlacementFile {
    owners: Vec<String>,
}

/// The owners of a placement file, in its order.
pub(super) fn owners(text: &str, needs: &ModelNeeds) -> Result<Vec<Owner>, RankingError> {
    let file: PlacementFile = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    check_length("owners", file.owners.len(), 1, needs)?;
    let owner = |(index, word): (usize, &String)| match word.as_str() {
        "primary" => Ok(Owner::Primary),
        "secondary" => Ok(Owner::Secondary),
        "stream" => Ok(Owner::Stream),
        _ => Err(RankingError::UnknownOwner { index, word: clipped(word) }),
    };
    file.owners.iter().enumerate().map(owner).collect()
}

/// The counts of a hotness file, by layer and expert; those of one expert are added up and saturate.
pub(super) fn counts(
    text: &str,
    needs: &ModelNeeds,
) -> Result<BTreeMap<(u32, u32), u64>, RankingError> {
    let mut counts = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let is_header = index == 0 && line.trim() == Hotness::HEADER;
        if is_header || line.trim().is_empty() {
            continue;
        }
        let [layer, expert, count] = numbers(line).ok_or_else(|| RankingError::Malformed {
            line: index + 1,
            message: format!(
                "`{}` is not {} in whole numbers",
                clipped(line.trim()),
                Hotness::HEADER
            ),
        })?;
        let id = check_expert(layer, expert, needs).map_err(|error| RankingError::Malformed {
            line: index + 1,
            message: error.to_string(),
        })?;
        let sum = counts.entry(id).or_insert(0u64);
        *sum = sum.saturating_add(count);
    }
    if counts.is_empty() { Err(RankingError::Empty) } else { Ok(counts) }
}

/// What a message shows of a word: an error is a line that can be read.
fn clipped(word: &str) -> String {
    const SHOWN: usize = 100;
    let mut shown: String = word.chars().take(SHOWN).collect();
    if shown.len() < word.len() {
        shown.push('…');
    }
    shown
}

/// The numbers of a line of three with commas between.
fn numbers(line: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> =
        line.split(',').map(|field| field.trim().parse().ok()).collect();
    numbers?.try_into().ok()
}

/// The experts of a protected-experts file, by layer and expert.
pub(super) fn protected(
    text: &str,
    needs: &ModelNeeds,
) -> Result<BTreeSet<(u32, u32)>, RankingError> {
    let file: ProtectedFile = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    let mut protected = BTreeSet::new();
    for (word, experts) in file.0 {
        let layer = word.parse().map_err(|_| RankingError::NotALayer { word: clipped(&word) })?;
        check_layer(layer, needs)?;
        for expert in experts {
            protected.insert(check_expert(layer, expert, needs)?);
        }
    }
    if protected.is_empty() { Err(RankingError::Empty) } else { Ok(protected) }
}

/// Every key of the object with its value. A key that stands there twice has both of its values.
struct ProtectedFile(Vec<(String, Vec<u64>)>);

impl<'de> Deserialize<'de> for ProtectedFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ProtectedVisitor)
    }
}

struct ProtectedVisitor;

impl<'de> Visitor<'de> for ProtectedVisitor {
    type Value = ProtectedFile;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of layers with lists of experts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ProtectedFile, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(ProtectedFile(entries))
    }
}

/// Reads a router-bias file: raw little-endian f32, one for each expert at `layer * n_experts + expert` over all layers
/// of the model.
///
/// # Errors
/// [`RankingError`] when it has another length, or a bias is not finite.
pub fn parse_router_bias(bytes: &[u8], needs: &ModelNeeds) -> Result<Vec<f32>, RankingError> {
    check_length("bytes", bytes.len(), BIAS_BYTES, needs)?;
    let (biases, _) = bytes.as_chunks::<BIAS_BYTES>();
    let bias = |(index, bytes): (usize, &[u8; BIAS_BYTES])| {
        let value = f32::from_le_bytes(*bytes);
        let (layer, expert) =
            (index / needs.experts.max(1) as usize, index % needs.experts.max(1) as usize);
        // Both are below numbers of 32 bits, for the length is right.
        let (layer, expert, word) = (layer as u32, expert as u32, value.to_string());
        let not_finite = RankingError::NotFinite { layer, expert, value: word };
        if value.is_finite() { Ok(value) } else { Err(not_finite) }
    };
    biases.iter().enumerate().map(bias).collect()
}

/// Whether there are `each` of something for each expert of each layer.
fn check_length(
    unit: &'static str,
    got: usize,
    each: usize,
    needs: &ModelNeeds,
) -> Result<(), RankingError> {
    let (n_layers, n_experts) = (needs.layers, needs.experts);
    let expected = u64::from(n_layers) * u64::from(n_experts);
    let (got, expected) = (got as u64, expected.saturating_mul(each as u64));
    if got == expected {
        return Ok(());
    }
    Err(RankingError::WrongLength { unit, got, expected, n_layers, n_experts })
}

fn check_layer(layer: u64, needs: &ModelNeeds) -> Result<u32, RankingError> {
    let n_layers = needs.layers;
    let known = u32::try_from(layer).ok().filter(|&layer| layer < n_layers);
    known.ok_or(RankingError::LayerOutOfRange { layer, n_layers })
}

fn check_expert(layer: u64, expert: u64, needs: &ModelNeeds) -> Result<(u32, u32), RankingError> {
    let layer = check_layer(layer, needs)?;
    let n_experts = if needs.expert_layers.is_empty() {
        needs.experts
    } else {
        let found = needs.expert_layers.iter().find(|known| known.layer == layer);
        found.ok_or(RankingError::NoExperts { layer })?.n_experts
    };
    let known = u32::try_from(expert).ok().filter(|&expert| expert < n_experts);
    let expert = known.ok_or(RankingError::ExpertOutOfRange { layer, expert, n_experts })?;
    Ok((layer, expert))
}

fn malformed(error: &serde_json::Error) -> RankingError {
    let text = error.to_string();
    let message = clipped(text.split(" at line ").next().unwrap_or(&text));
    RankingError::Malformed { line: error.line(), message }
}
