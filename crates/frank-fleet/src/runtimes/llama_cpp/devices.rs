//! Devices of llama.cpp by its own names, and how layers are shared among them.

use super::super::Arg;
use super::super::contract::{self, DeviceId, arg};
use super::super::options::Given;
use crate::fault::Fault;
use crate::placement::Placement;

/// The argument that names the devices, where the endpoint names some and does not use the option itself.
pub(super) fn device_arg(placement: &Placement<'_>, given: &[Given<'_>]) -> Option<Arg> {
    if given.iter().any(|option| option.name == "device") {
        return None;
    }
    let names: Vec<String> =
        contract::renumbered(placement).iter().filter_map(device_name).collect();
    let names = (!names.is_empty()).then(|| names.join(","))?;
    Some(arg(placement, "devices", &["--device", &names]))
}

fn device_name(id: &DeviceId) -> Option<String> {
    let kind = match id.kind.as_str() {
        "cuda" => "CUDA",
        "rocm" => "ROCm",
        "vulkan" => "Vulkan",
        _ => return None,
    };
    Some(format!("{kind}{}", id.index))
}

/// What is wrong with how the model is shared among devices.
pub(super) fn check(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    faults.extend(split_fault(placement, given));
    faults.extend(mixed_fault(placement, given));
    faults
}

/// Shares with the separator of another program, or of more devices than there are.
fn split_fault(placement: &Placement<'_>, given: &[Given<'_>]) -> Option<Fault> {
    let option = given.iter().find(|option| option.name == "tensor-split")?;
    let text = match option.value.as_array() {
        Some(values) => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        None => option.text()?,
    };
    if text.contains('/') {
        let shares = text.replace('/', ",");
        let message =
            format!("`{text}` is one share to llama-server: `/` parts shares in llama-bench");
        let fault = Fault::error("split_separator", &option.place, message);
        return Some(fault.hint(format!("write {shares}")));
    }
    let shares = text.split(',').count();
    let devices = contract::chosen(placement).len();
    let message = format!("{shares} shares for {devices} devices");
    (devices > 0 && shares != devices).then(|| Fault::error("split_count", &option.place, message))
}

/// Tensors that are placed one by one on devices of two makers end the process.
fn mixed_fault(placement: &Placement<'_>, given: &[Given<'_>]) -> Option<Fault> {
    let names = ["override-tensor", "spec-draft-override-tensor"];
    let option = given.iter().find(|option| names.contains(&option.name))?;
    let kinds = contract::kinds(placement);
    let message = format!(
        "tensors cannot be placed one by one on {} together: such a placement is not expressible",
        kinds.join(" and ")
    );
    let fault = Fault::error("not_expressible", &option.place, message);
    (kinds.len() > 1)
        .then(|| fault.hint("share whole layers with `tensor-split`, or use devices of one kind"))
}
