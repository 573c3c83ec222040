//! `frank eval`: perplexity of a text, and the logits behind it. Never samples.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{BufReader, BufWriter, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use frank_models::{Batch, KvGroup, Model};
use npyz::{DType, NpyFile, WriteOptions, WriterBuilder};
use serde::Serialize;

use crate::load::Prepared;
use crate::model::open;
use crate::options::ModelOptions;
use crate::report::{Failure, print};

const EXAMPLES: &str = "\
Examples:
  frank eval model.gguf book.txt                               perplexity of a text
  cat notes.txt | frank eval model.gguf -                      of what comes in on stdin
  frank eval model.gguf --ids ids.npy --logits logits.npy      logits at every position

A text longer than the context is cut into windows that each start anew, with BOS where the model wants one; every
token but the first of a window is scored.";

/// Rows of a step whose logits are kept at once: many enough for the matrix products, few enough for memory.
const CHUNK_DEFAULT: u32 = 64;

/// Measure how well a model predicts a text: perplexity, or the logits themselves
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Eval {
    /// Path of a .gguf file (any part of a split model), a name that `frank list` shows, or a reference
    #[arg(value_name = "MODEL")]
    model: OsString,

    /// A text file in UTF-8; `-` reads stdin
    #[arg(value_name = "TEXT", required_unless_present = "ids", conflicts_with = "ids")]
    text: Option<PathBuf>,

    /// Token ids instead of a text: an integer .npy of shape [n] or [1, n], taken as they are
    #[arg(long, value_name = "IDS.npy")]
    ids: Option<PathBuf>,

    /// Write the logits of every position to this file, f32 [`n_tokens`, `n_vocab`]
    #[arg(long, value_name = "OUT.npy")]
    logits: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: ModelOptions,
}

/// What `frank eval --json` prints.
#[derive(Debug, Serialize)]
struct Score {
    /// Tokens that were read.
    tokens: usize,
    /// Tokens whose probability was asked for.
    scored: usize,
    /// Mean negative log probability of a scored token, in nats; `null` when none was scored.
    nll: Option<f64>,
    /// `e^nll`.
    perplexity: Option<f64>,
}

impl Eval {
    /// Prints the score to stdout.
    ///
    /// # Errors
    /// As loading does, and when the text, the ids or the output file cannot be used.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        if self.options.parallel.is_some() {
            return Err(Failure::usage("--parallel has no effect: eval reads one text").into());
        }
        self.options.parallel = Some(1);
        self.options.ubatch_size.get_or_insert(CHUNK_DEFAULT);
        let chunk = self.options.ubatch_size.map_or(1, |n| n as usize);
        let input = self.read_input()?;
        let prepared = Prepared::new(open(&self.model)?, &self.options, |needs| {
            // The plan counts one row of logits for each request; here every row of a step has one.
            let more_rows = needs.compute.per_output_row.saturating_mul(chunk as u64 - 1);
            needs.compute.fixed = needs.compute.fixed.saturating_add(more_rows);
        })?;
        let token_ids = match input {
            Input::Text(text) => prepared.tokenizer.encode_text(&text),
            Input::Ids(token_ids) => token_ids,
        };
        self.check_tokens(&token_ids, &prepared)?;
        // Before the weights are read: a place that cannot be written is known at once.
        let logits = self.logits.as_deref().map(LogitsPlace::take).transpose()?;
        let mut model = prepared.load(&self.options, chunk)?;
        let shape = (token_ids.len(), model.n_vocab());
        let writer = logits.map(|place| place.begin(shape)).transpose()?;
        let window = prepared.plan.ctx_size as usize;
        let bos = prepared.tokenizer.bos().filter(|bos| token_ids.first() == Some(bos));
        let windows = windows(&token_ids, window, bos);
        let score = evaluate(model.as_mut(), &windows, chunk, writer)?;
        if self.json {
            print(&(serde_json::to_string_pretty(&score)? + "\n"))
        } else {
            print(&score.line())
        }
    }

    fn read_input(&self) -> anyhow::Result<Input> {
        match (&self.ids, &self.text) {
            (Some(ids), _) => Ok(Input::Ids(read_ids(ids)?)),
            (None, Some(text)) => Ok(Input::Text(read_text(text)?)),
            (None, None) => Err(Failure::usage("neither TEXT nor --ids is given").into()),
        }
    }

    fn check_tokens(&self, token_ids: &[u32], prepared: &Prepared) -> anyhow::Result<()> {
        let (n_vocab, ctx_size) = (prepared.tokenizer.n_vocab(), prepared.plan.ctx_size as usize);
        if token_ids.is_empty() {
            return Err(Failure::usage("there is no token to evaluate").into());
        }
        if let Some(token_id) = token_ids.iter().find(|&&token_id| token_id as usize >= n_vocab) {
            let fact = format!("token id {token_id} is not below the vocabulary size {n_vocab}");
            return Err(Failure::usage(fact).into());
        }
        if self.ids.is_some() && token_ids.len() > ctx_size {
            let fact =
                format!("{} token ids do not fit in a context of {ctx_size}", token_ids.len());
            return Err(Failure::usage(fact)
                .hint(format!("--ctx-size {}", token_ids.len()))
                .into());
        }
        Ok(())
    }
}

