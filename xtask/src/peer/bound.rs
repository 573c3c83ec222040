//! What memory allows at most, and what `frank fit` predicts. Never judges a speed.

use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tempfile::NamedTempFile;
use toml::Table;

use super::engines::{Engine, THREADS, json, text};
use super::rows::{DECODE, N_DECODE, N_PROMPT, N_ROWS, PROMPT};
use crate::statistics::Spread;

/// The bound of decoding, and predictions.
pub(super) struct Bound {
    /// Bytes of weights that are read for each token.
    pub(super) weight_bytes: f64,
    /// Bytes in a second that the memory gave to [`THREADS`], where it was measured.
    pub(super) bandwidth: Option<f64>,
    /// Tokens in a second of a prompt and of decoding, as `frank fit` predicts them.
    pub(super) predicted: [Option<f64>; 2],
}

impl Bound {
    /// Asks frank for the tensors of `model`, for the rates of this machine, and for its prediction from them.
    pub(super) fn measure(frank: &Engine, model: &Path) -> Result<Self> {
        let Engine::Frank(frank) = frank else { bail!("only frank predicts") };
        let inspected = json(Command::new(frank).args(["inspect", "--json"]).arg(model))?;
        let weight_bytes = weight_bytes(&inspected).context("no tensors in what frank inspects")?;
        let threads = THREADS.to_string();
        let probed = text(Command::new(frank).args(["probe", "--toml", "--threads", &threads]))?;
        let mut machine = NamedTempFile::new().context("make a file for the machine")?;
        machine.write_all(probed.as_bytes()).context("write the machine")?;
        let predict = |n_tokens: u64, place: &str| -> Result<Option<f64>> {
            let mut fit = Command::new(frank);
            fit.args(["fit", "--json", "--machine"]).arg(machine.path()).arg(model);
            // A prompt is predicted for a whole context and an answer for half of one, as both are on average here.
            fit.args(["--parallel", "1", "--ctx-size", &n_tokens.to_string()]);
            Ok(json(&mut fit)?.pointer(place).and_then(Value::as_f64))
        };
        let prompt = predict(N_PROMPT, "/predict/prefill_tok_s")?;
        let decode = predict(N_DECODE, "/predict/decode_tok_s")?;
        let bandwidth = bandwidth(&probed)?;
        Ok(Self { weight_bytes, bandwidth, predicted: [prompt, decode] })
    }

    /// Nothing was measured.
    #[cfg(test)]
    pub(super) fn unknown() -> Self {
        Self { weight_bytes: 1.0, bandwidth: None, predicted: [None; 2] }
    }

    /// Tokens in a second when `n_tokens` are made while all weights are read once, and nothing else takes time.
    pub(super) fn tokens_per_second(&self, n_tokens: f64) -> Option<f64> {
        Some(n_tokens * self.bandwidth? / self.weight_bytes)
    }

    /// Prints how far the predictions are from frank's medians.
    pub(super) fn print_prediction(&self, measured: &[Spread; N_ROWS]) {
        for (name, row, predicted) in
            [("prompt", PROMPT, self.predicted[0]), ("decode", DECODE, self.predicted[1])]
        {
            println!("frank fit, {name}: {}", prediction(predicted, measured[row].median));
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "weights read for a token: {:.1} MB, memory: ", self.weight_bytes / 1e6)?;
        match self.bandwidth {
            Some(bandwidth) => write!(out, "{:.1} GB/s", bandwidth / 1e9),
            None => write!(out, "not measured"),
        }
    }
}

fn prediction(predicted: Option<f64>, measured: f64) -> String {
    let Some(predicted) = predicted else { return "nothing predicted".to_owned() };
    let off = 100.0 * (predicted / measured - 1.0);
    format!("predicted {predicted:.1} tok/s, measured {measured:.1}: {off:+.0} %")
}

/// The rate of the first device of a machine file.
fn bandwidth(machine: &str) -> Result<Option<f64>> {
    let machine: Table = machine.parse().context("what frank probes")?;
    let device = machine.get("device").and_then(|devices| devices.get(0));
    let bandwidth = device.and_then(|device| device.get("bandwidth")?.as_integer());
    Ok(bandwidth.map(|bytes| bytes as f64))
}

/// Bytes of all tensors, but for the table of embeddings where the head has a tensor of its own: of the table one row is
/// read for a token.
fn weight_bytes(inspected: &Value) -> Option<f64> {
    let tensors = inspected.get("tensors")?.as_array()?;
    let bytes = |tensor: &Value| tensor.get("bytes").and_then(Value::as_f64);
    let find = |name: &str| tensors.iter().find(|tensor| tensor["name"] == name);
    let all: f64 = tensors.iter().filter_map(bytes).sum();
    let unread = find("output.weight").and_then(|_| bytes(find("token_embd.weight")?));
    Some(all - unread.unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_of_embeddings_is_read_only_where_it_is_the_head() {
        let [table, head, norm] = [("token_embd.weight", 100), ("output.weight", 30), ("norm", 1)]
            .map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
        assert_eq!(weight_bytes(&json!({"tensors": [table, norm]})), Some(101.0));
        assert_eq!(weight_bytes(&json!({"tensors": [table, head, norm]})), Some(31.0));
        assert_eq!(weight_bytes(&json!({})), None);
    }

    #[test]
    fn the_bandwidth_is_that_of_the_first_device() {
        let device = |rate: &str| format!("[[device]]\nid = \"cpu:0\"\n{rate}");
        let check = |machine: &str, expected| assert_eq!(bandwidth(machine).unwrap(), expected);
        check(&(device("bandwidth = 20\n") + &device("bandwidth = 5\n")), Some(20.0));
        check(&device(""), None);
        check("", None);
    }

    #[test]
    fn the_bound_is_that_of_reading_all_weights() {
        let bound = Bound { weight_bytes: 1e8, bandwidth: Some(2e10), ..Bound::unknown() };
        assert_eq!(bound.tokens_per_second(4.0), Some(800.0));
        assert_eq!(Bound::unknown().tokens_per_second(4.0), None);
    }

    #[test]
    fn a_prediction_is_compared_with_what_was_measured() {
        assert_eq!(prediction(Some(150.0), 200.0), "predicted 150.0 tok/s, measured 200.0: -25 %");
        assert_eq!(prediction(None, 200.0), "nothing predicted");
    }
}
