//! The rows of `frank bench throughput` and their reports, as JSON and as a table. Never runs a model.

use std::fmt::Write as _;

use serde::Serialize;

use crate::spread::Spread;

/// What a row measures. The names are those of llama-bench, whose rows these compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// A prompt of so many tokens, read in chunks from an empty context.
    Prompt {
        /// Its length.
        n_tokens: usize,
    },
    /// So many tokens one after another, from an empty context, in each of some sequences that share their steps.
    Decode {
        /// Tokens of each sequence.
        n_tokens: usize,
        /// Sequences.
        n_streams: usize,
    },
}

impl Test {
    /// `pp512`, `tg128`, `tg128x4`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Prompt { n_tokens } => format!("pp{n_tokens}"),
            Self::Decode { n_tokens, n_streams: 1 } => format!("tg{n_tokens}"),
            Self::Decode { n_tokens, n_streams } => format!("tg{n_tokens}x{n_streams}"),
        }
    }

    /// Tokens that one repetition computes, all sequences together.
    #[must_use]
    pub fn n_tokens(self) -> usize {
        match self {
            Self::Prompt { n_tokens } => n_tokens,
            Self::Decode { n_tokens, n_streams } => n_tokens * n_streams,
        }
    }
}

/// One row: a test with its repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name, see [`Test::name`].
    pub test: String,
    /// Tokens of a repetition, all sequences together.
    pub n_tokens: usize,
    /// Sequences that share the steps.
    pub n_streams: usize,
    /// Tokens per second, all sequences together.
    pub tok_s: Spread,
    /// Bytes of weights, keys and values that a token reads on average; `None` for a prompt, whose tokens share the
    /// reading of a chunk.
    pub bytes_per_token: Option<u64>,
    /// Bytes read per second as a share of the measured memory bandwidth.
    pub bandwidth_share: Option<f64>,
}

impl Row {
    /// The row of `test` whose repetitions took `seconds`. `step_bytes` is what a decode step reads: the weights once, and
    /// the keys and values of all sequences.
    ///
    /// `None` when there is no repetition.
    #[must_use]
    pub fn new(
        test: Test,
        seconds: &[f64],
        step_bytes: u64,
        bandwidth: Option<f64>,
    ) -> Option<Self> {
        let n_tokens = test.n_tokens();
        let rates: Vec<f64> = seconds.iter().map(|seconds| n_tokens as f64 / seconds).collect();
        let tok_s = Spread::of(&rates)?;
        let n_streams = match test {
            Test::Prompt { .. } => 1,
            Test::Decode { n_streams, .. } => n_streams,
        };
        let bytes_per_token = match test {
            Test::Prompt { .. } => None,
            Test::Decode { n_streams, .. } => Some(step_bytes / n_streams.max(1) as u64),
        };
        let bandwidth_share = bytes_per_token
            .zip(bandwidth)
            .map(|(bytes, bandwidth)| tok_s.median * bytes as f64 / bandwidth);
        let test = test.name();
        Some(Self { test, n_tokens, n_streams, tok_s, bytes_per_token, bandwidth_share })
    }
}

/// What a run of `frank bench throughput` found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// File name of the model.
    pub model: String,
    /// Its architecture.
    pub arch: String,
    /// Bytes of its files.
    pub file_bytes: u64,
    /// Threads that computed.
    pub threads: usize,
    /// Rows of a step at most.
    pub ubatch: usize,
    /// Type of keys and of values.
    pub kv_types: [&'static str; 2],
    /// Seed of the token ids.
    pub seed: u64,
    /// Bytes per second that all threads read from memory, measured just before.
    pub bandwidth: Option<Spread>,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Throughput {
    /// The rows as a table for a terminal, with a line that says what was run.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "{} ({}), threads: {}, rows a step: {}, keys and values: {}, {}\n",
            self.model, self.arch, self.threads, self.ubatch, self.kv_types[0], self.kv_types[1],
        );
        if let Some(bandwidth) = self.bandwidth {
            let gb = bandwidth.in_units_of(1e9);
            writeln!(out, "memory: {gb} GB/s read by all threads").expect("a String takes it");
        }
        let columns = ["test", "tok/s", "range", "MB/token", "of bandwidth"];
        writeln!(out, "{}", line(columns.map(str::to_owned))).expect("a String takes it");
        for row in &self.rows {
            writeln!(out, "{}", line(cells(row))).expect("a String takes it");
        }
        out
    }
}

