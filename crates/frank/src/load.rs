//! From an open file to a model in memory: family, plan, tokenizer, then the weights. Refuses before it reads one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use frank_experts::{StoreError, StoreStatistics};
use frank_gguf::ModelHeader;
use frank_hub::{FailureKind, ModelFile};
use frank_models::{ArchError, LoadError, LoadOptions, Model, arch};
use frank_os::{OsError, process_memory};
use frank_plan::{Machine, ModelNeeds, Plan, Size, plan};
use frank_tokenizer::Tokenizer;

use crate::machine::{memory_bandwidth, this_machine, threads};
use crate::model_drive::{expert_bytes, predict_streamed};
use crate::options::ModelOptions;
use crate::report::{Failure, known, tell};
use crate::thread_limit::{ENGINE_THREADS, check_threads, of_compute};
use crate::usage::Usage;

/// What is decided before a weight is read.
pub(crate) struct Prepared {
    pub(crate) file: ModelFile,
    pub(crate) plan: Plan,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// What `--router-bias` says, `[layer][expert]`.
    pub(crate) router_bias: Option<Vec<f32>>,
    /// What was learned about experts that are streamed; `None` where none is.
    pub(crate) usage: Option<Usage>,
    /// What it was planned for.
    needs: ModelNeeds,
    machine: Machine,
}

impl Prepared {
    /// Plans `file` on this machine and reads its tokenizer. `adjust` may add to the needs of the model. Tells what was
    /// assumed where the file does not say.
    ///
    /// # Errors
    /// Exit code 2 when the file is of a family that cannot be loaded, 3 when it does not fit.
    pub(crate) fn new(
        file: ModelFile,
        options: &ModelOptions,
        adjust: impl FnOnce(&mut ModelNeeds),
    ) -> anyhow::Result<Self> {
        // The planner also plans what cannot be loaded; that is refused here, under its own name.
        let family = arch(&file.header).map_err(of_arch)?;
        (family.needs)(&file.header, options.kv_types).map_err(of_arch)?;
        let mut needs = options.needs(&file.header)?;
        adjust(&mut needs);
        let machine = options.with_pools(this_machine()?)?;
        let limits = options.limits(&machine, &needs)?;
        let usage = Usage::read(&file, &needs).map(|usage| usage.or_given(&limits));
        let router_bias = options.router_bias(&needs)?;
        let plan = plan(&needs, &machine, &limits).map_err(|refusal| Failure::from(&refusal))?;
        options.check_streaming(&plan)?;
        let usage = usage.filter(|_| plan.experts.stream > 0);
        let tokenizer = Tokenizer::from_metadata(&file.header.metadata)
            .map_err(|error| known(error, FailureKind::Input, None))?;
        check_vocabulary(&file.header, &tokenizer)?;
        for warning in tokenizer.warnings() {
            tell(&format!("warning: {warning}"));
        }
        Ok(Self { file, plan, tokenizer: Arc::new(tokenizer), router_bias, usage, needs, machine })
    }

    /// Predicts the speed of a plan that streams experts, from rates of memory and drive that are measured now, within the
    /// memory of the plan: half a second before a load that takes longer. Other plans are loaded as they are.
    pub(crate) fn predict_streamed(&mut self, options: &ModelOptions) {
        let mut machine = self.machine.clone();
        let Some(device) = machine.devices.first_mut().filter(|_| self.plan.experts.stream > 0)
        else {
            return;
        };
        let held = process_memory().map_or(0, |memory| memory.rss);
        let planned = self.plan.devices.first().map_or(0, |device| device.used);
        let allowed = options.left_to_take().unwrap_or(u64::MAX).min(planned.saturating_sub(held));
        device.bandwidth = memory_bandwidth(threads(options), device.free, allowed);
        if device.bandwidth.is_none() {
            // So small a plan is loaded before anybody wonders how fast it will be.
            return;
        }
        let learned = self.usage.as_ref().and_then(Usage::learned);
        let model = (&self.file, &self.needs);
        predict_streamed(&mut self.plan, model, machine, options.io(), learned);
    }

    /// Reads the weights and takes the memory of the plan; `n_outputs` rows of a step may ask for logits. Tells how
    /// long it took.
    ///
    /// # Errors
    /// When the file cannot be read, or the system does not give the memory.
    pub(crate) fn load(
        &self,
        options: &ModelOptions,
        n_outputs: usize,
    ) -> anyhow::Result<Box<dyn Model>> {
        check_threads(ENGINE_THREADS)?;
        let family = arch(&self.file.header).map_err(of_arch)?;
        let load_options = LoadOptions {
            n_threads: options.threads.map_or_else(frank_os::cpu_count, |n| n as usize),
            n_rows_max: self.plan.ubatch as usize,
            n_outputs_max: n_outputs,
            kv_blocks: self.plan.kv_blocks(),
            kv_types: options.kv_types,
            experts: self.plan.expert_tiers.clone(),
            router_bias: self.router_bias.clone(),
            io: options.io(),
            prefetch: options.prefetches(),
            faults: frank_os::Faults::from_env(),
            usage: self.usage.as_ref().map(Usage::given),
        };
        let start = Instant::now();
        let model = (family.load)(&self.file, &load_options).map_err(|error| match error {
            LoadError::Arch(error) => of_arch(error),
            error @ LoadError::Threads { .. } => of_compute(error),
            LoadError::Memory(error) | LoadError::Experts(StoreError::Memory(error))
                if matches!(error, OsError::Backend { .. } | OsError::NoBackend { .. }) =>
            {
                of_backend(error)
            }
            error => anyhow::Error::new(error).context("cannot load the model"),
        })?;
        let took = start.elapsed();
        let store = model.expert_statistics().filter(|store| store.n_streamed > 0);
        tell(&loaded(&self.file.header, store.as_ref(), took));
        if let Some(line) = store.as_ref().and_then(streamed) {
            let learned = self.usage.as_ref().is_some_and(|usage| usage.learned().is_some());
            tell(&format!("{line}{}", if learned { WARM_START } else { "" }));
        }
        if let Some(fallback) = model.io_fallback() {
            tell(&format!("warning: {fallback}"));
        }
        Ok(model)
    }
}

