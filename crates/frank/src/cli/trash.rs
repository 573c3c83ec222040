//! `frank trash`: what was removed or replaced, and back. Never deletes anything.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use frank_hub::store::Trashed;
use frank_plan::Size;

use crate::pulling::{of_store, store};
use crate::report::{print, printable};

const EXAMPLES: &str = "\
Examples:
  frank trash                                 what is there, why, and how it comes back
  frank trash restore 2026-11-30/NAME

The trash keeps what it has. To have its room back, delete the path that is shown.";

/// List the trash, or restore something from it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Trash {
    #[command(subcommand)]
    action: Option<Action>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Put something back to where it was
    Restore {
        /// As `frank trash` shows it: DATE/NAME
        #[arg(value_name = "ID")]
        id: String,
    },
}

impl Trash {
    /// Prints the trash, or what was restored.
    ///
    /// # Errors
    /// Exit code 2 when there is no such thing, or something stands where it was.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let store = store()?;
        let Some(Action::Restore { id }) = &self.action else {
            let all = store.trash().map_err(of_store)?;
            if self.json {
                let answer = serde_json::json!({ "trash": all });
                return print(&(serde_json::to_string_pretty(&answer)? + "\n"));
            }
            return print(&text(&all));
        };
        let restored = store.restore(id).map_err(of_store)?;
        if self.json {
            return print(&(serde_json::to_string_pretty(&restored)? + "\n"));
        }
        let place = restored.from.unwrap_or_default();
        print(&format!("restored {}, {}\n", place.display(), Size(restored.bytes)))
    }
}

fn text(all: &[Trashed]) -> String {
    let mut text = String::new();
    for trashed in all {
        let (id, path) = (printable(&trashed.id), trashed.path.display());
        let why = if trashed.reason.is_empty() { "no note" } else { trashed.reason.as_str() };
        let _infallible = write!(
            text,
            "{id}  {}  {}\n  at {path}\n  back with: frank trash restore {id}\n",
            Size(trashed.bytes),
            printable(why)
        );
    }
    if text.is_empty() { "the trash is empty\n".to_owned() } else { text }
}
