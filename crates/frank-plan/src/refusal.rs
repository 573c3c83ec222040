//! A refused plan, and what would fit instead: each suggestion was planned before it is made.

use serde::Serialize;

use crate::bounds::sharing;
use crate::draft::{Draft, Planner};
use crate::kv::ARENA_BYTES;
use crate::limits::{Limits, StreamCache};
use crate::obstacle::Obstacle;
use crate::plan::{DeviceUse, Plan};
use crate::size::Size;

/// Suggested contexts are multiples of this: a round number is easier to keep than the last token.
const CTX_SIZE_STEP: u32 = 256;

/// Steps are not suggested below this many rows: the prompt would be read row by row, and each weight with it.
const UBATCH_MIN: u32 = 32;

/// Suggested budgets are rounded up to this, and suggested headrooms down.
const BUDGET_STEP: u64 = 1 << 20;

/// A plan that does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("does not fit on {device}: {reason}")]
pub struct Refusal {
    /// The device that is short, or that the request is about.
    pub device: String,
    /// Bytes that are missing there for the settings asked for; 0 when bytes are not what is missing.
    pub short_by: u64,
    /// What is needed and what there is, in words and sizes.
    pub reason: String,
    /// Options to add, or to change where they were given. Each entry makes it fit on its own, which was
    /// checked by planning with it. Empty when nothing that the operator can set is enough.
    pub change: Vec<String>,
    /// What would have been held. Not part of the JSON of a refusal.
    #[serde(skip)]
    pub attempt: Box<Plan>,
}

impl Refusal {
    /// `draft` without its obstacle, which is `obstacle`.
    pub(crate) fn new(
        planner: &Planner<'_>,
        limits: &Limits,
        draft: Draft,
        obstacle: &Obstacle,
    ) -> Self {
        let search = Search { planner, limits, attempted: &draft };
        let reason = obstacle.reason() + &search.smallest_reason();
        let change = search.changes();
        Self {
            device: obstacle.device().to_owned(),
            short_by: obstacle.short_by(),
            reason,
            change,
            attempt: Box::new(Plan::new(planner, limits, draft)),
        }
    }
}

/// The search for settings that fit where `limits` do not.
struct Search<'a> {
    planner: &'a Planner<'a>,
    limits: &'a Limits,
    attempted: &'a Draft,
}