fn cells(row: &Row) -> [String; 5] {
    let tok_s = row.tok_s;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        row.test.clone(),
        format!("{:.1}", tok_s.median),
        format!("{:.1} to {:.1}", tok_s.min, tok_s.max),
        or_dash(row.bytes_per_token.map(|bytes| format!("{:.1}", bytes as f64 / 1e6))),
        or_dash(row.bandwidth_share.map(|share| format!("{:.0} %", share * 100.0))),
    ]
}

fn line([test, tok_s, range, bytes, share]: [String; 5]) -> String {
    format!("{test:<10} {tok_s:>9} {range:>20} {bytes:>9} {share:>13}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_called_as_llama_bench_calls_them() {
        let decode = |n_streams| Test::Decode { n_tokens: 128, n_streams };
        assert_eq!(Test::Prompt { n_tokens: 512 }.name(), "pp512");
        assert_eq!((decode(1).name(), decode(1).n_tokens()), ("tg128".to_owned(), 128));
        assert_eq!((decode(4).name(), decode(4).n_tokens()), ("tg128x4".to_owned(), 512));
    }

    #[test]
    fn a_decode_row_says_what_a_token_reads_and_which_share_of_the_bandwidth_that_is() {
        let test = Test::Decode { n_tokens: 100, n_streams: 4 };
        let row = Row::new(test, &[2.0, 4.0, 1.0], 4_000_000, Some(1e9)).unwrap();
        assert_eq!(row.tok_s, Spread { median: 200.0, min: 100.0, max: 400.0, n: 3 });
        assert_eq!(row.bytes_per_token, Some(1_000_000));
        assert_eq!(row.bandwidth_share, Some(0.2));
    }

    #[test]
    fn a_prompt_row_has_no_bytes_per_token_and_no_repetition_no_row() {
        let row = Row::new(Test::Prompt { n_tokens: 512 }, &[0.5], 4_000_000, Some(1e9)).unwrap();
        assert_eq!(
            (row.tok_s.median, row.bytes_per_token, row.bandwidth_share),
            (1024.0, None, None)
        );
        assert_eq!(Row::new(Test::Prompt { n_tokens: 512 }, &[], 1, None), None);
    }

    #[test]
    fn the_table_lines_up_and_a_missing_number_is_a_dash() {
        let row = |test, seconds: f64| Row::new(test, &[seconds], 96_600_000, Some(26e9)).unwrap();
        let report = Throughput {
            model: "model.gguf".to_owned(),
            arch: "llama".to_owned(),
            file_bytes: 98_000_000,
            threads: 2,
            ubatch: 256,
            kv_types: ["f16", "f16"],
            seed: 1,
            bandwidth: Spread::of(&[26e9]),
            rows: vec![
                row(Test::Prompt { n_tokens: 512 }, 0.5),
                row(Test::Decode { n_tokens: 128, n_streams: 1 }, 0.64),
            ],
        };
        let expected = "\
model.gguf (llama), threads: 2, rows a step: 256, keys and values: f16, f16
memory: 26.0 (26.0 to 26.0) GB/s read by all threads
test           tok/s                range  MB/token  of bandwidth
pp512         1024.0     1024.0 to 1024.0         -             -
tg128          200.0       200.0 to 200.0      96.6          74 %
";
        assert_eq!(report.table(), expected);
    }
}
