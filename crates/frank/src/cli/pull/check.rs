//! `frank pull --check`: whether a file is a whole model under the name that its header asks for. Never reads a weight.

use std::fs::OpenOptions;
use std::io::BufReader;
use std::path::Path;

use frank_gguf::{Header, SplitInfo};
use frank_hub::listing::glued_split;
use frank_hub::{ModelFile, OpenError};
use frank_os::open_regular;
use frank_plan::Size;
use serde::Serialize;

use crate::report::{Code, Failure, print};

/// What `--check --json` prints.
#[derive(Serialize)]
struct Checked {
    /// The file to give to a program: the first part.
    path: String,
    parts: Vec<String>,
    bytes: u64,
}

/// Refuses what no program can load, parts that are missing, misnamed, cut off or glued together, and what goes on behind
/// its last tensor, which its publisher did not mean.
pub(super) fn check(path: &Path, json: bool) -> anyhow::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(split) = split_of(path) {
        glued_split(split, &name).map_err(|glued| {
            Failure::new(Code::Verification, glued.to_string()).hint(glued.hint())
        })?;
    }
    let file = ModelFile::open(path).map_err(of_check)?;
    file.paths().iter().try_for_each(|part| ModelFile::check_part(part)).map_err(of_check)?;
    let parts: Vec<String> = file.paths().iter().map(|path| path.display().to_string()).collect();
    let checked = Checked { path: parts[0].clone(), parts, bytes: file.header.file_bytes() };
    if json {
        return print(&(serde_json::to_string_pretty(&checked)? + "\n"));
    }
    let n = checked.parts.len();
    let parts = if n == 1 { "one file".to_owned() } else { format!("{n} parts") };
    print(&format!("{}: whole, {parts}, {}\n", checked.path, Size(checked.bytes)))
}

/// Which part a file is by its own header; `None` for what has none that can be read.
fn split_of(path: &Path) -> Option<SplitInfo> {
    let file = open_regular(path, OpenOptions::new().read(true)).ok()?;
    let bytes = file.metadata().ok()?.len();
    Header::read(&mut BufReader::new(file), bytes).ok()?.split().ok()
}

fn of_check(error: OpenError) -> anyhow::Error {
    let code = match &error {
        OpenError::NotFound { .. } | OpenError::Os(_) => Code::Usage,
        _ => Code::Verification,
    };
    let failure = Failure::new(code, error.to_string());
    let failure = error.hint().into_iter().fold(failure, Failure::hint);
    anyhow::Error::new(error).context(failure)
}
