//! Where each routed expert lies, one by one. Never decides it.

/// Where one routed expert lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Resident on the device that owns the dense weights.
    Primary,
    /// Resident on another device, by its index in [`crate::Plan::devices`].
    Secondary(u8),
    /// Read from a drive into a slot of the stream cache when it is needed.
    Stream,
}

/// The tier of every routed expert of a model, and the stream cache. Empty for a dense model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpertTiers {
    /// Experts of one layer: the most that any layer has.
    pub n_expert: u32,
    /// One for each expert of each layer of the model, at `layer * n_expert + expert`. Layers without experts have
    /// entries too, which say [`Tier::Primary`] and mean nothing.
    pub tiers: Vec<Tier>,
    /// Slots that streamed experts share; 0 when none is streamed.
    pub cache_slots: u64,
    /// Bytes of one slot, as large as the largest streamed expert; 0 when none is streamed.
    pub slot_bytes: u64,
}

impl ExpertTiers {
    /// `n_layers` layers of `n_expert` experts that are all resident beside the dense weights.
    #[must_use]
    pub fn resident(n_layers: u32, n_expert: u32) -> Self {
        let n_tiers = (n_layers as usize).saturating_mul(n_expert as usize);
        Self { n_expert, tiers: vec![Tier::Primary; n_tiers], cache_slots: 0, slot_bytes: 0 }
    }

    /// The tier of an expert; `None` past the last layer or expert.
    #[must_use]
    pub fn get(&self, layer: u32, expert: u32) -> Option<Tier> {
        let at = (layer as usize).checked_mul(self.n_expert as usize)?;
        let at = at.checked_add(expert as usize).filter(|_| expert < self.n_expert)?;
        self.tiers.get(at).copied()
    }
}