impl Search<'_> {
    /// Each way to make it fit: a smaller prefix cache, less context, fewer requests, smaller steps or larger ones,
    /// several of these where none is enough alone, more memory.
    fn changes(&self) -> Vec<String> {
        let alone = [
            self.smaller_prefix_cache(),
            self.smaller_stream_cache(),
            self.less_context(self.limits),
            self.fewer_requests(),
            self.smaller_steps(),
            self.more_rows(),
        ];
        let mut changes: Vec<Limits> = alone.into_iter().flatten().collect();
        if changes.is_empty() {
            changes.extend(self.less_of_all());
        }
        changes.extend(self.larger_stream_cache());
        changes.extend(self.more_memory());
        changes.iter().map(|limits| options(self.limits, limits)).collect()
    }

    fn fits(&self, limits: &Limits) -> bool {
        self.planner.fits(limits)
    }

    /// The largest prefix cache that fits, and none where there is room for none.
    fn smaller_prefix_cache(&self) -> Option<Limits> {
        let asked = self.limits.prefix_cache.filter(|&bytes| bytes > 0)?;
        let with = |steps: u32| Limits {
            prefix_cache: Some(u64::from(steps) * ARENA_BYTES),
            ..self.limits.clone()
        };
        let steps_max = u32::try_from((asked - 1) / ARENA_BYTES).unwrap_or(u32::MAX);
        let steps = largest(steps_max, |steps| self.fits(&with(steps))).unwrap_or(0);
        Some(with(steps)).filter(|limits| self.fits(limits))
    }

    /// The largest cache of streamed experts that fits, where the operator chose one.
    fn smaller_stream_cache(&self) -> Option<Limits> {
        let asked = self.limits.stream_cache.as_ref()?.bytes;
        let least = self.planner.cache_floor_bytes();
        let with = |steps: u32| {
            self.with_stream_cache(least.saturating_add(u64::from(steps) * ARENA_BYTES))
        };
        let steps_max = asked.checked_sub(least)?.div_ceil(ARENA_BYTES);
        let steps_max = u32::try_from(steps_max.saturating_sub(1)).unwrap_or(u32::MAX);
        let steps = largest(steps_max, |steps| self.fits(&with(steps))).unwrap_or(0);
        Some(with(steps)).filter(|limits| *limits != *self.limits && self.fits(limits))
    }

    /// A cache of streamed experts at its floor, where the operator chose less.
    fn larger_stream_cache(&self) -> Option<Limits> {
        let asked = self.limits.stream_cache.as_ref()?.bytes;
        let least = self.planner.cache_floor_bytes();
        let limits = self.with_stream_cache(least);
        (asked < least && self.fits(&limits)).then_some(limits)
    }

    fn with_stream_cache(&self, bytes: u64) -> Limits {
        let cache = self.limits.stream_cache.clone().map(|cache| StreamCache { bytes, ..cache });
        Limits { stream_cache: cache, ..self.limits.clone() }
    }

    /// `limits` with the largest context, in steps, that fits; less than what was asked for.
    fn less_context(&self, limits: &Limits) -> Option<Limits> {
        let with = |steps: u32| Limits { ctx_size: Some(steps * CTX_SIZE_STEP), ..limits.clone() };
        let steps_max = self.attempted.settings.ctx_size.saturating_sub(1) / CTX_SIZE_STEP;
        largest(steps_max, |steps| self.fits(&with(steps))).map(with)
    }

    fn fewer_requests(&self) -> Option<Limits> {
        let with = |parallel| Limits { parallel: Some(parallel), ..self.limits.clone() };
        largest(self.attempted.settings.parallel.saturating_sub(1), |parallel| {
            self.fits(&with(parallel))
        })
        .map(with)
    }

    fn smaller_steps(&self) -> Option<Limits> {
        let with = |ubatch| Limits { ubatch: Some(ubatch), ..self.limits.clone() };
        let halves = std::iter::successors(Some(self.attempted.settings.ubatch / 2), |ubatch| {
            Some(ubatch / 2)
        });
        halves.take_while(|&ubatch| ubatch >= UBATCH_MIN).map(with).find(|limits| self.fits(limits))
    }

    /// Steps that hold a row of each request, where they did not.
    fn more_rows(&self) -> Option<Limits> {
        let limits =
            Limits { ubatch: Some(self.attempted.settings.parallel), ..self.limits.clone() };
        (self.attempted.settings.ubatch < self.attempted.settings.parallel && self.fits(&limits))
            .then_some(limits)
    }

    /// One request at a time, in small steps and without a prefix cache only where that is needed, with the context
    /// that then fits.
    fn less_of_all(&self) -> Option<Limits> {
        let one_request = Limits { parallel: Some(1), ..self.limits.clone() };
        let small_steps = Limits { ubatch: Some(self.small_ubatch()), ..one_request.clone() };
        let no_cache = self.limits.prefix_cache.map(|_| 0);
        let without_cache = Limits { prefix_cache: no_cache, ..small_steps.clone() };
        [one_request, small_steps, without_cache].into_iter().find_map(|limits| {
            if self.fits(&limits) { Some(limits) } else { self.less_context(&limits) }
        })
    }

    /// Budgets raised and headroom lowered as far as the settings asked for need, where the machine has the memory.
    fn more_memory(&self) -> Option<Limits> {
        let devices = &self.planner.machine.devices;
        let used: Vec<u64> = self.attempted.uses.iter().map(DeviceUse::total).collect();
        let all = used.iter().fold(0, |sum: u64, &bytes| sum.saturating_add(bytes));
        let mut limits = self.limits.clone();
        if let Some(budget) = &mut limits.memory_budget {
            *budget = raised(*budget, all)?;
        }
        for (index, device) in devices.iter().enumerate() {
            for (_, cap) in limits.devices.iter_mut().filter(|(id, _)| *id == device.id) {
                *cap = raised(*cap, used[index])?;
            }
            if let Some(budget) = self.limits.expert_budget(&device.id) {
                let least = raised(budget, self.attempted.uses[index].experts)?;
                let own = limits.expert_budgets.iter_mut().filter(|(id, _)| *id == device.id);
                own.for_each(|(_, bytes)| *bytes = least);
            }
        }
        limits.headroom = self.lower_headroom(&used)?.or(limits.headroom);
        (limits != *self.limits && self.fits(&limits)).then_some(limits)
    }

    /// The headroom that is left where devices hold `used` bytes, if that is less than it should be. `None` where there
    /// is less memory than that.
    #[expect(clippy::option_option, reason = "no memory and no change are different answers")]
    fn lower_headroom(&self, used: &[u64]) -> Option<Option<u64>> {
        let machine = self.planner.machine;
        let mut lower = None;
        for (index, device) in machine.devices.iter().enumerate() {
            let members = sharing(machine, index);
            let used = members.iter().fold(0, |sum: u64, &n| sum.saturating_add(used[n]));
            let spare = device.free.checked_sub(used)?;
            if spare < self.attempted.headrooms[index] {
                let spare = spare - spare % BUDGET_STEP;
                lower = Some(lower.unwrap_or(u64::MAX).min(spare));
            }
        }
        Some(lower)
    }

    /// What one short request in small steps takes, when not even that fits; empty otherwise.
    fn smallest_reason(&self) -> String {
        let smallest = Limits {
            ctx_size: Some(self.attempted.settings.ctx_size.min(CTX_SIZE_STEP)),
            parallel: Some(1),
            ubatch: Some(self.small_ubatch()),
            prefix_cache: None,
            ..self.limits.clone()
        };
        let draft = self.planner.draft(&smallest);
        if !matches!(draft.obstacle, Some(Obstacle::Bytes(_))) {
            return String::new();
        }
        let used = draft.uses.iter().fold(0u64, |sum, uses| sum.saturating_add(uses.total()));
        format!("; one request of {} tokens alone needs {}", draft.settings.ctx_size, Size(used))
    }

    fn small_ubatch(&self) -> u32 {
        self.attempted.settings.ubatch.clamp(1, UBATCH_MIN)
    }
}

