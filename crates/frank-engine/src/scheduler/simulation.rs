//! A seeded simulation: clients that submit, leave, share prefixes and panic, over a model of the memory in which each
//! slot says which prefix of which scope lies there, and of a disk. Every seed is a machine of its own; a failure names it.

use std::collections::{BTreeMap, BTreeSet};

use frank_models::KvGroup;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Action, Job, Limits, RequestId, RowsOutcome, Running, Scheduler, StepRows};
use crate::disk_cache::EntryKey;
use crate::kv_cache::PAGE_TOKENS;
use crate::prefix_cache::PageKey;

const N_CTX: usize = 200;

/// Events of one seed; 16 seeds make a million.
const N_EVENTS: usize = 62_500;

/// Events between two looks at everything.
const FULL_AUDIT: usize = 500;

/// What no token writes.
const GARBAGE: u64 = u64::MAX;

/// What a slot holds after the token that makes a prefix longer.
fn extend(prefix: u64, token_id: u32) -> u64 {
    (prefix ^ u64::from(token_id)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) + 1
}

struct Client {
    /// What a slot holds before the first token.
    scope: u64,
    prompt: Vec<u32>,
    /// What it was given so far.
    answer: Vec<u32>,
    max_tokens: usize,
    leader: Option<RequestId>,
    /// Steps in which it had a place but no row, since the last in which it had one.
    n_waiting_steps: usize,
    n_steps_queued: usize,
}

impl Client {
    /// What each slot of its sequence has to hold.
    fn prefixes(&self) -> Vec<u64> {
        let tokens = self.prompt.iter().chain(&self.answer);
        tokens
            .scan(self.scope, |prefix, &token_id| {
                *prefix = extend(*prefix, token_id);
                Some(*prefix)
            })
            .collect()
    }
}

