//! The machine of a measurement in one line, as Linux tells it. Never measures.

use std::fs;
use std::thread;

use anyhow::{Context as _, Result};

const CPUINFO: &str = "/proc/cpuinfo";
const LOADAVG: &str = "/proc/loadavg";
/// Flags of a processor that decide which kernels run.
const ISA: [&str; 5] = ["avx2", "avx512f", "avx512_vnni", "amx_int8", "asimddp"];

/// The processor, the cores that we may use, and the load.
/// # Errors
/// Linux does not tell.
pub(crate) fn describe() -> Result<String> {
    let cores = thread::available_parallelism().context("count the cores")?;
    Ok(format!("{}, cores: {cores}, {}", processor()?, load()?))
}

/// Model and instruction sets of the processor.
/// # Errors
/// Linux does not tell.
pub(crate) fn processor() -> Result<String> {
    let cpuinfo = fs::read_to_string(CPUINFO).with_context(|| format!("read {CPUINFO}"))?;
    Ok(processor_of(&cpuinfo))
}

/// How many processes wanted a core in the last minute, ours included: on a busy machine no speed says anything.
/// # Errors
/// Linux does not tell.
pub(crate) fn load() -> Result<String> {
    let loads = fs::read_to_string(LOADAVG).with_context(|| format!("read {LOADAVG}"))?;
    Ok(format!("load: {}", loads.split(' ').next().unwrap_or_default()))
}

fn processor_of(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    };
    let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
    let isa: Vec<&str> = flags.split(' ').filter(|flag| ISA.contains(flag)).collect();
    format!("{}, {}", field("model name").unwrap_or("unknown processor"), isa.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_its_model_and_the_instruction_sets_that_matter() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 avx512f sse\n";
        assert_eq!(processor_of(cpuinfo), "Some CPU @ 2 GHz, avx2 avx512f");
        assert_eq!(processor_of(""), "unknown processor, ");
    }
}
