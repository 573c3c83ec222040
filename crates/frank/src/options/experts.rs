//! Options for models with experts: where experts lie, and the files that rank them. Reads those files and nothing else.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use clap::Args;
use frank_os::{IoBackend, read_small_file};
use frank_plan::{
    Hotness, Limits, Machine, ModelNeeds, Placement, Plan, Protected, Ranking, StreamCache,
    parse_router_bias, parse_size,
};

use super::{DeviceBytes, check_known, check_once};
use crate::report::Failure;

/// A file that says something of each expert is not larger: the largest models have some 25,000 of them.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Where experts lie, how they are read, and what is said about them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for models with experts")]
pub(crate) struct ExpertOptions {
    /// What experts may take that stay on one device, as in cpu:0=20GiB; may be given for each device [default: what
    /// the rest leaves]
    #[arg(long, value_name = "ID=SIZE")]
    expert_budget: Vec<DeviceBytes>,

    /// What experts that are read from the drive may take in memory, as in 4GiB
    #[arg(long, value_name = "[ID=]SIZE", value_parser = parse_stream_cache, allow_hyphen_values = true)]
    stream_cache: Option<StreamCache>,

    /// Where each expert should lie, JSON {"owners": ["primary", "secondary" or "stream", ...]}, index
    /// layer*experts+expert; what does not fit drops one tier
    #[arg(long, value_name = "FILE")]
    placement: Option<PathBuf>,

    /// How often each expert was used, CSV layer,expert,count; the most used ones stay in memory
    #[arg(long, value_name = "FILE")]
    hotness: Option<PathBuf>,

    /// Experts that must stay on the first device, JSON {"LAYER": [IDS], ...}
    #[arg(long, value_name = "FILE")]
    protected_experts: Option<PathBuf>,

    /// Added to the router's scores when experts are chosen, and only then: raw f32, little-endian, [layer][expert]
    #[arg(long, value_name = "FILE")]
    router_bias: Option<PathBuf>,

    /// How experts are read from the drive: auto, uring, pread or mmap; auto takes what the system gives, uring first
    #[arg(long, value_name = "WAY")]
    io: Option<Io>,

    /// Read only experts that are needed now, and none that the next layer will probably need
    #[arg(long)]
    no_prefetch: bool,
}

impl ExpertOptions {
    /// Refuses options that have no effect for the model.
    ///
    /// # Errors
    /// Names the first of them.
    pub(super) fn check_effect(&self, needs: &ModelNeeds) -> Result<(), Failure> {
        match self.given() {
            Some(option) if needs.experts == 0 => {
                let fact = format!("this {} model has no experts", needs.arch);
                Err(no_effect(option, &fact))
            }
            _ => Ok(()),
        }
    }

    /// Refuses options about streamed experts where none is.
    ///
    /// # Errors
    /// Names the first of them.
    pub(super) fn check_streaming(&self, plan: &Plan) -> Result<(), Failure> {
        let options = [
            ("--stream-cache", self.stream_cache.is_some()),
            ("--io", self.io.is_some()),
            ("--no-prefetch", self.no_prefetch),
        ];
        match options.into_iter().find(|&(_, is_given)| is_given) {
            Some((option, _)) if plan.experts.stream == 0 => {
                Err(no_effect(option, "every expert stays in memory"))
            }
            _ => Ok(()),
        }
    }

    /// The way to read; `None` where the system's best is taken.
    pub(super) fn backend(&self) -> Option<IoBackend> {
        self.io.and_then(|Io(backend)| backend)
    }

    /// Whether experts are read ahead.
    pub(super) fn prefetches(&self) -> bool {
        !self.no_prefetch
    }