/// `bytes`, or as much as `used` takes where that is more. `None` where no round number is.
fn raised(bytes: u64, used: u64) -> Option<u64> {
    if bytes < used { used.checked_next_multiple_of(BUDGET_STEP) } else { Some(bytes) }
}

/// What `changed` differs in from `asked`, as options.
fn options(asked: &Limits, changed: &Limits) -> String {
    let counts = [
        ("--ctx-size", asked.ctx_size, changed.ctx_size),
        ("--parallel", asked.parallel, changed.parallel),
        ("--ubatch-size", asked.ubatch, changed.ubatch),
    ];
    let counts = counts.into_iter().filter(|(_, asked, changed)| asked != changed);
    let counts = counts.filter_map(|(name, _, value)| Some(format!("{name} {}", value?)));
    let sizes = [
        ("--prefix-cache", asked.prefix_cache, changed.prefix_cache),
        ("--memory-budget", asked.memory_budget, changed.memory_budget),
        ("--headroom", asked.headroom, changed.headroom),
    ];
    let sizes = sizes.into_iter().filter(|(_, asked, changed)| asked != changed);
    let sizes =
        sizes.filter_map(|(name, _, bytes)| Some(format!("{name} {}", Size(bytes?).exact())));
    let cache = changed.stream_cache.iter().filter(|_| asked.stream_cache != changed.stream_cache);
    let cache = cache.map(StreamCache::option);
    let caps = per_device("--device", &asked.devices, &changed.devices);
    let budgets = per_device("--expert-budget", &asked.expert_budgets, &changed.expert_budgets);
    counts.chain(sizes).chain(cache).chain(caps).chain(budgets).collect::<Vec<_>>().join(" ")
}

fn per_device<'a>(
    option: &'a str,
    asked: &'a [(String, u64)],
    changed: &'a [(String, u64)],
) -> impl Iterator<Item = String> + 'a {
    let changed = asked.iter().zip(changed).filter(|(asked, changed)| asked != changed);
    changed.map(move |(_, (id, bytes))| format!("{option} {id}={}", Size(*bytes).exact()))
}

/// The largest of `1..=max` that `holds`, which must hold for every smaller number too.
fn largest(max: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (0, max);
    while low < high {
        let middle = high - (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    (low > 0).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_the_border() {
        for max in 0..20 {
            for border in 0..25 {
                let expected = (border.min(max) > 0).then_some(border.min(max));
                assert_eq!(
                    largest(max, |number| number <= border),
                    expected,
                    "max {max}, border {border}"
                );
            }
        }
        assert_eq!(largest(u32::MAX, |_| true), Some(u32::MAX));
    }
}
