//! What stands in the way of a plan, in numbers and in words. Never suggests a way around it.

use crate::bounds::{Bound, SetBy};
use crate::device_use::DeviceUse;
use crate::draft::{Draft, Planner};
use crate::limits::Limits;
use crate::ranked::EXPERTS_MAX;
use crate::size::Size;
use crate::split::{Split, Splitter};

/// What stands in the way of a plan.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// The machine has no device that frank computes on.
    NoCpu,
    /// An option names what the machine lacks.
    UnknownDevice { id: String, known: String },
    /// Experts are wanted where frank does not compute.
    OtherKind { id: String, kind: String },
    /// An option asks for none of something that takes at least one.
    Zero { device: String, option: &'static str },
    /// A decoding step has a row of each request, and more requests than rows were asked for.
    Rows { device: String, ubatch: u32, parallel: u32 },
    /// More KV blocks than can be numbered.
    KvBlocks { device: String, count: u64 },
    /// More experts than a plan can place.
    Experts { device: String, count: u64 },
    /// More bytes of protected experts than of experts are allowed.
    Protected { device: String, bytes: u64, budget: u64 },
    /// Fewer slots than one token needs.
    CacheFloor { device: String, asked: u64, least: u64, slots: u64, slot_bytes: u64 },
    /// More bytes than allowed.
    Bytes(Box<Shortage>),
}

/// Devices that would hold more bytes than they may.
#[derive(Debug)]
pub(crate) struct Shortage {
    /// Those that share the bound, the one that it is about first.
    devices: Vec<String>,
    /// What they would hold together.
    uses: DeviceUse,
    /// What they may hold.
    bytes: u64,
    set_by: SetBy,
    /// What the first of them has free and what of that stays free.
    free: u64,
    headroom: u64,
    /// Slots that are the least, and bytes of each; 0 where there are none or the operator chose them.
    floor: (u64, u64),
}

impl Obstacle {
    /// The first thing about a request that stands in the way, however much memory there is.
    pub(crate) fn of_request(
        planner: &Planner<'_>,
        limits: &Limits,
        draft: &Draft,
    ) -> Option<Self> {
        let Some(primary) = planner.primary_id() else { return Some(Self::NoCpu) };
        let device = primary.to_owned();
        if let Some(obstacle) = unusable_device(planner, limits) {
            return Some(obstacle);
        }
        let settings = draft.settings;
        let counts = [
            ("--ctx-size", settings.ctx_size),
            ("--parallel", settings.parallel),
            ("--ubatch-size", settings.ubatch),
        ];
        if let Some((option, _)) = counts.into_iter().find(|&(_, value)| value == 0) {
            return Some(Self::Zero { device, option });
        }
        if settings.parallel > settings.ubatch {
            let (ubatch, parallel) = (settings.ubatch, settings.parallel);
            return Some(Self::Rows { device, ubatch, parallel });
        }
        let most = draft.kv.groups.iter().map(|group| group.n_blocks).max();
        if let Some(count) = most.filter(|&count| count > u64::from(u32::MAX)) {
            return Some(Self::KvBlocks { device, count });
        }
        let count = planner.experts.n_places;
        (!planner.experts.is_countable()).then_some(Self::Experts { device, count })
    }

    /// The first thing that stands in the way of what `splitter` split this way.
    pub(crate) fn of_bytes(
        planner: &Planner<'_>,
        splitter: &Splitter<'_>,
        split: &Split,
        uses: &[DeviceUse],
    ) -> Option<Self> {
        let id = |index: usize| planner.machine.devices[index].id.clone();
        if let Some((bytes, budget)) = splitter.protected_excess() {
            return Some(Self::Protected { device: id(splitter.primary), bytes, budget });
        }
        if splitter.is_below_floor(split) {
            let (slots, slot_bytes) = planner.cache_floor();
            return Some(Self::CacheFloor {
                device: id(splitter.cache_device),
                asked: splitter.cache.unwrap_or(0),
                least: planner.cache_floor_bytes(),
                slots,
                slot_bytes,
            });
        }
        let used = splitter.used(split);
        let worst = splitter.bounds.worst(&used)?;
        Some(Self::Bytes(Box::new(Shortage::new(planner, splitter, split, (worst, uses)))))
    }

    /// The device that is short, or that the request is about.
    pub(crate) fn device(&self) -> &str {
        match self {
            Self::NoCpu => "cpu:0",
            Self::UnknownDevice { id, .. } | Self::OtherKind { id, .. } => id,
            Self::Zero { device, .. }
            | Self::Rows { device, .. }
            | Self::KvBlocks { device, .. }
            | Self::Experts { device, .. }
            | Self::Protected { device, .. }
            | Self::CacheFloor { device, .. } => device,
            Self::Bytes(shortage) => &shortage.devices[0],
        }
    }

    /// Whether it is another machine or model that is wanted, or another name in an option, whatever else is asked for.
    pub(crate) fn is_for_good(&self) -> bool {
        match self {
            Self::NoCpu
            | Self::UnknownDevice { .. }
            | Self::OtherKind { .. }
            | Self::Experts { .. } => true,
            Self::Zero { .. }
            | Self::Rows { .. }
            | Self::KvBlocks { .. }
            | Self::Protected { .. }
            | Self::CacheFloor { .. }
            | Self::Bytes(_) => false,
        }
    }

    /// Bytes that are missing; 0 when bytes are not what is missing.
    pub(crate) fn short_by(&self) -> u64 {
        match self {
            Self::Bytes(shortage) => shortage.short_by(),
            Self::Protected { bytes, budget, .. } => bytes.saturating_sub(*budget),
            Self::CacheFloor { asked, least, .. } => least.saturating_sub(*asked),
            Self::NoCpu
            | Self::UnknownDevice { .. }
            | Self::OtherKind { .. }
            | Self::Zero { .. }
            | Self::Rows { .. }
            | Self::KvBlocks { .. }
            | Self::Experts { .. } => 0,
        }
    }

