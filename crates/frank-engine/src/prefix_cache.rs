//! Prefix cache: computed pages by their content, so that a request finds what another has computed. Never touches
//! tensor bytes, and never looks at a clock.
//!
//! A page is 32 tokens and a block in each group. Pages form a tree: its key is a hash of the parent's key and of its
//! tokens, so a key stands for everything before it too, and for the scope, where the tree begins. A running sequence
//! holds all pages from its start to where it is; several hold the same ones. Whoever writes, writes to a block of its
//! own: pages are whole, and a hit that ends inside a page copies its blocks.
//!
//! A group without a window needs the blocks of all pages, one with a window those that the next row reads. The blocks
//! that slide out of a window are free at once unless a checkpoint keeps them: a page behind which a request can
//! go on, with the blocks that takes. A model without windows can go on behind any page.
//!
//! What goes when memory is wanted: of a group without a window the leaf that was used longest ago, of one with a window
//! the checkpoint that was. What a running sequence holds never goes, so that a hit is safe from the moment it is found,
//! and what one has just left is the newest of all. A page from which no request can go on any more goes at once.

#[cfg(test)]
mod audit;
mod checkpoints;
mod key;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

pub(crate) use self::key::PageKey;
use crate::kv_cache::{BlockTable, KvBlocks, PAGE_TOKENS};

/// Where a page lies in [`PrefixCache`]. Another page may get it when this one has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageId(usize);

#[derive(Debug)]
struct Page {
    key: PageKey,
    parent: Option<PageId>,
    parent_key: PageKey,
    /// Its place in every sequence that has it.
    index: usize,
    token_ids: [u32; PAGE_TOKENS],
    /// A block of each group; `None` where it slid out of a window.
    blocks: Vec<Option<u32>>,
    /// Running sequences that have passed through this page.
    n_sequences: usize,
    used_at: u64,
    /// When the checkpoint behind this page was last used, if there is one.
    checkpoint: Option<u64>,
}

/// A page and its block in one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlacedPage {
    pub(crate) key: PageKey,
    /// The page before it, unless it is the first.
    pub(crate) parent: Option<PageKey>,
    pub(crate) block: u32,
}

/// What of a prompt is in the cache.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Whole pages from the start on.
    pub(crate) pages: Vec<PageId>,
    /// The page whose first tokens come next, and how many.
    pub(crate) part: Option<(PageId, usize)>,
}

impl Hit {
    /// Tokens found.
    pub(crate) fn n_tokens(&self) -> usize {
        self.pages.len() * PAGE_TOKENS + self.part.map_or(0, |(_, n)| n)
    }
}

/// All pages that can be found.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    pages: Vec<Option<Page>>,
    vacant: Vec<PageId>,
    by_key: HashMap<PageKey, PageId>,
    /// The pages after a page or a root, by its key; no entry for a leaf.
    children: HashMap<PageKey, Vec<PageId>>,
    /// Leaves that no sequence holds, by their last use.
    leaves: BTreeSet<(u64, PageId)>,
    /// Checkpoints by their last use.
    checkpoints: BTreeSet<(u64, PageId)>,
    has_windows: bool,
    n_uses: u64,
    n_evicted: u64,
}

impl PrefixCache {
    /// An empty cache over `groups`.
    pub(crate) fn new(groups: &[KvBlocks]) -> Self {
        Self {
            pages: Vec::new(),
            vacant: Vec::new(),
            by_key: HashMap::new(),
            children: HashMap::new(),
            leaves: BTreeSet::new(),
            checkpoints: BTreeSet::new(),
            has_windows: groups.iter().any(KvBlocks::has_window),
            n_uses: 0,
            n_evicted: 0,
        }
    }

    fn page(&self, id: PageId) -> &Page {
        self.pages[id.0].as_ref().expect("a page that is named is there")
    }

    fn page_mut(&mut self, id: PageId) -> &mut Page {
        self.pages[id.0].as_mut().expect("a page that is named is there")
    }

    /// The page of `key`.
    pub(crate) fn find(&self, key: &PageKey) -> Option<PageId> {
        self.by_key.get(key).copied()
    }

    /// The key of a page.
    pub(crate) fn key(&self, id: PageId) -> PageKey {
        self.page(id).key
    }

    /// The block of a page in a group.
    pub(crate) fn block(&self, id: PageId, group: usize) -> Option<u32> {
        self.page(id).blocks[group]
    }

    /// Where a page lies in a group, when it is there (still).
    pub(crate) fn placed(&self, id: PageId, group: usize) -> Option<PlacedPage> {
        let page = self.pages[id.0].as_ref()?;
        let parent = page.parent.map(|_| page.parent_key);
        page.blocks[group].map(|block| PlacedPage { key: page.key, parent, block })
    }

