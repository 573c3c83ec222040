//! Blocks of the KV cache: which layers share them, and how many a plan gives to each group. Never looks at a machine.

use crate::limits::Settings;
use crate::needs::LayerState;

/// Tokens of one KV block.
pub const KV_BLOCK_TOKENS: u32 = 32;

/// The KV cache occupies whole multiples of this: a huge page, as `frank_os::AnonBuffer` maps them.
pub const ARENA_BYTES: u64 = 2 << 20;

/// Blocks that may be on their way between the KV cache and a disk at once, of whichever group. Reading and writing
/// overlap, and a step never waits for more.
pub const DISK_CACHE_BUFFERS: u64 = 4;

/// Layers that look back equally far, and their blocks: a block is the keys and values of [`KV_BLOCK_TOKENS`] tokens in
/// all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvGroupPlan {
    /// Tokens that attention looks back; `None` for all.
    pub window: Option<u32>,
    /// Bytes of one block.
    pub block_bytes: u64,
    /// Blocks that one running request needs at most.
    pub request_blocks: u64,
    /// Blocks in all.
    pub n_blocks: u64,
}

impl KvGroupPlan {
    /// Bytes of what one request needs; saturates.
    fn request_bytes(&self) -> u64 {
        self.request_blocks.saturating_mul(self.block_bytes)
    }
}

/// The windows of the layers, each once: none first, then rising. Each is a group of layers that share blocks.
#[must_use]
pub fn kv_windows(state: &[LayerState]) -> Vec<Option<u32>> {
    let mut windows: Vec<Option<u32>> =
        state.iter().map(|LayerState::Paged { window, .. }| *window).collect();
    windows.sort_unstable();
    windows.dedup();
    windows
}

/// Blocks that one running request of at most `ctx_size` tokens needs in a group of layers with this window, when a step
/// computes at most `ubatch` of its tokens.
///
/// The rows of a step look back `window - 1` tokens before the first of them; these and the rows themselves begin
/// anywhere in a block.
#[must_use]
pub fn kv_request_blocks(window: Option<u32>, ctx_size: u32, ubatch: u32) -> u64 {
    let block_tokens = u64::from(KV_BLOCK_TOKENS);
    let all = u64::from(ctx_size).div_ceil(block_tokens);
    window.map_or(all, |window| {
        let reach = (u64::from(window) + u64::from(ubatch)).saturating_sub(2);
        all.min(reach.div_ceil(block_tokens) + 1)
    })
}

/// The KV cache of a plan.
#[derive(Debug)]
pub(crate) struct KvPlan {
    /// In the order of [`kv_windows`].
    pub(crate) groups: Vec<KvGroupPlan>,
    /// Bytes for what the requests need that run at the same time, in whole [`ARENA_BYTES`].
    pub(crate) kv_cache: u64,
    /// Bytes for more blocks than that, in whole [`ARENA_BYTES`].
    pub(crate) prefix_cache: u64,
    /// Bytes of buffers that blocks pass through on their way to and from a disk.
    pub(crate) disk_staging: u64,
}

impl KvPlan {
    /// Blocks for `parallel` requests, and those that `prefix_cache` more bytes hold. All sums saturate.
    pub(crate) fn new(state: &[LayerState], settings: Settings) -> Self {
        let mut groups = request_groups(state, settings);
        for group in &mut groups {
            group.n_blocks = group.request_blocks.saturating_mul(u64::from(settings.parallel));
        }
        let needed = total_bytes(&groups);
        let kv_cache = needed.checked_next_multiple_of(ARENA_BYTES).unwrap_or(u64::MAX);
        let prefix_cache = settings.prefix_cache - settings.prefix_cache % ARENA_BYTES;
        if prefix_cache > 0 {
            // What rounding left over is filled too.
            add_blocks(&mut groups, (kv_cache - needed).saturating_add(prefix_cache));
        }
        let buffers = if settings.disk_cache { DISK_CACHE_BUFFERS } else { 0 };
        let largest = groups.iter().map(|group| group.block_bytes).max().unwrap_or(0);
        let disk_staging = largest.saturating_mul(buffers);
        Self { groups, kv_cache, prefix_cache, disk_staging }
    }

    /// Bytes of all that one request needs; saturates.
    pub(crate) fn request_bytes(&self) -> u64 {
        self.groups.iter().map(KvGroupPlan::request_bytes).fold(0, u64::saturating_add)
    }
}

/// The groups of the layers with what one request needs, and no blocks yet.
fn request_groups(state: &[LayerState], settings: Settings) -> Vec<KvGroupPlan> {
    let Settings { ctx_size, ubatch, .. } = settings;
    let windows = kv_windows(state);
    let group = |&window: &Option<u32>| KvGroupPlan {
        window,
        block_bytes: 0,
        request_blocks: kv_request_blocks(window, ctx_size, ubatch),
        n_blocks: 0,
    };
    let mut groups: Vec<KvGroupPlan> = windows.iter().map(group).collect();
    for LayerState::Paged { bytes_per_token, window } in state {
        let group = windows.binary_search(window).expect("every layer's window is there");
        let block_bytes = bytes_per_token.saturating_mul(u64::from(KV_BLOCK_TOKENS));
        groups[group].block_bytes = groups[group].block_bytes.saturating_add(block_bytes);
    }
    groups
}

