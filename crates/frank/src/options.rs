//! Model options: what every command that plans or loads a model accepts, in frank's and llama.cpp's spellings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use frank_gguf::ModelHeader;
use frank_hub::FailureKind;
use frank_kernels::KvType;
use frank_models::KvTypes;
use frank_plan::{Limits, Machine, ModelNeeds, parse_size};

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

/// What prefixes may take on a disk when nobody says: some hundred long conversations of a small model.
const CACHE_DIR_BYTES_DEFAULT: u64 = 4 << 30;

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

    /// How keys and values are kept: f16 or f32, one for both or two with a comma between
    #[arg(long = "kv-type", value_name = "K[,V]", default_value = "f16", value_parser = parse_kv_types)]
    pub(crate) kv_types: KvTypes,

    /// Everything that the process may hold, as in 4GiB or 500MB; what does not fit is refused
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub(crate) memory_budget: Option<u64>,

    /// What may be held on one device, as in cpu:0=4GiB; may be given for each device
    #[arg(long = "device", value_name = "ID=SIZE")]
    pub(crate) devices: Vec<DeviceCap>,

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
    /// What the planner should keep to.
    ///
    /// # Errors
    /// When an option names a device that `machine` lacks, or one where nothing would be placed.
    pub(crate) fn limits(&self, machine: &Machine) -> anyhow::Result<Limits> {
        for DeviceCap { id, .. } in &self.devices {
            check_device(id, machine)?;
        }
        Ok(Limits {
            ctx_size: self.ctx_size,
            parallel: self.parallel,
            ubatch: self.ubatch_size,
            prefix_cache: self.cache.prefix_cache,
            disk_cache: self.cache.cache_dir.is_some(),
            memory_budget: self.memory_budget,
            devices: self.devices.iter().map(|cap| (cap.id.clone(), cap.bytes)).collect(),
            headroom: self.headroom,
        })
    }

    /// Bytes that this process may take beside what it holds; `None` where no option limits it.
    pub(crate) fn left_to_take(&self) -> Option<u64> {
        let caps = self.devices.iter().map(|cap| cap.bytes);
        let allowed = caps.chain(self.memory_budget).min()?;
        let held = frank_os::process_memory().map_or(0, |memory| memory.rss);
        Some(allowed.saturating_sub(held))
    }

    /// What the model of `header` needs when it is held this way.
    ///
    /// # Errors
    /// When the header names no architecture, or an option has no effect for this model.
    pub(crate) fn needs(&self, header: &ModelHeader) -> anyhow::Result<ModelNeeds> {
        let needs = frank_models::needs(header, self.kv_types)
            .map_err(|error| known(error, FailureKind::Input, None))?;
        self.experts.check_effect(&needs)?;
        Ok(needs)
    }
}

fn check_device(id: &str, machine: &Machine) -> anyhow::Result<()> {
    let known: Vec<&str> = machine.devices.iter().map(|device| device.id.as_str()).collect();
    if !known.contains(&id) {
        let fact = format!("--device {id}: the machine has no such device");
        return Err(Failure::usage(fact).hint(format!("it has {}", known.join(", "))).into());
    }
    match machine.primary() {
        Some(primary) if primary.id != id => {
            let fact = format!("--device {id} has no effect: nothing is placed there");
            Err(Failure::usage(fact).hint(format!("the whole model lies on {}", primary.id)).into())
        }
        _ => Ok(()),
    }
}

/// What is kept of requests for later ones that begin alike. Commands that run a single request do without.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cache options")]
pub(crate) struct CacheOptions {
    /// Memory for prefixes of earlier requests, beyond what running ones need, as in 1GiB; 0 keeps none
    /// [default: what running requests leave idle]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    prefix_cache: Option<u64>,

    /// Folder of prefixes that the next start finds too; it is made if it is missing, and nobody else may read it
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,

    /// What the files in the cache folder may take [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    cache_dir_size: Option<u64>,
}

impl CacheOptions {
    /// Refuses options that undo each other.
    ///
    /// # Errors
    /// When one of them has no effect beside the others.
    pub(crate) fn check_effect(&self) -> Result<(), Failure> {
        let no_effect = match self {
            Self { cache_dir: None, cache_dir_size: Some(_), .. } => {
                Failure::usage("--cache-dir-size has no effect without --cache-dir")
            }
            Self { cache_dir: Some(_), prefix_cache: Some(0), .. } => {
                Failure::usage("--cache-dir has no effect beside --prefix-cache 0")
                    .hint("leave out one of them")
            }
            Self { cache_dir: Some(_), cache_dir_size: Some(0), .. } => {
                Failure::usage("--cache-dir has no effect beside --cache-dir-size 0")
                    .hint("leave out both")
            }
            _ => return Ok(()),
        };
        Err(no_effect)
    }

