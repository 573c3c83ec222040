//! A machine as the planner sees it: pools of memory and drives, written down in TOML. Never probes one.

use serde::{Deserialize, Serialize};

use crate::size::{self, Size};

/// The default headroom is one part in this many of a device's memory.
pub const HEADROOM_SHARE: u64 = 20;

/// The default headroom is never more than this. What it is for (page tables, other programs that grow while
/// the model is loaded) does not grow with the machine: past 10 GiB of memory, a share of it would be waste.
pub const HEADROOM_MAX: u64 = 512 << 20;

/// More devices cannot be told apart by [`crate::Tier::Secondary`].
pub const DEVICES_MAX: usize = 256;

/// Bytes left free on a device of `total` bytes when nobody says how many.
pub fn default_headroom(total: u64) -> u64 {
    (total / HEADROOM_SHARE).min(HEADROOM_MAX)
}

/// A machine to plan for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The machine as a whole.
    pub host: Host,
    /// Memory pools with the workers that compute on them, in order of preference.
    #[serde(rename = "device")]
    pub devices: Vec<Device>,
    /// Drives that models lie on.
    #[serde(rename = "drive", default)]
    pub drives: Vec<Drive>,
}

/// The machine as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Bytes of RAM.
    #[serde(deserialize_with = "size::deserialize")]
    pub ram: u64,
    /// CPUs that may be used.
    pub cores: u32,
}

/// A memory pool with the workers that compute on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Name in options and plans, like `cpu:0`.
    pub id: String,
    /// What computes there; frank computes on `cpu`.
    pub kind: String,
    /// Bytes of the pool.
    #[serde(deserialize_with = "size::deserialize")]
    pub total: u64,
    /// Bytes that nobody holds yet.
    #[serde(deserialize_with = "size::deserialize")]
    pub free: u64,
    /// Bytes to leave free; `None` for [`default_headroom`].
    #[serde(
        default,
        deserialize_with = "size::deserialize_optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub headroom: Option<u64>,
    /// Bytes per second that the workers read; `None` when nobody measured it.
    #[serde(
        default,
        deserialize_with = "size::deserialize_optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub bandwidth: Option<u64>,
    /// Multiplications with an addition per second that the workers make when they read a prompt with quantized
    /// weights; `None` when nobody measured it. The speed of reading a prompt cannot be told without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<u64>,
    /// The device whose memory this pool is a part of: what both use must fit there. `None` for memory of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// Whether it is there because [`Machine::declare`] was asked for it, so that it is as large as it is asked to be.
    #[serde(skip)]
    pub is_declared: bool,
}

/// A drive that models lie on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// Where it is mounted.
    pub path: String,
    /// Bytes per second that it reads; `None` when nobody measured it.
    #[serde(
        default,
        deserialize_with = "size::deserialize_optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub bandwidth: Option<u64>,
}

/// Why a text does not describe a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// Not TOML, a key that is unknown or missing, or a value of the wrong kind.
    #[error("line {line}: {message}")]
    Malformed {
        /// Line of the text, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// Two devices of one name.
    #[error("two devices are called `{id}`")]
    DuplicateDevice {
        /// The name.
        id: String,
    },
    /// A pool that is larger than what it is a part of.
    #[error("a pool `{id}` of {} does not lie within {parent}, which has {}", Size(*bytes), Size(*total))]
    PoolAboveTotal {
        /// The pool.
        id: String,
        /// Its bytes.
        bytes: u64,
        /// The device that it is a part of.
        parent: String,
        /// That one's bytes.
        total: u64,
    },
    /// More free memory than there is.
    #[error("device `{id}` has {} free of {}", Size(*free), Size(*total))]
    FreeAboveTotal {
        /// The device.
        id: String,
        /// Its free bytes.
        free: u64,
        /// Its bytes.
        total: u64,
    },
    /// More devices than experts can be told to lie on.
    #[error("{count} devices, and at most {DEVICES_MAX} can be told apart")]
    TooManyDevices {
        /// How many there are.
        count: usize,
    },
    /// A pool that is part of no device, or of one that is itself a part.
    #[error("device `{id}` is part of `{parent}`, which is no device with memory of its own")]
    NoParent {
        /// The pool.
        id: String,
        /// What it is said to be part of.
        parent: String,
    },
    /// A pool to be declared under a name that is not `cpu:N`.
    #[error("`{id}` is not cpu:N, so it cannot be declared as a part of the machine's memory")]
    NotAPool {
        /// The name.
        id: String,
    },
    /// No device that frank computes on.
    #[error("no device is of kind `cpu`")]
    NoCpu,
}

