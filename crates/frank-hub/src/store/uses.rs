//! `used-by/`: which generations of endpoints need a payload. Never asks whether they run.
//!
//! A payload's folder may hold a folder `used-by` with a file `<endpoint>.<generation>` for each generation that would
//! not start without the payload; the first line of the file is `current` or `rollback`. Whoever deploys makes the file
//! before the generation is started and removes it when the generation can never be started again. One file for each
//! generation, so that nobody has to rewrite what somebody else wrote.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::durable;

/// Name of the folder inside a payload's folder.
pub(super) const USED_BY_DIR: &str = "used-by";

/// One generation of an endpoint that needs a payload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Use {
    /// Name of the endpoint.
    pub endpoint: String,
    /// The generation, as the fleet counts them.
    pub generation: String,
    /// Whether that is what runs, or what can be gone back to: `current`, `rollback`, or what else the file says.
    pub state: String,
}

impl fmt::Display for Use {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} generation {} ({})", self.endpoint, self.generation, self.state)
    }
}

/// Who needs the payload in `folder`, in the order of names.
pub(super) fn read(folder: &Path) -> io::Result<Vec<Use>> {
    let folder = folder.join(USED_BY_DIR);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut uses = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        // A file that is being written has a name that begins with a dot.
        if name.starts_with('.') {
            continue;
        }
        // Whatever stands there under that name, somebody put it there for an endpoint.
        let text = durable::read(&folder.join(&*name)).ok().flatten().unwrap_or_default();
        uses.push(parse(&name, text.lines().next().unwrap_or_default()));
    }
    uses.sort();
    Ok(uses)
}

/// A file without a generation in its name, or without a state in it, still stands for a use.
fn parse(name: &str, state: &str) -> Use {
    let (endpoint, generation) = name.rsplit_once('.').unwrap_or((name, "?"));
    let state = if state.trim().is_empty() { "current" } else { state.trim() };
    Use {
        endpoint: endpoint.to_owned(),
        generation: generation.to_owned(),
        state: state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_use_whatever_it_says() {
        let check = |name: &str, state: &str, told: &str| {
            assert_eq!(parse(name, state).to_string(), told);
        };
        check("chat.12", "rollback", "chat generation 12 (rollback)");
        check("chat.example.12", " current ", "chat.example generation 12 (current)");
        check("chat", "", "chat generation ? (current)");
    }
}
