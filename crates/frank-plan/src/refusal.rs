//! A refused plan, and what would fit instead: each suggestion was planned before it is made.

mod memory;
mod settings;
mod together;

use serde::Serialize;

use crate::draft::{Draft, Planner};
use crate::limits::{Limits, StreamCache};
use crate::obstacle::Obstacle;
use crate::plan::Plan;
use crate::size::Size;

/// Suggested contexts are multiples of this: a round number is easier to keep than the last token.
const CTX_SIZE_STEP: u32 = 256;

/// Steps are not suggested below this many rows: the prompt would be read row by row, and each weight with it.
const UBATCH_MIN: u32 = 32;

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
    /// checked by planning with it. Empty when nothing on this machine is enough, which `reason` then says, or when an
    /// option names what the machine lacks.
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
        let change = search.changes();
        let mut reason = obstacle.reason() + &search.smallest_reason();
        if change.is_empty() && !obstacle.is_for_good() {
            reason += &search.nothing_fits();
        }
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
    /// several of these where none is enough alone, more memory, a larger pool, and where all that is not enough the
    /// changes that are enough together.
    fn changes(&self) -> Vec<String> {
        let mut changes = self.other_settings();
        changes.extend(self.larger_stream_cache());
        changes.extend(self.more_memory());
        changes.extend(self.larger_pools());
        if changes.is_empty() {
            changes.extend(self.together());
        }
        let mut options: Vec<String> = Vec::new();
        for change in changes.iter().map(|limits| options_of(self.limits, limits)) {
            if !options.contains(&change) {
                options.push(change);
            }
        }
        options
    }

    /// Whether a plan for `limits` holds, and the pools that they declare can be declared.
    fn fits(&self, limits: &Limits) -> bool {
        let machine = self.planner.machine;
        let total = machine.primary().map_or(0, |primary| primary.total);
        let pools = machine.devices.iter().filter_map(|device| limits.pool_bytes(device));
        pools.max().is_none_or(|bytes| bytes <= total) && self.planner.fits(limits)
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

/// What `changed` differs in from `asked`, as options.
fn options_of(asked: &Limits, changed: &Limits) -> String {
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
