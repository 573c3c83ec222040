//! `hf:` references: a repository, perhaps a revision, perhaps what is wanted of it. Never knows what it holds.

use std::fmt;
use std::str::FromStr;

use super::ReferenceError;

/// Longest organisation or repository name, as the hub has it.
const COMPONENT_BYTES_MAX: usize = 96;
/// Longest revision and longest pick in bytes.
const TEXT_BYTES_MAX: usize = 1000;

/// `hf:org/repo[@revision][:pick]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubReference {
    /// `org/repo`.
    pub repo: String,
    /// Branch, tag or commit. Without it the hub's `main`.
    pub revision: Option<String>,
    /// What is wanted: quants, files, globs and roles with commas between, as [`choose`](crate::listing::choose)
    /// reads them.
    pub pick: Option<String>,
}

impl HubReference {
    /// The reference without a pick: what the lock file calls the source.
    pub fn source(&self) -> String {
        format!("hf:{}", HubReference { pick: None, ..self.clone() })
    }
}

impl FromStr for HubReference {
    type Err = ReferenceError;

    /// Parses what follows `hf:`.
    fn from_str(text: &str) -> Result<HubReference, ReferenceError> {
        let (place, pick) = split_option(text, ':');
        let (repo, revision) = split_option(place, '@');
        check_repo(repo)?;
        if let Some(revision) = revision.filter(|revision| !is_revision(revision)) {
            return Err(ReferenceError::BadRevision { text: revision.to_owned() });
        }
        if let Some(pick) = pick.filter(|pick| !is_printable(pick)) {
            return Err(ReferenceError::BadPick { text: pick.to_owned() });
        }
        Ok(HubReference {
            repo: repo.to_owned(),
            revision: revision.map(str::to_owned),
            pick: pick.map(str::to_owned),
        })
    }
}

impl fmt::Display for HubReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.repo)?;
        if let Some(revision) = &self.revision {
            write!(out, "@{revision}")?;
        }
        if let Some(pick) = &self.pick {
            write!(out, ":{pick}")?;
        }
        Ok(())
    }
}

/// What stands before the first `separator`, and what behind it, if there is one.
fn split_option(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

fn check_repo(repo: &str) -> Result<(), ReferenceError> {
    let bad = || ReferenceError::BadRepo { text: repo.to_owned() };
    let (org, name) = repo.split_once('/').ok_or_else(bad)?;
    if let Some((name, file)) = name.split_once('/')
        && is_name(org)
        && is_name(name)
        && is_printable(file)
    {
        let (repo, file) = (format!("{org}/{name}"), file.to_owned());
        return Err(ReferenceError::FileBehindSlash { repo, file });
    }
    if is_name(org) && is_name(name) { Ok(()) } else { Err(bad()) }
}

/// An organisation or a repository. The hub gives out no name with `--` or `..`, so these can be separators.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= COMPONENT_BYTES_MAX
        && text.starts_with(plain)
        && text.chars().all(|c| plain(c) || c == '-' || c == '.')
        && !text.contains("--")
        && !text.contains("..")
}

/// What git takes as the name of a branch, tag or commit, as far as it could do harm in a path.
fn is_revision(text: &str) -> bool {
    is_printable(text)
        && !text.starts_with(['-', '/'])
        && !text.ends_with(['.', '/'])
        && !text.contains("..")
        && !text.contains("//")
        && !text.contains(|c: char| c.is_whitespace() || "~^?*[]\\@#%".contains(c))
}

fn is_printable(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::super::Reference;
    use super::*;

    fn check(text: &str, repo: &str, revision: Option<&str>, pick: Option<&str>) {
        let parsed: Reference = text.parse().unwrap();
        let [revision, pick] = [revision, pick].map(|part| part.map(str::to_owned));
        assert_eq!(parsed, Reference::Hub(HubReference { repo: repo.to_owned(), revision, pick }));
        assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn repository_revision_and_pick() {
        check("hf:unsloth/Qwen3-8B-GGUF", "unsloth/Qwen3-8B-GGUF", None, None);
        check("hf:o/r:Q4_K_M", "o/r", None, Some("Q4_K_M"));
        check("hf:o/r@main", "o/r", Some("main"), None);
        check("hf:o/r@refs/pr/3:q4_k_m,mmproj", "o/r", Some("refs/pr/3"), Some("q4_k_m,mmproj"));
        check("hf:o/r@v1.0:MTP/*.gguf", "o/r", Some("v1.0"), Some("MTP/*.gguf"));
        check("hf:o/r:a@b:c.gguf", "o/r", None, Some("a@b:c.gguf"));
        check("hf:_o.o/r_r.r-r", "_o.o/r_r.r-r", None, None);
    }

    #[test]
    fn the_source_has_the_revision_but_no_pick() {
        let parsed: HubReference = "o/r@v1:Q8_0".parse().unwrap();
        assert_eq!(parsed.source(), "hf:o/r@v1");
    }

    #[test]
    fn a_file_behind_a_slash_is_told_where_it_belongs() {
        let error = "hf:o/r/MTP/head.gguf".parse::<Reference>().unwrap_err();
        assert!(error.to_string().ends_with("`hf:o/r:MTP/head.gguf`"), "{error}");
    }

    #[test]
    fn malformed_references_are_refused() {
        for text in [
            "hf:",
            "hf:gpt2",
            "hf:o/",
            "hf:/r",
            "hf:../r",
            "hf:o/..",
            "hf:o/r..r",
            "hf:o/a--b",
            "hf:-o/r",
            "hf:o/.r",
            "hf:o o/r",
            "hf:o/r%2e",
            "hf:o/r?x",
            "hf:o/r\n",
            "hf:o/r@",
            "hf:o/r@-x",
            "hf:o/r@../../x",
            "hf:o/r@a b",
            "hf:o/r@a//b",
            "hf:o/r@/a",
            "hf:o/r@a?b",
            "hf:o/r@a%2fb",
            "hf:o/r@a@b",
            "hf:o/r:",
            "hf:o/r: ",
            "hf:o/r:a\nb",
            "hf:o/r/",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
        let long = "x".repeat(97);
        assert!(format!("hf:o/{long}").parse::<Reference>().is_err());
    }
}
