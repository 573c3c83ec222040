//! The most of one thing that fits beside what the operator asks for, by trying every whole unit. Never trades what was
//! asked for.

use crate::draft::Planner;
use crate::kv::KV_BLOCK_TOKENS;
use crate::limits::{Limits, StreamCache};
use crate::machine::Machine;
use crate::needs::ModelNeeds;
use crate::plan::{Plan, plan};
use crate::refusal::Refusal;
use crate::split::occupied;

/// Units that are tried one by one. Where there are more, they are tried in strides first, and then those of the one
/// stride that decides: a million tokens of context are this many blocks.
const TRIES_MAX: u64 = 1 << 15;

/// Requests at the same time are not looked for beyond this: each would wait minutes for its next token.
const REQUESTS_MAX: u32 = 1 << 12;

/// What [`optimize`] makes as large as it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Tokens of context for each request, in whole KV blocks, up to what the model was trained on.
    Context,
    /// Requests answered at the same time.
    Requests,
    /// Resident experts, with as few slots for the others as work.
    Experts,
}

/// Plans with the most of `goal` that fits. What `limits` say of it is the least that will do; all else stays as asked
/// for, or by default.
///
/// # Errors
/// The [`Refusal`] of [`plan`] for `limits` when nothing fits.
pub fn optimize(
    needs: &ModelNeeds,
    machine: &Machine,
    limits: &Limits,
    goal: Goal,
) -> Result<Plan, Refusal> {
    let mut search = Search { planner: Planner::new(needs, machine, limits), limits, n_tried: 0 };
    let best = match goal {
        Goal::Context => search.context(),
        Goal::Requests => search.requests(),
        Goal::Experts => search.experts(),
    };
    plan(needs, machine, best.as_ref().unwrap_or(limits))
}

struct Search<'a> {
    planner: Planner<'a>,
    limits: &'a Limits,
    /// Plans that were drafted.
    n_tried: u64,
}

