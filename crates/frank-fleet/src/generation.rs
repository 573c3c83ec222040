//! What was applied to a host: the record that a plan is compared with. Never says what is there by now.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The form of records that this program writes.
pub const GENERATION_FORMAT: u32 = 1;

/// What was applied to a host the last time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generation {
    /// The form of the record: [`GENERATION_FORMAT`].
    pub format: u32,
    /// The host's name in `frank.toml`.
    pub host: String,
    /// Its number, from 1; each change of the host is one more.
    pub number: u64,
    /// Endpoints and apps, by name.
    #[serde(default)]
    pub endpoints: BTreeMap<String, AppliedEndpoint>,
    /// Files that frank wrote, by path.
    #[serde(default)]
    pub files: BTreeMap<String, AppliedFile>,
    /// Payloads that were brought, by name: each file with its digest, where that is known.
    #[serde(default)]
    pub payloads: BTreeMap<String, BTreeMap<String, Option<String>>>,
}

/// An endpoint or app as it was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppliedEndpoint {
    /// Digests of all that decides what runs, by what it is.
    pub inputs: Inputs,
    /// What keeps it running, as `quadlet`.
    pub target: String,
    /// Its name on the host, as `frank-chat`.
    pub unit: String,
    /// Seconds that its last start took until it was ready.
    #[serde(default)]
    pub ready_seconds: Option<u64>,
    /// Bytes that it was planned to hold, by device.
    #[serde(default)]
    pub memory: BTreeMap<String, u64>,
}

/// A file as frank wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppliedFile {
    /// Digest of its content, in hexadecimal digits.
    pub sha256: String,
    /// Its permissions.
    pub mode: u32,
    /// The endpoint or app that it is for.
    pub endpoint: String,
}

/// Digests of all that decides what runs, by what it is, as `file /etc/…` or `payload m.gguf`. Two plans with the same
/// digests run the same, however `frank.toml` words them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Inputs(pub BTreeMap<String, String>);

impl Inputs {
    /// Adds what is called `name`.
    pub fn add(&mut self, name: impl Into<String>, content: &[u8]) {
        self.0.insert(name.into(), sha256_hex(content));
    }

    /// One digest of all.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        for (name, digest) in &self.0 {
            // Lengths keep apart what would read the same when joined.
            for part in [name, digest] {
                hasher.update((part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        hex(&hasher.finalize())
    }

    /// Names of what differs from `before`, or is in one of both only.
    pub fn changed_since<'a>(&'a self, before: &'a Inputs) -> Vec<&'a str> {
        let differs = |name: &&String| self.0.get(*name) != before.0.get(*name);
        let gone = before.0.keys().filter(|name| !self.0.contains_key(*name));
        let mut names: Vec<&str> =
            self.0.keys().filter(differs).chain(gone).map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// Why a text is no record of a generation.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    /// No JSON of the form, as from another version of frank.
    #[error("it is no record of a generation: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A form that a later version of frank writes.
    #[error("it has form {found}, and this frank knows {GENERATION_FORMAT}")]
    Format {
        /// The form that it says.
        found: u32,
    },
}

impl Generation {
    /// Reads a record.
    /// # Errors
    /// [`GenerationError`] when it is none that this version knows.
    pub fn from_json(text: &str) -> Result<Self, GenerationError> {
        let generation: Self = serde_json::from_str(text)?;
        match generation.format {
            GENERATION_FORMAT => Ok(generation),
            found => Err(GenerationError::Format { found }),
        }
    }

    /// The record as [`Generation::from_json`] reads it.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("texts and numbers are what JSON holds") + "\n"
    }
}

/// Digest of `bytes` in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(entries: &[(&str, &str)]) -> Inputs {
        let mut inputs = Inputs::default();
        for (name, content) in entries {
            inputs.add(*name, content.as_bytes());
        }
        inputs
    }

    #[test]
    fn a_hash_depends_on_every_input_and_its_name() {
        let one = inputs(&[("file a", "1"), ("file b", "2")]);
        assert_eq!(one.hash(), inputs(&[("file b", "2"), ("file a", "1")]).hash());
        for other in [
            inputs(&[("file a", "2"), ("file b", "1")]),
            inputs(&[("file a", "1")]),
            inputs(&[("file a", "1"), ("file c", "2")]),
            inputs(&[]),
        ] {
            assert_ne!(one.hash(), other.hash(), "{other:?}");
        }
        let other = inputs(&[("file a", "1"), ("file b", "3"), ("file c", "")]);
        assert_eq!(one.changed_since(&other), ["file b", "file c"]);
    }

    #[test]
    fn a_record_of_a_later_form_is_refused_and_one_of_ours_is_read_back() {
        let mut generation = Generation { format: 1, number: 7, ..Generation::default() };
        assert_eq!(Generation::from_json(&generation.to_json()).unwrap(), generation);
        generation.format = 2;
        let refused = Generation::from_json(&generation.to_json()).unwrap_err().to_string();
        assert!(refused.contains("form 2"), "{refused}");
        assert!(Generation::from_json("{\"format\": 1}").is_err());
        assert!(Generation::from_json("[]").is_err());
    }
}