/// A tokenizer that can name a token without an embedding would stop the engine.
fn check_vocabulary(header: &ModelHeader, tokenizer: &Tokenizer) -> anyhow::Result<()> {
    let embedding = header.tensor("token_embd.weight").context("every family has this tensor")?;
    let n_embedded = embedding.dims.get(1).copied().unwrap_or(1);
    let n_named = tokenizer.n_vocab();
    if n_named as u64 <= n_embedded {
        return Ok(());
    }
    let fact = format!("the tokenizer has {n_named} tokens, the model embeds {n_embedded}");
    Err(Failure::usage(fact).into())
}

/// Says how much of a file became a model, and how fast. `store` is that of a model whose experts are streamed: those have
/// not been read.
fn loaded(header: &ModelHeader, store: Option<&StoreStatistics>, took: Duration) -> String {
    let file_bytes = header.file_bytes();
    match store {
        None => loaded_line(file_bytes, None, took),
        Some(store) => {
            let dense = file_bytes.saturating_sub(expert_bytes(header));
            let resident = store.primary_bytes_read + store.secondary_bytes_read;
            loaded_line(dense + resident, Some(file_bytes), took)
        }
    }
}

/// Says how fast so many bytes were read, and of how many where not of all.
fn loaded_line(read_bytes: u64, of: Option<u64>, took: Duration) -> String {
    let per_second = u128::from(read_bytes) * 1_000_000 / took.as_micros().max(1);
    let per_second = Size(u64::try_from(per_second).unwrap_or(u64::MAX));
    let of = of.map_or_else(String::new, |bytes| format!(" of {}", Size(bytes)));
    format!("loaded {}{of} in {:.2} s ({per_second}/s)", Size(read_bytes), took.as_secs_f64())
}

/// What follows where earlier runs say which experts to read first.
const WARM_START: &str = ", filled with the most used ones while idle";

/// Says how streamed experts are read; `None` where none is.
fn streamed(store: &StoreStatistics) -> Option<String> {
    let backend = store.backend.filter(|_| store.n_streamed > 0)?;
    let cache = if store.direct { "past the page cache" } else { "through the page cache" };
    let StoreStatistics { n_streamed, n_slots, .. } = store;
    Some(format!("{n_streamed} experts are read with {backend} {cache}, into {n_slots} slots"))
}

/// The system's refusal of the way to read that `--io` names, or of all ways.
fn of_backend(error: OsError) -> anyhow::Error {
    let is_asked_for = matches!(error, OsError::Backend { .. });
    let hint = is_asked_for.then(|| "--io auto takes what the system gives".to_owned());
    known(error, FailureKind::Failed, hint)
}

/// A family's refusal with its exit code and the way out.
pub(crate) fn of_arch(error: ArchError) -> anyhow::Error {
    let hint = match &error {
        ArchError::Unknown { .. }
        | ArchError::TensorType { .. }
        | ArchError::UnusedTensor { .. } => {
            Some("`frank fit` and `frank inspect` work on it all the same".to_owned())
        }
        ArchError::KvHead { .. } => {
            Some("--kv-type f16, or f32, takes heads of every size".to_owned())
        }
        _ => None,
    };
    known(error, FailureKind::Input, hint)
}

#[cfg(test)]
mod tests {
    use frank_os::IoBackend;

    use super::*;

    #[test]
    fn how_experts_are_read_is_said_only_where_any_are() {
        let mut store = StoreStatistics::default();
        assert_eq!(streamed(&store), None);
        (store.n_streamed, store.n_slots, store.backend) = (48, 10, Some(IoBackend::Pread));
        let line = "48 experts are read with pread through the page cache, into 10 slots";
        assert_eq!(streamed(&store).as_deref(), Some(line));
        (store.direct, store.backend) = (true, Some(IoBackend::Uring));
        let line = "48 experts are read with io_uring past the page cache, into 10 slots";
        assert_eq!(streamed(&store).as_deref(), Some(line));
    }

    #[test]
    fn the_speed_of_loading_is_bytes_of_the_file_by_time() {
        let line = loaded_line(94 << 20, None, Duration::from_millis(400));
        assert_eq!(line, "loaded 94.00 MiB in 0.40 s (235.00 MiB/s)");
        assert!(loaded_line(1, None, Duration::ZERO).ends_with("in 0.00 s (976.56 KiB/s)"));
        let line = loaded_line(94 << 20, Some(8 << 30), Duration::from_millis(400));
        assert_eq!(line, "loaded 94.00 MiB of 8.00 GiB in 0.40 s (235.00 MiB/s)");
    }
}