    /// The first of them that was given.
    fn given(&self) -> Option<&'static str> {
        let options = [
            ("--expert-budget", !self.expert_budget.is_empty()),
            ("--stream-cache", self.stream_cache.is_some()),
            ("--placement", self.placement.is_some()),
            ("--hotness", self.hotness.is_some()),
            ("--protected-experts", self.protected_experts.is_some()),
            ("--router-bias", self.router_bias.is_some()),
            ("--io", self.io.is_some()),
            ("--no-prefetch", self.no_prefetch),
        ];
        options.into_iter().find(|&(_, is_given)| is_given).map(|(name, _)| name)
    }

    /// Adds what they say to `limits`.
    ///
    /// # Errors
    /// When one names a device that `machine` lacks, or a file cannot be read or is not about this model.
    pub(super) fn limit(
        &self,
        limits: &mut Limits,
        machine: &Machine,
        needs: &ModelNeeds,
    ) -> anyhow::Result<()> {
        check_once("--expert-budget", &self.expert_budget)?;
        for DeviceBytes { id, .. } in &self.expert_budget {
            check_known("--expert-budget", id, machine)?;
        }
        if let Some(StreamCache { device: Some(id), .. }) = &self.stream_cache {
            check_known("--stream-cache", id, machine)?;
        }
        let budgets = self.expert_budget.iter().map(|budget| (budget.id.clone(), budget.bytes));
        limits.expert_budgets = budgets.collect();
        limits.stream_cache = self.stream_cache.clone();
        limits.ranking = self.ranking(needs)?;
        Ok(())
    }

    fn ranking(&self, needs: &ModelNeeds) -> anyhow::Result<Ranking> {
        let Self { placement, hotness, protected_experts, .. } = self;
        Ok(Ranking {
            placement: parsed("--placement", placement.as_deref(), |bytes| {
                Ok(Placement::parse(std::str::from_utf8(bytes)?, needs)?)
            })?,
            hotness: parsed("--hotness", hotness.as_deref(), |bytes| {
                Ok(Hotness::parse(std::str::from_utf8(bytes)?, needs)?)
            })?,
            protected: parsed("--protected-experts", protected_experts.as_deref(), |bytes| {
                Ok(Protected::parse(std::str::from_utf8(bytes)?, needs)?)
            })?,
        })
    }

    /// What `--router-bias` adds, `[layer][expert]`.
    ///
    /// # Errors
    /// When the file cannot be read or is not about this model.
    pub(super) fn router_bias(&self, needs: &ModelNeeds) -> anyhow::Result<Option<Vec<f32>>> {
        parsed("--router-bias", self.router_bias.as_deref(), |bytes| {
            Ok(parse_router_bias(bytes, needs)?)
        })
    }
}

/// What the file at `path` says, where there is one.
fn parsed<T>(
    option: &str,
    path: Option<&Path>,
    parse: impl FnOnce(&[u8]) -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    let Some(path) = path else { return Ok(None) };
    let fact = || Failure::usage(format!("cannot use {option} {}", path.display()));
    let bytes = read_small_file(path, FILE_BYTES_MAX).with_context(fact)?;
    parse(&bytes).map(Some).with_context(fact)
}

fn no_effect(option: &str, reason: &str) -> Failure {
    let fact = format!("{option} has no effect: {reason}");
    Failure::usage(fact).hint(format!("leave out {option}"))
}

/// How experts are read from the drive; `None` is what the system gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Io(Option<IoBackend>);

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "auto" => None,
            "uring" => Some(IoBackend::Uring),
            "pread" => Some(IoBackend::Pread),
            "mmap" => Some(IoBackend::Mmap),
            _ => {
                return Err(format!("`{text}` is no way to read; auto, uring, pread and mmap are"));
            }
        }))
    }
}

/// Reads `[ID=]SIZE`.
fn parse_stream_cache(text: &str) -> Result<StreamCache, String> {
    let (device, size) = match text.split_once('=') {
        Some((id, size)) => (Some(id.to_owned()), size),
        None => (None, text),
    };
    let bytes = parse_size(size).map_err(|error| error.to_string())?;
    Ok(StreamCache { device, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_cache_is_a_size_or_that_of_a_device() {
        let check = |text: &str, device: Option<&str>, bytes| {
            let device = device.map(str::to_owned);
            assert_eq!(parse_stream_cache(text), Ok(StreamCache { device, bytes }), "{text}");
        };
        check("4GiB", None, 4 << 30);
        check("cpu:0=512MB", Some("cpu:0"), 512_000_000);
        for text in ["", "=", "cpu:0=", "cpu:0", "cpu:0=lots", "-1GiB"] {
            assert!(parse_stream_cache(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_way_to_read_has_its_word() {
        let check = |text: &str, backend| assert_eq!(text.parse(), Ok(Io(backend)), "{text}");
        check("auto", None);
        check("uring", Some(IoBackend::Uring));
        check("pread", Some(IoBackend::Pread));
        check("mmap", Some(IoBackend::Mmap));
        let refused = "`magic` is no way to read; auto, uring, pread and mmap are";
        assert_eq!("magic".parse::<Io>(), Err(refused.to_owned()));
    }
}
