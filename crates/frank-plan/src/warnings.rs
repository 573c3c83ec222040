//! What the reader of a plan should know though it holds, each a sentence. Never a reason to refuse it.

use crate::draft::{Draft, Planner};
use crate::limits::Limits;
use crate::ranking::{Owner, Placement};
use crate::size::Size;
use crate::tiers::{ExpertTiers, Tier};

/// The warnings of a plan: the model's own first.
pub(crate) fn warnings(
    planner: &Planner<'_>,
    limits: &Limits,
    draft: &Draft,
    tiers: &ExpertTiers,
) -> Vec<String> {
    let mut warnings = planner.needs.warnings.clone();
    let settings = draft.settings;
    warnings.extend(context_warning(planner.needs.context_train, settings.ctx_size));
    warnings.extend(prefix_cache_warning(
        settings.prefix_cache,
        draft.kv.request_bytes(),
        planner.machine.host.ram,
    ));
    let placement = limits.ranking.placement.as_ref();
    warnings.extend(placement.and_then(|placement| dropped(planner, placement, tiers)));
    warnings
}

fn context_warning(trained: u32, ctx_size: u32) -> Option<String> {
    let beyond = ctx_size.checked_sub(trained).filter(|&beyond| trained > 0 && beyond > 0)?;
    Some(format!(
        "a context of {ctx_size} tokens extrapolates {beyond} tokens beyond the {trained} that the model was trained on"
    ))
}

/// What is wrong with the size of a prefix cache: too small for one request of `request_bytes`, or more than half of
/// the host's memory.
fn prefix_cache_warning(bytes: u64, request_bytes: u64, ram: u64) -> Option<String> {
    let half = ram / 2;
    if bytes > 0 && bytes < request_bytes {
        let (bytes, request) = (Size(bytes), Size(request_bytes));
        Some(format!(
            "a prefix cache of {bytes} cannot keep one whole request, which takes {request}"
        ))
    } else if bytes > half {
        let (bytes, half) = (Size(bytes), Size(half));
        Some(format!("a prefix cache of {bytes} is more than half of the host's memory, {half}"))
    } else {
        None
    }
}

/// How many experts do not lie where a placement file puts them.
fn dropped(planner: &Planner<'_>, placement: &Placement, tiers: &ExpertTiers) -> Option<String> {
    let layers = planner.needs.expert_layers.iter();
    let ids = layers.flat_map(|layer| (0..layer.n_experts).map(|expert| (layer.layer, expert)));
    let is_dropped = |&(layer, expert): &(u32, u32)| {
        let wanted = placement.owner(layer, expert);
        match tiers.get(layer, expert) {
            Some(Tier::Secondary(_)) => wanted == Owner::Primary,
            Some(Tier::Stream) => wanted != Owner::Stream,
            Some(Tier::Primary) | None => false,
        }
    };
    let n_dropped = if tiers.tiers.is_empty() { 0 } else { ids.filter(is_dropped).count() };
    (n_dropped > 0).then(|| {
        format!("{n_dropped} experts lie in a lower tier than the placement file says, for lack of memory")
    })
}
