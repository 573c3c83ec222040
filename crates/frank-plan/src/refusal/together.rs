//! Changes that are enough together where none is alone: all that can be given is, and what is not needed is taken back.
//! Never leaves out an option that cannot be said otherwise.

use super::memory::BUDGET_STEP;
use super::settings::largest;
use super::{CTX_SIZE_STEP, Search, UBATCH_MIN};
use crate::draft::Planner;
use crate::kv::{ARENA_BYTES, KV_BLOCK_TOKENS};
use crate::limits::{Limits, StreamCache};
use crate::ranking::Ranking;

/// The most that an option can say, in whole steps.
const BYTES_MAX: u64 = u64::MAX - u64::MAX % BUDGET_STEP;

/// Something that an option says.
#[derive(Debug, Clone, Copy)]
enum Setting {
    MemoryBudget,
    Headroom,
    /// By its place among those given.
    Device(usize),
    /// By its place among those given.
    ExpertBudget(usize),
    StreamCache,
    PrefixCache,
    Ubatch,
    Parallel,
    CtxSize,
}

impl Setting {
    /// Makes `to` say of it what `from` says.
    fn copy(self, from: &Limits, to: &mut Limits) {
        match self {
            Self::MemoryBudget => to.memory_budget = from.memory_budget,
            Self::Headroom => to.headroom = from.headroom,
            Self::Device(index) => to.devices[index].1 = from.devices[index].1,
            Self::ExpertBudget(index) => to.expert_budgets[index].1 = from.expert_budgets[index].1,
            Self::StreamCache => to.stream_cache.clone_from(&from.stream_cache),
            Self::PrefixCache => to.prefix_cache = from.prefix_cache,
            Self::Ubatch => to.ubatch = from.ubatch,
            Self::Parallel => to.parallel = from.parallel,
            Self::CtxSize => to.ctx_size = from.ctx_size,
        }
    }
}

