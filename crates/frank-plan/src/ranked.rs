//! The routed experts of a model in the order in which they get memory. Never looks at a machine.

use std::cmp::Reverse;
use std::ops::Range;

use crate::needs::{ExpertLayer, ModelNeeds};
use crate::ranking::{Owner, Ranking};
use crate::tiers::{ExpertTiers, Tier};

/// A plan says of each expert where it lies, so there is a bound on their number: 40 times as many as the largest
/// models of 2026 have.
pub const EXPERTS_MAX: u64 = 1 << 20;

/// The experts of a model, those first that are worth most. Of equal worth are first those of lower numbers in all
/// layers, so that each layer has its share of what is resident.
#[derive(Debug)]
pub(crate) struct Ranked {
    /// Layers that have places in [`ExpertTiers::tiers`].
    n_layers: u32,
    n_expert: u32,
    /// Experts that there would be if every layer had as many as the one with most.
    pub(crate) n_places: u64,
    /// Experts of all layers, which may be more than can be ranked.
    pub(crate) count: u64,
    /// Places in [`ExpertTiers::tiers`], by rank.
    places: Vec<u32>,
    /// Bytes of all experts before a rank, and of all of them at the end. Rises, and saturates.
    sums: Vec<u64>,
    /// Bytes of the largest expert from a rank on; 0 at the end.
    largest: Vec<u64>,
    /// Experts that must lie beside the dense weights.
    pub(crate) n_protected: usize,
    /// Experts that may lie there, those included.
    pub(crate) n_primary: usize,
    /// Experts that may be resident anywhere, those included.
    pub(crate) n_resident: usize,
    /// Slots that one token needs when all are streamed.
    pub(crate) floor_slots: u64,
}

/// One expert before it is ranked.
struct Candidate {
    layer: ExpertLayer,
    expert: u32,
    /// The first of these that must go before others: protected, primary, secondary, stream.
    class: u8,
    count: u64,
}

impl Ranked {
    /// Ranks the experts of `needs`; none where they are too many or the header does not tell them apart.
    pub(crate) fn new(needs: &ModelNeeds, ranking: &Ranking) -> Self {
        let layers = &needs.expert_layers;
        let n_expert = layers.iter().map(|layer| layer.n_experts).fold(needs.experts, u32::max);
        let floor = layers.iter().map(|layer| u64::from(layer.n_used.max(1).min(layer.n_experts)));
        // A header may list more layers with experts than it has layers; these are looked through all the same.
        let n_layers = u64::from(needs.layers).max(layers.len() as u64);
        let mut ranked = Self {
            n_layers: needs.layers,
            n_expert,
            n_places: n_layers.saturating_mul(u64::from(n_expert)),
            count: count(needs),
            places: Vec::new(),
            sums: vec![0],
            largest: vec![0],
            n_protected: 0,
            n_primary: 0,
            n_resident: 0,
            floor_slots: floor.fold(0, u64::saturating_add),
        };
        if !layers.is_empty() && ranked.is_countable() {
            ranked.rank(candidates(needs, ranking));
        }
        ranked
    }

    /// Whether there are no more experts than a plan can place.
    pub(crate) fn is_countable(&self) -> bool {
        self.n_places <= EXPERTS_MAX
    }

    fn rank(&mut self, mut candidates: Vec<Candidate>) {
        candidates.sort_by_key(|Candidate { layer, expert, class, count }| {
            (*class, Reverse(*count), *expert, layer.layer)
        });
        let up_to = |class| candidates.partition_point(|candidate| candidate.class <= class);
        (self.n_protected, self.n_primary, self.n_resident) = (up_to(0), up_to(1), up_to(2));
        let mut sum = 0u64;
        for Candidate { layer, expert, .. } in &candidates {
            self.places.push(layer.layer.saturating_mul(self.n_expert).saturating_add(*expert));
            sum = sum.saturating_add(layer.slot_bytes);
            self.sums.push(sum);
        }
        self.largest.resize(candidates.len() + 1, 0);
        for (rank, candidate) in candidates.iter().enumerate().rev() {
            self.largest[rank] = self.largest[rank + 1].max(candidate.layer.slot_bytes);
        }
    }

    /// Experts that were ranked.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of the experts of these ranks.
    pub(crate) fn bytes(&self, ranks: Range<usize>) -> u64 {
        match self.sums[ranks.end] {
            u64::MAX if !ranks.is_empty() => u64::MAX,
            sum => sum - self.sums[ranks.start],
        }
    }

    /// Bytes of the largest expert from rank `start` on.
    pub(crate) fn largest(&self, start: usize) -> u64 {
        self.largest[start]
    }

    /// The last rank up to `most` so that the experts from `start` to before it take at most `bytes`.
    pub(crate) fn end_within(&self, start: usize, most: usize, bytes: u64) -> usize {
        let most = most.max(start);
        start
            + self.sums[start + 1..=most]
                .partition_point(|&sum| sum < u64::MAX && sum - self.sums[start] <= bytes)
    }

    /// Where every expert lies when `tier` says it for ranks.
    pub(crate) fn tiers(&self, tier: impl Fn(usize) -> Tier) -> ExpertTiers {
        if !self.is_countable() {
            return ExpertTiers::default();
        }
        let mut tiers = ExpertTiers::resident(self.n_layers, self.n_expert);
        for (rank, &place) in self.places.iter().enumerate() {
            if let Some(entry) = tiers.tiers.get_mut(place as usize) {
                *entry = tier(rank);
            }
        }
        tiers
    }
}

/// Experts of all layers.
fn count(needs: &ModelNeeds) -> u64 {
    if needs.expert_layers.is_empty() {
        let all = u64::from(needs.layers) * u64::from(needs.experts);
        return if needs.expert_bytes == 0 { 0 } else { all };
    }
    let counts = needs.expert_layers.iter().map(|layer| u64::from(layer.n_experts));
    counts.fold(0, u64::saturating_add)
}

fn candidates(needs: &ModelNeeds, ranking: &Ranking) -> Vec<Candidate> {
    let most = needs.expert_layers.iter().map(|layer| layer.n_experts).max().unwrap_or(0);
    let ids =
        (0..most).flat_map(|expert| needs.expert_layers.iter().map(move |layer| (layer, expert)));
    let ids = ids.filter(|(layer, expert)| *expert < layer.n_experts);
    ids.map(|(layer, expert)| candidate(*layer, expert, ranking)).collect()
}

fn candidate(layer: ExpertLayer, expert: u32, ranking: &Ranking) -> Candidate {
    let Ranking { placement, hotness, protected } = ranking;
    let id = layer.layer;
    let is_protected = protected.as_ref().is_some_and(|protected| protected.contains(id, expert));
    let owner = placement.as_ref().map_or(Owner::Primary, |placement| placement.owner(id, expert));
    let class = match owner {
        _ if is_protected => 0,
        Owner::Primary => 1,
        Owner::Secondary => 2,
        Owner::Stream => 3,
    };
    let count = hotness.as_ref().map_or(0, |hotness| hotness.count(id, expert));
    Candidate { layer, expert, class, count }
}
