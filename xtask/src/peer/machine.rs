//! The machine of a measurement in one line, as Linux tells it. Never measures.

use std::fs;
use std::thread;

use anyhow::{Context as _, Result};

const CPUINFO: &str = "/proc/cpuinfo";
const LOADAVG: &str = "/proc/loadavg";
/// Flags of a processor that decide which kernels run.
const ISA: [&str; 5] = ["avx2", "avx512f", "avx512_vnni", "amx_int8", "asimddp"];

/// Model of the processor, its instruction sets, the cores that we may use, and how many processes wanted one in the
/// last minute, ours included: on a busy machine no speed says anything.
/// # Errors
/// Linux does not tell.
pub(super) fn describe() -> Result<String> {
    let cpuinfo = fs::read_to_string(CPUINFO).with_context(|| format!("read {CPUINFO}"))?;
    let cores = thread::available_parallelism().context("count the cores")?;
    let loads = fs::read_to_string(LOADAVG).with_context(|| format!("read {LOADAVG}"))?;
    let load = loads.split(' ').next().unwrap_or_default();
    Ok(format!("{}, cores: {cores}, load before: {load}", processor(&cpuinfo)))
}

fn processor(cpuinfo: &str) -> String {
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
        assert_eq!(processor(cpuinfo), "Some CPU @ 2 GHz, avx2 avx512f");
        assert_eq!(processor(""), "unknown processor, ");
    }
}
