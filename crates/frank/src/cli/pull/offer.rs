//! `frank pull --list`: every file of a source, grouped by model, quant and scheme. Never fetches one.

use std::fmt::Write as _;

use frank_hub::{Group, Listing, Reference, Scheme, groups};
use frank_plan::Size;
use serde::Serialize;

use crate::pulling::{Ended, Puller};
use crate::report::printable;

/// What a source has.
#[derive(Serialize)]
pub(super) struct Offer {
    source: String,
    revision: String,
    groups: Vec<GroupFacts>,
}

#[derive(Serialize)]
struct GroupFacts {
    model: String,
    quant: Option<String>,
    /// `null` for what no payload needs.
    role: Option<&'static str>,
    scheme: String,
    bytes: Option<u64>,
    files: Vec<FileFacts>,
    /// Paths of pieces that should be there and are not.
    missing: Vec<String>,
}

#[derive(Serialize)]
struct FileFacts {
    path: String,
    bytes: Option<u64>,
    digest: Option<String>,
}

/// Asks a source what it has.
pub(super) fn offer(puller: &Puller, reference: &Reference) -> Result<Offer, Ended> {
    Ok(Offer::of(&puller.list(reference)?))
}

impl Offer {
    fn of(listing: &Listing) -> Self {
        Self {
            source: listing.source.clone(),
            revision: listing.revision.clone(),
            groups: groups(listing).iter().map(GroupFacts::of).collect(),
        }
    }

    /// Every file below its group.
    pub(super) fn text(&self) -> String {
        let mut text = printable(&self.source);
        if !self.revision.is_empty() {
            let _infallible = write!(text, " at {}", self.revision);
        }
        text.push('\n');
        text + &self.groups.iter().map(GroupFacts::text).collect::<String>()
    }
}

impl GroupFacts {
    fn of(group: &Group) -> Self {
        let files = group.files.iter().map(|file| FileFacts {
            path: file.path.clone(),
            bytes: file.bytes,
            digest: file.digest.map(|digest| format!("{} {digest}", digest.kind())),
        });
        Self {
            model: group.model.clone(),
            quant: group.quant.clone(),
            role: group.role.map(|role| role.word()),
            scheme: scheme(group.scheme),
            bytes: group.bytes,
            files: files.collect(),
            missing: group.missing().collect(),
        }
    }

    /// The group in one line, and each of its files in one below it.
    fn text(&self) -> String {
        let role = self.role.unwrap_or("other");
        let quant = self.quant.as_ref().map_or_else(String::new, |quant| format!(" {quant}"));
        let size =
            self.bytes.map_or_else(|| "size not told".to_owned(), |bytes| Size(bytes).to_string());
        let lacks = if self.missing.is_empty() {
            String::new()
        } else {
            format!(", {} missing", self.missing.len())
        };
        let head = format!("{role}: {}{quant} ({}), {size}{lacks}", self.model, self.scheme);
        let mut text = format!("\n{}\n", printable(&head));
        for FileFacts { path, bytes, .. } in &self.files {
            let size = bytes.map_or_else(|| "?".to_owned(), |bytes| Size(bytes).to_string());
            let _infallible = writeln!(text, "  {size:>11}  {}", printable(path));
        }
        text
    }
}

fn scheme(scheme: Scheme) -> String {
    match scheme {
        Scheme::Single => "single".to_owned(),
        Scheme::Split { count } => format!("split of {count}"),
        Scheme::Fragments { count } => format!("{count} fragments"),
    }
}
