//! Files of a listing put together: the pieces of one model, quant and scheme. Never decides which is wanted.

use std::collections::BTreeMap;
use std::fmt;

use super::file_name::{FileName, Format, Piece};
use super::roles::{Guess, guess};
use super::{Listing, RemoteFile, Role, quants};

/// The files that make one thing: a model in one quant, a projector, a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Name of the model without its quant, as the files spell it; of other files the file name.
    pub model: String,
    /// The quant in the usual spelling, like `UD-Q4_K_XL`, where a file or its folder tells it.
    pub quant: Option<String>,
    /// What it is for; `None` for what no payload needs.
    pub role: Option<Role>,
    /// How it is spread over files.
    pub scheme: Scheme,
    /// Size of what is there, where the source says it of every file.
    pub bytes: Option<u64>,
    /// The files in order. There is at least one.
    pub files: Vec<RemoteFile>,
}

/// How one thing is spread over files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// One file.
    Single,
    /// Parts with headers of their own, which stay apart.
    Split {
        /// How many there should be.
        count: u16,
    },
    /// Raw slices, which are joined.
    Fragments {
        /// How many there should be, or as many as there are where the names do not tell.
        count: u32,
    },
}

/// Puts the files of `listing` together. Every file is in exactly one group, what no payload needs alone.
///
/// Groups come in the order of roles, then by model, then by size.
pub fn groups(listing: &Listing) -> Vec<Group> {
    let mut found: BTreeMap<Key<'_>, Vec<(u32, &RemoteFile)>> = BTreeMap::new();
    for file in &listing.files {
        let name = FileName::of(&file.path);
        found.entry(Key::of(&file.path, &name)).or_default().push((number(&name), file));
    }
    let (mut groups, guesses): (Vec<Group>, Vec<Guess>) = found.into_values().map(group).unzip();
    settle_drafts(&mut groups, &guesses);
    groups.sort_by(|a, b| rank(a).cmp(&rank(b)));
    groups
}

/// Names of all pieces of the file of which `name` is one, in order; only itself where it is whole. `None` where the name
/// does not tell how many there are.
pub(crate) fn pieces_of(name: &str) -> Option<Vec<String>> {
    let parsed = FileName::of(name);
    match parsed.piece {
        Piece::Whole => Some(vec![name.to_owned()]),
        Piece::Split { count, .. } => {
            Some((0..count).map(|no| parsed.path_of_part(no, count)).collect())
        }
        Piece::Fragment(fragment) => {
            let numbers = 1..=fragment.count?;
            Some(numbers.map(|no| parsed.path_of_fragment(&fragment, no)).collect())
        }
    }
}

impl Group {
    /// Paths of the files that should be there and are not, in order. There may be thousands.
    pub fn missing(&self) -> impl Iterator<Item = String> + '_ {
        let name = FileName::of(&self.files[0].path);
        let here = self.numbers();
        let wanted = match (name.piece, here.first(), here.last()) {
            (Piece::Split { count, .. }, ..) => 0..u32::from(count),
            (Piece::Fragment(fragment), Some(&first), Some(&last)) => {
                // Some makers count from 0; where no number says how many there are, the last may be lacking unseen.
                first.min(1)..fragment.count.unwrap_or(last) + 1
            }
            _ => 0..0,
        };
        wanted.filter(move |no| here.binary_search(no).is_err()).map(move |no| match name.piece {
            Piece::Split { count, .. } => {
                name.path_of_part(u16::try_from(no).unwrap_or(u16::MAX), count)
            }
            Piece::Fragment(fragment) => name.path_of_fragment(&fragment, no),
            Piece::Whole => self.files[0].path.clone(),
        })
    }

    /// Two files that are the same piece.
    pub(super) fn twice(&self) -> Option<[&str; 2]> {
        let numbers = self.numbers();
        let pair = numbers.windows(2).position(|pair| pair[0] == pair[1])?;
        Some([&self.files[pair].path, &self.files[pair + 1].path])
    }

    /// Whether it is weights that frank can open.
    pub(super) fn is_gguf(&self) -> bool {
        FileName::of(&self.files[0].path).format == Format::Gguf
    }

    /// Folder and name without what numbers a piece and without the extension of weights.
    pub(super) fn stem(&self) -> String {
        let FileName { folder, stem, .. } = FileName::of(&self.files[0].path);
        if folder.is_empty() { stem.to_owned() } else { format!("{folder}/{stem}") }
    }

    /// Ascending, since the files are in order.
    fn numbers(&self) -> Vec<u32> {
        self.files.iter().map(|file| number(&FileName::of(&file.path))).collect()
    }
}

