//! A request holds no block behind a window: what becomes of such a block changes no bit of its logits, nor does it
//! matter which blocks hold the rest, or whether they were somewhere else in between.

use std::collections::VecDeque;
use std::path::Path;

use frank_kernels::KvType;
use frank_models::{Batch, Model};
use frank_plan::{KV_BLOCK_TOKENS, kv_request_blocks};
use frank_testkit::assets;

use crate::step::Run;
use crate::tiny::{self, Tiny};

const BLOCK: usize = KV_BLOCK_TOKENS as usize;

/// What happens to a sequence's blocks between two steps.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Between {
    Nothing,
    /// Each is copied to another block.
    Copied,
    /// Each is read, and written to a block of a model that has seen nothing yet.
    Restored,
}

/// The blocks of a group: those of the sequence, and those that anybody may have written to.
struct Pool {
    window: Option<usize>,
    /// Entries behind the window are no block at all.
    table: Vec<u32>,
    free: VecDeque<u32>,
}

impl Pool {
    /// First entry of the table that the row at `position` reads.
    fn first_entry(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window) / BLOCK)
    }

    /// Gives back what lies behind the step of the rows at `first..end`, and takes what they need.
    fn step(&mut self, first: usize, end: usize) {
        let first_entry = self.first_entry(first);
        for entry in self.table[..first_entry].iter_mut().filter(|entry| **entry != u32::MAX) {
            self.free.push_back(std::mem::replace(entry, u32::MAX));
        }
        while self.table.len() * BLOCK < end {
            self.table.push(self.free.pop_front().expect("the planner gives enough blocks"));
        }
    }

    /// Another block for each that the sequence holds, as pairs of the old and the new one.
    fn replace(&mut self) -> Vec<(u32, u32)> {
        let held = self.table.iter_mut().filter(|entry| **entry != u32::MAX);
        let replaced = held.map(|entry| {
            let other = self.free.pop_front().expect("twice the blocks of one request");
            self.free.push_back(*entry);
            (std::mem::replace(entry, other), other)
        });
        replaced.collect()
    }
}

struct Sequence {
    run: Run,
    model: Box<dyn Model>,
    pools: Vec<Pool>,
}

impl Sequence {
    /// Twice the blocks that the planner gives a request of `n_ctx` tokens.
    fn start(run: Run, path: &Path, n_ctx: usize) -> Self {
        let model = run.load_with(path, |window| {
            let n_rows = u32::try_from(run.chunk).expect("a short chunk");
            let n_ctx = u32::try_from(n_ctx).expect("a short test");
            let n_blocks = 2 * kv_request_blocks(window, n_ctx, n_rows);
            u32::try_from(n_blocks).expect("a short test")
        });
        let pools = model.kv_groups().iter().map(|group| Pool {
            window: group.window,
            table: Vec::new(),
            free: (0..group.n_blocks).rev().collect(),
        });
        Self { pools: pools.collect(), run, model }
    }

    /// Fills every block that the sequence does not hold with bytes that are no number in any type.
    fn spoil(&mut self) {
        for (group, pool) in self.pools.iter().enumerate() {
            let not_a_number = vec![0xff; self.model.kv_groups()[group].block_bytes];
            for &block in &pool.free {
                self.model.write_block(group, block, &not_a_number);
            }
        }
    }

    fn change_blocks(&mut self, between: Between, path: &Path, n_ctx: usize) {
        let other = match between {
            Between::Nothing => return,
            Between::Copied => None,
            Between::Restored => Some(Self::start(self.run, path, n_ctx).model),
        };
        let old = other.map(|other| std::mem::replace(&mut self.model, other));
        for (group, pool) in self.pools.iter_mut().enumerate() {
            let mut bytes = vec![0; self.model.kv_groups()[group].block_bytes];
            for (from, to) in pool.replace() {
                match &old {
                    None => self.model.copy_block(group, from, to),
                    Some(old) => {
                        old.read_block(group, from, &mut bytes);
                        self.model.write_block(group, to, &bytes);
                    }
                }
            }
        }
    }

    /// Logits of the rows from `first` on.
    fn step(&mut self, token_ids: &[u32], first: usize) -> Vec<f32> {
        let end = first + token_ids.len();
        self.pools.iter_mut().for_each(|pool| pool.step(first, end));
        self.spoil();
        let tables: Vec<[&[u32]; 1]> =
            self.pools.iter().map(|pool| [pool.table.as_slice()]).collect();
        let tables: Vec<&[&[u32]]> = tables.iter().map(|table| table.as_slice()).collect();
        let positions: Vec<u32> =
            (u32::try_from(first).expect("a short test")..).take(token_ids.len()).collect();
        let batch = Batch {
            token_ids,
            positions: &positions,
            sequences: &vec![0; token_ids.len()],
            block_tables: &tables,
            output_rows: &(0..token_ids.len()).collect::<Vec<_>>(),
        };
        let mut logits = vec![f32::NAN; token_ids.len() * self.model.n_vocab()];
        self.model.forward(&batch, &mut logits).expect("everything can be read");
        logits
    }
}

/// Whether a sequence that holds only what it must gives the logits of one that holds everything.
fn check(name: &str, kv_type: KvType, chunk: usize, between: Between) {
    if !tiny::takes(name, kv_type) {
        return;
    }
    let path = assets::tiny(&format!("{name}.gguf"));
    let token_ids = Tiny::read(name).token_ids;
    let n_ctx = token_ids.len();
    let run = Run { kv_type, ..Run::EXACT };
    let expected = run.logits(&path, &token_ids);
    let mut sequence = Sequence::start(Run { chunk, ..run }, &path, n_ctx);
    let mut got = Vec::with_capacity(expected.len());
    for (index, token_ids) in token_ids.chunks(chunk).enumerate() {
        sequence.change_blocks(between, &path, n_ctx);
        got.extend(sequence.step(token_ids, index * chunk));
    }
    let bits = |logits: &[f32]| logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(bits(&got) == bits(&expected), "{name}, {kv_type:?}, chunks of {chunk}, {between:?}");
}

#[test]
fn blocks_behind_a_window_can_be_given_away_whatever_the_size_of_a_chunk() {
    for name in tiny::names() {
        for chunk in [1, 7, 64, 512] {
            check(&name, KvType::F32, chunk, Between::Nothing);
        }
        check(&name, KvType::F16, 33, Between::Nothing);
    }
}

#[test]
fn a_copied_block_is_as_good_as_the_first() {
    for name in tiny::names() {
        check(&name, KvType::F16, 7, Between::Copied);
        check(&name, KvType::F32, 64, Between::Copied);
        check(&name, KvType::Q4_0, 33, Between::Copied);
    }
}

#[test]
fn blocks_that_were_read_out_go_on_in_another_model_of_the_file() {
    for name in tiny::names() {
        check(&name, KvType::F16, 64, Between::Restored);
        check(&name, KvType::F32, 33, Between::Restored);
        check(&name, KvType::Q8_0, 33, Between::Restored);
    }
}

#[test]
fn layers_with_a_window_hold_no_more_than_it_reaches() {
    let path = assets::tiny("gemma3.gguf");
    let sequence = Sequence::start(Run { chunk: 64, ..Run::EXACT }, &path, 4096);
    let groups: Vec<_> =
        sequence.model.kv_groups().iter().map(|group| (group.window, group.n_blocks / 2)).collect();
    assert_eq!(groups, [(None, 128), (Some(16), 4)]);
}
