//! What `frank probe` found, as JSON and as text for a terminal. Never measures.

use std::fmt::Write as _;

use frank_bench::Spread;
use frank_os::{
    amx_int8_allowed, cpu_count, cpu_flags, cpu_model, host_name, last_cache_bytes, numa_node_count,
};
use frank_plan::Size;
use serde::Serialize;

use crate::report::printable;

/// What `frank probe --json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    pub(crate) host: HostFacts,
    pub(crate) memory: MemoryFacts,
    pub(crate) drive: DriveFacts,
}

/// The processors.
#[derive(Debug, Serialize)]
pub(crate) struct HostFacts {
    name: Option<String>,
    cpu: Option<String>,
    /// CPUs that this process may use.
    cores: usize,
    numa_nodes: usize,
    last_cache_bytes: Option<u64>,
    /// Instruction sets that kernels are there for, of those that may be used.
    features: Vec<&'static str>,
}

impl HostFacts {
    pub(crate) fn of_this_machine() -> Self {
        let mut features = cpu_flags(&["avx2", "avx512_vnni"]);
        // The system has to allow these too.
        features.extend(amx_int8_allowed().then_some("amx_int8"));
        Self {
            name: host_name(),
            cpu: cpu_model(),
            cores: cpu_count(),
            numa_nodes: numa_node_count(),
            last_cache_bytes: last_cache_bytes(),
            features,
        }
    }
}

/// Memory, and what all threads together do with it in a second.
#[derive(Debug, Serialize)]
pub(crate) struct MemoryFacts {
    /// Bytes that this process may use: of the machine, or what its cgroup allows if that is less.
    pub(crate) total: u64,
    /// Bytes of them that nobody holds.
    pub(crate) free: u64,
    /// Bytes; `None` where there is no limit.
    pub(crate) cgroup_limit: Option<u64>,
    pub(crate) threads: usize,
    /// Bytes that were read over and over.
    pub(crate) buffer_bytes: u64,
    /// Bytes read.
    pub(crate) bandwidth: Option<Spread>,
    /// Multiplications with an addition of the products of a prompt.
    pub(crate) arithmetic: Option<Spread>,
}

/// A drive.
#[derive(Debug, Serialize)]
pub(crate) struct DriveFacts {
    /// The folder that was asked for.
    pub(crate) path: String,
    /// Bytes per second.
    pub(crate) bandwidth: Option<u64>,
    /// Whether reads went past the page cache.
    pub(crate) direct: Option<bool>,
    pub(crate) block_bytes: u64,
    pub(crate) depth: usize,
    /// Why there is no bandwidth.
    pub(crate) not_measured: Option<String>,
}

impl Facts {
    /// The facts as text for a terminal.
    pub(crate) fn table(&self) -> String {
        let Self { host, memory, drive } = self;
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
        let features =
            if host.features.is_empty() { "none".to_owned() } else { host.features.join(" ") };
        let lines = [
            ("host", or_unknown(host.name.clone())),
            ("cpu", or_unknown(host.cpu.clone())),
            ("cores", format!("{}, memory nodes: {}", host.cores, host.numa_nodes)),
            ("features", features),
            ("last cache", or_unknown(host.last_cache_bytes.map(|bytes| Size(bytes).to_string()))),
            ("memory", memory.line()),
            ("bandwidth", memory.bandwidth_line()),
            ("arithmetic", memory.arithmetic_line()),
            ("drive", drive.line()),
        ];
        let mut out = String::new();
        for (name, value) in lines {
            writeln!(out, "{name:<12} {}", printable(&value)).expect("a String takes every text");
        }
        out
    }
}

impl MemoryFacts {
    fn line(&self) -> String {
        let limit = match self.cgroup_limit {
            Some(limit) => format!(", limited to {} by its cgroup", Size(limit)),
            None => String::new(),
        };
        format!("{} free of {}{limit}", Size(self.free), Size(self.total))
    }

    fn bandwidth_line(&self) -> String {
        let Some(spread) = self.bandwidth else { return "not measured".to_owned() };
        let (gb, buffer) = (spread.in_units_of(1e9), Size(self.buffer_bytes));
        format!("{gb} GB/s, {buffer} read by all {} threads", self.threads)
    }

    fn arithmetic_line(&self) -> String {
        match self.arithmetic {
            Some(spread) => {
                format!("{} thousand million multiply-adds a second", spread.in_units_of(1e9))
            }
            None => "not measured".to_owned(),
        }
    }
}

impl DriveFacts {
    fn line(&self) -> String {
        let rate = match (self.bandwidth, &self.not_measured) {
            (Some(bandwidth), _) => {
                let way = if self.direct == Some(true) { "past" } else { "through" };
                format!("{:.2} GB/s, random reads {way} the page cache", bandwidth as f64 / 1e9)
            }
            (None, Some(reason)) => format!("not measured: {reason}"),
            (None, None) => "not measured".to_owned(),
        };
        format!("{}: {rate}", self.path)
    }
}