    /// One clause without an end mark.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::NoCpu => "the machine has no device of kind cpu".to_owned(),
            Self::UnknownDevice { known, .. } => {
                format!("the machine has no such device; it has {known}")
            }
            Self::OtherKind { kind, .. } => {
                format!("experts cannot lie there: frank computes on cpu, and this is {kind}")
            }
            Self::Zero { option, .. } => format!("{option} 0 is none; at least 1 is needed"),
            Self::Rows { ubatch, parallel, .. } => {
                format!("a step of {ubatch} rows cannot hold a row of each of {parallel} requests")
            }
            Self::KvBlocks { count, .. } => {
                format!("{count} KV blocks are needed, and {} can be numbered", u32::MAX)
            }
            Self::Experts { count, .. } => {
                format!(
                    "the model has places for {count} experts, and at most {EXPERTS_MAX} can be placed"
                )
            }
            Self::Protected { device, bytes, budget } => {
                let (bytes, budget) = (Size(*bytes), Size(*budget));
                format!(
                    "the protected experts take {bytes}, {budget} allowed by --expert-budget {device}"
                )
            }
            Self::CacheFloor { asked, least, slots, slot_bytes, .. } => {
                let (asked, least, each) = (Size(*asked), Size(*least), Size(*slot_bytes));
                format!(
                    "a stream cache of {asked} is below its floor of {least}: {slots} slots of {each}, \
                     the experts of one token"
                )
            }
            Self::Bytes(shortage) => shortage.reason(),
        }
    }
}

/// A device that an option names and that is not there, or where no expert can lie.
fn unusable_device(planner: &Planner<'_>, limits: &Limits) -> Option<Obstacle> {
    let devices = &planner.machine.devices;
    let cache = limits.stream_cache.as_ref().and_then(|cache| cache.device.as_ref());
    let of_experts: Vec<&String> =
        limits.expert_budgets.iter().map(|(id, _)| id).chain(cache).collect();
    let named = limits.devices.iter().map(|(id, _)| id).chain(of_experts.iter().copied());
    let is_known = |id: &str| devices.iter().any(|device| device.id == id);
    if let Some(id) = named.into_iter().find(|id| !is_known(id)) {
        let known: Vec<&str> = devices.iter().map(|device| device.id.as_str()).collect();
        return Some(Obstacle::UnknownDevice { id: id.clone(), known: known.join(", ") });
    }
    let mut others = devices.iter().filter(|device| device.kind != "cpu");
    let other = others.find(|device| of_experts.contains(&&device.id))?;
    Some(Obstacle::OtherKind { id: other.id.clone(), kind: other.kind.clone() })
}

impl Shortage {
    fn new(
        planner: &Planner<'_>,
        splitter: &Splitter<'_>,
        split: &Split,
        (bound, uses): (&Bound, &[DeviceUse]),
    ) -> Self {
        let devices = &planner.machine.devices;
        let members = bound.members.iter();
        // A budget for everything is about the device that everything but experts is on.
        let about = match bound.set_by {
            SetBy::MemoryBudget => splitter.primary,
            SetBy::Free | SetBy::DeviceCap => bound.members[0],
        };
        let others = members.clone().filter(|&&member| member != about);
        let ids = std::iter::once(&about).chain(others).map(|&index| devices[index].id.clone());
        let holds_slots =
            splitter.cache.is_none() && bound.members.contains(&splitter.cache_device);
        Self {
            devices: ids.collect(),
            uses: members.fold(DeviceUse::default(), |sum, &member| sum.plus(&uses[member])),
            bytes: bound.bytes,
            set_by: bound.set_by,
            free: devices[about].free,
            headroom: splitter.bounds.headrooms[about],
            floor: if holds_slots { (split.slots, split.slot_bytes) } else { (0, 0) },
        }
    }

    fn short_by(&self) -> u64 {
        self.uses.total().saturating_sub(self.bytes)
    }

    fn reason(&self) -> String {
        let needed = self.uses.total();
        let held = self.uses.entries().into_iter().filter(|&(_, bytes)| bytes > 0);
        let parts: Vec<String> =
            held.map(|(name, bytes)| format!("{name} {}", Size(bytes))).collect();
        format!(
            "{} needed ({}), {} allowed {}, {} short{}",
            Size(needed),
            parts.join(", "),
            Size(self.bytes),
            self.set_by(),
            Size(self.short_by()),
            self.least(),
        )
    }

    fn set_by(&self) -> String {
        match self.set_by {
            SetBy::MemoryBudget => "by --memory-budget".to_owned(),
            SetBy::DeviceCap => format!("by --device {}", self.devices[0]),
            SetBy::Free => {
                let shared = match &self.devices[1..] {
                    [] => String::new(),
                    others => format!(", shared with {}", others.join(", ")),
                };
                let (free, headroom) = (Size(self.free), Size(self.headroom));
                format!("({free} free, less {headroom} headroom{shared})")
            }
        }
    }

    /// What cannot be less, where that alone decides.
    fn least(&self) -> String {
        let (slots, slot_bytes) = self.floor;
        let without_slots = self.uses.total() - self.uses.stream_cache.min(self.uses.total());
        if self.uses.dense > self.bytes {
            "; dense weights alone are more than that".to_owned()
        } else if slots > 0 && without_slots <= self.bytes {
            format!(
                "; {slots} slots of {} are the least, the experts of one token",
                Size(slot_bytes)
            )
        } else {
            String::new()
        }
    }
}
