//! Which experts are worth more than others, read from the text of an operator's files. Never reads a file, and never
//! places an expert.

mod files;

use std::fmt;
use std::sync::Arc;

use crate::needs::ModelNeeds;

pub use files::parse_router_bias;

/// What is known of the worth of experts. Nothing is known by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// The tier that each expert should have (`--placement`).
    pub placement: Option<Placement>,
    /// How often each was used (`--hotness`).
    pub hotness: Option<Hotness>,
    /// Those that must be resident beside the dense weights (`--protected-experts`).
    pub protected: Option<Protected>,
}

/// The tier that an expert should have. One that does not fit there drops to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// Resident on the device that owns the dense weights.
    Primary,
    /// Resident on another device.
    Secondary,
    /// Streamed.
    Stream,
}

/// A tier for each expert of each layer, those of layers without experts included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    n_experts: u32,
    owners: Arc<[Owner]>,
}

/// How often experts were used; 0 for those that were never seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hotness {
    /// Rising by layer and expert, each once.
    counts: Arc<[((u32, u32), u64)]>,
}

/// Experts that must be resident beside the dense weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    /// Layer and expert, rising, each once.
    ids: Arc<[(u32, u32)]>,
}

impl Placement {
    /// Reads `{"owners": ["primary"|"secondary"|"stream", …]}`, one for each expert at `layer * n_experts + expert` over
    /// all layers of the model.
    ///
    /// # Errors
    /// [`RankingError`] when it is no such object, has another number of owners or one that is no tier.
    pub fn parse(text: &str, needs: &ModelNeeds) -> Result<Self, RankingError> {
        let owners = files::owners(text, needs)?;
        Ok(Self { n_experts: needs.experts, owners: owners.into() })
    }

    /// The tier that an expert should have; resident where the placement does not reach.
    pub(crate) fn owner(&self, layer: u32, expert: u32) -> Owner {
        let at = (layer as usize).saturating_mul(self.n_experts as usize);
        let at = at.saturating_add(expert as usize);
        self.owners.get(at).copied().unwrap_or(Owner::Primary)
    }
}

impl Hotness {
    /// The first line that such a text may have, and that it has when frank wrote it.
    pub const HEADER: &str = "layer,expert,count";

    /// Reads lines of `layer,expert,count`; the first may be just that. Counts of lines for one expert are added up.
    ///
    /// # Errors
    /// [`RankingError`] when a line is no such line, or its expert does not exist.
    pub fn parse(text: &str, needs: &ModelNeeds) -> Result<Self, RankingError> {
        let counts = files::counts(text, needs)?;
        Ok(Self { counts: counts.into_iter().collect() })
    }

    /// Of `counts` at `layer * n_experts + expert`, those that are not 0.
    #[must_use]
    pub fn of_counts(counts: &[u64], n_experts: u32) -> Self {
        let n_experts = n_experts.max(1) as usize;
        // A model has fewer than 2^32 layers, and experts of one.
        let id = |at: usize| ((at / n_experts) as u32, (at % n_experts) as u32);
        let counts = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        Self { counts: counts.map(|(at, &count)| (id(at), count)).collect() }
    }

    /// The counts at `layer * n_experts + expert` for `n_layers` layers. For a model that is loaded: a header alone may
    /// claim more experts than there is memory for.
    #[must_use]
    pub fn to_counts(&self, n_layers: u32, n_experts: u32) -> Vec<u64> {
        let n_experts = n_experts as usize;
        let mut counts = vec![0; n_experts.saturating_mul(n_layers as usize)];
        for &((layer, expert), count) in &*self.counts {
            if let Some(place) = counts.get_mut(layer as usize * n_experts + expert as usize) {
                *place = count;
            }
        }
        counts
    }

    /// Whether no expert was used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How often an expert was used.
    pub(crate) fn count(&self, layer: u32, expert: u32) -> u64 {
        let found = self.counts.binary_search_by_key(&(layer, expert), |&(id, _)| id);
        found.map_or(0, |at| self.counts[at].1)
    }
}

/// As [`Hotness::parse`] reads it.
impl fmt::Display for Hotness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", Self::HEADER)?;
        let mut counts = self.counts.iter();
        counts.try_for_each(|((layer, expert), count)| {
            writeln!(formatter, "{layer},{expert},{count}")
        })
    }
}

impl Protected {
    /// Reads `{"<layer>": [expert, …], …}`.
    ///
    /// # Errors
    /// [`RankingError`] when it is no such object, or an expert does not exist.
    pub fn parse(text: &str, needs: &ModelNeeds) -> Result<Self, RankingError> {
        let ids = files::protected(text, needs)?;
        Ok(Self { ids: ids.into_iter().collect() })
    }

    /// Whether an expert must be resident.
    pub(crate) fn contains(&self, layer: u32, expert: u32) -> bool {
        self.ids.binary_search(&(layer, expert)).is_ok()
    }
}

/// Why a text does not rank the experts of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RankingError {
    /// Not what such a file looks like.
    #[error("line {line}: {message}")]
    Malformed {
        /// Line of the text, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// No expert is named.
    #[error("it names no expert, and so it has no effect")]
    Empty,
    /// Not one entry for each expert of each layer.
    #[error("{got} {unit}, {expected} expected ({n_layers} layers of {n_experts} experts)")]
    WrongLength {
        /// What is counted.
        unit: &'static str,
        /// How many there are.
        got: u64,
        /// How many there should be.
        expected: u64,
        /// Layers of the model.
        n_layers: u32,
        /// Experts of each.
        n_experts: u32,
    },
    /// An owner that is no tier.
    #[error("owner {index} is `{word}`; primary, secondary and stream are known")]
    UnknownOwner {
        /// Its place among the owners, from 0.
        index: usize,
        /// What it says.
        word: String,
    },
    /// A key that is no number of a layer.
    #[error("`{word}` is not the number of a layer")]
    NotALayer {
        /// The key.
        word: String,
    },
    /// A layer that the model lacks.
    #[error("layer {layer} is out of range: the model has {n_layers} layers")]
    LayerOutOfRange {
        /// The layer.
        layer: u64,
        /// Layers of the model.
        n_layers: u32,
    },
    /// An expert that its layer lacks.
    #[error("expert {expert} of layer {layer} is out of range: the layer has {n_experts} experts")]
    ExpertOutOfRange {
        /// The layer.
        layer: u32,
        /// The expert.
        expert: u64,
        /// Experts of the layer.
        n_experts: u32,
    },
    /// A layer that has no routed experts.
    #[error("layer {layer} has no experts")]
    NoExperts {
        /// The layer.
        layer: u32,
    },
    /// A bias that is no number.
    #[error("the bias of expert {expert} of layer {layer} is {value}, not a finite number")]
    NotFinite {
        /// The layer.
        layer: u32,
        /// The expert.
        expert: u32,
        /// What it is, in words.
        value: String,
    },
}
