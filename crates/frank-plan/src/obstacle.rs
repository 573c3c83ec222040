//! What stands in the way of a plan, in numbers and in words. Never suggests a way around it.

use crate::limits::Limits;
use crate::machine::Machine;
use crate::plan::{DevicePlan, Plan};
use crate::size::Size;

/// What stands in the way of a plan.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// The machine has no device that frank computes on.
    NoCpu,
    /// `--device` names what the machine lacks.
    UnknownDevice { id: String, known: String },
    /// An option asks for none of something that takes at least one.
    Zero { device: String, option: &'static str },
    /// A decoding step has a row of each request, and more requests than rows were asked for.
    Rows { device: String, ubatch: u32, parallel: u32 },
    /// More KV blocks than can be numbered.
    KvBlocks { device: String, count: u64 },
    /// More bytes than allowed.
    Bytes { device: Box<DevicePlan>, allowance: Allowance },
}

impl Obstacle {
    /// The first thing that stands in the way of `plan`, when there is one.
    pub(crate) fn find(machine: &Machine, limits: &Limits, plan: &Plan) -> Option<Self> {
        let Some(primary) = machine.primary() else { return Some(Self::NoCpu) };
        let is_known = |id: &str| machine.devices.iter().any(|device| device.id == id);
        if let Some((id, _)) = limits.devices.iter().find(|(id, _)| !is_known(id)) {
            let known: Vec<&str> =
                machine.devices.iter().map(|device| device.id.as_str()).collect();
            return Some(Self::UnknownDevice { id: id.clone(), known: known.join(", ") });
        }
        let settings = [
            ("--ctx-size", plan.ctx_size),
            ("--parallel", plan.parallel),
            ("--ubatch-size", plan.ubatch),
        ];
        if let Some((option, _)) = settings.into_iter().find(|&(_, value)| value == 0) {
            return Some(Self::Zero { device: primary.id.clone(), option });
        }
        if plan.parallel > plan.ubatch {
            let (ubatch, parallel) = (plan.ubatch, plan.parallel);
            return Some(Self::Rows { device: primary.id.clone(), ubatch, parallel });
        }
        let most = plan.kv_groups.iter().map(|group| group.n_blocks).max();
        if let Some(count) = most.filter(|&count| count > u64::from(u32::MAX)) {
            return Some(Self::KvBlocks { device: primary.id.clone(), count });
        }
        plan.devices.iter().find_map(|device| Self::of_bytes(device, limits))
    }

    /// The device that is short, or that the request is about.
    pub(crate) fn device(&self) -> &str {
        match self {
            Self::NoCpu => "cpu:0",
            Self::UnknownDevice { id, .. } => id,
            Self::Zero { device, .. }
            | Self::Rows { device, .. }
            | Self::KvBlocks { device, .. } => device,
            Self::Bytes { device, .. } => &device.id,
        }
    }

    /// Bytes that are missing; 0 when bytes are not what is missing.
    pub(crate) fn short_by(&self) -> u64 {
        match self {
            Self::Bytes { device, allowance } => device.used.saturating_sub(allowance.bytes),
            Self::NoCpu
            | Self::UnknownDevice { .. }
            | Self::Zero { .. }
            | Self::Rows { .. }
            | Self::KvBlocks { .. } => 0,
        }
    }

    /// One clause without an end mark.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::NoCpu => "the machine has no device of kind cpu".to_owned(),
            Self::UnknownDevice { known, .. } => {
                format!("the machine has no such device; it has {known}")
            }
            Self::Zero { option, .. } => format!("{option} 0 is none; at least 1 is needed"),
            Self::Rows { ubatch, parallel, .. } => {
                format!("a step of {ubatch} rows cannot hold a row of each of {parallel} requests")
            }
            Self::KvBlocks { count, .. } => {
                format!("{count} KV blocks are needed, and {} can be numbered", u32::MAX)
            }
            Self::Bytes { device, allowance } => bytes_reason(device, allowance, self.short_by()),
        }
    }

    /// Whether more would be held on `device` than allowed. A saturated sum is no number, so it never fits.
    fn of_bytes(device: &DevicePlan, limits: &Limits) -> Option<Self> {
        let allowance = Allowance::of(device, limits);
        let fits = device.used <= allowance.bytes && device.used < u64::MAX;
        (!fits).then(|| Self::Bytes { device: Box::new(device.clone()), allowance })
    }
}

/// Bytes that may be held on a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    bytes: u64,
    set_by: SetBy,
}

/// The number that decides an allowance.
#[derive(Debug, Clone, Copy)]
enum SetBy {
    Free,
    DeviceCap,
    MemoryBudget,
}

impl Allowance {
    /// The smallest of what is free, what the device may hold and what the process may hold.
    ///
    /// The budget covers all devices together; as long as one device holds everything, it is this one's.
    fn of(device: &DevicePlan, limits: &Limits) -> Self {
        let free = Self { bytes: device.free.saturating_sub(device.headroom), set_by: SetBy::Free };
        let cap =
            limits.device_cap(&device.id).map(|bytes| Self { bytes, set_by: SetBy::DeviceCap });
        let budget = limits.memory_budget.map(|bytes| Self { bytes, set_by: SetBy::MemoryBudget });
        let smaller =
            |least: Self, other: Self| if other.bytes < least.bytes { other } else { least };
        cap.into_iter().chain(budget).fold(free, smaller)
    }
}

fn bytes_reason(device: &DevicePlan, allowance: &Allowance, short_by: u64) -> String {
    let held = device.uses.entries().into_iter().filter(|&(_, bytes)| bytes > 0);
    let parts: Vec<String> = held.map(|(name, bytes)| format!("{name} {}", Size(bytes))).collect();
    let set_by = match allowance.set_by {
        SetBy::MemoryBudget => "by --memory-budget".to_owned(),
        SetBy::DeviceCap => format!("by --device {}", device.id),
        SetBy::Free => {
            format!("({} free, less {} headroom)", Size(device.free), Size(device.headroom))
        }
    };
    format!(
        "{} needed ({}), {} allowed {set_by}, {} short",
        Size(device.used),
        parts.join(", "),
        Size(allowance.bytes),
        Size(short_by),
    )
}
