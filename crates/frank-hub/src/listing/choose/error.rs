//! Why no payload could be chosen, with what could have been. Never chooses.

use crate::fetch::FailureKind;

/// How many names an error lists.
pub(super) const LISTED_MAX: usize = 40;

/// Why no payload could be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// An empty term between the commas.
    #[error("`{text}` names no quant, file, glob or role")]
    BadPick {
        /// The term.
        text: String,
    },
    /// The source has nothing that frank can open.
    #[error("{origin} holds no GGUF model; it has {}", listed(.have))]
    NoModel {
        /// The source.
        origin: String,
        /// Names of what it has.
        have: Vec<String>,
    },
    /// Nothing is called so.
    #[error("{origin} has no quant, file or role `{pick}`{}; there are: {}", meant(.near), listed(.have))]
    NotFound {
        /// The source.
        origin: String,
        /// What was asked for.
        pick: String,
        /// Names that are near it, the nearest first.
        near: Vec<String>,
        /// What there is, as it can be asked for.
        have: Vec<String>,
    },
    /// Several models fit.
    #[error("{origin} has {}{}: {}", .candidates.len(), asked(.pick), listed(.candidates))]
    Ambiguous {
        /// The source.
        origin: String,
        /// What was asked for; empty when that was nothing.
        pick: String,
        /// What fits, as it can be asked for.
        candidates: Vec<String>,
    },
    /// Pieces of a file are not there.
    #[error("{origin} lacks {n} of the {scheme} of {name}: {}", listed(.missing))]
    Missing {
        /// The source.
        origin: String,
        /// What it is a piece of.
        name: String,
        /// How it is cut, like `3 parts`.
        scheme: String,
        /// How many are not there.
        n: usize,
        /// Their paths, or the first of them.
        missing: Vec<String>,
    },
    /// Two files say that they are the same piece.
    #[error("{} and {} are the same piece of one file", .paths[0], .paths[1])]
    SamePiece {
        /// Their paths.
        paths: [String; 2],
    },
    /// A file that cannot be stored under its name.
    #[error("{path:?} cannot be the name of a stored file")]
    BadName {
        /// Its path.
        path: String,
    },
    /// Two files would get the same name.
    #[error("{} and {} would both be stored as {name}", .paths[0], .paths[1])]
    SameName {
        /// The name.
        name: String,
        /// Their paths.
        paths: [String; 2],
    },
}

impl ChooseError {
    /// The kind of this failure: all of them are of what was asked for, or of what the source has.
    pub fn kind(&self) -> FailureKind {
        FailureKind::Input
    }

    /// A word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            ChooseError::Ambiguous { .. } => "ambiguous",
            _ => "no_such_file",
        }
    }

    /// Whether the source does not have what is asked for, and not something else is wrong with that.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            ChooseError::NoModel { .. }
                | ChooseError::NotFound { .. }
                | ChooseError::Missing { .. }
        )
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ChooseError::NoModel { .. } => {
                Some("`:GLOB` behind the repository takes files of any kind")
            }
            ChooseError::Ambiguous { .. } => Some("name one of them behind a colon"),
            _ => None,
        }
    }
}

fn listed(names: &[String]) -> String {
    let (first, more) = names.split_at(names.len().min(LISTED_MAX));
    match (first, more.len()) {
        ([], _) => "nothing".to_owned(),
        (_, 0) => first.join(", "),
        (_, more) => format!("{} and {more} more", first.join(", ")),
    }
}

fn meant(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(" (near it: {})", near.join(", ")) }
}

fn asked(pick: &str) -> String {
    if pick.is_empty() {
        " models to choose from".to_owned()
    } else {
        format!(" that fit `{pick}`")
    }
}
