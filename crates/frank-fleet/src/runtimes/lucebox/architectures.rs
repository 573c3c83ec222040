//! Which options of Lucebox are whose, by its public source of July 2026 (62880e2).

use super::super::contract::{self, place};
use super::super::options::Given;
use crate::fault::Fault;
use crate::placement::Placement;

/// Architectures that it loads.
const KNOWN: [&str; 6] = ["deepseek4", "gemma4", "laguna", "qwen3", "qwen35", "qwen35moe"];

/// What becomes of an option that is not an architecture's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Otherwise {
    /// It does not start.
    Refused,
    /// It starts and does without.
    Ignored,
}

/// Options with the architectures that use them.
const USERS: [(&[&str], &[&str], Otherwise); 10] = [
    (&["ds4-prefill", "ds4-fused-decode", "ds4-expert-top-k"], &["deepseek4"], Otherwise::Refused),
    (&["draft-ipc-bin"], &["qwen35"], Otherwise::Refused),
    (&["prefill-compression"], &["qwen3", "qwen35"], Otherwise::Refused),
    (
        &["target-devices", "target-layer-split"],
        &["deepseek4", "gemma4", "laguna", "qwen35"],
        Otherwise::Ignored,
    ),
    (&["cache-type-k", "cache-type-v"], &["laguna", "qwen35", "qwen35moe"], Otherwise::Ignored),
    (&["spark", "spark-slots", "spark-vram"], &["laguna", "qwen35moe"], Otherwise::Ignored),
    (&["ddtree", "ddtree-budget"], &["laguna", "qwen35", "qwen35moe"], Otherwise::Ignored),
    (&["verify-width"], &["laguna"], Otherwise::Ignored),
    (&["draft-swa"], &["qwen35", "qwen35moe"], Otherwise::Ignored),
    (&["fa-window"], &["gemma4", "qwen35", "qwen35moe"], Otherwise::Ignored),
];

/// Architectures that use a draft model.
const DRAFTERS: [&str; 4] = ["gemma4", "laguna", "qwen35", "qwen35moe"];

/// Options of `deepseek4` that want a single device of AMD.
const ONE_HIP_DEVICE: [&str; 2] = ["ds4-fused-decode", "ds4-expert-top-k"];

/// What is wrong with an endpoint's options for its architecture.
pub(super) fn check(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let Some(architecture) = placement.architecture else { return Vec::new() };
    let mut faults = Vec::new();
    let is_listed = placement.known.build.is_some_and(|build| !build.architectures.is_empty());
    if !KNOWN.contains(&architecture) && !is_listed {
        let message = format!("whether this build of lucebox knows `{architecture}` is not known");
        faults.push(Fault::warning("unknown_architecture", place(placement, "runtime"), message));
        return faults;
    }
    for option in given.iter().filter(|option| !option.is_default()) {
        faults.extend(option_fault(architecture, option));
        faults.extend(device_fault(placement, given, option));
    }
    if placement.draft_path.is_some() && !DRAFTERS.contains(&architecture) {
        let message = format!("lucebox passes over a draft model for `{architecture}`");
        let place = format!("models.{}.draft", placement.endpoint.model);
        faults.push(Fault::warning("ignored_option", place, message));
    }
    faults
}

fn option_fault(architecture: &str, option: &Given<'_>) -> Option<Fault> {
    let (_, users, otherwise) = USERS.iter().find(|(names, ..)| names.contains(&option.name))?;
    if users.contains(&architecture) {
        return None;
    }
    let (name, users) = (option.name, users.join(", "));
    Some(match otherwise {
        Otherwise::Refused => {
            let message =
                format!("lucebox refuses `{name}` for `{architecture}`: it is for {users}");
            Fault::error("architecture_refuses", &option.place, message)
        }
        Otherwise::Ignored => {
            let message =
                format!("lucebox passes over `{name}` for `{architecture}`: it is for {users}");
            Fault::warning("ignored_option", &option.place, message)
        }
    })
}

fn device_fault(
    placement: &Placement<'_>,
    given: &[Given<'_>],
    option: &Given<'_>,
) -> Option<Fault> {
    let kinds = contract::kinds(placement);
    let is_split = given.iter().any(|option| option.name == "target-devices");
    let is_one = kinds.iter().all(|kind| kind == "rocm") && !is_split;
    let message = format!("`{}` wants a single device of AMD", option.name);
    (ONE_HIP_DEVICE.contains(&option.name) && !is_one)
        .then(|| Fault::error("device_count", &option.place, message))
}
