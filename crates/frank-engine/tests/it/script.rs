//! A model without arithmetic: the next token is the last one plus one, or says what it found in the cache. Every step
//! can be held.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frank_models::{Batch, KvGroup, Model};

pub(crate) const N_VOCAB: usize = 1000;

/// A token whose step panics.
pub(crate) const POISON: u32 = 666;

/// After a token from here on, the next one says what the row found in all groups of the cache, as far back as each
/// reaches, and is not below this either.
pub(crate) const RECALL: u32 = 800;

/// What one step was given.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) token_ids: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) n_outputs: usize,
}

/// Lets a test watch the steps and, when `held`, allow them one by one.
pub(crate) struct Controls {
    pub(crate) steps: Arc<Mutex<Vec<Step>>>,
    permits: Option<Sender<()>>,
}

impl Controls {
    /// Allows `n` more steps of a held model.
    pub(crate) fn allow(&self, n: usize) {
        let permits = self.permits.as_ref().expect("a held model");
        (0..n).for_each(|_| permits.send(()).expect("the model lives"));
    }
}

pub(crate) struct Script {
    n_rows_max: usize,
    steps: Arc<Mutex<Vec<Step>>>,
    permits: Option<Receiver<()>>,
    groups: Vec<KvGroup>,
    /// Which prefix of which sequence lies in which slot of the cache, by a hash of all its tokens: a row must find
    /// its own sequence's earlier tokens there, as far back as the window of the group reaches.
    cache: HashMap<(usize, u32, u32), u64>,
}

/// A group of the KV cache.
pub(crate) fn group(window: Option<usize>, n_blocks: u32) -> KvGroup {
    KvGroup { window, n_blocks, block_bytes: 32 * 8 }
}

impl Script {
    pub(crate) fn model(n_rows_max: usize, held: bool) -> (Box<dyn Model>, Controls) {
        Self::with_groups(n_rows_max, held, vec![group(None, 8)])
    }

    pub(crate) fn with_groups(
        n_rows_max: usize,
        held: bool,
        groups: Vec<KvGroup>,
    ) -> (Box<dyn Model>, Controls) {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = channel();
        let (permits_in, permits_out) =
            if held { (Some(sender), Some(receiver)) } else { (None, None) };
        let script = Self {
            n_rows_max,
            steps: Arc::clone(&steps),
            permits: permits_out,
            groups,
            cache: HashMap::new(),
        };
        (Box::new(script), Controls { steps, permits: permits_in })
    }

    /// The hash of a prefix: of the one before it and the token that makes it longer.
    fn prefix(before: u64, token_id: u32) -> u64 {
        let mut hasher = DefaultHasher::new();
        (before, token_id).hash(&mut hasher);
        hasher.finish()
    }

    /// Puts each row in its slots, where those before it must be, and returns what each found.
    fn remember(&mut self, batch: &Batch<'_>) -> Vec<u64> {
        let rows = batch.token_ids.iter().zip(batch.positions).zip(batch.sequences);
        let mut found = Vec::with_capacity(batch.n_rows());
        for ((&token_id, &position), &sequence) in rows {
            let mut found_by_row = 0;
            for (group, tables) in batch.block_tables.iter().enumerate() {
                let slot = |at: u32| (group, tables[sequence][at as usize / 32], at % 32);
                let find = |at: u32| {
                    let found = self.cache.get(&slot(at)).copied();
                    found.unwrap_or_else(|| panic!("group {group}: {position} came before {at}"))
                };
                let before = position.checked_sub(1).map_or(0, find);
                let window = self.groups[group].window.map_or(u32::MAX, |window| window as u32);
                let oldest = (position + 1).saturating_sub(window);
                let oldest = if oldest < position { find(oldest) } else { 0 };
                let own = Self::prefix(before, token_id);
                found_by_row = Self::prefix(found_by_row ^ own, oldest as u32);
                self.cache.insert(slot(position), own);
            }
            found.push(found_by_row);
        }
        found
    }
}

impl Model for Script {
    fn n_vocab(&self) -> usize {
        N_VOCAB
    }

    fn n_rows_max(&self) -> usize {
        self.n_rows_max
    }

    fn n_outputs_max(&self) -> usize {
        self.n_rows_max
    }

    fn kv_groups(&self) -> &[KvGroup] {
        &self.groups
    }

    fn copy_block(&mut self, group: usize, from: u32, to: u32) {
        for slot in 0..32 {
            match self.cache.get(&(group, from, slot)).copied() {
                Some(prefix) => self.cache.insert((group, to, slot), prefix),
                None => self.cache.remove(&(group, to, slot)),
            };
        }
    }

    fn read_block(&self, group: usize, block: u32, out: &mut [u8]) {
        for (slot, bytes) in (0..).zip(out.chunks_exact_mut(8)) {
            let prefix = self.cache.get(&(group, block, slot)).copied().unwrap_or_default();
            bytes.copy_from_slice(&prefix.to_le_bytes());
        }
    }

    fn write_block(&mut self, group: usize, block: u32, bytes: &[u8]) {
        for (slot, bytes) in (0..).zip(bytes.chunks_exact(8)) {
            let prefix = u64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
            self.cache.insert((group, block, slot), prefix);
        }
    }

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]) {
        let free = self.permits.as_ref().is_some_and(|permits| permits.recv().is_err());
        if free {
            // A test that ends drops its side; the last steps then run freely.
            self.permits = None;
        }
        assert!(!batch.token_ids.contains(&POISON), "the poisoned token");
        let found = self.remember(batch);
        self.steps.lock().expect("no test panics while it looks").push(Step {
            token_ids: batch.token_ids.to_vec(),
            positions: batch.positions.to_vec(),
            n_outputs: batch.output_rows.len(),
        });
        logits.fill(0.0);
        for (&row, logits) in batch.output_rows.iter().zip(logits.chunks_exact_mut(N_VOCAB)) {
            let token_id = batch.token_ids[row];
            let next = if token_id < RECALL {
                token_id as usize + 1
            } else {
                RECALL as usize + found[row] as usize % (N_VOCAB - RECALL as usize)
            };
            logits[next] = 50.0;
        }
    }
}

/// Waits for what another thread is about to do; a minute means that it will not.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::yield_now();
    }
}