/// A part of the text that is read without what comes before it.
struct Window {
    token_ids: Vec<u32>,
    /// Tokens before the part: a BOS that the text itself has at its beginning only.
    n_before: usize,
}

/// `token_ids` in windows of at most `n_max` tokens, each of which begins with `bos` if the first one does.
fn windows(token_ids: &[u32], n_max: usize, bos: Option<u32>) -> Vec<Window> {
    let (first, rest) = token_ids.split_at(n_max.min(token_ids.len()));
    // A context of one token has no room for more than the text.
    let before: Vec<u32> = bos.filter(|_| n_max > 1).into_iter().collect();
    let later = rest.chunks(n_max - before.len()).map(|part| Window {
        token_ids: [before.as_slice(), part].concat(),
        n_before: before.len(),
    });
    std::iter::once(Window { token_ids: first.to_vec(), n_before: 0 }).chain(later).collect()
}

/// Scores every token that has one before it in its window, and writes the logits of the text's own to `writer`.
fn evaluate(
    model: &mut dyn Model,
    windows: &[Window],
    chunk: usize,
    mut writer: Option<LogitsFile<'_>>,
) -> anyhow::Result<Score> {
    let (mut nll, mut scored) = (0.0, 0);
    for Window { token_ids, n_before } in windows {
        each_row(model, token_ids, chunk, |position, logits| {
            if let Some(&next) = token_ids.get(position + 1) {
                nll -= log_probability(logits, next as usize);
                scored += 1;
            }
            match &mut writer {
                Some(writer) if position >= *n_before => writer.write_row(logits),
                _ => Ok(()),
            }
        })?;
    }
    anyhow::ensure!(f64::is_finite(nll), "the model gave logits that are not finite numbers");
    if let Some(writer) = writer {
        writer.finish()?;
    }
    let tokens = windows.iter().map(|window| window.token_ids.len() - window.n_before).sum();
    #[expect(clippy::cast_precision_loss, reason = "a text has far fewer than 2^52 tokens")]
    let nll = (scored > 0).then(|| nll / scored as f64);
    Ok(Score { tokens, scored, nll, perplexity: nll.map(f64::exp) })
}

impl Score {
    fn line(&self) -> String {
        let Self { tokens, scored, nll, perplexity } = self;
        match (nll, perplexity) {
            (Some(nll), Some(perplexity)) => {
                format!(
                    "perplexity {perplexity:.4} ({nll:.6} nats a token, {scored} of {tokens} tokens scored)\n"
                )
            }
            _ => format!("{tokens} token read, none scored\n"),
        }
    }
}

enum Input {
    Text(String),
    Ids(Vec<u32>),
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.with_context(|| Failure::usage(format!("cannot read the text {}", path.display())))?;
    String::from_utf8(bytes)
        .with_context(|| Failure::usage(format!("{} is not UTF-8 text", path.display())))
}

fn read_ids(path: &Path) -> anyhow::Result<Vec<u32>> {
    let fact = || Failure::usage(format!("cannot read token ids from {}", path.display()));
    let file =
        NpyFile::new(BufReader::new(File::open(path).with_context(fact)?)).with_context(fact)?;
    match file.shape() {
        [_] | [1, _] => {}
        shape => {
            return Err(
                anyhow::anyhow!("its shape is {shape:?}, [n] or [1, n] expected").context(fact())
            );
        }
    }
    let DType::Plain(dtype) = file.dtype() else {
        return Err(anyhow::anyhow!("it holds records, integers expected").context(fact()));
    };
    let ids: Vec<i64> = match dtype.to_string().trim_start_matches(['<', '|', '=']) {
        "i8" => file.into_vec::<i64>().with_context(fact)?,
        "i4" => file.into_vec::<i32>().with_context(fact)?.into_iter().map(i64::from).collect(),
        "u4" => file.into_vec::<u32>().with_context(fact)?.into_iter().map(i64::from).collect(),
        other => {
            return Err(
                anyhow::anyhow!("its type is {other}, i8, i4 or u4 expected").context(fact())
            );
        }
    };
    let token_id =
        |id| u32::try_from(id).with_context(|| format!("{id} is no token id")).with_context(fact);
    ids.into_iter().map(token_id).collect()
}

