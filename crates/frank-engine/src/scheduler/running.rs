//! One running request: its tokens, how far they are computed, and where their keys and values lie.

mod restoring;

pub(crate) use self::restoring::DiskBlock;
use self::restoring::Restoring;
use crate::kv_cache::{BlockTable, KvCache, PAGE_TOKENS};
use crate::prefix_cache::{Hit, PageId, PageKey};
use crate::scheduler::{Action, Job, RequestId, Totals};

/// How often a prompt leaves a checkpoint behind, in tokens, in models with windows. A request that shares half of a long
/// prompt computes at most so many again: two steps of the default size. Closer ones would cost more than they spare,
/// for each takes a whole window of blocks.
const CHECKPOINT_TOKENS: usize = 1024;

/// A request that has its place, and the promise of all blocks that it may need.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) id: RequestId,
    /// Prompt and answer so far.
    pub(crate) token_ids: Vec<u32>,
    pub(crate) n_prompt: usize,
    /// Tokens that the request may reach, for which its blocks were promised.
    n_tokens_max: usize,
    /// Tokens whose keys and values are in the cache.
    pub(crate) n_computed: usize,
    /// Of these, tokens that were found there.
    pub(crate) n_cached: usize,
    /// Of these, tokens that the totals count already.
    n_counted: usize,
    /// Whether a step has had rows of it.
    pub(crate) is_started: bool,
    /// The whole pages from the start on that can be found.
    pub(crate) path: Vec<PageId>,
    /// The key of the last of them, at first that of the scope's root. `None` shares nothing.
    end_key: Option<PageKey>,
    root: Option<PageKey>,
    /// Whether the disk was not asked for its pages yet.
    may_restore: bool,
    /// Pages that are on their way from the disk.
    restoring: Option<Restoring>,
    /// The page behind `path`, while it lies wholly in the prompt.
    pub(crate) next_key: Option<PageKey>,
    /// The last page of the answer with a checkpoint of this request.
    answer_checkpoint: Option<PageId>,
    /// For each group.
    pub(crate) tables: Vec<BlockTable>,
}

impl Running {
    /// A request with nothing computed.
    pub(crate) fn new(id: RequestId, job: Job, n_groups: usize) -> Self {
        let mut running = Self {
            id,
            n_prompt: job.prompt.len(),
            n_tokens_max: job.n_tokens_max(),
            token_ids: job.prompt,
            n_computed: 0,
            n_cached: 0,
            n_counted: 0,
            is_started: false,
            path: Vec::new(),
            end_key: job.root,
            root: job.root,
            may_restore: job.root.is_some(),
            restoring: None,
            next_key: None,
            answer_checkpoint: None,
            tables: vec![BlockTable::default(); n_groups],
        };
        running.note_next_key();
        running
    }

    /// Tokens that the request may reach.
    #[cfg(test)]
    pub(crate) fn n_tokens_max(&self) -> usize {
        self.n_tokens_max
    }

    fn prompt(&self) -> &[u32] {
        &self.token_ids[..self.n_prompt]
    }

    /// Tokens to compute before the next one can be drawn; 1 when it decodes.
    pub(crate) fn n_behind(&self) -> usize {
        self.token_ids.len() - self.n_computed
    }

    /// The page that the request computes next, while another request could compute it as well: it is whole, begins
    /// where this one is, and something of the prompt follows.
    pub(crate) fn page_wanted(&self) -> Option<PageKey> {
        let begins_here = self.n_computed == self.path.len() * PAGE_TOKENS;
        let ends_before_prompt = (self.path.len() + 1) * PAGE_TOKENS < self.n_prompt;
        self.next_key.filter(|_| begins_here && ends_before_prompt)
    }

    /// Takes what is in the cache of the prompt from here on.
    pub(crate) fn catch_up(&mut self, kv: &mut KvCache, actions: &mut Vec<Action>) {
        let Some(end_key) = self.end_key else { return };
        let hit = kv.pages.look_up(&kv.groups, end_key, &self.path, self.prompt());
        if hit.n_tokens() > self.n_computed {
            self.adopt(hit, kv, actions);
        }
    }

    /// Adds what was looked for and found since the last call. To be called for a request that has rows now: until then
    /// what was found may be let go of again, for more that lies on a disk.
    pub(crate) fn count_found(&mut self, totals: &mut Totals) {
        if !self.is_started && self.root.is_some() {
            totals.n_looked_up += self.n_prompt as u64;
        }
        totals.n_found += (self.n_cached - self.n_counted) as u64;
        self.n_counted = self.n_cached;
    }

