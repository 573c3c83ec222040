//! The same greedy tokens from the program whatever it may hold, wherever experts lie and however they are read: the
//! synthetic mixture of 1 GB, every way by its options. The tests of the engine do the same with a small one in CI.

mod answer;
mod ways;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use frank_testkit::assets;
use serde_json::Value;

use crate::cargo::{execute, target_dir};
use crate::install;
use crate::server_process::{ServerProcess, built_frank};
use answer::{Answer, PROMPTS, together};
use ways::{Sizes, Way};

/// How many tokens are compared.
#[derive(Debug, Args)]
pub(crate) struct SameTokens {
    /// Tokens of each answer
    #[arg(long, value_name = "N", default_value_t = 256)]
    tokens: usize,
}

/// The model as published and repacked, in a folder where servers may leave what they learn.
struct Subject {
    files: [PathBuf; 2],
    folder: tempfile::TempDir,
}

impl SameTokens {
    /// Asks a server that holds everything, then one for each way, and compares all bits.
    /// # Errors
    /// Names every way whose answers differ.
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        install::all()?;
        let frank = built_frank(root, "release")?;
        let frank = Path::new(frank.get_program());
        let subject = Subject::make(frank)?;
        let sizes = Sizes::of(frank, &subject.files[0])?;
        let resident = ServerProcess::start(&mut subject.serve(frank, 0, &[]))?;
        let prompts = 0..PROMPTS.len();
        let expected: Vec<Answer> = prompts
            .map(|prompt| Answer::ask(resident.address, prompt, self.tokens))
            .collect::<Result<_>>()?;
        resident.terminate()?;
        let ways = ways::all(&sizes, subject.folder.path())?;
        let mut broken = Vec::new();
        for (index, way) in ways.iter().enumerate() {
            let start = Instant::now();
            let differing = self.differing(frank, &subject, way, &expected);
            let differing = differing.with_context(|| way.to_string())?;
            let verdict = if differing.is_empty() { "the same" } else { "DIFFERENT" };
            let seconds = start.elapsed().as_secs_f64();
            println!("{} of {}: {way}: {verdict}, {seconds:.1} s", index + 1, ways.len());
            broken.extend(differing.into_iter().map(|what| format!("{way}: {what}")));
        }
        if broken.is_empty() {
            println!("{} ways, 1 and {} streams: the same tokens", ways.len(), PROMPTS.len());
            return Ok(());
        }
        bail!("{} answers differ:\n{}", broken.len(), broken.join("\n"))
    }

    /// What a server that is run this way answers otherwise, with one stream and with several.
    fn differing(
        &self,
        frank: &Path,
        subject: &Subject,
        way: &Way,
        expected: &[Answer],
    ) -> Result<Vec<String>> {
        let server = ServerProcess::start(&mut subject.serve(frank, way.file, &way.options))?;
        let alone = Answer::ask(server.address, 0, self.tokens)?;
        let mut differing: Vec<String> =
            alone.differs_from(&expected[0]).map(|at| format!("alone, {at}")).into_iter().collect();
        for (prompt, answer) in together(server.address, self.tokens)?.iter().enumerate() {
            let differs = answer.differs_from(&expected[prompt]);
            differing.extend(differs.map(|at| format!("prompt {prompt} among others, {at}")));
        }
        let read = ways::bytes_read(server.address)?;
        ensure!(way.is_resident || read > 0, "nothing was streamed");
        server.terminate()?;
        Ok(differing)
    }
}

impl Subject {
    fn make(frank: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("same-tokens-").tempdir_in(target_dir()?)?;
        let files = ["published.gguf", "repacked.gguf"].map(|name| folder.path().join(name));
        let model = assets::synthetic_moe();
        symlink(&model, &files[0]).with_context(|| format!("link {}", model.display()))?;
        execute(Command::new(frank).arg("repack").args(&files))?;
        Ok(Self { files, folder })
    }

    fn serve(&self, frank: &Path, file: usize, options: &[String]) -> Command {
        let mut command = Command::new(frank);
        let parallel = PROMPTS.len().to_string();
        command.arg("serve").arg(&self.files[file]).args(["--port", "0", "--ctx-size", "512"]);
        command.args(["--parallel", &parallel]).args(options).current_dir(self.folder.path());
        command
    }
}

/// The number at `pointer`.
fn number(json: &Value, pointer: &str) -> Result<u64> {
    let number = json.pointer(pointer).and_then(Value::as_u64);
    number.with_context(|| format!("no number at {pointer} of {json}"))
}

/// Writes a file of `folder`.
fn written(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}