/// Runs `token_ids` as one sequence, `chunk` rows at a time, and hands out each row of logits.
fn each_row(
    model: &mut dyn Model,
    token_ids: &[u32],
    chunk: usize,
    mut row: impl FnMut(usize, &[f32]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let n_vocab = model.n_vocab();
    let n_blocks = token_ids.len().div_ceil(frank_plan::KV_BLOCK_TOKENS as usize);
    let tables = own_tables(model.kv_groups(), n_blocks);
    let tables: Vec<[&[u32]; 1]> = tables.iter().map(|table| [table.as_slice()]).collect();
    let tables: Vec<&[&[u32]]> = tables.iter().map(|table| table.as_slice()).collect();
    let positions: Vec<u32> = (0..).take(token_ids.len()).collect();
    let mut logits = vec![0.0; chunk.min(token_ids.len()) * n_vocab];
    let rows: Vec<usize> = (0..chunk).collect();
    for (token_ids, positions) in token_ids.chunks(chunk).zip(positions.chunks(chunk)) {
        let n_rows = token_ids.len();
        let (sequences, output_rows) = (vec![0; n_rows], &rows[..n_rows]);
        let batch = Batch {
            token_ids,
            positions,
            sequences: &sequences,
            block_tables: &tables,
            output_rows,
        };
        let logits = &mut logits[..n_rows * n_vocab];
        model.forward(&batch, logits)?;
        for (&position, logits) in positions.iter().zip(logits.chunks_exact(n_vocab)) {
            row(position as usize, logits)?;
        }
    }
    Ok(())
}

/// The block tables of a sequence that has the whole cache: in a group with a window, blocks go round.
fn own_tables(groups: &[KvGroup], n_blocks: usize) -> Vec<Vec<u32>> {
    let table = |group: &KvGroup| (0..group.n_blocks).cycle().take(n_blocks).collect();
    groups.iter().map(table).collect()
}

/// Natural logarithm of the probability that `logits` give to `token_id`.
fn log_probability(logits: &[f32], token_id: usize) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - max).exp()).sum();
    f64::from(logits[token_id]) - max - sum.ln()
}

/// Where logits will be written, taken before there is anything to write.
struct LogitsPlace<'a> {
    path: &'a Path,
    partial: tempfile::NamedTempFile,
}

impl<'a> LogitsPlace<'a> {
    fn take(path: &'a Path) -> anyhow::Result<Self> {
        // What is there will be replaced, so it has to be something of the kind: no model, no folder, no device.
        let is_array =
            |path| File::open(path).is_ok_and(|file| NpyFile::new(BufReader::new(file)).is_ok());
        if path.exists() && !(path.is_file() && is_array(path)) {
            return Err(refused(path)).context("what is there is no .npy file");
        }
        let folder =
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As any new file: readable for whom the umask lets read.
        let permissions = Permissions::from_mode(0o666);
        let partial = tempfile::Builder::new().permissions(permissions).tempfile_in(folder);
        Ok(Self { path, partial: partial.with_context(|| refused(path))? })
    }

    /// The file of an array of `n_rows` rows of `n_vocab` logits.
    fn begin(self, (n_rows, n_vocab): (usize, usize)) -> anyhow::Result<LogitsFile<'a>> {
        let Self { path, partial } = self;
        let file = BufWriter::new(partial.reopen().with_context(|| refused(path))?);
        let shape = [n_rows as u64, n_vocab as u64];
        let options = WriteOptions::new().default_dtype().shape(&shape);
        let writer = options.writer(file).begin_nd().with_context(|| refused(path))?;
        Ok(LogitsFile { path, partial, writer })
    }
}

fn refused(path: &Path) -> Failure {
    Failure::usage(format!("cannot write logits to {}", path.display()))
}

/// Logits on their way to a .npy file, which gets its name when it is whole.
struct LogitsFile<'a> {
    path: &'a Path,
    partial: tempfile::NamedTempFile,
    writer: npyz::NpyWriter<f32, BufWriter<File>>,
}

impl LogitsFile<'_> {
    fn write_row(&mut self, logits: &[f32]) -> anyhow::Result<()> {
        self.writer
            .extend(logits.iter().copied())
            .with_context(|| format!("write {}", self.path.display()))
    }

    fn finish(self) -> anyhow::Result<()> {
        let fact = || format!("write {}", self.path.display());
        self.writer.finish().with_context(fact)?;
        self.partial.persist(self.path).with_context(fact)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(token_ids: &[u32], n_max: usize, bos: Option<u32>, expected: &[&[u32]]) {
        let windows = windows(token_ids, n_max, bos);
        let got: Vec<&[u32]> = windows.iter().map(|window| window.token_ids.as_slice()).collect();
        assert_eq!(got, expected);
        let own: Vec<u32> = windows
            .iter()
            .flat_map(|window| &window.token_ids[window.n_before..])
            .copied()
            .collect();
        assert_eq!(own, token_ids, "every token of the text once");
    }

    #[test]
    fn every_window_begins_as_the_text_does() {
        check(&[9, 1, 2, 3, 4, 5], 3, Some(9), &[&[9, 1, 2], &[9, 3, 4], &[9, 5]]);
        check(&[0, 1, 2, 3, 4], 3, None, &[&[0, 1, 2], &[3, 4]]);
        check(&[9, 1], 3, Some(9), &[&[9, 1]]);
        check(&[9, 1, 2], 1, Some(9), &[&[9], &[1], &[2]]);
    }
}