impl Search<'_> {
    /// The changes that are needed, each as small as the others let it be. `None` where nothing is enough.
    pub(super) fn together(&self) -> Option<Limits> {
        let mut limits = self.everything().into_iter().find(|limits| self.fits(limits))?;
        let settings = self.settings();
        for &setting in &settings {
            let mut without = limits.clone();
            setting.copy(self.limits, &mut without);
            if self.fits(&without) {
                limits = without;
            }
        }
        for &setting in &settings {
            if let Some(smaller) = self.smaller(setting, &limits) {
                limits = smaller;
            }
        }
        (limits != *self.limits).then_some(limits)
    }

    /// Says that nothing is enough, or without which option something would be.
    pub(super) fn nothing_fits(&self) -> String {
        let ranking = &self.limits.ranking;
        let given = [
            ("--cache-dir", self.limits.disk_cache),
            ("--protected-experts", ranking.protected.is_some()),
        ];
        let given: Vec<&str> =
            given.into_iter().filter(|&(_, is_given)| is_given).map(|(name, _)| name).collect();
        let ranking = Ranking { protected: None, ..ranking.clone() };
        let limits = Limits { disk_cache: false, ranking, ..self.limits.clone() };
        let planner = Planner::new(self.planner.needs, self.planner.machine, &limits);
        let search = Search { planner: &planner, limits: &limits, attempted: self.attempted };
        if !given.is_empty() && search.everything().iter().any(|limits| search.fits(limits)) {
            format!("; it can only fit without {}", given.join(" and "))
        } else {
            "; nothing on this machine makes it fit".to_owned()
        }
    }

    /// One short request and all memory, with the slots where the operator wants them and then on each other device.
    fn everything(&self) -> Vec<Limits> {
        let mut limits = Limits {
            ctx_size: Some(self.attempted.settings.ctx_size.clamp(1, KV_BLOCK_TOKENS)),
            parallel: Some(1),
            ubatch: Some(1),
            prefix_cache: self.limits.prefix_cache.map(|_| 0),
            memory_budget: self.limits.memory_budget.map(|_| BYTES_MAX),
            headroom: Some(0),
            ..self.limits.clone()
        };
        let pool_bytes = self.pool_bytes_max() - self.pool_bytes_max() % BUDGET_STEP;
        for (id, bytes) in &mut limits.devices {
            let is_pool = |device: &crate::Device| device.id == *id && device.is_declared;
            let is_pool = self.planner.machine.devices.iter().any(is_pool);
            *bytes = if is_pool { pool_bytes.max(*bytes) } else { BYTES_MAX };
        }
        limits.expert_budgets.iter_mut().for_each(|(_, bytes)| *bytes = BYTES_MAX);
        let bytes = self.planner.cache_floor_bytes();
        limits.stream_cache.iter_mut().for_each(|cache| cache.bytes = bytes);
        let mut all = vec![limits.clone()];
        if self.planner.experts.len() > 0 {
            let devices = self.planner.machine.devices.iter();
            all.extend(devices.filter(|device| device.kind == "cpu").map(|device| {
                let cache = StreamCache { device: Some(device.id.clone()), bytes };
                Limits { stream_cache: Some(cache), ..limits.clone() }
            }));
        }
        all
    }

    /// What may be changed, that first which should rather stay as it was asked for.
    fn settings(&self) -> Vec<Setting> {
        let Limits { devices, expert_budgets, .. } = self.limits;
        let mut settings = vec![Setting::MemoryBudget];
        settings.extend((0..devices.len()).map(Setting::Device));
        settings.push(Setting::Headroom);
        settings.extend((0..expert_budgets.len()).map(Setting::ExpertBudget));
        settings.extend([
            Setting::StreamCache,
            Setting::CtxSize,
            Setting::Parallel,
            Setting::Ubatch,
            Setting::PrefixCache,
        ]);
        settings
    }

    /// `limits` with the smallest change of a setting that fits, where it was changed.
    fn smaller(&self, setting: Setting, limits: &Limits) -> Option<Limits> {
        let mut asked = limits.clone();
        setting.copy(self.limits, &mut asked);
        if asked == *limits {
            return None;
        }
        match setting {
            Setting::MemoryBudget => self.least_bytes(asked.memory_budget?, BYTES_MAX, |bytes| {
                Limits { memory_budget: Some(bytes), ..limits.clone() }
            }),
            Setting::Device(index) => {
                let with = |bytes| {
                    let mut limits = limits.clone();
                    limits.devices[index].1 = bytes;
                    limits
                };
                self.least_bytes(asked.devices[index].1, limits.devices[index].1, with)
            }
            Setting::ExpertBudget(index) => {
                let with = |bytes| {
                    let mut limits = limits.clone();
                    limits.expert_budgets[index].1 = bytes;
                    limits
                };
                self.least_bytes(asked.expert_budgets[index].1, BYTES_MAX, with)
            }
            Setting::Headroom => self.most_headroom(limits),
            Setting::StreamCache => self.most_stream_cache(limits),
            Setting::PrefixCache => {
                let most = self.limits.prefix_cache? / ARENA_BYTES;
                self.most(most, |n| Limits {
                    prefix_cache: Some(n * ARENA_BYTES),
                    ..limits.clone()
                })
            }
            Setting::Ubatch => self.most_rows(limits),
            Setting::Parallel => {
                let most = u64::from(self.attempted.settings.parallel);
                self.most(most, |n| Limits { parallel: u32::try_from(n).ok(), ..limits.clone() })
            }
            Setting::CtxSize => self.most_context(limits),
        }
    }

    /// The largest of `1..=most` that fits.
    fn most(&self, most: u64, with: impl Fn(u64) -> Limits) -> Option<Limits> {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        largest(most, |n| self.fits(&with(u64::from(n)))).map(|n| with(u64::from(n)))
    }

    fn most_headroom(&self, limits: &Limits) -> Option<Limits> {
        let most = self.attempted.headrooms.iter().max()? / BUDGET_STEP;
        self.most(most, |n| Limits { headroom: Some(n * BUDGET_STEP), ..limits.clone() })
    }

    fn most_stream_cache(&self, limits: &Limits) -> Option<Limits> {
        let (cache, asked) = (limits.stream_cache.as_ref()?, self.limits.stream_cache.as_ref()?);
        let most = asked.bytes.checked_sub(cache.bytes)? / ARENA_BYTES;
        self.most(most, |n| {
            let bytes = cache.bytes.saturating_add(n * ARENA_BYTES);
            Limits { stream_cache: Some(StreamCache { bytes, ..cache.clone() }), ..limits.clone() }
        })
    }

    /// Halves of what was asked for.
    fn most_rows(&self, limits: &Limits) -> Option<Limits> {
        let asked = self.attempted.settings.ubatch;
        let first = if asked == 0 { UBATCH_MIN } else { asked };
        let halves = std::iter::successors(Some(first), |rows| Some(rows / 2));
        let halves = halves.take_while(|&rows| rows > 0);
        let mut halves = halves.map(|rows| Limits { ubatch: Some(rows), ..limits.clone() });
        halves.find(|limits| self.fits(limits))
    }

    /// Round numbers, or whole blocks where none of these fits.
    fn most_context(&self, limits: &Limits) -> Option<Limits> {
        let asked = self.attempted.settings.ctx_size;
        let most = if asked == 0 { CTX_SIZE_STEP } else { asked };
        let of = |step: u32| {
            self.most(u64::from(most / step), |n| Limits {
                ctx_size: u32::try_from(n * u64::from(step)).ok(),
                ..limits.clone()
            })
        };
        of(CTX_SIZE_STEP).or_else(|| of(KV_BLOCK_TOKENS))
    }
}