/// As a list shows it: `Q4_K_S (3 fragments)`, `UD-IQ4_XS (3 parts)`, or the name where there is no quant.
impl fmt::Display for Group {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.quant.as_ref().unwrap_or(&self.model))?;
        match self.scheme {
            Scheme::Single | Scheme::Split { count: 1 } | Scheme::Fragments { count: 1 } => Ok(()),
            Scheme::Split { .. } | Scheme::Fragments { .. } => write!(out, " ({})", self.scheme),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::Single => out.write_str("one file"),
            Scheme::Split { count } => write!(out, "{count} parts"),
            Scheme::Fragments { count } => write!(out, "{count} fragments"),
        }
    }
}

/// What the pieces of one file have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    folder: &'a str,
    stem: &'a str,
    format: Format,
    scheme: Scheme,
    /// What stands before and behind the number of a fragment.
    spelling: [&'a str; 2],
    /// Where every file is a group of its own, its path.
    alone: &'a str,
}

impl<'a> Key<'a> {
    fn of(path: &'a str, name: &FileName<'a>) -> Key<'a> {
        let (scheme, spelling, alone) = match name.piece {
            Piece::Whole => (Scheme::Single, [""; 2], path),
            Piece::Split { count, .. } => (Scheme::Split { count }, [""; 2], ""),
            Piece::Fragment(fragment) => {
                let count = fragment.count.unwrap_or(0);
                (Scheme::Fragments { count }, [fragment.before, fragment.behind], "")
            }
        };
        let &FileName { folder, stem, format, .. } = name;
        Key { folder, stem, format, scheme, spelling, alone }
    }
}

fn number(name: &FileName<'_>) -> u32 {
    match name.piece {
        Piece::Whole => 0,
        Piece::Split { no, .. } => u32::from(no),
        Piece::Fragment(fragment) => fragment.no,
    }
}

fn group(mut pieces: Vec<(u32, &RemoteFile)>) -> (Group, Guess) {
    pieces.sort_by_key(|&(number, file)| (number, &file.path));
    let files: Vec<RemoteFile> = pieces.iter().map(|&(_, file)| file.clone()).collect();
    let name = FileName::of(&pieces[0].1.path);
    let (model, quant) = model_and_quant(&name);
    let scheme = match Key::of(&pieces[0].1.path, &name).scheme {
        Scheme::Fragments { count: 0 } => {
            Scheme::Fragments { count: u32::try_from(files.len()).unwrap_or(u32::MAX) }
        }
        scheme => scheme,
    };
    let bytes = files.iter().try_fold(0u64, |sum, file| sum.checked_add(file.bytes?));
    let guess = guess(&pieces[0].1.path, &name);
    let role = match guess {
        Guess::Is(role) => Some(role),
        Guess::PerhapsDraft | Guess::Nothing => None,
    };
    (Group { model, quant, role, scheme, bytes, files }, guess)
}

/// What the file name says, and the folder where that is silent.
fn model_and_quant(name: &FileName<'_>) -> (String, Option<String>) {
    let FileName { folder, stem, format, .. } = name;
    if *format == Format::Other {
        return ((*stem).to_owned(), None);
    }
    if let Some(found) = quants::find(stem) {
        return (found.rest, Some(found.quant));
    }
    let folder = folder.rsplit('/').next().and_then(quants::find);
    ((*stem).to_owned(), folder.map(|found| found.quant))
}

/// Decides what paths leave open: a head that drafts is small beside the model, and a place that holds nothing but
/// drafts holds models.
fn settle_drafts(groups: &mut [Group], guesses: &[Guess]) {
    let is_open = |index: usize| guesses[index] == Guess::PerhapsDraft;
    let models: Vec<Group> = gguf_of_role(groups, Role::Model).cloned().collect();
    for (_, group) in groups.iter_mut().enumerate().filter(|&(index, _)| is_open(index)) {
        let is_draft = !models.is_empty() && is_small_beside(group, &models);
        group.role = Some(if is_draft { Role::Draft } else { Role::Model });
    }
    if gguf_of_role(groups, Role::Model).next().is_none() {
        let drafts = groups.iter_mut().filter(|group| group.role == Some(Role::Draft));
        drafts.for_each(|group| group.role = Some(Role::Model));
    }
}

fn gguf_of_role(groups: &[Group], role: Role) -> impl Iterator<Item = &Group> {
    groups.iter().filter(move |group| group.role == Some(role) && group.is_gguf())
}

/// Less than half of the model of the same quant, or else of the smallest model.
fn is_small_beside(group: &Group, models: &[Group]) -> bool {
    let same_quant = models.iter().filter(|model| model.quant == group.quant);
    let model = same_quant.filter_map(|model| model.bytes).min();
    let model = model.or_else(|| models.iter().filter_map(|model| model.bytes).min());
    match (group.bytes, model) {
        (Some(bytes), Some(model)) => bytes < model / 2,
        _ => true,
    }
}

fn rank(group: &Group) -> (bool, Option<Role>, &str, Option<u64>, &str) {
    (group.role.is_none(), group.role, &group.model, group.bytes, &group.files[0].path)
}
