//! Model options: what every command that plans or loads a model accepts, in frank's and llama.cpp's spellings.

mod cache;
mod experts;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use frank_gguf::ModelHeader;
use frank_hub::FailureKind;
use frank_kernels::KvType;
use frank_models::KvTypes;
use frank_os::IoBackend;
use frank_plan::{Limits, Machine, MachineError, ModelNeeds, Plan, parse_size};

pub(crate) use self::cache::CacheOptions;
use self::experts::ExpertOptions;
use crate::load::of_arch;
use crate::machine::THIS_DEVICE;
use crate::report::{Failure, known};

/// llama.cpp's spellings of more than one letter after one dash, which clap would read as several options.
const LLAMA_CPP_SPELLINGS: [(&str, &str); 2] = [("-np", "--parallel"), ("-ub", "--ubatch-size")];

/// `args` with llama.cpp's spellings written out. What follows `--` is left alone.
pub(crate) fn full_spellings(
    args: impl IntoIterator<Item = OsString>,
) -> impl Iterator<Item = OsString> {
    let mut is_option = true;
    args.into_iter().map(move |arg| {
        is_option &= arg != "--";
        let full = LLAMA_CPP_SPELLINGS.iter().find(|(short, _)| is_option && arg == *short);
        full.map_or(arg, |(_, long)| OsString::from(long))
    })
}

/// More threads than cores only wait for each other, and each takes memory that the plan does not count.
const THREADS_MAX: i64 = 512;

/// How a model is held: `serve`, `run`, `eval` and `fit` take the same.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model options")]
pub(crate) struct ModelOptions {
    /// Tokens of context for each request, never divided among them [default: 4096, or what the model was
    /// trained on if that is less]
    #[arg(short = 'c', long, value_name = "N", value_parser = at_least_one(), allow_negative_numbers = true)]
    pub(crate) ctx_size: Option<u32>,

    /// Requests answered at the same time (also -np) [default: 4]
    #[arg(long, value_name = "N", value_parser = at_least_one(), allow_negative_numbers = true)]
    pub(crate) parallel: Option<u32>,

    /// Threads that compute [default: one for each CPU that may be used]
    #[arg(short = 't', long, value_name = "N", value_parser = at_least_one().range(..=THREADS_MAX), allow_negative_numbers = true)]
    pub(crate) threads: Option<u32>,

    /// Tokens computed together in one step (also -ub) [default: 256]
    #[arg(long, value_name = "N", value_parser = at_least_one(), allow_negative_numbers = true)]
    pub(crate) ubatch_size: Option<u32>,

    /// How keys and values are kept: f16, q8_0, f32 or q4_0, one for both or two with a comma between
    #[arg(long = "kv-type", value_name = "K[,V]", default_value = "f16", value_parser = parse_kv_types)]
    pub(crate) kv_types: KvTypes,

    /// Everything that the process may hold, as in 4GiB or 500MB; what does not fit is refused
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub(crate) memory_budget: Option<u64>,

    /// What may be held on one device, as in cpu:0=4GiB; may be given for each device. cpu:1=SIZE and so on declare
    /// pools of their own within the memory of cpu:0, for experts
    #[arg(long = "device", value_name = "ID=SIZE")]
    pub(crate) devices: Vec<DeviceBytes>,

    /// What stays free on each device [default: 5 % of it, at most 512 MiB, or none beside a budget]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub(crate) headroom: Option<u64>,

    /// Chat template to use instead of the one in the model file
    #[arg(long, value_name = "FILE")]
    pub(crate) chat_template: Option<PathBuf>,

    #[command(flatten)]
    experts: ExpertOptions,

    /// Set by the commands that have these options.
    #[arg(skip)]
    pub(crate) cache: CacheOptions,
}

impl ModelOptions {
    /// `machine` with the pools of memory that `--device` declares on it.
    ///
    /// # Errors
    /// When a name is neither that of a device nor `cpu:N`, or is given twice.
    pub(crate) fn with_pools(&self, mut machine: Machine) -> anyhow::Result<Machine> {
        check_once("--device", &self.devices)?;
        for DeviceBytes { id, bytes } in &self.devices {
            if has_device(&machine, id) {
                continue;
            }
            match machine.declare(id, *bytes) {
                Ok(()) => {}
                Err(MachineError::NotAPool { .. }) => check_known("--device", id, &machine)?,
                Err(error) => return Err(known(error, FailureKind::Input, None)),
            }
        }
        Ok(machine)
    }

    /// What the planner should keep to for a model on a machine that [`ModelOptions::with_pools`] gave.
    ///
    /// # Errors
    /// When an option names a device that `machine` lacks or one where nothing would be placed, or a file about the
    /// experts cannot be used.
    pub(crate) fn limits(&self, machine: &Machine, needs: &ModelNeeds) -> anyhow::Result<Limits> {
        for DeviceBytes { id, .. } in &self.devices {
            check_known("--device", id, machine)?;
            check_use(id, machine, needs)?;
        }
        let mut limits = Limits {
            ctx_size: self.ctx_size,
            parallel: self.parallel,
            ubatch: self.ubatch_size,
            prefix_cache: self.cache.prefix_cache,
            disk_cache: self.cache.cache_dir.is_some(),
            memory_budget: self.memory_budget,
            devices: self.devices.iter().map(|cap| (cap.id.clone(), cap.bytes)).collect(),
            headroom: self.headroom,
            ..Limits::default()
        };
        self.experts.limit(&mut limits, machine, needs)?;
        Ok(limits)
    }

    /// Refuses options about experts that are read from the drive where `plan` reads none.
    ///
    /// # Errors
    /// Names the first of them.
    pub(crate) fn check_streaming(&self, plan: &Plan) -> Result<(), Failure> {
        self.experts.check_streaming(plan)
    }

