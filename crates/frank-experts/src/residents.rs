//! The experts that stay in memory: a buffer for each device, filled once. Never evicts.

use frank_os::{AnonBuffer, OsError};
use frank_plan::Tier;

use crate::error::StoreError;
use crate::reading::{PartRead, Readers, reads};
use crate::table::{ExpertTable, LayerExperts};

/// Devices that a [`Tier`] can name: the primary one and those of an index.
const N_DEVICES: usize = 2 + u8::MAX as usize;

/// Where an expert is found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Home {
    /// In the buffer of `device`, from byte `start`.
    Resident { device: u16, start: usize },
    /// In a slot, or in its file.
    Streamed,
}

impl Home {
    pub(crate) fn is_streamed(self) -> bool {
        matches!(self, Self::Streamed)
    }
}

/// The place of every expert, and the memory of those that are resident.
#[derive(Debug)]
pub(crate) struct Residents {
    /// `[layers of the table][experts]`.
    homes: Vec<Vec<Home>>,
    /// One for each device; empty where no expert lies.
    memory: Vec<AnonBuffer>,
}

impl Residents {
    /// Gives every expert its home. `tiers` has one for each expert, `[n_layers * n_experts]`.
    ///
    /// Takes no memory yet, only addresses for it.
    /// # Errors
    /// When there are not so many addresses.
    pub(crate) fn new(table: &ExpertTable, tiers: &[Tier]) -> Result<Self, OsError> {
        let per_layer = tiers.len() / table.n_layers.max(1);
        let mut bytes = [0u64; N_DEVICES];
        let mut homes = Vec::with_capacity(table.layers.len());
        for layer in &table.layers {
            let tiers = &tiers[layer.layer as usize * per_layer..][..layer.n_experts as usize];
            let slot_bytes = layer.slot_bytes() as u64;
            homes.push(tiers.iter().map(|&tier| place(tier, slot_bytes, &mut bytes)).collect());
        }
        let n_devices = bytes.iter().rposition(|&bytes| bytes > 0).map_or(0, |last| last + 1);
        let memory: Result<Vec<_>, _> =
            bytes[..n_devices].iter().map(|&n| AnonBuffer::new(n)).collect();
        Ok(Self { homes, memory: memory? })
    }

    /// Takes the memory and reads all resident experts of `table`, from which the homes were made.
    pub(crate) fn load(
        &mut self,
        table: &ExpertTable,
        readers: &mut Readers,
    ) -> Result<(), StoreError> {
        let Self { homes, memory } = self;
        memory.iter_mut().try_for_each(AnonBuffer::populate)?;
        let all = memory.iter_mut().enumerate();
        let reads = all.flat_map(|(device, memory)| {
            resident_reads(table, homes, device, memory.as_mut_slice())
        });
        readers.read_all(reads)
    }

    /// The homes of the experts of the layer at `position` in the table.
    pub(crate) fn homes(&self, position: usize) -> &[Home] {
        &self.homes[position]
    }

    /// Bytes of memory that all buffers occupy.
    pub(crate) fn occupied(&self) -> u64 {
        self.memory.iter().map(|memory| AnonBuffer::occupied(memory.len() as u64)).sum()
    }

    /// `len` bytes of the buffer of `device`.
    pub(crate) fn bytes(&self, device: u16, start: usize, len: usize) -> &[u8] {
        &self.memory[usize::from(device)].as_slice()[start..][..len]
    }
}

/// The next place on the device of `tier`, on which `bytes` are taken so far.
fn place(tier: Tier, slot_bytes: u64, bytes: &mut [u64; N_DEVICES]) -> Home {
    let device = match tier {
        Tier::Primary => 0,
        Tier::Secondary(index) => 1 + u16::from(index),
        Tier::Stream => return Home::Streamed,
    };
    let taken = &mut bytes[usize::from(device)];
    // A sum that saturates is more memory than there can be: the buffer is refused, and no place in it is used.
    let start = *taken as usize;
    *taken = taken.saturating_add(slot_bytes);
    Home::Resident { device, start }
}

/// Reads of all experts of `device`, whose slots follow each other in `memory`.
fn resident_reads<'a>(
    table: &'a ExpertTable,
    homes: &'a [Vec<Home>],
    device: usize,
    memory: &'a mut [u8],
) -> impl Iterator<Item = PartRead<'a>> {
    let mut rest = memory;
    experts_of(table, homes, device).flat_map(move |(layer, expert)| {
        let (slot, tail) = std::mem::take(&mut rest).split_at_mut(layer.slot_bytes());
        rest = tail;
        reads(layer, expert, slot)
    })
}

fn experts_of<'a>(
    table: &'a ExpertTable,
    homes: &'a [Vec<Home>],
    device: usize,
) -> impl Iterator<Item = (&'a LayerExperts, u32)> {
    let layers = table.layers.iter().zip(homes);
    let experts =
        layers.flat_map(|(layer, homes)| (0..).zip(homes).map(move |(e, home)| (layer, e, home)));
    experts.filter_map(move |(layer, expert, home)| match *home {
        Home::Resident { device: its, .. } if usize::from(its) == device => Some((layer, expert)),
        Home::Resident { .. } | Home::Streamed => None,
    })
}
