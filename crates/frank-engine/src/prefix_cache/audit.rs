//! Checks that the cache says the same in all its books. For tests.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{PageId, PrefixCache};
use crate::kv_cache::{KvBlocks, PAGE_TOKENS};
use crate::scheduler::Running;

/// What a page holds and where it begins: tokens from the root on, and the key of the root.
pub(crate) type Contents<'a> = &'a mut dyn FnMut(&[PageId], &[Option<u32>]);

impl PrefixCache {
    /// Panics when pages, blocks and `running` contradict each other. Shows `contents` each page as the pages from the
    /// root to it and its blocks.
    pub(crate) fn audit(&self, groups: &[KvBlocks], running: &[Running], contents: Contents<'_>) {
        self.audit_pages(running);
        for (index, group) in groups.iter().enumerate() {
            self.audit_group(index, group, groups, running);
        }
        for (id, page) in self.ids() {
            contents(&self.way_to(id), &page.blocks);
        }
    }

    /// The tokens of a page.
    pub(crate) fn token_ids(&self, id: PageId) -> &[u32] {
        &self.page(id).token_ids
    }

    /// The key from which the tree of a page grows.
    pub(crate) fn root_of(&self, id: PageId) -> super::PageKey {
        self.page(self.way_to(id)[0]).parent_key
    }

    fn ids(&self) -> impl Iterator<Item = (PageId, &super::Page)> {
        self.pages.iter().enumerate().filter_map(|(i, page)| Some((PageId(i), page.as_ref()?)))
    }

    fn way_to(&self, id: PageId) -> Vec<PageId> {
        let mut way: Vec<_> = std::iter::successors(Some(id), |&id| self.page(id).parent).collect();
        way.reverse();
        way
    }

    fn audit_pages(&self, running: &[Running]) {
        let mut n_sequences: HashMap<PageId, usize> = HashMap::new();
        for &id in running.iter().flat_map(|running| &running.path) {
            *n_sequences.entry(id).or_default() += 1;
        }
        let (mut leaves, mut checkpoints, mut n_children) =
            (BTreeSet::new(), BTreeSet::new(), HashMap::<_, usize>::new());
        for (id, page) in self.ids() {
            assert_eq!(page.n_sequences, n_sequences.remove(&id).unwrap_or(0), "holders of {id:?}");
            assert_eq!(self.find(&page.key), Some(id));
            assert_eq!(page.key, page.parent_key.child(&page.token_ids));
            assert_eq!(page.index, page.parent.map_or(0, |parent| self.page(parent).index + 1));
            if let Some(parent) = page.parent {
                assert_eq!(self.key(parent), page.parent_key, "the parent of {id:?}");
            }
            assert!(self.children[&page.parent_key].contains(&id), "{id:?} among its siblings");
            *n_children.entry(page.parent_key).or_default() += 1;
            if page.n_sequences == 0 && !self.children.contains_key(&page.key) {
                assert!(!self.has_windows || page.checkpoint.is_some(), "{id:?} is of no use");
                leaves.insert((page.used_at, id));
            }
            checkpoints.extend(page.checkpoint.map(|used_at| (used_at, id)));
        }
        assert_eq!(n_sequences.len(), 0, "a sequence passed through pages that are gone");
        assert_eq!((&self.leaves, &self.checkpoints), (&leaves, &checkpoints));
        assert_eq!(self.by_key.len() + self.vacant.len(), self.pages.len());
        assert_eq!(self.children.len(), n_children.len());
        assert_eq!(self.children.values().map(Vec::len).sum::<usize>(), self.by_key.len());
    }

    fn audit_group(
        &self,
        index: usize,
        group: &KvBlocks,
        groups: &[KvBlocks],
        running: &[Running],
    ) {
        let mut expected: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for running in running {
            let table = &running.tables[index];
            assert!(table.blocks.len() * PAGE_TOKENS >= running.n_computed);
            for page in table.first..table.blocks.len() {
                let block = table.blocks[page];
                expected.entry(block).or_default().0 += 1;
                if let Some(&id) = running.path.get(page) {
                    assert_eq!(self.block(id, index), Some(block), "page {page} is shared");
                }
            }
        }
        let mut owners = BTreeMap::new();
        for (id, page) in self.ids() {
            let Some(block) = page.blocks[index] else {
                assert!(group.has_window(), "{id:?} lost its block");
                continue;
            };
            assert_eq!(owners.insert(block, id), None, "two pages in block {block}");
            if !group.has_window() {
                expected.entry(block).or_default().1 += 1;
            }
        }
        for &(_, id) in &self.checkpoints {
            for (of, page) in self.checkpoint_blocks(groups, id) {
                if of == index {
                    let block = self.block(page, of).expect("a checkpoint keeps its blocks");
                    expected.entry(block).or_default().1 += 1;
                }
            }
        }
        assert!(owners.keys().all(|block| expected.contains_key(block)), "a page of a free block");
        let free: BTreeSet<u32> = group.free_blocks().iter().copied().collect();
        assert_eq!(free.len(), group.free_blocks().len(), "a block is free twice");
        let total = u32::try_from(group.total()).expect("block ids are u32");
        for block in 0..total {
            let holders = expected.get(&block).copied().unwrap_or_default();
            assert_eq!(group.holders(block), holders, "holders of block {block} of group {index}");
            assert_eq!(free.contains(&block), holders == (0, 0), "whether block {block} is free");
        }
        assert_eq!(free.len() + group.used() + group.cached(), group.total());
        let needed = running.iter().map(|running| group.needed(running.n_tokens_max()));
        assert_eq!(group.total() - group.promisable(), needed.sum::<usize>(), "promises");
    }
}
