//! A model without arithmetic: the next token is the last one plus one, or says what it found in the cache. Every step
//! can be held.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frank_experts::{StoreError, StoreStatistics};
use frank_models::{Batch, KvGroup, Model, StepError};
use frank_os::OsError;

pub(crate) const N_VOCAB: usize = 1000;

/// A token whose step panics.
pub(crate) const POISON: u32 = 666;

/// A token whose rows need an expert that cannot be read while [`Controls::break_reads`] says so.
pub(crate) const UNREAD: u32 = 700;

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
    drive: Arc<Mutex<Drive>>,
}

/// What a model with experts reads from.
#[derive(Debug, Default)]
pub(crate) struct Drive {
    /// Reads that fail from now on.
    pub(crate) n_failing: usize,
    /// Whether only rows of [`UNREAD`] read.
    spares_others: bool,
    /// Pieces of work ahead that are left, once a permit was had for each.
    n_ahead: usize,
    /// `i` for each piece of work ahead, `s` for each step.
    pub(crate) order: String,
    /// What the model says of its experts.
    pub(crate) experts: Option<StoreStatistics>,
}

impl Controls {
    /// Lets the next `n` reads fail.
    pub(crate) fn break_reads(&self, n: usize) {
        self.drive().n_failing = n;
    }

    /// Lets the next `n` reads of rows with [`UNREAD`] fail, and no other.
    pub(crate) fn break_own_reads(&self, n: usize) {
        *self.drive() = Drive { n_failing: n, spares_others: true, ..Drive::default() };
    }

    /// Gives the model something to do ahead, so many pieces. Each takes a permit when the model is held.
    pub(crate) fn add_work_ahead(&self, n: usize) {
        self.drive().n_ahead = n;
    }

    pub(crate) fn drive(&self) -> MutexGuard<'_, Drive> {
        self.drive.lock().expect("no test panics while it looks")
    }

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
    drive: Arc<Mutex<Drive>>,
    /// How often each of two experts was chosen: for even tokens and for odd ones.
    usage: [u64; 2],
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
        let drive = Arc::<Mutex<Drive>>::default();
        let script = Self {
            drive: Arc::clone(&drive),
            usage: [0; 2],
            n_rows_max,
            steps: Arc::clone(&steps),
            permits: permits_out,
            groups,
            cache: HashMap::new(),
        };
        (Box::new(script), Controls { steps, permits: permits_in, drive })
    }

    fn wait_for_permit(&mut self) {
        let free = self.permits.as_ref().is_some_and(|permits| permits.recv().is_err());
        if free {
            // A test that ends drops its side; the last steps then run freely.
            self.permits = None;
        }
    }

    /// Reads what the rows need.
    fn read(&mut self, batch: &Batch<'_>) -> Result<(), StepError> {
        let mut drive = self.drive.lock().expect("no test panics while it looks");
        drive.order.push('s');
        let reads = !drive.spares_others || batch.token_ids.contains(&UNREAD);
        if drive.n_failing > 0 && reads {
            drive.n_failing -= 1;
            return Err(unread());
        }
        if let Some(experts) = &mut drive.experts {
            experts.misses += batch.n_rows() as u64;
            for &token_id in batch.token_ids {
                self.usage[token_id as usize % 2] += 1;
            }
        }
        Ok(())
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

    fn expert_statistics(&self) -> Option<StoreStatistics> {
        self.drive.lock().expect("no test panics while it looks").experts
    }

    fn expert_usage(&self) -> Option<&[u64]> {
        self.expert_statistics().map(|_| self.usage.as_slice())
    }

    fn idle(&mut self) -> bool {
        if self.drive.lock().expect("no test panics while it looks").n_ahead == 0 {
            return false;
        }
        self.wait_for_permit();
        let mut drive = self.drive.lock().expect("no test panics while it looks");
        drive.order.push('i');
        drive.n_ahead -= 1;
        drive.n_ahead > 0
    }

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]) -> Result<(), StepError> {
        self.wait_for_permit();
        assert!(!batch.token_ids.contains(&POISON), "the poisoned token");
        // Whatever was found when a step fails is written over: nothing of it may be seen.
        let found = self.remember(batch);
        self.read(batch)?;
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
        Ok(())
    }
}

/// What a model says that cannot read an expert.
fn unread() -> StepError {
    let source = OsError::Read {
        path: "model.gguf".into(),
        offset: 4096,
        want: 512,
        source: std::io::Error::from_raw_os_error(5),
    };
    StoreError::Read { layer: 2, expert: 7, source }.into()
}

/// Waits for what another thread is about to do; a minute means that it will not.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::yield_now();
    }
}
