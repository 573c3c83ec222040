//! Devices of an endpoint: which, how a container gets them, and how a program sees no others.

use std::collections::BTreeSet;

use super::place;
use crate::fault::Fault;
use crate::host_facts::DeviceFacts;
use crate::placement::Placement;
use crate::workload::{Device, Env, EnvValue};

/// Kinds of devices whose interface for containers is a toolkit of their maker.
const CUDA: &str = "cuda";

/// A device by its name in `frank.toml`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct DeviceId {
    /// As `cuda`.
    pub(in super::super) kind: String,
    /// Its number among those of its kind.
    pub(in super::super) index: u32,
}

fn device_id(text: &str) -> Option<DeviceId> {
    let (kind, index) = text.split_once(':')?;
    Some(DeviceId { kind: kind.to_owned(), index: index.parse().ok()? })
}

/// Devices that an endpoint names, as it orders them; without the CPU, which everything may use.
fn named(placement: &Placement<'_>) -> Vec<DeviceId> {
    let ids = placement.endpoint.devices.iter().filter_map(|id| device_id(id));
    ids.filter(|id| id.kind != "cpu").collect()
}

/// Devices that an endpoint may use, as far as the host's facts or the endpoint tell: those that it names, or all.
pub(in super::super) fn chosen(placement: &Placement<'_>) -> Vec<DeviceId> {
    if placement.endpoint.devices.is_empty() {
        let ids = placement.facts.devices.iter().filter_map(|device| device_id(&device.id));
        return ids.filter(|id| id.kind != "cpu").collect();
    }
    named(placement)
}

/// Kinds of those devices, each once.
pub(in super::super) fn kinds(placement: &Placement<'_>) -> Vec<String> {
    let kinds: BTreeSet<String> = chosen(placement).into_iter().map(|id| id.kind).collect();
    kinds.into_iter().collect()
}

/// What the host says of those devices.
pub(in super::super) fn facts<'a>(placement: &Placement<'a>) -> Vec<&'a DeviceFacts> {
    let ids = chosen(placement);
    let is_chosen =
        |device: &&DeviceFacts| device_id(&device.id).is_some_and(|id| ids.contains(&id));
    placement.facts.devices.iter().filter(is_chosen).collect()
}

/// Names of devices that are none, or that the host does not have.
pub(super) fn check(placement: &Placement<'_>) -> Vec<Fault> {
    let place = place(placement, "devices");
    let known: Vec<&str> =
        placement.facts.devices.iter().map(|device| device.id.as_str()).collect();
    let fault = |id: &String| {
        if device_id(id).is_none() {
            let message = format!("`{id}` is no device: a kind and a number, as cuda:0");
            return Some(Fault::error("bad_value", &place, message));
        }
        let is_there = known.is_empty() || known.contains(&id.as_str()) || id.starts_with("cpu:");
        let message = || format!("{} has no device `{id}`", placement.endpoint.host);
        let hint = || format!("it has {}", known.join(", "));
        (!is_there).then(|| Fault::error("unknown_device", &place, message()).hint(hint()))
    };
    placement.endpoint.devices.iter().filter_map(fault).collect()
}

/// Device nodes and interfaces for an endpoint.
pub(super) fn devices(placement: &Placement<'_>) -> Vec<Device> {
    let is_named = !named(placement).is_empty();
    let has_toolkit = placement.endpoint.image.is_some() && placement.host.gpu_libraries.is_none();
    let mut devices = BTreeSet::new();
    for id in chosen(placement) {
        match id.kind.as_str() {
            CUDA if has_toolkit => {
                let which = if is_named { id.index.to_string() } else { "all".to_owned() };
                devices.insert(format!("nvidia.com/gpu={which}"));
            }
            CUDA => {
                devices.insert(format!("/dev/nvidia{}", id.index));
                devices.extend(["/dev/nvidia-uvm", "/dev/nvidiactl"].map(str::to_owned));
            }
            "rocm" => devices.extend(["/dev/dri", "/dev/kfd"].map(str::to_owned)),
            "vulkan" => devices.extend(["/dev/dri".to_owned()]),
            _ => {}
        }
    }
    let device = |text: String| {
        if text.starts_with("/dev/") { Device::Node(text) } else { Device::Cdi(text) }
    };
    devices.into_iter().map(device).collect()
}

/// Libraries of the driver that a container gets one by one.
pub(super) fn libraries<'a>(placement: &Placement<'a>) -> &'a [String] {
    let uses_cuda = kinds(placement).iter().any(|kind| kind == CUDA);
    let libraries = placement.host.gpu_libraries.as_deref();
    libraries.filter(|_| uses_cuda && placement.endpoint.image.is_some()).unwrap_or_default()
}

/// Variables by which a program sees only the devices that its endpoint names. A container sees no other NVIDIA device
/// anyway.
pub(super) fn visible(placement: &Placement<'_>) -> Vec<Env> {
    let mut env = Vec::new();
    let ids: BTreeSet<DeviceId> = named(placement).into_iter().collect();
    let plain =
        |name: &str, value: String| Env { name: name.to_owned(), value: EnvValue::Plain(value) };
    for (kind, variable) in [
        (CUDA, "CUDA_VISIBLE_DEVICES"),
        ("rocm", "ROCR_VISIBLE_DEVICES"),
        ("vulkan", "GGML_VK_VISIBLE_DEVICES"),
    ] {
        let of_kind: Vec<String> =
            ids.iter().filter(|id| id.kind == kind).map(|id| id.index.to_string()).collect();
        if of_kind.is_empty() || (kind == CUDA && placement.endpoint.image.is_some()) {
            continue;
        }
        env.push(plain(variable, of_kind.join(",")));
        if kind == CUDA {
            // Without it CUDA counts the fastest first, and the host's tools by the bus.
            env.push(plain("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()));
        }
    }
    env
}

/// Devices that an endpoint names, in its order, each with its number among the visible ones of its kind.
pub(in super::super) fn renumbered(placement: &Placement<'_>) -> Vec<DeviceId> {
    let visible: BTreeSet<DeviceId> = named(placement).into_iter().collect();
    let renumber = |id: DeviceId| {
        let before = visible.iter().filter(|other| other.kind == id.kind && other.index < id.index);
        let index = u32::try_from(before.count()).unwrap_or(u32::MAX);
        DeviceId { index, ..id }
    };
    named(placement).into_iter().map(renumber).collect()
}
