//! All ways to run a server that must not change its answers: memory, placement, reading. Never runs one.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::{number, written};
use crate::http::Request;

const BACKENDS: [&str; 3] = ["uring", "pread", "mmap"];
const N_PLACEMENTS: u64 = 5;
/// Bytes read for streamed experts.
const BYTES_READ: &str = "frank_expert_read_bytes_total{tier=\"streamed\"} ";

/// Options of a server, and which of the two files it serves.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) file: usize,
    pub(super) options: Vec<String>,
    pub(super) is_resident: bool,
    name: String,
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, {}", ["published", "repacked"][self.file], self.name)
    }
}

/// What a plan says of the experts.
#[derive(Debug)]
pub(super) struct Sizes {
    /// Experts of all layers.
    n_experts: u64,
    /// The least slots that are not refused.
    floor_slots: u64,
    expert_bytes: u64,
}

impl Sizes {
    /// Asks the program for them.
    pub(super) fn of(frank: &Path, model: &Path) -> Result<Self> {
        let output =
            Command::new(frank).args(["fit", "--no-measure", "--json"]).arg(model).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let plan: Value = serde_json::from_slice(&output.stdout).context("the plan is JSON")?;
        Ok(Self {
            n_experts: number(&plan, "/experts/count")?,
            floor_slots: number(&plan, "/model/layers")? * number(&plan, "/model/experts_used")?,
            expert_bytes: number(&plan, "/experts/bytes_each")?,
        })
    }
}

/// Every way, with its placement files in `folder`.
pub(super) fn all(sizes: &Sizes, folder: &Path) -> Result<Vec<Way>> {
    let mut ways = Vec::new();
    for file in [0, 1] {
        let (name, options) = (String::from("resident"), Vec::new());
        ways.push(Way { file, options, is_resident: true, name });
        for (slots, size) in [
            (sizes.n_experts / 2, "50 %"),
            (sizes.n_experts / 4, "25 %"),
            (sizes.floor_slots, "the floor"),
        ] {
            let memory = ["--expert-budget", "cpu:0=0", "--stream-cache", &bytes(sizes, slots)]
                .map(str::to_owned);
            for (io, prefetch) in BACKENDS.into_iter().flat_map(|io| [(io, true), (io, false)]) {
                ways.push(Way::streamed(file, size, &memory, (io, prefetch)));
            }
        }
    }
    for seed in 1..=N_PLACEMENTS {
        let path = written(folder, &format!("placement-{seed}.json"), &owners(sizes, seed))?;
        for (turn, io) in BACKENDS.into_iter().enumerate() {
            for with_pool in [false, true] {
                let memory = placed(sizes, &path, with_pool);
                let pool = if with_pool { " with cpu:1" } else { "" };
                let name = format!("placement {seed}{pool}");
                let turn = seed as usize + turn;
                let way = (io, (turn / 2).is_multiple_of(2));
                ways.push(Way::streamed(turn % 2, &name, &memory, way));
            }
        }
    }
    Ok(ways)
}

impl Way {
    fn streamed(file: usize, name: &str, memory: &[String], (io, prefetch): (&str, bool)) -> Self {
        let mut options = memory.to_vec();
        options.extend(["--io", io].map(str::to_owned));
        if !prefetch {
            options.push("--no-prefetch".to_owned());
        }
        let name = format!("{name}, {io}{}", if prefetch { "" } else { " without prefetch" });
        Self { file, options, is_resident: false, name }
    }
}

/// Slots as a size.
fn bytes(sizes: &Sizes, slots: u64) -> String {
    format!("{}B", slots * sizes.expert_bytes)
}

/// Options for a placement: a quarter may stay on the first device, an eighth on another, an eighth has slots.
fn placed(sizes: &Sizes, path: &Path, with_pool: bool) -> Vec<String> {
    let [quarter, eighth] = [4, 8].map(|part| bytes(sizes, sizes.n_experts / part));
    let mut options = vec![
        format!("--placement={}", path.display()),
        format!("--expert-budget=cpu:0={quarter}"),
        format!("--stream-cache={eighth}"),
    ];
    if with_pool {
        options.push(format!("--device=cpu:1={eighth}"));
    }
    options
}

/// A placement file of random owners, the same for a seed each time.
fn owners(sizes: &Sizes, seed: u64) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let owner = |_| ["primary", "secondary", "stream"][rng.random_range(0..3)];
    json!({"owners": (0..sizes.n_experts).map(owner).collect::<Vec<_>>()}).to_string()
}

/// Bytes that a server has read for streamed experts.
pub(super) fn bytes_read(address: SocketAddr) -> Result<u64> {
    let text = Request::get("/metrics").reply(address)?.text()?;
    let line = text.lines().find_map(|line| line.strip_prefix(BYTES_READ));
    line.map_or(Ok(0), |value| value.parse().with_context(|| format!("{BYTES_READ}{value}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_size_meets_every_way_to_read_from_both_files_and_every_placement_both_pools() {
        let sizes = Sizes { n_experts: 64, floor_slots: 8, expert_bytes: 1000 };
        let folder = tempfile::tempdir().unwrap();
        let ways = all(&sizes, folder.path()).unwrap();
        let names: BTreeSet<String> = ways.iter().map(ToString::to_string).collect();
        assert_eq!((ways.len(), names.len()), (2 * (1 + 3 * 6) + 5 * 6, ways.len()));
        let floor = "repacked, the floor, mmap without prefetch";
        let floor = ways.iter().find(|way| way.to_string() == floor).expect("it is there");
        let expected = "--expert-budget cpu:0=0 --stream-cache 8000B --io mmap --no-prefetch";
        assert_eq!(floor.options.join(" "), expected);
        for seed in 1..=5 {
            let of_seed = |way: &&Way| way.name.contains(&format!("placement {seed}"));
            let pools = ways.iter().filter(of_seed);
            let n_pools = pools.filter(|way| way.name.contains("cpu:1")).count();
            assert_eq!(n_pools, BACKENDS.len());
        }
    }
}
