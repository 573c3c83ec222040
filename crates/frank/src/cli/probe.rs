//! `frank probe`: what this machine has and how fast it is. Never plans, and leaves nothing behind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use frank_bench::{DRIVE_BLOCK_BYTES, DRIVE_DEPTH, drive_rate};
use frank_hub::Store;
use frank_plan::{Drive, Machine};

use crate::cli::probe::facts::{DriveFacts, Facts, HostFacts, MemoryFacts};
use crate::interrupt::end_at_interrupt;
use crate::machine::{Effort, measure, per_second, this_machine};
use crate::report::{Failure, print, tell};

mod facts;

const EXAMPLES: &str = "\
Examples:
  frank probe                             facts and rates of this machine
  frank probe --toml > box.toml           the same for `frank fit --machine box.toml`, on this machine or another
  frank probe --drive /mnt/models --json  another drive than that of the store

Takes a few seconds and is disturbed by what else runs. The rate of arithmetic is that of the products of a prompt
with Q8_0 weights. A drive is read in blocks of 864 KiB at random places, 16 at once, past the page cache, from a file
of 512 MiB that has no name and is gone afterwards, however the program ends. Rates are medians.";

/// As many as models are computed with.
const THREADS_MAX: i64 = 512;

/// How long a drive is read.
const DRIVE_TIME: Duration = Duration::from_secs(1);

/// Say what this machine has: cores, memory, and how fast memory, arithmetic and a drive are
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Probe {
    /// A folder on the drive to measure [default: where fetched models are kept]
    #[arg(long, value_name = "FOLDER")]
    drive: Option<PathBuf>,

    /// Threads that read memory and multiply [default: one for each CPU that may be used]
    #[arg(short = 't', long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: Option<u32>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Print the machine file that `frank fit --machine` reads
    #[arg(long, conflicts_with = "json")]
    toml: bool,
}

impl Probe {
    /// Prints the facts to stdout; what could not be measured is told on stderr and is left out.
    ///
    /// # Errors
    /// Exit code 2 when the folder of `--drive` is none.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let folder = self.folder()?;
        end_at_interrupt()?;
        let mut machine = this_machine()?;
        let threads = self.threads.map_or_else(frank_os::cpu_count, |n| n as usize);
        let facts = probe(&mut machine, &folder, threads);
        if let Some(reason) = &facts.drive.not_measured {
            tell(&format!("warning: {} is not measured: {reason}", folder.display()));
        }
        if facts.memory.bandwidth.is_none() {
            tell("warning: there is too little free memory to measure its rate");
        }
        match (self.json, self.toml) {
            (true, _) => print(&(serde_json::to_string_pretty(&facts)? + "\n")),
            (_, true) => print(&machine.to_toml()),
            _ => print(&facts.table()),
        }
    }

    fn folder(&self) -> anyhow::Result<PathBuf> {
        match &self.drive {
            Some(folder) if folder.is_dir() => Ok(folder.clone()),
            Some(folder) => {
                let fact = format!("--drive {}: there is no such folder", folder.display());
                Err(Failure::usage(fact).into())
            }
            None => Ok(store_folder()),
        }
    }
}

/// The folder of the store, or what is there of the way to it; the drive is the same.
fn store_folder() -> PathBuf {
    let store = Store::default_dir().unwrap_or_else(|_| PathBuf::from("/"));
    store.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// Measures this machine with so many threads, and fills in the rates of `machine`, which describes it.
fn probe(machine: &mut Machine, folder: &Path, threads: usize) -> Facts {
    let device = machine.devices.first_mut().expect("this machine has a processor");
    let rates = measure(threads, device.free, None, Effort::LONG);
    device.bandwidth = rates.bandwidth.map(per_second);
    device.arithmetic = rates.arithmetic.map(per_second);
    let memory = MemoryFacts {
        total: device.total,
        free: device.free,
        cgroup_limit: frank_os::cgroup_memory().map(|cgroup| cgroup.limit),
        threads,
        buffer_bytes: rates.buffer_bytes,
        bandwidth: rates.bandwidth,
        arithmetic: rates.arithmetic,
    };
    let drive = drive_facts(folder);
    let (path, bandwidth) = (drive.path.clone(), drive.bandwidth);
    machine.drives.push(Drive { path, bandwidth });
    Facts { host: HostFacts::of_this_machine(), memory, drive }
}

fn drive_facts(folder: &Path) -> DriveFacts {
    let path = folder.display().to_string();
    let (block_bytes, depth) = (DRIVE_BLOCK_BYTES, DRIVE_DEPTH);
    match drive_rate(folder, DRIVE_TIME) {
        Ok(rate) => DriveFacts {
            path,
            // A cast saturates, and no rate is near 2^64.
            bandwidth: Some(rate.bandwidth as u64),
            direct: Some(rate.is_direct),
            block_bytes,
            depth,
            not_measured: None,
        },
        Err(error) => {
            // With what the system said.
            let not_measured = Some(format!("{:#}", anyhow::Error::new(error)));
            DriveFacts { path, bandwidth: None, direct: None, block_bytes, depth, not_measured }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_is_not_measured_says_what_the_system_said() {
        let reason = drive_facts(Path::new("/no/such/folder")).not_measured.expect("a reason");
        assert!(
            reason.ends_with("/no/such/folder: No such file or directory (os error 2)"),
            "{reason}"
        );
    }
}
