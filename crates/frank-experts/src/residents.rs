//! The experts that stay in memory: a buffer for each device, filled once. Never evicts.

use std::sync::{Mutex, PoisonError};

use frank_kernels::Pool;
use frank_os::{AnonBuffer, HUGE_PAGE_BYTES, OsError, populate};
use frank_plan::Tier;

use crate::error::StoreError;
use crate::fetches::{Failed, Fetch, Fetches, Purpose};
use crate::statistics::StoreStatistics;
use crate::table::ExpertTable;

/// Devices that a [`Tier`] can name: the primary one and those of an index.
const N_DEVICES: usize = 2 + u8::MAX as usize;

/// Bytes that are given memory at a time, before what has been read is written there: more reads are under way meanwhile.
const POPULATE_BYTES: usize = 2 * HUGE_PAGE_BYTES as usize;

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
        fetches: &mut Fetches,
        pool: &mut Pool,
        counts: &mut StoreStatistics,
    ) -> Result<(), StoreError> {
        let Self { homes, memory } = self;
        for (device, memory) in memory.iter_mut().enumerate() {
            let before = fetches.queue().busy();
            let bytes = load(table, experts_of(homes, device), fetches, pool, memory)?;
            let (read, time) = match device {
                0 => (&mut counts.primary_bytes_read, &mut counts.primary_read_time),
                _ => (&mut counts.secondary_bytes_read, &mut counts.secondary_read_time),
            };
            *read += bytes;
            *time += fetches.queue().busy().saturating_sub(before);
        }
        counts.reread = fetches.queue().n_reread();
        Ok(())
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

/// The resident experts of `device`: `(position in the table, expert, start)`.
fn experts_of(homes: &[Vec<Home>], device: usize) -> impl Iterator<Item = (usize, u32, usize)> {
    let experts = homes.iter().enumerate().flat_map(|(position, homes)| {
        (0..).zip(homes).map(move |(expert, home)| (position, expert, home))
    });
    experts.filter_map(move |(position, expert, home)| match *home {
        Home::Resident { device: its, start } if usize::from(its) == device => {
            Some((position, expert, start))
        }
        Home::Resident { .. } | Home::Streamed => None,
    })
}

/// Reads experts to their places in `memory`, which ascend; gives the bytes that were read.
fn load(
    table: &ExpertTable,
    mut experts: impl Iterator<Item = (usize, u32, usize)>,
    fetches: &mut Fetches,
    pool: &mut Pool,
    memory: &mut AnonBuffer,
) -> Result<u64, StoreError> {
    let (mut n_bytes, mut n_populated, mut waiting) = (0, 0, None);
    loop {
        while waiting.is_none_or(|id| fetches.start(table, id)) {
            waiting = experts.next().map(|(position, expert, start)| {
                let id = fetches.add(position, expert, Purpose::Load);
                fetches.get_mut(id).start = Some(start);
                id
            });
            if waiting.is_none() {
                break;
            }
        }
        let chosen = fetches.choose(|_, _| true);
        let any = !chosen.is_empty();
        let ends = chosen.iter().map(|arrived| {
            let &Fetch { position, start, .. } = fetches.get(arrived.fetch);
            start.unwrap_or(0) + table.layers[position].slot_bytes()
        });
        populate_to(ends.max().unwrap_or(0), &mut n_populated, memory.as_mut_slice(), pool)?;
        fetches.pack(table, pool, memory.as_mut_slice(), chosen, |_, fetch| n_bytes += fetch.bytes);
        if fetches.is_empty() {
            return Ok(n_bytes);
        }
        fetches.submit();
        fetches.take(!any).map_err(|Failed { fetch, source }| {
            let fetch = fetches.get(fetch);
            let layer = table.layers[fetch.position].layer;
            StoreError::Read { layer, expert: fetch.expert, source }
        })?;
    }
}

/// Gives `memory` its pages up to byte `end` and some further, by all threads of `pool`; the first `n_populated` bytes have
/// theirs.
fn populate_to(
    end: usize,
    n_populated: &mut usize,
    memory: &mut [u8],
    pool: &mut Pool,
) -> Result<(), OsError> {
    if end <= *n_populated {
        return Ok(());
    }
    let end = end.next_multiple_of(POPULATE_BYTES).min(memory.len());
    let shares = memory[*n_populated..end].chunks_mut(HUGE_PAGE_BYTES as usize);
    let shares: Vec<_> = shares.map(|share| Mutex::new((share, Ok(())))).collect();
    pool.run(shares.len(), &|share| {
        let mut share = shares[share].lock().unwrap_or_else(PoisonError::into_inner);
        share.1 = populate(share.0);
    });
    *n_populated = end;
    let mut ended = shares.into_iter().map(Mutex::into_inner);
    ended.try_for_each(|share| share.unwrap_or_else(PoisonError::into_inner).1)
}