fn total_bytes(groups: &[KvGroupPlan]) -> u64 {
    let bytes = groups.iter().map(|group| group.n_blocks.saturating_mul(group.block_bytes));
    bytes.fold(0, u64::saturating_add)
}

/// Adds the blocks that `bytes` hold: to each group in proportion to what a request needs of it, then what is left over
/// wherever a block still fits.
fn add_blocks(groups: &mut [KvGroupPlan], bytes: u64) {
    let request_bytes: u128 = groups
        .iter()
        .map(|group| u128::from(group.request_blocks) * u128::from(group.block_bytes))
        .sum();
    let mut left = bytes;
    for group in groups.iter_mut() {
        let share = u128::from(bytes) * u128::from(group.request_blocks);
        let n = share.checked_div(request_bytes).unwrap_or(0);
        take(group, u64::try_from(n).unwrap_or(u64::MAX), &mut left);
    }
    for group in groups {
        let n = left.checked_div(group.block_bytes).unwrap_or(0);
        take(group, n, &mut left);
    }
}

/// Gives `n` blocks to a group, whose bytes `left` has.
fn take(group: &mut KvGroupPlan, n: u64, left: &mut u64) {
    group.n_blocks = group.n_blocks.saturating_add(n);
    *left = left.saturating_sub(n.saturating_mul(group.block_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paged(bytes_per_token: u64, window: Option<u32>) -> LayerState {
        LayerState::Paged { bytes_per_token, window }
    }

    fn settings(ctx_size: u32, parallel: u32, ubatch: u32) -> Settings {
        Settings { ctx_size, parallel, ubatch, prefix_cache: 0, disk_cache: false }
    }

    #[test]
    fn a_part_of_a_kv_block_takes_a_whole_one() {
        let blocks = |ctx_size| kv_request_blocks(None, ctx_size, 256);
        assert_eq!([0, 1, 32, 33].map(blocks), [0, 1, 1, 2]);
        assert_eq!(blocks(u32::MAX), 1 << 27);
    }

    #[test]
    fn a_window_needs_the_blocks_that_the_rows_of_a_step_can_reach_and_never_more_than_the_context()
    {
        let blocks = |window, ubatch| kv_request_blocks(Some(window), 4096, ubatch);
        // One row that looks back on itself lies in one block, on 33 tokens in two, on 34 in up to three.
        assert_eq!([(1, 1), (33, 1), (34, 1)].map(|(window, n)| blocks(window, n)), [1, 2, 3]);
        assert_eq!(blocks(512, 256), 25);
        assert_eq!(blocks(4096, 256), 128);
        assert_eq!(kv_request_blocks(Some(u32::MAX), u32::MAX, u32::MAX), 1 << 27);
        assert_eq!(kv_request_blocks(Some(0), 4096, 0), 1);
    }

    #[test]
    fn a_window_needs_no_block_that_no_step_can_reach() {
        for (window, ubatch) in [(1, 1), (7, 5), (32, 32), (33, 33), (100, 7)] {
            // Blocks from the first position that the first row sees to the last row, wherever the step begins.
            let touched = |first: u32| (first + window + ubatch - 2) / 32 - first / 32 + 1;
            let most = (0..64).map(touched).max().expect("64 of them");
            assert_eq!(kv_request_blocks(Some(window), 1 << 20, ubatch), u64::from(most));
        }
    }

    #[test]
    fn the_kv_cache_occupies_whole_huge_pages() {
        let bytes = |state: &[LayerState], ctx_size| {
            KvPlan::new(state, settings(ctx_size, 1, 256)).kv_cache
        };
        let state = [paged(1000, None); 3];
        assert_eq!(bytes(&state, 1), ARENA_BYTES);
        // 22 blocks of 32 tokens and 3000 bytes are 2,112,000 bytes.
        assert_eq!(bytes(&state, 32 * 22), 2 * ARENA_BYTES);
        assert_eq!(bytes(&[], 4096), 0);
        assert_eq!(bytes(&[paged(u64::MAX, None)], 1), u64::MAX);
    }

    #[test]
    fn layers_of_one_window_share_blocks() {
        let state =
            [paged(10, Some(512)), paged(20, None), paged(30, Some(512)), paged(1, Some(8))];
        let plan = KvPlan::new(&state, settings(4096, 3, 256));
        let group = |window, block_bytes, request_blocks| KvGroupPlan {
            window,
            block_bytes,
            request_blocks,
            n_blocks: 3 * request_blocks,
        };
        assert_eq!(
            plan.groups,
            [group(None, 640, 128), group(Some(8), 32, 10), group(Some(512), 1280, 25)]
        );
    }

    #[test]
    fn more_bytes_are_shared_as_a_request_needs_them_and_filled_to_the_last_block() {
        let state = [paged(1024, None), paged(1024, Some(512))];
        let one = settings(4096, 1, 256);
        let without = KvPlan::new(&state, one);
        let plan = KvPlan::new(&state, Settings { prefix_cache: 10 * ARENA_BYTES + 5, ..one });
        assert_eq!((plan.kv_cache, plan.prefix_cache), (without.kv_cache, 10 * ARENA_BYTES));
        let total = (plan.kv_cache + plan.prefix_cache) / (32 << 10);
        let blocks: Vec<u64> = plan.groups.iter().map(|group| group.n_blocks).collect();
        assert_eq!(blocks.iter().sum::<u64>(), total);
        let more = total - (128 + 25);
        assert_eq!(blocks[1], 25 + more * 25 / (128 + 25));
    }
}
