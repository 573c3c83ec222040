//! Command lines of llama-bench, in which `/` stands between the devices of one configuration and `,` between
//! configurations. It knows no context, slots or speculation.

use crate::fault::Fault;

/// Configurations that llama-bench tries, each list one dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BenchRun {
    /// Path of the model.
    pub model: String,
    /// Devices, as `ROCm0` and `ROCm1`.
    pub devices: Vec<String>,
    /// Shares of the devices.
    pub splits: Vec<Vec<u32>>,
    /// Tokens of a logical batch.
    pub batches: Vec<u32>,
    /// Tokens computed together.
    pub ubatches: Vec<u32>,
    /// Tokens of a prompt.
    pub prompts: Vec<u32>,
    /// Tokens made.
    pub answers: Vec<u32>,
    /// Tokens in the context before.
    pub depths: Vec<u32>,
    /// Times that each is measured.
    pub repetitions: u32,
}

/// Arguments of llama-bench for these configurations.
pub fn llama_bench(run: &BenchRun) -> Vec<String> {
    let numbers = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let shares = |split: &Vec<u32>| split.iter().map(u32::to_string).collect::<Vec<_>>().join("/");
    let splits = run.splits.iter().map(shares).collect::<Vec<_>>().join(",");
    let mut args = Vec::new();
    for (name, value) in [
        ("--model", run.model.clone()),
        ("--device", run.devices.join("/")),
        ("--tensor-split", splits),
        ("--batch-size", numbers(&run.batches)),
        ("--ubatch-size", numbers(&run.ubatches)),
        ("--n-prompt", numbers(&run.prompts)),
        ("--n-gen", numbers(&run.answers)),
        ("--n-depth", numbers(&run.depths)),
        ("--repetitions", run.repetitions.max(1).to_string()),
    ] {
        if !value.is_empty() {
            args.extend([name.to_owned(), value]);
        }
    }
    args
}

/// What a llama-bench command line says that was probably not meant: `36,29` for two devices is two configurations with
/// one share each.
pub fn check_llama_bench(args: &[String], devices: usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    for pair in args.windows(2) {
        let [name, value] = pair else { continue };
        let is_split = ["-ts", "--tensor-split"].contains(&name.as_str());
        if !is_split || devices < 2 || value.contains('/') || !value.contains(',') {
            continue;
        }
        let shares = value.replace(',', "/");
        let count = value.split(',').count();
        let message = format!(
            "`{value}` is {count} configurations to llama-bench, each with all on one device"
        );
        let fault = Fault::warning("split_separator", "tensor-split", message);
        faults.push(fault.hint(format!("one configuration for {devices} devices is {shares}")));
    }
    faults
}