    /// Pages and checkpoints that have gone so far because their memory was wanted.
    pub(crate) fn n_evicted(&self) -> u64 {
        self.n_evicted
    }

    /// The longest prefix of `token_ids` from which a request can go on. `path` are the pages that the caller has
    /// already, and `key` is that of the last of them, or of the root. The last token is never found, since its logits
    /// are wanted.
    pub(crate) fn look_up(
        &self,
        groups: &[KvBlocks],
        mut key: PageKey,
        path: &[PageId],
        token_ids: &[u32],
    ) -> Hit {
        let limit = token_ids.len() - 1;
        let mut pages = path.to_vec();
        for token_ids in token_ids[..limit].chunks_exact(PAGE_TOKENS).skip(path.len()) {
            let next = key.child(token_ids);
            let Some(page) = self.find(&next) else { break };
            pages.push(page);
            key = next;
        }
        let runs = self.runs(groups, &pages);
        let rest = &token_ids[pages.len() * PAGE_TOKENS..limit];
        if let Some((page, n)) = self.longest_part(&key, rest)
            && self.page(page).blocks.iter().all(Option::is_some)
            && can_go_on(groups, &runs, pages.len(), n)
            && self.has_room_for_copy(groups, &pages, page)
        {
            return Hit { pages, part: Some((page, n)) };
        }
        let n_pages = (0..=pages.len()).rev().find(|&n| can_go_on(groups, &runs, n, 0));
        pages.truncate(n_pages.expect("the start needs nothing"));
        Hit { pages, part: None }
    }

    /// Whether each group has a block for a copy of `page` beside that page itself and all that a hit holds.
    fn has_room_for_copy(&self, groups: &[KvBlocks], pages: &[PageId], page: PageId) -> bool {
        groups.iter().enumerate().all(|(index, group)| {
            let blocks = pages.iter().chain([&page]).filter_map(|&id| self.block(id, index));
            group.used() + blocks.filter(|&block| !group.is_held(block)).count() < group.total()
        })
    }

    /// For each number of pages and each group, how many pages in a row before that have a block.
    fn runs(&self, groups: &[KvBlocks], pages: &[PageId]) -> Vec<Vec<usize>> {
        let mut runs = vec![vec![0; groups.len()]];
        for &id in pages {
            let before = runs.last().expect("it begins with the start");
            let run = |(block, before): (&Option<u32>, &usize)| block.map_or(0, |_| before + 1);
            runs.push(self.page(id).blocks.iter().zip(before).map(run).collect());
        }
        runs
    }

    /// The page after `key` that shares the most tokens with `token_ids`, and how many.
    fn longest_part(&self, key: &PageKey, token_ids: &[u32]) -> Option<(PageId, usize)> {
        let children = self.children.get(key)?.iter();
        let shared = |&id: &PageId| {
            let own = self.page(id).token_ids.iter();
            (id, own.zip(token_ids).take_while(|(own, other)| own == other).count())
        };
        children.map(shared).max_by_key(|&(_, n)| n).filter(|&(_, n)| n > 0)
    }

    /// A sequence passes through `page` from now on. The caller holds its blocks.
    pub(crate) fn enter(&mut self, id: PageId) {
        self.n_uses += 1;
        let now = self.n_uses;
        let page = self.page_mut(id);
        let was = page.used_at;
        page.n_sequences += 1;
        page.used_at = now;
        self.leaves.remove(&(was, id));
    }

    /// A sequence ends that passed through `path`. The caller has released its blocks.
    pub(crate) fn leave(&mut self, groups: &mut [KvBlocks], path: &[PageId]) {
        self.n_uses += 1;
        let now = self.n_uses;
        for &id in path.iter().rev() {
            let page = self.page_mut(id);
            page.n_sequences -= 1;
            page.used_at = now;
            self.settle(groups, id);
        }
    }

    /// Puts a page that may have become a leaf where it belongs. When no request can go on from it any more it goes, and
    /// so may those before it.
    fn settle(&mut self, groups: &mut [KvBlocks], id: PageId) {
        let mut next = Some(id);
        while let Some(id) = next {
            let page = self.page(id);
            if page.n_sequences > 0 || self.children.contains_key(&page.key) {
                return;
            }
            if !self.has_windows || page.checkpoint.is_some() {
                self.leaves.insert((page.used_at, id));
                return;
            }
            next = page.parent;
            self.remove(groups, id);
        }
    }

    /// Takes out a leaf without a checkpoint that no sequence holds.
    fn remove(&mut self, groups: &mut [KvBlocks], id: PageId) {
        let page = self.pages[id.0].take().expect("a page that is named is there");
        self.vacant.push(id);
        self.leaves.remove(&(page.used_at, id));
        self.by_key.remove(&page.key);
        let siblings = self.children.get_mut(&page.parent_key).expect("it was a child");
        siblings.retain(|&sibling| sibling != id);
        if siblings.is_empty() {
            self.children.remove(&page.parent_key);
        }
        for (group, block) in groups.iter_mut().zip(page.blocks) {
            if let Some(block) = block {
                group.give_up(block);
            }
        }
    }