struct World {
    rng: ChaCha8Rng,
    limits: Limits,
    scheduler: Scheduler,
    windows: Vec<Option<usize>>,
    /// `[group][block][slot]`.
    memory: Vec<Vec<[u64; PAGE_TOKENS]>>,
    clients: BTreeMap<RequestId, Client>,
    /// What lies on the disk of every second four seeds, which forgets and fails now and then.
    disk: Option<BTreeMap<EntryKey, [u64; PAGE_TOKENS]>>,
    /// Beginnings that prompts share; conversations that ended are among them.
    documents: Vec<Vec<u32>>,
    n_ended: usize,
    /// Blocks that came from the disk.
    n_filled: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let windows =
            [vec![None], vec![None, Some(40)], vec![Some(33)], vec![None, Some(1), Some(70)]];
        let windows = windows[usize::try_from(seed).expect("a small number") % 4].clone();
        let has_disk = seed / 4 % 2 == 1;
        let n_parallel = rng.random_range(1..=6);
        let n_rows_max = n_parallel + rng.random_range(0..60);
        let limits = Limits { n_parallel, n_queue: rng.random_range(0..8), n_rows_max };
        let group = |&window: &Option<usize>| {
            let number = |n: usize| u32::try_from(n).expect("a small number");
            let needed = frank_plan::kv_request_blocks(
                window.map(number),
                number(N_CTX),
                number(n_rows_max),
            );
            let needed = usize::try_from(needed).expect("a small number");
            // With little memory more comes from the disk.
            let most = if has_disk { 2 } else { n_parallel + 2 };
            let n_blocks = number(rng.random_range(needed..=needed * most));
            KvGroup { window, n_blocks, block_bytes: 0 }
        };
        let groups: Vec<_> = windows.iter().map(group).collect();
        let block = [GARBAGE; PAGE_TOKENS];
        let memory = groups.iter().map(|group| vec![block; group.n_blocks as usize]).collect();
        let documents =
            (0..12).map(|_| (0..N_CTX).map(|_| rng.random_range(0..3)).collect()).collect();
        let mut scheduler = Scheduler::new(limits, &groups);
        let disk = has_disk.then(|| {
            scheduler.use_disk();
            BTreeMap::new()
        });
        let (clients, n_ended, n_filled) = (BTreeMap::new(), 0, 0);
        Self {
            rng,
            limits,
            scheduler,
            windows,
            memory,
            clients,
            disk,
            documents,
            n_ended,
            n_filled,
        }
    }

    fn run(&mut self, n_events: usize) {
        for event in 0..n_events {
            match self.rng.random_range(0..10) {
                0..3 => self.submit(),
                3 => self.cancel(),
                _ => self.step(),
            }
            if event % FULL_AUDIT == 0 {
                self.audit();
            }
        }
        let mut n_steps = 0;
        while !self.clients.is_empty() {
            self.step();
            n_steps += 1;
            assert!(n_steps < 20 * N_CTX, "{} requests never end", self.clients.len());
        }
        self.audit();
        assert!(self.scheduler.kv().groups.iter().all(|group| group.used() == 0));
    }

    fn submit(&mut self) {
        let n = if self.rng.random_ratio(1, 5) { self.rng.random_range(2..5) } else { 1 };
        let (scope, prompt) = (self.rng.random_range(0..4), self.prompt());
        let max_tokens = self.rng.random_range(1..=(N_CTX - prompt.len()).min(50));
        let root = (scope > 0).then(|| PageKey::root(&[scope; 32]));
        let job = Job { prompt: prompt.clone(), max_tokens, root };
        let bound = self.limits.n_queue + self.limits.n_parallel - self.scheduler.running().len();
        let has_room = self.scheduler.n_waiting() + n <= bound;
        let ids = self.scheduler.submit(vec![job; n]);
        assert_eq!(ids.is_ok(), has_room, "the queue has a bound, and what is below it is taken");
        let ids = ids.unwrap_or_default();
        for &id in &ids {
            let client = Client {
                scope: u64::from(scope),
                prompt: prompt.clone(),
                answer: Vec::new(),
                max_tokens,
                leader: ids.first().copied().filter(|&leader| leader != id),
                n_waiting_steps: 0,
                n_steps_queued: 0,
            };
            self.clients.insert(id, client);
        }
    }

    /// A part of what others have begun with, and something of its own.
    fn prompt(&mut self) -> Vec<u32> {
        let document = self.documents.choose(&mut self.rng).expect("there are some");
        let n_shared = self.rng.random_range(0..document.len().min(N_CTX - 42));
        let mut prompt = document[..n_shared].to_vec();
        let n_own = if self.rng.random_ratio(1, 4) { 1 } else { self.rng.random_range(1..40) };
        prompt.extend((0..n_own).map(|_| self.rng.random_range(0..3)));
        prompt
    }

    fn cancel(&mut self) {
        let ids: Vec<_> = self.clients.keys().copied().collect();
        if let Some(&id) = ids.choose(&mut self.rng) {
            self.scheduler.cancel(id);
            self.forget(id);
        }
    }

    fn forget(&mut self, id: RequestId) {
        let client = self.clients.remove(&id).expect("it lived until now");
        self.n_ended += 1;
        let conversation = [client.prompt, client.answer].concat();
        let place = self.rng.random_range(0..self.documents.len());
        self.documents[place] = conversation;
    }

    fn step(&mut self) {
        if let Some(mut disk) = self.disk.take() {
            self.fill(&mut disk);
            self.store(&mut disk);
            self.admit();
            self.scheduler.restore(&|key| disk.contains_key(key));
            self.disk = Some(disk);
        } else {
            self.admit();
        }
        let rows = self.scheduler.plan();
        for Action::Copy { group, from, to, .. } in self.scheduler.take_actions() {
            self.memory[group][to as usize] = self.memory[group][from as usize];
        }
        self.check_shares(&rows);
        let outcomes: Vec<_> = rows.iter().map(|rows| self.compute(rows)).collect();
        self.scheduler.complete(&rows, &outcomes);
        for (rows, outcome) in rows.iter().zip(outcomes) {
            match outcome {
                RowsOutcome::Read => {}
                RowsOutcome::Token(token_id) => {
                    self.clients.get_mut(&rows.id).expect("it runs").answer.push(token_id);
                }
                RowsOutcome::Ended | RowsOutcome::Failed => self.forget(rows.id),
            }
        }
    }

    /// Some of what requests wait for comes from the disk, or turns out to be gone.
    fn fill(&mut self, disk: &mut BTreeMap<EntryKey, [u64; PAGE_TOKENS]>) {
        for id in self.clients.keys().copied() {
            while self.rng.random_ratio(3, 4)
                && let Some(next) = self.scheduler.next_restored(id)
            {
                if self.rng.random_ratio(1, 20) {
                    disk.remove(&next.key);
                }
                if let Some(slots) = disk.get(&next.key) {
                    self.memory[next.group][next.block as usize] = *slots;
                    self.n_filled += 1;
                }
                self.scheduler.note_restored(id, disk.contains_key(&next.key));
            }
        }
    }

    /// Some of what should lie on the disk goes there.
    fn store(&mut self, disk: &mut BTreeMap<EntryKey, [u64; PAGE_TOKENS]>) {
        while self.rng.random_ratio(3, 4)
            && let Some(next) = self.scheduler.next_to_store(&|key| disk.contains_key(key))
        {
            disk.insert(next.key, self.memory[next.group][next.block as usize]);
        }
        while disk.len() > 1000 {
            disk.pop_first();
        }
    }

    /// Whoever got a place was first of those that may have one.
    fn admit(&mut self) {
        let running: BTreeSet<_> = self.scheduler.running().iter().map(|r| r.id).collect();
        let starting = self.scheduler.starting.clone();
        let admitted = self.scheduler.admit();
        let now: BTreeSet<_> = self.scheduler.running().iter().map(|r| r.id).collect();
        assert!(now.len() <= self.limits.n_parallel);
        for (&id, client) in &mut self.clients {
            let waits_for_leader = client.leader.is_some_and(|leader| starting.contains(&leader));
            let was_passed = !now.contains(&id) && admitted.iter().any(|&other| other > id);
            assert!(!was_passed || waits_for_leader, "{id:?} was passed over in the queue");
            if !now.contains(&id) && !waits_for_leader && running.is_empty() {
                assert!(!admitted.is_empty(), "{id:?} waits though nothing runs");
            }
            client.n_steps_queued += usize::from(!now.contains(&id));
            assert!(client.n_steps_queued < 60 * N_CTX, "{id:?} never gets a place");
        }
    }

    /// Everybody moves who could, unless all rows are taken.
    fn check_shares(&mut self, rows: &[StepRows]) {
        let n_rows: usize = rows.iter().map(|rows| rows.n_rows).sum();
        assert!(n_rows <= self.limits.n_rows_max);
        let running = self.scheduler.running();
        let waits_for_disk = running.iter().any(Running::is_restoring);
        assert!(running.is_empty() || n_rows > 0 || waits_for_disk, "a step without rows");
        let mut in_work = BTreeSet::new();
        for (place, running) in running.iter().enumerate() {
            let moves = rows.iter().any(|rows| rows.place == place);
            let follows = running.page_wanted().is_some_and(|key| in_work.contains(&key));
            in_work.extend(running.next_key);
            let client = self.clients.get_mut(&running.id).expect("it runs");
            let waits = follows || running.is_restoring();
            client.n_waiting_steps = if moves { 0 } else { client.n_waiting_steps + 1 };
            assert!(moves || waits, "{:?} is passed over", running.id);
            assert!(client.n_waiting_steps < 20 * N_CTX, "{:?} is starved", running.id);
        }
    }

    /// Reads and writes the slots of some rows as attention would, and says what became of them.
    fn compute(&mut self, rows: &StepRows) -> RowsOutcome {
        let running = &self.scheduler.running()[rows.place];
        let client = &self.clients[&rows.id];
        let prefixes = client.prefixes();
        let tokens = || client.prompt.iter().chain(&client.answer);
        assert!(running.token_ids.iter().eq(tokens()), "tokens of {:?}", rows.id);
        let begin = running.n_computed;
        assert!(begin + rows.n_rows <= prefixes.len());
        assert_eq!(rows.samples, begin + rows.n_rows == prefixes.len());
        let fails = self.rng.random_ratio(1, 400);
        for (group, &window) in self.windows.iter().enumerate() {
            let table = &running.tables[group].blocks;
            let memory = &mut self.memory[group];
            let first = window.map_or(0, |window| (begin + 1).saturating_sub(window));
            for (position, prefix) in prefixes.iter().enumerate().take(begin).skip(first) {
                let slot = memory[table[position / PAGE_TOKENS] as usize][position % PAGE_TOKENS];
                assert_eq!(slot, *prefix, "{:?} group {group} position {position}", rows.id);
            }
            for position in begin..begin + rows.n_rows {
                let block = table[position / PAGE_TOKENS] as usize;
                let written = if fails { GARBAGE } else { prefixes[position] };
                memory[block][position % PAGE_TOKENS] = written;
            }
        }
        if fails {
            return RowsOutcome::Failed;
        }
        if !rows.samples {
            return RowsOutcome::Read;
        }
        let is_last = client.answer.len() + 1 == client.max_tokens;
        if is_last || self.rng.random_ratio(1, 30) {
            return RowsOutcome::Ended;
        }
        let last = prefixes.last().expect("there is a prompt");
        RowsOutcome::Token(u32::try_from(last % 3).expect("below three"))
    }

    /// Everything, down to what lies in each page that can be found.
    fn audit(&self) {
        let kv = self.scheduler.kv();
        let scopes: BTreeMap<_, _> =
            (1..4u8).map(|scope| (PageKey::root(&[scope; 32]), u64::from(scope))).collect();
        kv.pages.audit(&kv.groups, self.scheduler.running(), &mut |way, blocks| {
            let mut prefix = scopes[&kv.pages.root_of(way[0])];
            let mut slots = [0; PAGE_TOKENS];
            for &page in way {
                for (slot, &token_id) in slots.iter_mut().zip(kv.pages.token_ids(page)) {
                    prefix = extend(prefix, token_id);
                    *slot = prefix;
                }
            }
            for (memory, block) in self.memory.iter().zip(blocks) {
                assert!(block.is_none_or(|block| memory[block as usize] == slots), "{way:?}");
            }
        });
    }
}

fn simulate(seeds: std::ops::Range<u64>) {
    let has_disk = seeds.start / 4 % 2 == 1;
    let mut n_filled = 0;
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run(N_EVENTS);
            let totals = world.scheduler.totals();
            assert!(world.n_ended > N_EVENTS / 100, "{} requests only", world.n_ended);
            assert!(totals.n_found * 30 > totals.n_looked_up, "hardly a hit: {totals:?}");
            world.n_filled
        });
        match outcome {
            Ok(n) => n_filled += n,
            Err(_) => panic!("seed {seed} failed"),
        }
    }
    assert_eq!(n_filled > 0, has_disk, "{n_filled} blocks came from the disk");
}

// One test for every four seeds, so that they run beside each other.

#[test]
fn no_page_is_lost_and_nobody_starves_seeds_0_to_3() {
    simulate(0..4);
}

#[test]
fn no_page_is_lost_and_nobody_starves_seeds_4_to_7() {
    simulate(4..8);
}

#[test]
fn no_page_is_lost_and_nobody_starves_seeds_8_to_11() {
    simulate(8..12);
}

#[test]
fn no_page_is_lost_and_nobody_starves_seeds_12_to_15() {
    simulate(12..16);
}
