//! Types of keys and values of vLLM against the device and the model. Each impossible pairing has its own reason.

use super::super::contract::{self, place};
use super::super::options::Given;
use super::is_multimodal;
use crate::fault::Fault;
use crate::placement::Placement;

/// Types that keep 8-bit floats of the kind that CUDA devices compute with since sm_89.
const FP8_TYPES: [&str; 4] = ["fp8", "fp8_e4m3", "fp8_inc", "fp8_per_token_head"];

/// First instruction set of CUDA devices that has such floats.
const FP8_SINCE: u32 = 89;

/// Tokens of a page in the record of sizes that do not unify.
const PAGE_TOKENS: u32 = 16;

/// Bytes of the scale that each head of a token has beside its values.
const SCALE_BYTES: u32 = 4;

/// Bits of a number in the cache, by type; of a type with two sizes the mean.
const BITS: [(&str, u64); 7] = [
    ("bfloat16", 16),
    ("float16", 16),
    ("fp8", 8),
    ("fp8_e4m3", 8),
    ("fp8_e5m2", 8),
    ("int8_per_token_head", 8),
    ("turboquant_k8v4", 6),
];

/// Tokens that a pool holds with keys and values of another type, by those that it holds in 16 bits. Without the scales
/// of a type, which are small; `None` for a type whose size is not known.
pub fn kv_pool_tokens(tokens_in_16_bits: u64, kv_type: &str) -> Option<u64> {
    let (_, bits) = BITS.iter().find(|(name, _)| *name == kv_type)?;
    Some(tokens_in_16_bits * 16 / bits)
}

/// What is wrong with the type of keys and values of an endpoint.
pub(super) fn check(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let option = given.iter().find(|option| option.name == "kv-cache-dtype");
    let Some((option, kv_type)) = option.and_then(|option| Some((option, option.text()?))) else {
        return Vec::new();
    };
    let messages = [
        hardware_message(placement, &kv_type),
        page_message(placement, &kv_type),
        prefix_message(placement, &kv_type),
    ];
    let fault = |message| Fault::error("kv_type", &option.place, message).hint("take bfloat16");
    let mut faults: Vec<Fault> = messages.into_iter().flatten().map(fault).collect();
    faults.extend(unknown_fault(placement, option, &kv_type));
    faults
}

/// The number of a CUDA instruction set, as 86 of `sm_86`.
fn cuda_arch(arch: &str) -> Option<u32> {
    arch.strip_prefix("sm_")?.trim_end_matches(|char: char| !char.is_ascii_digit()).parse().ok()
}

fn hardware_message(placement: &Placement<'_>, kv_type: &str) -> Option<String> {
    let arch = |device: &str| cuda_arch(device).filter(|arch| *arch < FP8_SINCE);
    let devices = contract::facts(placement);
    let old =
        devices.iter().find_map(|device| arch(device.arch.as_deref()?).map(|arch| (device, arch)));
    let (device, arch) = old.filter(|_| FP8_TYPES.contains(&kv_type))?;
    Some(format!("{} is sm_{arch}, which has no 8-bit floats for `{kv_type}`", device.id))
}

/// Pages of all layers must be whole multiples of the smallest.
fn page_message(placement: &Placement<'_>, kv_type: &str) -> Option<String> {
    let sizes = &placement.known.checkpoint?.head_sizes;
    let page = |head: &u32| (head + SCALE_BYTES) * PAGE_TOKENS;
    let mut pages: Vec<u32> = sizes.iter().map(page).collect();
    pages.sort_unstable();
    let (first, last) = (*pages.first()?, *pages.last()?);
    let does_not = pages.iter().any(|page| page % first != 0);
    (kv_type == "int8_per_token_head" && does_not).then(|| {
        format!("pages of {first} and {last} bytes do not unify: `{kv_type}` keeps a scale beside each head of {sizes:?}")
    })
}

fn prefix_message(placement: &Placement<'_>, kv_type: &str) -> Option<String> {
    let reads_images = placement.endpoint.vision || is_multimodal(placement);
    (kv_type.starts_with("turboquant_") && reads_images)
        .then(|| format!("`{kv_type}` has no prefix of images or sound, which this model needs"))
}

/// A type of which nobody knows whether it works on these devices.
fn unknown_fault(placement: &Placement<'_>, option: &Given<'_>, kv_type: &str) -> Option<Fault> {
    let is_known = |kv_type: &str| {
        let names = BITS.iter().map(|(name, _)| *name);
        names.chain(FP8_TYPES).chain(["auto"]).any(|name| name == kv_type)
    };
    let is_e5m2 = kv_type == "fp8_e5m2";
    let message = format!(
        "whether `{kv_type}` works on the devices of {} is not known",
        place(placement, "devices")
    );
    (!is_known(kv_type) || is_e5m2).then(|| Fault::warning("kv_type", &option.place, message))
}