    /// Makes the page after `parent` (or after the root) findable that a sequence has computed, and lets the sequence
    /// pass through it. Its blocks are those of `tables`. When the page is there already, the sequence shares the
    /// blocks and its own are free again.
    pub(crate) fn insert(
        &mut self,
        groups: &mut [KvBlocks],
        parent: Option<PageId>,
        keys: (PageKey, PageKey),
        token_ids: &[u32],
        tables: &mut [BlockTable],
    ) -> PageId {
        let (parent_key, key) = keys;
        let id = self.find(&key).unwrap_or_else(|| {
            let index = parent.map_or(0, |parent| self.page(parent).index + 1);
            let token_ids = token_ids.try_into().expect("a page has a fixed number of tokens");
            let blocks = vec![None; groups.len()];
            let (n_sequences, used_at, checkpoint) = (0, 0, None);
            let page = Page {
                key,
                parent,
                parent_key,
                index,
                token_ids,
                blocks,
                n_sequences,
                used_at,
                checkpoint,
            };
            self.place(page)
        });
        let page = self.pages[id.0].as_mut().expect("it was just found or placed");
        for ((group, table), shared) in groups.iter_mut().zip(tables).zip(&mut page.blocks) {
            let Some(own) = table.block(page.index) else { continue };
            match *shared {
                Some(shared) => {
                    group.hold(shared);
                    group.release(own);
                    table.blocks[page.index] = shared;
                }
                None => {
                    *shared = Some(own);
                    if !group.has_window() {
                        group.keep(own);
                    }
                }
            }
        }
        self.enter(id);
        id
    }

    fn place(&mut self, page: Page) -> PageId {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.pages.push(None);
            PageId(self.pages.len() - 1)
        });
        self.by_key.insert(page.key, id);
        self.children.entry(page.parent_key).or_default().push(id);
        self.pages[id.0] = Some(page);
        id
    }

    /// A sequence lets go of the blocks of `pages` in a group, which have slid out of its window or which it does not
    /// need any more. `path` are the pages that it passed through.
    pub(crate) fn release(
        &mut self,
        (index, group): (usize, &mut KvBlocks),
        path: &[PageId],
        table: &BlockTable,
        pages: Range<usize>,
    ) {
        for page in pages {
            let is_free = table.block(page).is_some_and(|block| group.release(block));
            if is_free && let Some(&id) = path.get(page) {
                self.page_mut(id).blocks[index] = None;
            }
        }
    }

    /// Holds a page and its blocks for a moment, as a sequence would.
    pub(crate) fn pin(&mut self, groups: &mut [KvBlocks], id: PageId) {
        self.enter(id);
        for (group, block) in groups.iter_mut().zip(&self.page(id).blocks) {
            block.iter().for_each(|&block| group.hold(block));
        }
    }

    /// Ends [`PrefixCache::pin`].
    pub(crate) fn unpin(&mut self, groups: &mut [KvBlocks], id: PageId) {
        let page = self.pages[id.0].as_mut().expect("a page that is held is there");
        for (group, block) in groups.iter_mut().zip(&mut page.blocks) {
            block.take_if(|block| group.release(*block));
        }
        self.leave(groups, &[id]);
    }

    /// Gives up what was used longest ago of a group of which no block is free. False when nothing could be given up.
    pub(crate) fn evict(&mut self, groups: &mut [KvBlocks], group: usize) -> bool {
        let victim = if groups[group].has_window() {
            self.checkpoints.iter().map(|&(_, id)| id).find(|&id| self.frees(groups, id, group))
        } else {
            self.leaves.first().map(|&(_, id)| id)
        };
        let Some(victim) = victim else { return false };
        self.n_evicted += 1;
        self.drop_checkpoint(groups, victim);
        if groups[group].has_window() {
            self.settle(groups, victim);
        } else {
            let parent = self.page(victim).parent;
            self.remove(groups, victim);
            if let Some(parent) = parent {
                self.settle(groups, parent);
            }
        }
        true
    }
}

/// Whether a request can go on `part` tokens behind `n_pages` pages that have blocks as `runs` says.
fn can_go_on(groups: &[KvBlocks], runs: &[Vec<usize>], n_pages: usize, part: usize) -> bool {
    let position = n_pages * PAGE_TOKENS + part;
    let reached = groups.iter().map(|group| n_pages.saturating_sub(group.first_page(position)));
    reached.zip(&runs[n_pages]).all(|(reached, &run)| reached <= run)
}