    /// Whether prefixes are kept at all.
    pub(crate) fn keeps_prefixes(&self) -> bool {
        self.prefix_cache != Some(0)
    }

    /// The folder where prefixes are kept, and the bytes that they may take there.
    pub(crate) fn directory(&self) -> Option<(&Path, u64)> {
        let bytes = self.cache_dir_size.unwrap_or(CACHE_DIR_BYTES_DEFAULT);
        self.cache_dir.as_deref().map(|directory| (directory, bytes))
    }
}

/// Options for models with experts. All are known, so that each can be refused by name.
#[derive(Debug, Args)]
struct ExpertOptions {
    #[arg(long, value_name = "ID=SIZE", hide = true)]
    expert_budget: Vec<String>,
    #[arg(long, value_name = "[ID=]SIZE", hide = true)]
    stream_cache: Option<String>,
    #[arg(long, value_name = "FILE", hide = true)]
    placement: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true)]
    hotness: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true)]
    protected_experts: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true)]
    router_bias: Option<PathBuf>,
    #[arg(long, value_name = "WAY", hide = true)]
    io: Option<String>,
    #[arg(long, hide = true)]
    no_prefetch: bool,
}

impl ExpertOptions {
    /// Refuses options that have no effect for the model.
    fn check_effect(&self, needs: &ModelNeeds) -> Result<(), Failure> {
        let Some(option) = self.given() else { return Ok(()) };
        let fact = match needs.experts {
            0 => format!("{option} has no effect: this {} model has no experts", needs.arch),
            _ => format!("{option} is not available yet: all experts are kept in memory"),
        };
        Err(Failure::usage(fact).hint(format!("leave out {option}")))
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
}

/// `ID=SIZE`: what may be held on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceCap {
    id: String,
    bytes: u64,
}

impl FromStr for DeviceCap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (id, size) = text.split_once('=').ok_or("not ID=SIZE, as in cpu:0=4GiB")?;
        let bytes = parse_size(size).map_err(|error| error.to_string())?;
        Ok(Self { id: id.to_owned(), bytes })
    }
}

/// Reads `K[,V]`: one type for keys and values, or one for each.
fn parse_kv_types(text: &str) -> Result<KvTypes, String> {
    let (k, v) = text.split_once(',').unwrap_or((text, text));
    Ok(KvTypes { k: parse_kv_type(k)?, v: parse_kv_type(v)? })
}

fn parse_kv_type(text: &str) -> Result<KvType, String> {
    match text {
        "f16" => Ok(KvType::F16),
        "f32" => Ok(KvType::F32),
        "q8_0" | "q4_0" => Err(format!("{text} is not available yet; f16 and f32 are")),
        _ => Err(format!("`{text}` is no type of a KV cache; f16 and f32 are")),
    }
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
    fn cache_options_that_undo_each_other_are_refused() {
        let check = |prefix_cache, cache_dir: Option<&str>, cache_dir_size, refused: &str| {
            let cache_dir = cache_dir.map(PathBuf::from);
            let options = CacheOptions { prefix_cache, cache_dir, cache_dir_size };
            let fact = options.check_effect().err().map(|failure| failure.to_string());
            assert_eq!(fact.unwrap_or_default(), refused);
        };
        check(None, None, None, "");
        check(Some(0), None, None, "");
        check(Some(1), Some("d"), Some(1), "");
        check(None, None, Some(1), "--cache-dir-size has no effect without --cache-dir");
        check(Some(0), Some("d"), None, "--cache-dir has no effect beside --prefix-cache 0");
        check(None, Some("d"), Some(0), "--cache-dir has no effect beside --cache-dir-size 0");
    }

    #[test]
    fn a_cache_folder_may_take_4_gib_when_nobody_says() {
        let folder = |cache_dir_size| {
            let cache_dir = Some(PathBuf::from("d"));
            let options = CacheOptions { prefix_cache: None, cache_dir, cache_dir_size };
            options.directory().map(|(_, bytes)| bytes)
        };
        assert_eq!((folder(None), folder(Some(5))), (Some(4 << 30), Some(5)));
        assert_eq!(CacheOptions::default().directory(), None);
    }

    #[test]
    fn kv_types_are_one_for_both_or_two() {
        let check =
            |text: &str, k, v| assert_eq!(parse_kv_types(text), Ok(KvTypes { k, v }), "{text}");
        check("f16", KvType::F16, KvType::F16);
        check("f32", KvType::F32, KvType::F32);
        check("f16,f32", KvType::F16, KvType::F32);
        for text in ["", "f16,", ",f16", "f16,f16,f16", "F16", "q5_0", "q8_0", "f16,q4_0"] {
            assert!(parse_kv_types(text).is_err(), "{text}");
        }
    }
}