impl Search<'_> {
    fn context(&mut self) -> Option<Limits> {
        let least = self.limits.ctx_size.unwrap_or(1).max(1);
        let most = match self.planner.needs.context_train {
            0 => u32::MAX,
            trained => trained.max(least),
        };
        let limits = self.limits;
        // The least may end inside a block, and so may the most.
        let with = |blocks: u64| {
            let tokens = u32::try_from(blocks * u64::from(KV_BLOCK_TOKENS)).unwrap_or(most);
            Limits { ctx_size: Some(tokens.clamp(least, most)), ..limits.clone() }
        };
        let blocks = |tokens: u32| u64::from(tokens.div_ceil(KV_BLOCK_TOKENS));
        let best = self.most(blocks(least), blocks(most), with);
        best.map(with)
    }

    fn requests(&mut self) -> Option<Limits> {
        let least = self.limits.parallel.unwrap_or(1).max(1);
        let limits = self.limits;
        let with = |n: u64| Limits { parallel: u32::try_from(n).ok(), ..limits.clone() };
        let best = self.most(u64::from(least), u64::from(REQUESTS_MAX.max(least)), with);
        best.map(with)
    }

    /// The largest of `least..=most` with which it fits, which it then must with every smaller one.
    fn most(&mut self, least: u64, most: u64, with: impl Fn(u64) -> Limits) -> Option<u64> {
        let stride = (most - least).div_ceil(TRIES_MAX).max(1);
        let mut fitting = |from: u64, to: u64, stride: usize| {
            let tried = (from..=to).step_by(stride).filter(|&n| self.fits(&with(n)));
            tried.last()
        };
        let coarse = fitting(least, most, usize::try_from(stride).ok()?)?;
        fitting(coarse, most.min(coarse + stride - 1), 1)
    }

    /// Every size of the cache from its floor on, and which of them leaves most experts resident: the largest of these.
    fn experts(&mut self) -> Option<Limits> {
        let as_asked = self.n_resident(self.limits);
        let mut best = as_asked.map(|n_resident| (n_resident, self.limits.clone()));
        if as_asked == Some(self.planner.experts.len()) {
            return best.map(|(_, limits)| limits);
        }
        let (floor, slot_bytes) = self.planner.cache_floor();
        let asked = self.limits.stream_cache.clone();
        let asked_slots = asked.as_ref().map_or(0, |cache| cache.bytes / slot_bytes.max(1));
        let (least, most) = (floor.max(asked_slots), self.planner.experts.len() as u64);
        let device = asked.and_then(|cache| cache.device);
        let stride = usize::try_from(most.saturating_sub(least) / TRIES_MAX + 1).ok()?;
        for slots in (least..=most.max(least)).step_by(stride) {
            let bytes = occupied(slots.saturating_mul(slot_bytes));
            let cache = StreamCache { device: device.clone(), bytes };
            let limits = Limits { stream_cache: Some(cache), ..self.limits.clone() };
            let Some(n_resident) = self.n_resident(&limits) else { continue };
            if best.as_ref().is_none_or(|(most, _)| n_resident >= *most) {
                best = Some((n_resident, limits));
            }
        }
        best.map(|(_, limits)| limits)
    }

    fn fits(&mut self, limits: &Limits) -> bool {
        self.n_tried += 1;
        self.planner.fits(limits)
    }

    /// Resident experts with these limits; `None` when they do not fit.
    fn n_resident(&mut self, limits: &Limits) -> Option<usize> {
        self.n_tried += 1;
        let draft = self.planner.draft(limits);
        draft.obstacle.is_none().then(|| draft.split.resident())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Device, Host};
    use crate::needs::{ComputeNeeds, ExpertLayer, LayerState, PromptWork};

    const GIB: u64 = 1 << 30;

    /// 40 layers of 384 experts of 11.96 MiB, trained on 262,144 tokens.
    fn large_model() -> ModelNeeds {
        let layer =
            |layer| ExpertLayer { layer, n_experts: 384, n_used: 6, slot_bytes: 12_540_992 };
        ModelNeeds {
            arch: "made-up".to_owned(),
            file_bytes: 400 * GIB,
            layers: 40,
            experts: 384,
            experts_used: 6,
            context_train: 262_144,
            dense_bytes: 8 * GIB,
            expert_bytes: 40 * 384 * 12_540_992,
            expert_layers: (0..40).map(layer).collect(),
            expert_staging_bytes: 4 << 20,
            state: vec![LayerState::Paged { bytes_per_token: 1152, window: None }; 40],
            compute: ComputeNeeds { per_row: 1 << 20, ..ComputeNeeds::default() },
            runtime_bytes: 50 << 20,
            page_table_reach: 0,
            io_staging_bytes: 4 << 20,
            decode_bytes_per_token: 11 * GIB,
            prompt: PromptWork::default(),
            warnings: Vec::new(),
        }
    }

    fn machine(free: u64) -> Machine {
        let device = Device {
            id: "cpu:0".to_owned(),
            kind: "cpu".to_owned(),
            total: free,
            free,
            headroom: Some(0),
            bandwidth: None,
            arithmetic: None,
            part_of: None,
            is_declared: false,
        };
        let host = Host { ram: free, cores: 2 };
        Machine { host, devices: vec![device], drives: Vec::new() }
    }

    /// Plans that a search for `goal` drafts, and what it finds.
    fn search(needs: &ModelNeeds, free: u64, goal: Goal) -> (u64, Option<Limits>) {
        let (machine, limits) = (machine(free), Limits::default());
        let planner = Planner::new(needs, &machine, &limits);
        let mut search = Search { planner, limits: &limits, n_tried: 0 };
        let best = match goal {
            Goal::Context => search.context(),
            Goal::Requests => search.requests(),
            Goal::Experts => search.experts(),
        };
        (search.n_tried, best)
    }

    #[test]
    fn every_whole_unit_is_tried_once() {
        let needs = large_model();
        // The first block is looked at again when the one that decides is known.
        assert_eq!(search(&needs, 32 * GIB, Goal::Context).0, 262_144 / 32 + 1);
        assert_eq!(search(&needs, 32 * GIB, Goal::Requests).0, 4096 + 1);
        // What was asked for is tried first.
        assert_eq!(search(&needs, 32 * GIB, Goal::Experts).0, 1 + 15_360 - 240 + 1);
    }

    #[test]
    fn a_header_cannot_make_the_search_longer_than_two_times_its_bound() {
        let endless = ModelNeeds { context_train: u32::MAX, ..large_model() };
        let (n_tried, best) = search(&endless, 1 << 45, Goal::Context);
        assert!(n_tried <= 2 * TRIES_MAX + 2, "{n_tried}");
        // What strides and the one that decides find is what block after block would.
        let found = best.and_then(|limits| limits.ctx_size).expect("it fits");
        let (machine, fits) = (machine(1 << 45), Limits::default());
        let planner = Planner::new(&endless, &machine, &fits);
        let with = |ctx_size| Limits { ctx_size: Some(ctx_size), ..Limits::default() };
        assert!(planner.fits(&with(found)) && !planner.fits(&with(found + KV_BLOCK_TOKENS)));
        let layer = ExpertLayer { layer: 0, n_experts: 1 << 20, n_used: 1, slot_bytes: 64 << 10 };
        let crowded = ModelNeeds {
            layers: 1,
            experts: 1 << 20,
            expert_layers: vec![layer],
            expert_bytes: 64 << 30,
            ..large_model()
        };
        let (n_tried, _) = search(&crowded, 32 * GIB, Goal::Experts);
        assert!(n_tried <= 2 * TRIES_MAX, "{n_tried}");
    }
}