impl Machine {
    /// Reads a machine from TOML: `[host]` with `ram` and `cores`, `[[device]]` with `id`, `kind`, `total`,
    /// `free` and optionally `headroom`, `bandwidth`, `arithmetic` and `part_of`, `[[drive]]` with `path` and optionally
    /// `bandwidth`.
    ///
    /// Sizes are integers (bytes) or texts with a unit; bandwidths are sizes per second, `arithmetic` is an integer.
    /// # Errors
    /// [`MachineError`], which names the key or the device.
    pub fn from_toml(text: &str) -> Result<Self, MachineError> {
        let machine: Self = toml::from_str(text).map_err(|error| malformed(text, &error))?;
        machine.check()?;
        Ok(machine)
    }

    /// The machine as [`Machine::from_toml`] reads it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("names and whole numbers are what TOML holds")
    }

    /// Adds a pool of `bytes` bytes called `id` (`cpu:N`), which is a part of the primary device's memory and is computed
    /// on by the same workers.
    ///
    /// # Errors
    /// [`MachineError`] when the name is another or taken, or there is no device to be part of. The machine is then what
    /// it was.
    pub fn declare(&mut self, id: &str, bytes: u64) -> Result<(), MachineError> {
        let number = id.strip_prefix("cpu:").and_then(|number| number.parse::<u32>().ok());
        if number.is_none_or(|number| id != format!("cpu:{number}")) {
            return Err(MachineError::NotAPool { id: id.to_owned() });
        }
        let primary = self.primary().ok_or(MachineError::NoCpu)?;
        let parent = primary.part_of.clone().unwrap_or_else(|| primary.id.clone());
        if bytes > primary.total {
            let (id, total) = (id.to_owned(), primary.total);
            return Err(MachineError::PoolAboveTotal { id, bytes, parent, total });
        }
        let pool = Device {
            id: id.to_owned(),
            kind: primary.kind.clone(),
            total: bytes,
            free: bytes,
            headroom: None,
            bandwidth: primary.bandwidth,
            arithmetic: primary.arithmetic,
            part_of: Some(parent),
            is_declared: true,
        };
        self.devices.push(pool);
        let checked = self.check();
        if checked.is_err() {
            self.devices.pop();
        }
        checked
    }

    /// The device that owns the dense weights: the first of kind `cpu`.
    pub fn primary(&self) -> Option<&Device> {
        self.devices.iter().find(|device| device.kind == "cpu")
    }

    fn check(&self) -> Result<(), MachineError> {
        if self.devices.len() > DEVICES_MAX {
            return Err(MachineError::TooManyDevices { count: self.devices.len() });
        }
        for (index, device) in self.devices.iter().enumerate() {
            let Device { id, free, total, .. } = device;
            if self.devices[..index].iter().any(|earlier| earlier.id == *id) {
                return Err(MachineError::DuplicateDevice { id: id.clone() });
            }
            if free > total {
                return Err(MachineError::FreeAboveTotal {
                    id: id.clone(),
                    free: *free,
                    total: *total,
                });
            }
        }
        self.check_parents()?;
        self.primary().map(|_| ()).ok_or(MachineError::NoCpu)
    }

    fn check_parents(&self) -> Result<(), MachineError> {
        let is_whole = |id: &str| {
            self.devices.iter().any(|device| device.id == id && device.part_of.is_none())
        };
        let parts =
            self.devices.iter().filter_map(|device| Some((device, device.part_of.clone()?)));
        for (device, parent) in parts {
            if !is_whole(&parent) {
                return Err(MachineError::NoParent { id: device.id.clone(), parent });
            }
        }
        Ok(())
    }
}

fn malformed(text: &str, error: &toml::de::Error) -> MachineError {
    let start = error.span().map_or(0, |span| span.start);
    let line = 1 + text.bytes().take(start).filter(|&byte| byte == b'\n').count();
    MachineError::Malformed { line, message: error.message().replace('\n', " ") }
}
