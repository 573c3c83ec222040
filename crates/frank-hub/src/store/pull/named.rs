//! Which files a pull is about: those that the words choose, or exactly those that the payload of a name has, wherever the
//! words that it was pulled by lead now. Never asks a source.

use std::io;
use std::path::Path;

use super::failure::PullFailure;
use crate::fetch::FetchError;
use crate::listing::{ChooseError, Chosen, ChosenFile, Listing, RemoteFile, Role, choose};
use crate::reference::{HubReference, Reference};
use crate::store::payload_lock::PayloadLock;
use crate::store::wanted::{Wanted, partial_path};
use crate::store::{Store, source_of};

/// What was asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// Where it is.
    pub(super) reference: &'a Reference,
    /// The payload that it is, where that was named.
    pub(super) name: Option<&'a str>,
}

/// What a pull is about.
pub(super) struct Choice {
    /// The reference that leads to it now.
    pub(super) reference: Reference,
    pub(super) chosen: Chosen,
    /// Words that led to it once and lead elsewhere now.
    pub(super) astray: Option<String>,
}

/// A file of a payload and where its source had it.
struct Known {
    name: String,
    role: Role,
    paths: Vec<String>,
    here: Here,
}

/// How much of a file is here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Here {
    /// It had its name, once.
    Locked,
    /// All of it, without its name.
    Waiting,
    /// Some of it, or nothing.
    Partial,
}

impl Store {
    /// Chooses from what the source has.
    pub(super) fn chosen(
        &self,
        asked: Asked<'_>,
        listing: &Listing,
    ) -> Result<Choice, PullFailure> {
        let pick = match asked.reference {
            Reference::Hub(hub) => hub.pick.as_deref(),
            _ => None,
        };
        let by_words = choose(listing, pick);
        let Some(name) = asked.name else {
            let reference = asked.reference.clone();
            return Ok(Choice { reference, chosen: by_words?, astray: None });
        };
        choose_named(asked.reference, name, &self.known(name)?, listing, by_words)
    }

    /// Files of the payload `name` that never got their names and that its source does not have: nothing where there is no
    /// `listing`.
    pub(super) fn never_whole(
        &self,
        name: &str,
        listing: Option<&Listing>,
    ) -> Result<Vec<String>, PullFailure> {
        let mut known = self.known(name)?;
        let is_there = |file: &Known| listing.is_some_and(|listing| file.at(listing).is_some());
        known.retain(|file| file.here != Here::Locked && !is_there(file));
        Ok(known.into_iter().map(|file| file.name).collect())
    }

    fn known(&self, name: &str) -> Result<Vec<Known>, FetchError> {
        let folder = self.models.join(name);
        known(&folder).map_err(FetchError::io("read what is in", &folder))
    }
}

/// Chooses exactly what the payload `name` is: all of its files that the source has, and what the words add to them.
fn choose_named(
    reference: &Reference,
    name: &str,
    known: &[Known],
    listing: &Listing,
    by_words: Result<Chosen, ChooseError>,
) -> Result<Choice, PullFailure> {
    let (mut chosen, elsewhere) = match by_words {
        Ok(chosen) if chosen.payload == name => (chosen, None),
        other => (Chosen { payload: name.to_owned(), files: Vec::new() }, Some(other)),
    };
    for file in known {
        let is_there = chosen.files.iter().any(|there| file.is(there));
        chosen.files.extend(file.at(listing).filter(|_| !is_there));
    }
    let is_lost = |file: &&Known| {
        file.here == Here::Partial && !chosen.files.iter().any(|there| file.is(there))
    };
    let lost: Vec<String> = known.iter().filter(is_lost).map(|file| file.name.clone()).collect();
    if !lost.is_empty() {
        return Err(PullFailure::UpstreamGone { files: lost });
    }
    chosen.files.sort_by_key(|file| file.role);
    let exact = elsewhere.as_ref().and_then(|_| exact_words(reference, name, known, listing));
    match elsewhere {
        Some(Err(error)) if chosen.files.is_empty() => Err(error.into()),
        Some(Ok(_)) if chosen.files.is_empty() => {
            let files = known.iter().map(|file| file.name.clone()).collect();
            Err(PullFailure::UpstreamGone { files })
        }
        _ => {
            let astray = exact.is_some().then(|| source_of(reference));
            let reference = exact.unwrap_or_else(|| reference.clone());
            Ok(Choice { reference, chosen, astray })
        }
    }
}

/// Words that lead to the payload `name` and to no other, where there are some: the path of its model.
fn exact_words(
    reference: &Reference,
    name: &str,
    known: &[Known],
    listing: &Listing,
) -> Option<Reference> {
    let Reference::Hub(hub) = reference else { return None };
    let path = known.iter().find(|file| file.role == Role::Model)?.paths.first()?;
    let exact = Reference::Hub(HubReference { pick: Some(path.clone()), ..hub.clone() });
    // A path with a comma, or one that begins like a role, is read as something else.
    let leads_there = choose(listing, Some(path)).is_ok_and(|chosen| chosen.payload == name);
    (leads_there && exact.to_string().parse::<Reference>().as_ref() == Ok(&exact)).then_some(exact)
}

impl Known {
    /// Whether the chosen file stands for this one.
    fn is(&self, there: &ChosenFile) -> bool {
        let paths = there.segments.iter().map(|segment| &segment.path);
        self.name == there.name || paths.eq(&self.paths)
    }

    /// The file as the source has it now, if all of it is there.
    fn at(&self, listing: &Listing) -> Option<ChosenFile> {
        let find = |path: &String| listing.files.iter().find(|file| file.path == *path).cloned();
        let segments: Option<Vec<RemoteFile>> = self.paths.iter().map(find).collect();
        let segments = segments.filter(|segments| !segments.is_empty())?;
        Some(ChosenFile { name: self.name.clone(), role: self.role, segments })
    }
}

/// The files of the payload in `folder`: those that are locked, then those that are on their way.
fn known(folder: &Path) -> io::Result<Vec<Known>> {
    let lock = PayloadLock::read(folder)?;
    let locked = lock.iter().flat_map(|lock| &lock.file).map(|file| Known {
        name: file.name.clone(),
        role: file.role,
        paths: file.paths().map(str::to_owned).collect(),
        here: Here::Locked,
    });
    let mut known: Vec<Known> = locked.collect();
    let wanted = Wanted::read(folder)?;
    let wanted = wanted.iter().flat_map(|wanted| &wanted.file);
    for file in wanted {
        if lock.as_ref().is_some_and(|lock| lock.file(&file.name).is_some()) {
            continue;
        }
        let waits = file.is_untouched_at(&partial_path(folder, &file.name))?;
        known.push(Known {
            name: file.name.clone(),
            role: file.role,
            paths: file.segment.iter().map(|segment| segment.path.clone()).collect(),
            here: if waits { Here::Waiting } else { Here::Partial },
        });
    }
    Ok(known)
}
