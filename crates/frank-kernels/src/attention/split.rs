//! How the work of one call is cut into tasks. Changes nothing but speed.

use std::ops::Range;

use super::{AttentionShape, HEADS_TOGETHER};

/// Query heads of a tile at most: while they take turns, a span of a large key head, their queries and their outputs
/// stay in a core's own cache.
pub(super) const TILE_HEADS_MAX: usize = 64;

/// What reading a block costs a turn, beside the work of each of its heads, in heads.
const TURN_HEADS: usize = 2;

/// So many tiles per thread are shared out well enough, whatever their number.
const TILES_PER_THREAD: usize = 8;

/// Tasks per thread at least, where there are so many tiles.
const TASKS_PER_THREAD: usize = 16;

/// Rows of a task at most.
const TASK_ROWS_MAX: usize = 8;

/// How the work is cut: a tile is some query heads of one row that share a key head; a task is one tile of several
/// rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    n_rows: usize,
    rows_per_task: usize,
    /// Query heads that share a key head.
    group: usize,
    tiles_per_group: usize,
    /// Query heads of a tile that take each turn: all turns are about as large.
    pub(super) together: usize,
    n_head_kv: usize,
}

impl Split {
    pub(super) fn new(shape: &AttentionShape, n_rows: usize, n_threads: usize) -> Self {
        let n_head_kv = shape.n_head_kv;
        let group = shape.n_head / n_head_kv;
        let tiles_per_group = tiles_per_group(group, n_rows * n_head_kv, n_threads);
        let tile_heads = group.div_ceil(tiles_per_group);
        let n_tiles = n_rows * n_head_kv * tiles_per_group;
        Self {
            n_rows,
            rows_per_task: (n_tiles / (n_threads * TASKS_PER_THREAD)).clamp(1, TASK_ROWS_MAX),
            group,
            tiles_per_group,
            together: tile_heads.div_ceil(n_turns(tile_heads)),
            n_head_kv,
        }
    }

    fn n_tiles(&self) -> usize {
        self.tiles_per_group * self.n_head_kv
    }

    fn n_chunks(&self) -> usize {
        self.n_rows.div_ceil(self.rows_per_task)
    }

    pub(super) fn n_tasks(&self) -> usize {
        self.n_chunks() * self.n_tiles()
    }

    /// Rows of a task. Late rows of a prompt see more positions, so they come first.
    pub(super) fn rows(&self, task: usize) -> Range<usize> {
        let first = (self.n_chunks() - 1 - task / self.n_tiles()) * self.rows_per_task;
        first..self.n_rows.min(first + self.rows_per_task)
    }

    /// Key head of a task, and its query heads.
    pub(super) fn heads(&self, task: usize) -> (usize, Range<usize>) {
        let tile = task % self.n_tiles();
        let (head_kv, tile) = (tile % self.n_head_kv, tile / self.n_head_kv);
        let border = |tile: usize| head_kv * self.group + tile * self.group / self.tiles_per_group;
        (head_kv, border(tile)..border(tile + 1))
    }
}

/// Turns in which the heads of a tile read a block of the cache.
fn n_turns(tile_heads: usize) -> usize {
    tile_heads.div_ceil(HEADS_TOGETHER)
}

/// Into how many tiles to cut each of `n_groups` groups, so that the busiest thread has the least to do.
fn tiles_per_group(group: usize, n_groups: usize, n_threads: usize) -> usize {
    let fewest = group.div_ceil(TILE_HEADS_MAX);
    if n_groups * fewest >= n_threads * TILES_PER_THREAD {
        return fewest;
    }
    let busiest = |&tiles: &usize| {
        let heads = group.div_ceil(tiles);
        (n_groups * tiles).div_ceil(n_threads) * (heads + TURN_HEADS * n_turns(heads))
    };
    // Of equals the first, whose tiles are the largest.
    (fewest..=group).min_by_key(busiest).unwrap_or(fewest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_tiles_are_as_many_as_keep_all_threads_busy_and_no_more() {
        let tiles = |n_head: usize, n_head_kv: usize, n_rows: usize, n_threads| {
            tiles_per_group(n_head / n_head_kv, n_rows * n_head_kv, n_threads)
        };
        // One thread reads the cache as rarely as it can, and so does each of two.
        assert_eq!(tiles(16, 1, 1, 1), 1);
        assert_eq!(tiles(128, 1, 1, 1), 2);
        assert_eq!(tiles(128, 1, 1, 2), 2);
        assert_eq!(tiles(128, 1, 1, 6), 6);
        assert_eq!(tiles(128, 1, 64, 6), 2);
        // Where key heads do not suffice for the threads, or not evenly, groups are cut.
        assert_eq!(tiles(32, 8, 1, 2), 1);
        assert_eq!(tiles(4, 1, 1, 2), 2);
        assert_eq!(tiles(64, 8, 1, 6), 2);
        assert_eq!(tiles(32, 8, 1, 16), 2);
        assert_eq!(tiles(8, 8, 1, 16), 1);
    }
}
