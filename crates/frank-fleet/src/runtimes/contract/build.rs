//! A build of a runtime against the devices and the model that it meets. What nobody looked at is not refused.

use super::{devices, place};
use crate::fault::Fault;
use crate::host_facts::DeviceFacts;
use crate::placement::{BuildFacts, Placement};

/// Digits of a digest.
const DIGEST_DIGITS: usize = 64;

/// What is wrong with the build of a placement.
pub(super) fn check(placement: &Placement<'_>) -> Vec<Fault> {
    let mut faults: Vec<Fault> = pin_fault(placement).into_iter().collect();
    let Some(build) = placement.known.build else { return faults };
    faults.extend(architecture_fault(placement, build));
    for device in devices::facts(placement) {
        faults.extend(device_fault(placement, build, device));
        faults.extend(driver_fault(placement, build, device));
    }
    faults
}

/// An image that may be another tomorrow.
fn pin_fault(placement: &Placement<'_>) -> Option<Fault> {
    let image = placement.endpoint.image.as_deref()?;
    let digest = image.rsplit_once("@sha256:").map(|(_, digest)| digest);
    let is_digest = |digest: &str| {
        digest.len() == DIGEST_DIGITS && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let message = format!("`{image}` is not pinned by its digest");
    let fault = Fault::error("image_not_pinned", place(placement, "image"), message);
    let hint = "a tag may stand before the digest: registry/name:tag@sha256:…";
    (!digest.is_some_and(is_digest)).then(|| fault.hint(hint))
}

/// A model whose architecture the build does not load.
fn architecture_fault(placement: &Placement<'_>, build: &BuildFacts) -> Option<Fault> {
    let architecture = placement.architecture?;
    let known = &build.architectures;
    let is_known = known.is_empty() || known.iter().any(|known| known == architecture);
    let runtime = &placement.endpoint.runtime;
    let message =
        format!("this build of {runtime} does not know the architecture `{architecture}`");
    let hint = "another build may: a later version, or a branch that has it";
    let fault = Fault::error("unknown_architecture", place(placement, "runtime"), message);
    (!is_known).then(|| fault.hint(hint))
}

/// A device that the build was not compiled for.
fn device_fault(
    placement: &Placement<'_>,
    build: &BuildFacts,
    device: &DeviceFacts,
) -> Option<Fault> {
    let arch = device.arch.as_deref()?;
    // An image for one maker's devices says nothing of another's.
    let family = |arch: &str| {
        arch.trim_end_matches(|char: char| !char.is_ascii_alphabetic()).get(..2).map(str::to_owned)
    };
    let same_maker = || build.device_archs.iter().filter(|built| family(built) == family(arch));
    let is_built = build.device_archs.is_empty() || same_maker().any(|built| built == arch);
    let built = build.device_archs.join(", ");
    let message = format!("the build is for {built}, and {} is {arch}", device.id);
    (!is_built).then(|| Fault::error("device_arch", build_place(placement), message))
}

/// A user space of another line than the host's driver.
fn driver_fault(
    placement: &Placement<'_>,
    build: &BuildFacts,
    device: &DeviceFacts,
) -> Option<Fault> {
    let brought = build.rocm_major.filter(|_| device.kind == "rocm")?;
    let driver = device.driver.as_deref()?;
    let line: u32 = driver.split('.').next()?.parse().ok()?;
    let message =
        format!("the build brings ROCm {brought}, and the driver of {} is {driver}", device.id);
    (line != brought).then(|| {
        Fault::error("driver_line", build_place(placement), message)
            .hint("user spaces of one major version and drivers of another were seen to crash")
    })
}

fn build_place(placement: &Placement<'_>) -> String {
    let field = if placement.endpoint.image.is_some() { "image" } else { "program" };
    place(placement, field)
}
