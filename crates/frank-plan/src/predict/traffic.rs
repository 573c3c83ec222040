//! Bytes of experts that a step reads, from the memory of each device and from a drive. Never a time.

use crate::needs::{ExpertLayer, ModelNeeds};
use crate::ranking::Hotness;
use crate::tiers::{ExpertTiers, Tier};

/// What is read of the experts, on average.
#[derive(Debug)]
pub(super) struct Traffic {
    /// By one row from memory of each device but the primary one, by index, in bytes.
    pub(super) elsewhere: Vec<f64>,
    /// Streamed experts that have no slot: bytes of those that a row chooses with the same chance, and that chance.
    without_slot: Vec<(f64, f64)>,
    /// Whether any expert is streamed.
    pub(super) is_streamed: bool,
}

/// Where the experts of a plan lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) tiers: &'a ExpertTiers,
    /// Index of the device that holds the slots.
    pub(super) cache_device: Option<usize>,
    pub(super) n_devices: usize,
}

impl Traffic {
    /// The traffic of a model whose router chooses experts as often as `usage` says, or evenly where nothing is known. The
    /// slots of a layer hold those of its streamed experts that are chosen most: what a cache comes to.
    pub(super) fn new(needs: &ModelNeeds, places: Places<'_>, usage: Option<&Hotness>) -> Self {
        let layers = &needs.expert_layers;
        let streamed = layers.iter().map(|layer| {
            let tiers = tiers_of(layer, places.tiers);
            tiers.iter().filter(|tier| matches!(tier, Tier::Stream)).count() as u64
        });
        let streamed: Vec<u64> = streamed.collect();
        let slots = shares(&streamed, places.tiers.cache_slots);
        let mut traffic = Self {
            elsewhere: vec![0.0; places.n_devices],
            without_slot: Vec::new(),
            is_streamed: streamed.iter().any(|&n_streamed| n_streamed > 0),
        };
        for (layer, n_slots) in layers.iter().zip(slots) {
            traffic.add(layer, places, usage, n_slots);
        }
        traffic
    }

    /// Bytes read from a drive for a step of `n_rows` rows, each expert once.
    pub(super) fn missed(&self, n_rows: u32) -> f64 {
        let is_chosen = |chance: f64| 1.0 - (1.0 - chance).powf(f64::from(n_rows));
        self.without_slot.iter().map(|&(bytes, chance)| bytes * is_chosen(chance)).sum()
    }

    /// Adds a layer.
    fn add(
        &mut self,
        layer: &ExpertLayer,
        places: Places<'_>,
        usage: Option<&Hotness>,
        n_slots: u64,
    ) {
        let tiers = tiers_of(layer, places.tiers);
        if tiers.is_empty() {
            // A header may claim more experts than can be placed, or looked through.
            return;
        }
        let slot_bytes = layer.slot_bytes as f64;
        let mut streamed = Vec::new();
        for (tier, chance) in tiers.iter().zip(chances(layer, usage)) {
            match *tier {
                Tier::Primary => {}
                Tier::Secondary(device) => {
                    self.elsewhere[usize::from(device)] += slot_bytes * chance;
                }
                Tier::Stream => streamed.push(chance),
            }
        }
        if let Some(device) = places.cache_device {
            self.elsewhere[device] += slot_bytes * streamed.iter().sum::<f64>();
        }
        streamed.sort_by(|a, b| b.total_cmp(a));
        let n_slots = usize::try_from(n_slots).unwrap_or(usize::MAX);
        let without_slot = streamed.get(n_slots..).unwrap_or_default();
        let equal = without_slot.chunk_by(|a, b| a.total_cmp(b).is_eq());
        self.without_slot.extend(equal.map(|run| (slot_bytes * run.len() as f64, run[0])));
    }
}

/// The tiers of a layer's experts; none where the model has more than can be placed.
fn tiers_of<'a>(layer: &ExpertLayer, tiers: &'a ExpertTiers) -> &'a [Tier] {
    let first = (layer.layer as usize).saturating_mul(tiers.n_expert as usize);
    let own = tiers.tiers.get(first..).unwrap_or_default();
    &own[..own.len().min(layer.n_experts as usize)]
}

/// How probably a row chooses each expert of a layer. One that was never chosen yet may be, so each counts as chosen once
/// more than it was; without counts all are chosen alike.
fn chances(layer: &ExpertLayer, usage: Option<&Hotness>) -> Vec<f64> {
    let count = |expert| usage.map_or(0, |usage| usage.count(layer.layer, expert));
    let counts: Vec<f64> = (0..layer.n_experts).map(|expert| count(expert) as f64 + 1.0).collect();
    let n_used = f64::from(layer.n_used.min(layer.n_experts));
    let sum: f64 = counts.iter().sum();
    counts.into_iter().map(|count| (n_used * count / sum).min(1.0)).collect()
}

/// Slots of each layer, of `n_slots` for layers with these numbers of streamed experts: as equal as they can be, and none
/// more than it streams. What one cannot use goes to the others. This is how the store shares them.
fn shares(n_streamed: &[u64], n_slots: u64) -> Vec<u64> {
    let mut by_size: Vec<usize> = (0..n_streamed.len()).collect();
    by_size.sort_by_key(|&layer| n_streamed[layer]);
    let mut shares = vec![0; n_streamed.len()];
    let mut left = n_slots;
    for (n_done, &layer) in by_size.iter().enumerate() {
        // A rest that does not go round comes last.
        shares[layer] = n_streamed[layer].min(left / (n_streamed.len() - n_done) as u64);
        left -= shares[layer];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_shared_equally_as_far_as_a_layer_can_use_them() {
        let check = |n_streamed: &[u64], n_slots, expected: &[u64]| {
            assert_eq!(shares(n_streamed, n_slots), expected, "{n_slots} for {n_streamed:?}");
        };
        check(&[8, 8, 8], 12, &[4, 4, 4]);
        check(&[0, 2, 8, 8], 12, &[0, 2, 5, 5]);
        check(&[3, 2], 100, &[3, 2]);
        check(&[8, 8], 5, &[2, 3]);
        check(&[], 5, &[]);
    }

    #[test]
    fn chances_follow_the_counts_and_are_even_without() {
        let layer = ExpertLayer { layer: 1, n_experts: 4, n_used: 2, slot_bytes: 1 };
        assert_eq!(chances(&layer, None), [0.5; 4]);
        // Layer 0 is another one.
        let usage = Hotness::of_counts(&[9, 9, 9, 9, 2, 0, 0, 2], 4);
        assert_eq!(chances(&layer, Some(&usage)), [0.75, 0.25, 0.25, 0.75]);
        let one = Hotness::of_counts(&[0, 0, 0, 0, u64::MAX], 4);
        assert_eq!(chances(&layer, Some(&one))[0], 1.0);
    }
}