    /// How experts are read from the drive; `None` where the system's best is taken.
    pub(crate) fn io(&self) -> Option<IoBackend> {
        self.experts.backend()
    }

    /// Whether experts are read ahead.
    pub(crate) fn prefetches(&self) -> bool {
        self.experts.prefetches()
    }

    /// What `--router-bias` adds to the routers of a model, `[layer][expert]`.
    ///
    /// # Errors
    /// When the file cannot be read or is not about this model.
    pub(crate) fn router_bias(&self, needs: &ModelNeeds) -> anyhow::Result<Option<Vec<f32>>> {
        self.experts.router_bias(needs)
    }

    /// Bytes that this process may take beside what it holds; `None` where no option limits it.
    pub(crate) fn left_to_take(&self) -> Option<u64> {
        let is_here = |cap: &&DeviceBytes| cap.id == THIS_DEVICE;
        let caps = self.devices.iter().filter(is_here).map(|cap| cap.bytes);
        let allowed = caps.chain(self.memory_budget).min()?;
        let held = frank_os::process_memory().map_or(0, |memory| memory.rss);
        Some(allowed.saturating_sub(held))
    }

    /// What the model of `header` needs when it is held this way.
    ///
    /// # Errors
    /// When the header names no architecture, its heads cannot be kept as `--kv-type` says, or an option has no effect for
    /// this model.
    pub(crate) fn needs(&self, header: &ModelHeader) -> anyhow::Result<ModelNeeds> {
        let needs = frank_models::needs(header, self.kv_types).map_err(of_arch)?;
        self.experts.check_effect(&needs)?;
        Ok(needs)
    }
}

fn has_device(machine: &Machine, id: &str) -> bool {
    machine.devices.iter().any(|device| device.id == id)
}

/// Refuses two sizes for one device: one of them would have no effect.
fn check_once(option: &str, sizes: &[DeviceBytes]) -> Result<(), Failure> {
    let is_twice = |&(index, DeviceBytes { id, .. }): &(usize, &DeviceBytes)| {
        sizes[..index].iter().any(|earlier| earlier.id == *id)
    };
    match sizes.iter().enumerate().find(is_twice) {
        Some((_, DeviceBytes { id, .. })) => {
            let fact = format!("{option} {id} is given twice");
            Err(Failure::usage(fact).hint(format!("give {id} one size")))
        }
        None => Ok(()),
    }
}

/// Refuses a device that the machine lacks.
fn check_known(option: &str, id: &str, machine: &Machine) -> Result<(), Failure> {
    if has_device(machine, id) {
        return Ok(());
    }
    let known: Vec<&str> = machine.devices.iter().map(|device| device.id.as_str()).collect();
    let fact = format!("{option} {id}: the machine has no such device");
    Err(Failure::usage(fact).hint(format!("it has {}", known.join(", "))))
}

/// Refuses a device where nothing of the model could be placed: only experts lie elsewhere than the rest.
fn check_use(id: &str, machine: &Machine, needs: &ModelNeeds) -> Result<(), Failure> {
    match machine.primary() {
        Some(primary) if primary.id != id && needs.experts == 0 => {
            let fact = format!("--device {id} has no effect: nothing is placed there");
            Err(Failure::usage(fact).hint(format!("the whole model lies on {}", primary.id)))
        }
        _ => Ok(()),
    }
}

/// `ID=SIZE`: bytes on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceBytes {
    id: String,
    bytes: u64,
}

impl FromStr for DeviceBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (id, size) = text.split_once('=').ok_or("not ID=SIZE, as in cpu:0=4GiB")?;
        let bytes = parse_size(size).map_err(|error| error.to_string())?;
        Ok(Self { id: id.to_owned(), bytes })
    }
}

/// Reads `K[,V]`: one type for keys and values, or one for each.
pub(crate) fn parse_kv_types(text: &str) -> Result<KvTypes, String> {
    let (k, v) = text.split_once(',').unwrap_or((text, text));
    Ok(KvTypes { k: parse_kv_type(k)?, v: parse_kv_type(v)? })
}

fn parse_kv_type(text: &str) -> Result<KvType, String> {
    let known = KvType::ALL.into_iter().find(|kv_type| kv_type.name() == text);
    known.ok_or_else(|| {
        let names = KvType::ALL.map(KvType::name).join(", ");
        format!("`{text}` is no type of a KV cache; {names} are")
    })
}

fn at_least_one() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1..=i64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama_cpp_spellings_are_written_out_before_a_double_dash() {
        let args =
            ["frank", "fit", "-np", "2", "-ub", "8", "-npx", "--", "-np"].map(OsString::from);
        let expected =
            ["frank", "fit", "--parallel", "2", "--ubatch-size", "8", "-npx", "--", "-np"];
        assert!(full_spellings(args).eq(expected.map(OsString::from)));
    }

    #[test]
    fn kv_types_are_one_for_both_or_two() {
        let check =
            |text: &str, k, v| assert_eq!(parse_kv_types(text), Ok(KvTypes { k, v }), "{text}");
        check("f16", KvType::F16, KvType::F16);
        check("f32", KvType::F32, KvType::F32);
        check("f16,f32", KvType::F16, KvType::F32);
        check("q8_0", KvType::Q8_0, KvType::Q8_0);
        check("q8_0,q4_0", KvType::Q8_0, KvType::Q4_0);
        for text in ["", "f16,", ",f16", "f16,f16,f16", "F16", "q5_0", "q8_0,", "f16,q8"] {
            assert!(parse_kv_types(text).is_err(), "{text}");
        }
    }
}
