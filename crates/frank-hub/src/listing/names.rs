//! Names in the store: of payloads, so that no two sources share one, and of their files. Never looks at the store.

use std::collections::BTreeMap;

use super::file_name::{FileName, Piece};
use super::quants::key;
use super::{ChooseError, Chosen, ChosenFile, Group, Listing, RemoteFile, Role};
use crate::digest::Sha256;
use crate::reference::{ends_in_gguf, is_stored_name};

/// Longest readable part of a payload's name.
const LABEL_BYTES_MAX: usize = 100;
/// Hexadecimal digits that tell apart what would read the same.
const MARK_DIGITS: usize = 8;

/// Gives `chosen`, of which `model` is the model, its names.
///
/// A payload of the hub is `org--repo[@revision]--quant`, or `…--file` where the quant alone would not tell the file: the
/// hub gives out no name with `--`, so neither hides another. Others are `file--12345678`, where the digits stand for the
/// whole source.
/// # Errors
/// [`ChooseError::BadName`] and [`ChooseError::SameName`].
pub(super) fn named(
    listing: &Listing,
    all: &[Group],
    chosen: &[(Role, &Group)],
) -> Result<Chosen, ChooseError> {
    let model = chosen.iter().find(|(role, group)| *role == Role::Model && group.is_gguf());
    let payload = payload_name(&listing.source, model.map(|(_, group)| *group), all, chosen);
    let mut files: Vec<ChosenFile> = Vec::new();
    let mut taken = BTreeMap::new();
    for (role, group) in chosen {
        for file in files_of(*role, group, &taken)? {
            let path = &group.files[0].path;
            if let Some(other) = taken.insert(file.name.to_lowercase(), path.clone()) {
                return Err(ChooseError::SameName {
                    name: file.name,
                    paths: [other, path.clone()],
                });
            }
            files.push(file);
        }
    }
    Ok(Chosen { payload, files })
}

fn payload_name(
    source: &str,
    model: Option<&Group>,
    all: &[Group],
    chosen: &[(Role, &Group)],
) -> String {
    let Some(place) = source.strip_prefix("hf:") else {
        let first = model.or(chosen.first().map(|(_, group)| *group));
        let name = first.map(|group| FileName::of(&group.files[0].path).stem);
        return format!("{}--{}", cut(&readable(name.unwrap_or("model"))), mark(source));
    };
    let (repo, revision) = place.split_once('@').map_or((place, None), |(a, b)| (a, Some(b)));
    let mut name = repo.replace('/', "--");
    if let Some(revision) = revision {
        name = format!("{name}@{}", revision.replace('/', "%2F").replace("--", "%2D%2D"));
    }
    if let Some(model) = model {
        name = format!("{name}--{}", label(repo, model, all));
    }
    match is_stored_name(&name) {
        true => name,
        false => format!("{}--{}", cut(&name), mark(&name)),
    }
}

/// The quant, where that alone tells the files of this repository; otherwise the path.
fn label(repo: &str, model: &Group, all: &[Group]) -> String {
    let usual = usual_quant(repo, model);
    let n_usual = all.iter().filter(|group| usual.is_some() && usual_quant(repo, group) == usual);
    if let (Some(_), Some(quant), 1) = (&usual, &model.quant, n_usual.count()) {
        return quant.clone();
    }
    let stem = model.stem();
    let is_alone = all.iter().filter(|group| group.stem() == stem).count() == 1;
    let exact = if is_alone { &stem } else { &model.files[0].path };
    let name = readable(&exact.replace('/', "--"));
    // A name that differs from the path by more than its slashes could be that of another path too.
    let is_exact = name == exact.replace('/', "--") && !exact.contains("--");
    match is_exact && name.len() <= LABEL_BYTES_MAX && !ends_in_gguf(&name) {
        true => name,
        false => format!("{}--{}", cut(&name), mark(exact)),
    }
}

/// The quant of a file that is named like the repository and lies in no folder but one of the quant.
fn usual_quant(repo: &str, group: &Group) -> Option<String> {
    let quant = group.quant.as_deref().filter(|_| group.role == Some(Role::Model))?;
    let repo = key(repo.rsplit('/').next().unwrap_or(repo));
    let repo = repo.strip_suffix("GGUF").unwrap_or(&repo);
    let model = key(&group.model);
    let is_named =
        model.is_empty() || model == repo || Some(model.as_str()) == repo.strip_suffix("I1");
    let folder = FileName::of(&group.files[0].path).folder;
    let is_placed = folder.is_empty() || key(folder) == key(quant);
    (is_named && is_placed).then(|| key(quant))
}

/// `text` with letters, digits and a few others only: it can be typed and is no path.
fn readable(text: &str) -> String {
    let plain = text.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() || "._+@-".contains(c) => c,
        _ => '_',
    });
    let plain: String = plain.collect();
    let start = plain.trim_start_matches(['.', '-']);
    if start.is_empty() { "model".to_owned() } else { start.to_owned() }
}

/// The beginning of `name`.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(LABEL_BYTES_MAX)]
}

fn mark(text: &str) -> String {
    Sha256::of(text.as_bytes()).to_string()[..MARK_DIGITS].to_owned()
}

/// The files of a group under the names they have at the source, behind their folder where another file is called so.
fn files_of(
    role: Role,
    group: &Group,
    taken: &BTreeMap<String, String>,
) -> Result<Vec<ChosenFile>, ChooseError> {
    let plain = ChosenFiles { role, group, prefix: "" }.all();
    let is_taken = plain.iter().any(|file| taken.contains_key(&file.name.to_lowercase()));
    let folder = FileName::of(&group.files[0].path).folder.replace('/', "--");
    let files = match is_taken && !folder.is_empty() {
        true => ChosenFiles { role, group, prefix: &format!("{folder}--") }.all(),
        false => plain,
    };
    match files.iter().find(|file| !is_stored_name(&file.name)) {
        Some(file) => Err(ChooseError::BadName { path: file.segments[0].path.clone() }),
        None => Ok(files),
    }
}

struct ChosenFiles<'a> {
    role: Role,
    group: &'a Group,
    prefix: &'a str,
}

impl ChosenFiles<'_> {
    fn all(&self) -> Vec<ChosenFile> {
        let first = &self.group.files[0];
        match FileName::of(&first.path) {
            FileName { stem, piece: Piece::Fragment(_), .. } => {
                vec![self.one(&format!("{stem}.gguf"), self.group.files.clone())]
            }
            _ => {
                let files = self.group.files.iter();
                files.map(|file| self.one(file.file_name(), vec![file.clone()])).collect()
            }
        }
    }

    fn one(&self, name: &str, segments: Vec<RemoteFile>) -> ChosenFile {
        ChosenFile { name: format!("{}{name}", self.prefix), role: self.role, segments }
    }
}
