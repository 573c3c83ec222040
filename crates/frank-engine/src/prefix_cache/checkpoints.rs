//! Checkpoints: behind which pages a request can go on though blocks have slid out of windows, and what that keeps.

use super::{PageId, PrefixCache};
use crate::kv_cache::{KvBlocks, PAGE_TOKENS};

impl PrefixCache {
    /// Notes that a request goes on behind `page`.
    pub(crate) fn use_checkpoint(&mut self, id: PageId) {
        let Some(was) = self.page(id).checkpoint else { return };
        self.n_uses += 1;
        self.checkpoints.remove(&(was, id));
        self.checkpoints.insert((self.n_uses, id));
        self.page_mut(id).checkpoint = Some(self.n_uses);
    }

    /// Whether there is a checkpoint behind `page`.
    pub(crate) fn has_checkpoint(&self, id: PageId) -> bool {
        self.page(id).checkpoint.is_some()
    }

    /// Keeps what it takes to go on behind `page`, when all of it is still there. Of use for models with windows only.
    pub(crate) fn set_checkpoint(&mut self, groups: &mut [KvBlocks], id: PageId) {
        if !self.has_windows {
            return;
        }
        if self.has_checkpoint(id) {
            return self.use_checkpoint(id);
        }
        let span = self.checkpoint_blocks(groups, id);
        let Some(blocks) =
            span.iter().map(|&(group, page)| self.block(page, group)).collect::<Option<Vec<_>>>()
        else {
            return;
        };
        for (&(group, _), block) in span.iter().zip(blocks) {
            groups[group].keep(block);
        }
        self.n_uses += 1;
        self.checkpoints.insert((self.n_uses, id));
        self.page_mut(id).checkpoint = Some(self.n_uses);
    }

    /// What a checkpoint behind `page` keeps, as groups and pages: what the next row reads of each group with a window.
    pub(crate) fn checkpoint_blocks(
        &self,
        groups: &[KvBlocks],
        id: PageId,
    ) -> Vec<(usize, PageId)> {
        let border = (self.page(id).index + 1) * PAGE_TOKENS;
        let mut blocks = Vec::new();
        for (index, group) in groups.iter().enumerate().filter(|(_, group)| group.has_window()) {
            let mut at = Some(id);
            while let Some(id) = at
                && self.page(id).index >= group.first_page(border)
            {
                blocks.push((index, id));
                at = self.page(id).parent;
            }
        }
        blocks
    }

    /// Gives up a checkpoint, where there is one.
    pub(crate) fn drop_checkpoint(&mut self, groups: &mut [KvBlocks], id: PageId) {
        let Some(was) = self.page_mut(id).checkpoint.take() else { return };
        self.checkpoints.remove(&(was, id));
        // Only `index` and `parent` of pages are looked at, so the span is the one that was kept.
        for (group, page) in self.checkpoint_blocks(groups, id) {
            let block = self.block(page, group).expect("a checkpoint keeps its blocks");
            if groups[group].give_up(block) {
                self.page_mut(page).blocks[group] = None;
            }
        }
    }

    /// Whether the checkpoint behind `page` keeps a block of `group` that no sequence holds.
    pub(super) fn frees(&self, groups: &[KvBlocks], id: PageId, group: usize) -> bool {
        let blocks = self.checkpoint_blocks(groups, id).into_iter();
        let of_group = blocks.filter(|&(of, _)| of == group);
        of_group
            .filter_map(|(_, page)| self.block(page, group))
            .any(|block| !groups[group].is_held(block))
    }
}
