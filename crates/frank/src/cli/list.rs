//! `frank list`: the payloads of the store, whole or not. Reads headers, and never a weight.

use clap::Args;
use frank_gguf::file_type_name;
use frank_hub::store::{FileState, Payload, PayloadFile, PayloadState, Use};
use frank_hub::{ModelFile, Role};
use frank_plan::Size;
use serde::Serialize;

use crate::pulling::{of_store, store};
use crate::report::{print, printable};

const EXAMPLES: &str = "\
Examples:
  frank list
  frank list --json | jq '.payloads[] | {name, source, revision}'

A payload that is not whole says how much of it is here; `frank pull NAME` completes it.
What cannot be read is said below the table, and hides nothing of the others.";

/// List the models in the store
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A payload as it is shown.
#[derive(Serialize)]
struct Shown {
    name: String,
    state: PayloadState,
    /// How much of it is here; `null` where nothing is known of its size.
    percent: Option<u64>,
    /// Bytes that are here.
    bytes_here: u64,
    bytes: u64,
    /// From the header, once the model's first file is here.
    arch: Option<String>,
    quant: Option<String>,
    source: Option<String>,
    revision: String,
    path: String,
    files: Vec<ShownFile>,
    /// What cannot be read, is missing or damaged, each a few words.
    faults: Vec<String>,
    used_by: Vec<Use>,
}

#[derive(Serialize)]
struct ShownFile {
    name: String,
    role: Role,
    bytes: Option<u64>,
    #[serde(flatten)]
    state: FileState,
    /// Path at the source.
    path: Option<String>,
    sha256: Option<String>,
    git_sha1: Option<String>,
}

impl List {
    /// Prints the payloads to stdout.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let store = store()?;
        let payloads = store.payloads().map_err(of_store)?;
        let shown: Vec<Shown> = payloads.iter().map(Shown::of).collect();
        if self.json {
            let answer = serde_json::json!({ "payloads": shown });
            return print(&(serde_json::to_string_pretty(&answer)? + "\n"));
        }
        print(&(table(&shown) + &payloads.iter().map(reasons).collect::<String>()))
    }
}

impl Shown {
    fn of(payload: &Payload) -> Self {
        let (bytes_here, bytes) = payload.bytes();
        let (arch, quant) = header_facts(payload);
        Self {
            name: payload.name.clone(),
            state: payload.state(),
            percent: payload.percent(),
            bytes_here,
            bytes,
            arch,
            quant,
            source: payload.source.clone(),
            revision: payload.revision.clone(),
            path: payload.folder.display().to_string(),
            files: payload.files.iter().map(ShownFile::of).collect(),
            faults: payload.faults(),
            used_by: payload.uses.clone(),
        }
    }

    fn state(&self) -> String {
        let percent = self.percent.map_or_else(String::new, |percent| format!(" {percent} %"));
        match self.state {
            PayloadState::Complete => "complete".to_owned(),
            PayloadState::Changed => "touched since it was verified".to_owned(),
            PayloadState::Damaged => "damaged".to_owned(),
            PayloadState::Incomplete if percent.is_empty() && self.bytes_here > 0 => {
                format!("partial, {} here", Size(self.bytes_here))
            }
            PayloadState::Incomplete => format!("partial{percent}"),
            PayloadState::Unreadable => "cannot be read".to_owned(),
        }
    }

    fn row(&self) -> [String; 6] {
        let or_dash = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), printable);
        // Without a percentage nobody knows how much it will be.
        let size = self.percent.map_or("-".to_owned(), |_| Size(self.bytes).to_string());
        let state = self.state();
        let source = or_dash(&self.source);
        [printable(&self.name), size, or_dash(&self.quant), or_dash(&self.arch), state, source]
    }
}

impl ShownFile {
    fn of(file: &PayloadFile) -> Self {
        let locked = file.locked.as_ref();
        Self {
            name: file.name.clone(),
            role: file.role,
            bytes: file.bytes,
            state: file.state,
            path: locked.map(|locked| locked.path.clone()),
            sha256: locked.map(|locked| locked.sha256.to_string()),
            git_sha1: locked.and_then(|locked| Some(locked.git_sha1?.to_string())),
        }
    }
}

/// Architecture and quant by the header of the model; neither where that cannot be read.
fn header_facts(payload: &Payload) -> (Option<String>, Option<String>) {
    let Some(file) = payload.model_path().and_then(|path| ModelFile::open_header(&path).ok())
    else {
        return (None, None);
    };
    let arch = file.header.architecture().ok().map(str::to_owned);
    let file_type = file.header.metadata.u32("general.file_type").ok().flatten();
    (arch, file_type.and_then(file_type_name).map(str::to_owned))
}

/// What of a payload cannot be read, a line for each reason.
fn reasons(payload: &Payload) -> String {
    let unreadable = payload.unreadable();
    let line = |why: &String| printable(&format!("{}: {why}", payload.name)) + "\n";
    unreadable.iter().map(line).collect()
}

/// Columns as wide as what is in them; the last one as it is.
fn table(shown: &[Shown]) -> String {
    let heads = ["NAME", "SIZE", "QUANT", "ARCH", "STATE", "SOURCE"].map(str::to_owned);
    let rows: Vec<[String; 6]> =
        std::iter::once(heads).chain(shown.iter().map(Shown::row)).collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    let line = |row: &[String; 6]| {
        let cells = widths.iter().zip(row).map(|(width, cell)| format!("{cell:width$}  "));
        cells.collect::<String>() + &row[5] + "\n"
    };
    rows.iter().map(line).collect()
}
