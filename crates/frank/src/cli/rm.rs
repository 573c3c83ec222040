//! `frank rm`: a payload into the trash, from where it can come back. Never one that an endpoint needs.

use clap::Args;
use frank_hub::{FailureKind, Reference};
use frank_plan::Size;

use crate::pulling::{of_store, store};
use crate::report::{known, print};

const EXAMPLES: &str = "\
Examples:
  frank rm NAME
  frank rm NAME --reason 'replaced by the Q5_K_M'

The payload moves to the trash, so its bytes stay on the drive until its folder there is deleted by hand; \
`frank trash` shows where it is, and `frank trash restore ID` brings it back. A payload that a current or \
rollback generation of an endpoint needs stays (exit code 3).";

/// Move a model from the store to the trash
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rm {
    /// A name that `frank list` shows, or the reference that it was pulled by
    #[arg(value_name = "MODEL")]
    model: String,

    /// Why, for whoever looks into the trash
    #[arg(long, value_name = "TEXT", default_value = "removed by frank rm")]
    reason: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Rm {
    /// Moves it, and says how it comes back.
    ///
    /// # Errors
    /// Exit code 2 when there is no such payload, 3 when it is needed.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let store = store()?;
        let reference: Reference =
            self.model.parse().map_err(|error| known(error, FailureKind::Input, None))?;
        let payload = store.find(&reference).map_err(of_store)?;
        let (name, folder) = (payload.name, payload.folder);
        let trashed = store.remove(&name, &self.reason).map_err(of_store)?;
        if self.json {
            return print(&(serde_json::to_string_pretty(&trashed)? + "\n"));
        }
        let (size, path) = (Size(trashed.bytes), trashed.path.display());
        let restore = match &trashed.from {
            Some(_) => format!("restore it with: frank trash restore {}", trashed.id),
            None => format!(
                "the drive has no room for a note of where it was; restore it by moving it back to {}",
                folder.display()
            ),
        };
        print(&format!("{name}: {size} moved to {path}\n{restore}\n"))
    }
}
