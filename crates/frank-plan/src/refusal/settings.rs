//! Smaller settings that fit where those that were asked for do not. Never gives more memory.

use super::{CTX_SIZE_STEP, Search, UBATCH_MIN};
use crate::kv::ARENA_BYTES;
use crate::limits::{Limits, StreamCache};

impl Search<'_> {
    /// Each setting that is enough when it is changed alone, or where none is, several of them.
    pub(super) fn other_settings(&self) -> Vec<Limits> {
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
        changes
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
    pub(super) fn larger_stream_cache(&self) -> Option<Limits> {
        let asked = self.limits.stream_cache.as_ref()?.bytes;
        let least = self.planner.cache_floor_bytes();
        let limits = self.with_stream_cache(least);
        (asked < least && self.fits(&limits)).then_some(limits)
    }

    pub(super) fn with_stream_cache(&self, bytes: u64) -> Limits {
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
}

/// The largest of `1..=max` that `holds`, which must hold for every smaller number too.
pub(super) fn largest(max: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
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
