//! `frank init`: a first `frank.toml` from what hosts have. Never writes over one.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use frank_fleet::{HostFacts, InitHost, init};
use frank_os::read_small_file;

use crate::report::{Code, Failure, print, tell};
use crate::this_host::this_host;

const EXAMPLES: &str = "\
Examples:
  frank init                             frank.toml for this machine
  frank init --facts hosts               for the hosts of hosts/NAME.json, what each has
  frank init -                           the text on stdout

A file that is there is never written over.";

/// No host has more to tell.
const FACTS_BYTES_MAX: u64 = 16 << 20;

/// Write a first frank.toml, with comments, from what this machine or other hosts have
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Init {
    /// The file to write, or - for stdout
    #[arg(value_name = "FILE", default_value = "frank.toml")]
    file: PathBuf,

    /// A folder with NAME.json for each host, in place of this machine
    #[arg(long, value_name = "DIR")]
    facts: Option<PathBuf>,
}

/// A host to write down.
struct Found {
    name: String,
    ssh: String,
    facts: HostFacts,
}

impl Init {
    /// Writes the file.
    ///
    /// # Errors
    /// Exit code 3 when it is there already.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let found = match &self.facts {
            Some(dir) => hosts_of(dir)?,
            None => {
                let facts = this_host()?;
                vec![Found { name: name_of(&facts), ssh: "local".to_owned(), facts }]
            }
        };
        let hosts: Vec<InitHost<'_>> = found
            .iter()
            .map(|found| InitHost { name: &found.name, ssh: &found.ssh, facts: &found.facts })
            .collect();
        let text = init(&hosts);
        if self.file.as_os_str() == "-" {
            return print(&text);
        }
        self.write(&text)?;
        tell(&format!("wrote {}; `frank plan` says what it would do", self.file.display()));
        Ok(())
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        let made = std::fs::OpenOptions::new().write(true).create_new(true).open(&self.file);
        let mut made = match made {
            Ok(made) => made,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let fact = format!("{} is there already", self.file.display());
                let hint = "name another file, or - for stdout";
                return Err(Failure::new(Code::Refused, fact).hint(hint).into());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot write {}", self.file.display()));
            }
        };
        made.write_all(text.as_bytes())
            .with_context(|| format!("cannot write {}", self.file.display()))
    }
}

/// What a host calls itself, as a name of the file.
fn name_of(facts: &HostFacts) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let first = facts.hostname.split('.').next().unwrap_or_default();
    let plain: String = first.chars().filter(|char| is_plain(*char)).take(63).collect();
    let plain = plain.trim_start_matches(['-', '_']);
    if plain.is_empty() { "box".to_owned() } else { plain.to_owned() }
}

/// The hosts of the files of a folder, in the order of their names; where ssh finds them is their name.
fn hosts_of(dir: &Path) -> anyhow::Result<Vec<Found>> {
    let fact = || Failure::usage(format!("cannot read {}", dir.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(fact)? {
        let path = entry.with_context(fact)?.path();
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"));
        let Some(name) = name.map(str::to_owned) else { continue };
        let fact = || Failure::usage(format!("{} is not what a host has", path.display()));
        let bytes = read_small_file(&path, FACTS_BYTES_MAX).with_context(fact)?;
        let facts: HostFacts = serde_json::from_slice(&bytes).with_context(fact)?;
        found.push(Found { ssh: name.clone(), name, facts });
    }
    if found.is_empty() {
        let fact = format!("{} holds no NAME.json of a host", dir.display());
        return Err(Failure::usage(fact).into());
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}
