//! What a cluster calls the devices of a program. A cluster hands out devices by number, and not by name.

use std::collections::BTreeMap;

use crate::workload::Device;

/// How many devices of each resource a pod must have, as `nvidia.com/gpu`.
///
/// # Errors
/// The device for which no resource is known.
pub(super) fn limits(devices: &[Device]) -> Result<BTreeMap<String, u32>, &str> {
    let mut limits = BTreeMap::new();
    let mut count = |resource: &str, n: u32| *limits.entry(resource.to_owned()).or_insert(0) += n;
    for device in devices {
        match device {
            Device::Cdi(name) => match name.split_once('=') {
                // How many all are, the cluster does not say.
                Some((resource, which)) if which != "all" => count(resource, 1),
                _ => return Err(name),
            },
            Device::Node(path) => {
                let (resource, n) = of_node(path).ok_or(path.as_str())?;
                count(resource, n);
            }
        }
    }
    // A program that sees all devices of AMD's driver names their folder alone.
    for (_, n) in limits.iter_mut().filter(|(resource, _)| *resource == AMD) {
        *n = (*n).max(1);
    }
    limits.retain(|_, n| *n > 0);
    Ok(limits)
}

const AMD: &str = "amd.com/gpu";
const NVIDIA: &str = "nvidia.com/gpu";

/// The resource that brings a device node, and how many of it the node stands for.
fn of_node(path: &str) -> Option<(&'static str, u32)> {
    let name = path.strip_prefix("/dev/")?;
    let is_numbered = |prefix: &str| {
        let number = name.strip_prefix(prefix);
        number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    match name {
        "kfd" | "dri" => Some((AMD, 0)),
        _ if is_numbered("dri/renderD") => Some((AMD, 1)),
        _ if is_numbered("dri/card") => Some((AMD, 0)),
        _ if is_numbered("nvidia") => Some((NVIDIA, 1)),
        "nvidiactl" | "nvidia-uvm" | "nvidia-uvm-tools" | "nvidia-modeset" => Some((NVIDIA, 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(devices: &[Device], expected: Result<&[(&str, u32)], &str>) {
        let found = limits(devices);
        let found = found.as_ref().map(|limits| {
            limits.iter().map(|(resource, n)| (resource.as_str(), *n)).collect::<Vec<_>>()
        });
        assert_eq!(found.map_err(|name| *name), expected.map(<[_]>::to_vec), "{devices:?}");
    }

    fn node(path: &str) -> Device {
        Device::Node(path.to_owned())
    }

    fn cdi(name: &str) -> Device {
        Device::Cdi(name.to_owned())
    }

    #[test]
    fn devices_are_counted_by_resource() {
        check(&[], Ok(&[]));
        check(&[cdi("nvidia.com/gpu=0"), cdi("nvidia.com/gpu=3")], Ok(&[("nvidia.com/gpu", 2)]));
        check(
            &[node("/dev/nvidiactl"), node("/dev/nvidia0"), node("/dev/nvidia-uvm")],
            Ok(&[("nvidia.com/gpu", 1)]),
        );
        check(&[node("/dev/kfd"), node("/dev/dri")], Ok(&[("amd.com/gpu", 1)]));
        let two = [node("/dev/kfd"), node("/dev/dri/renderD128"), node("/dev/dri/renderD129")];
        check(&two, Ok(&[("amd.com/gpu", 2)]));
    }

    #[test]
    fn a_device_without_a_resource_is_named() {
        check(&[node("/dev/ttyS0")], Err("/dev/ttyS0"));
        check(&[cdi("nvidia.com/gpu=all")], Err("nvidia.com/gpu=all"));
    }
}