    fn adopt(&mut self, hit: Hit, kv: &mut KvCache, actions: &mut Vec<Action>) {
        let n_tokens = hit.n_tokens();
        for &page in &hit.pages[self.path.len()..] {
            kv.pages.enter(page);
            kv.store_page(page);
        }
        if let Some(&last) = hit.pages.last() {
            kv.pages.use_checkpoint(last);
            kv.store_checkpoint(last);
            self.end_key = Some(kv.pages.key(last));
        }
        for group in 0..self.tables.len() {
            let first = kv.groups[group].first_page(n_tokens).min(hit.pages.len());
            let table = &mut self.tables[group];
            kv.slide(group, &self.path, table, first);
            for (index, &page) in hit.pages.iter().enumerate().skip(table.blocks.len()) {
                let block = if index < first {
                    0
                } else {
                    let block =
                        kv.pages.block(page, group).expect("a hit has what its window reads");
                    kv.groups[group].hold(block);
                    block
                };
                table.blocks.push(block);
            }
        }
        self.path = hit.pages;
        if let Some((page, _)) = hit.part {
            self.copy(page, kv, actions);
        }
        self.n_cached += n_tokens - self.n_computed;
        self.n_computed = n_tokens;
        self.note_next_key();
    }

    /// Copies the blocks of `page`, since this request will write behind those of its tokens that it shares.
    fn copy(&mut self, page: PageId, kv: &mut KvCache, actions: &mut Vec<Action>) {
        kv.pages.pin(&mut kv.groups, page);
        for (group, table) in self.tables.iter_mut().enumerate() {
            let from = kv.pages.block(page, group).expect("a part has a block in each group");
            let to = kv.take(group);
            table.blocks.push(to);
            actions.push(Action::Copy { id: self.id, group, from, to });
        }
        kv.pages.unpin(&mut kv.groups, page);
    }

    /// Lets go of what lies behind the windows and takes the blocks for the next `n_rows` tokens.
    pub(crate) fn make_room(&mut self, n_rows: usize, kv: &mut KvCache) {
        let n_pages = (self.n_computed + n_rows).div_ceil(PAGE_TOKENS);
        for (group, table) in self.tables.iter_mut().enumerate() {
            let first = kv.groups[group].first_page(self.n_computed);
            kv.slide(group, &self.path, table, first);
            while table.blocks.len() < n_pages {
                table.blocks.push(kv.take(group));
            }
        }
    }

    /// Notes that the next `n_rows` tokens are computed, and makes the pages findable that are whole by that.
    pub(crate) fn advance(&mut self, n_rows: usize, kv: &mut KvCache) {
        self.n_computed += n_rows;
        while let Some(parent_key) = self.end_key
            && let begin = self.path.len() * PAGE_TOKENS
            && begin + PAGE_TOKENS <= self.n_computed
        {
            let token_ids = &self.token_ids[begin..begin + PAGE_TOKENS];
            let key = self.next_key.unwrap_or_else(|| parent_key.child(token_ids));
            let parent = self.path.last().copied();
            let keys = (parent_key, key);
            let page = kv.pages.insert(&mut kv.groups, parent, keys, token_ids, &mut self.tables);
            kv.store_page(page);
            self.path.push(page);
            self.end_key = Some(key);
            self.note_next_key();
            self.set_checkpoint(begin + PAGE_TOKENS, page, kv);
        }
    }

    /// Leaves a checkpoint behind `page`, which ends at `border`, when it is one that stays, or the last one of the answer
    /// so far: when the answer ends, its last border may be out of sight already.
    fn set_checkpoint(&mut self, border: usize, page: PageId, kv: &mut KvCache) {
        if self.is_checkpoint(border) {
            kv.set_checkpoint(page);
        } else if border > self.n_prompt && !kv.pages.has_checkpoint(page) {
            kv.pages.set_checkpoint(&mut kv.groups, page);
            if let Some(before) = self.answer_checkpoint.replace(page) {
                kv.pages.drop_checkpoint(&mut kv.groups, before);
            }
        }
    }

    fn note_next_key(&mut self) {
        let begin = self.path.len() * PAGE_TOKENS;
        let page = self.prompt().get(begin..begin + PAGE_TOKENS);
        self.next_key = self.end_key.zip(page).map(|(key, token_ids)| key.child(token_ids));
    }

    /// Gives everything back. The whole pages stay findable, with a checkpoint behind the last of them.
    pub(crate) fn leave(self, kv: &mut KvCache) {
        if let Some(&last) = self.path.last() {
            kv.set_checkpoint(last);
        }
        self.release_blocks(kv);
        kv.pages.leave(&mut kv.groups, &self.path);
        kv.take_back(self.n_tokens_max);
    }

    fn release_blocks(&self, kv: &mut KvCache) {
        for (group, table) in self.tables.iter().enumerate() {
            let blocks = (group, &mut kv.groups[group]);
            kv.pages.release(blocks, &self.path, table, table.first..table.blocks.len());
        }
    }

    fn is_checkpoint(&self, border: usize) -> bool {
        // The last token of a prompt is always computed, so the border before it is the last one that is found.
        let last = (self.n_prompt - 1) / PAGE_TOKENS * PAGE_TOKENS;
        border == last || border < last && border.is_multiple_of(CHECKPOINT_TOKENS)
    }
}
