//! API keys: who may ask. Never prints or logs one.

use std::path::{Path, PathBuf};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use frank_engine::CacheScope;
use frank_os::{SmallFileError, read_small_file};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use thiserror::Error;

/// A file of keys is not larger: it holds some ten thousand of them.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The keys that open the endpoint. Without any, it is open.
#[derive(Clone, Default)]
pub struct ApiKeys {
    keys: Vec<String>,
}

impl std::fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiKeys({} keys)", self.keys.len())
    }
}

/// Why a key file cannot be used.
#[derive(Debug, Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("key file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: SmallFileError,
    },
    /// The file is no text.
    #[error("key file {} is not UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// No line holds a key: an endpoint that asks for a key that does not exist opens for nobody.
    #[error("key file {} holds no key", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A key that no HTTP header can carry.
    #[error("key file {} line {line}: a key has only visible ASCII characters and no spaces", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: usize,
    },
}

impl ApiKeys {
    /// Reads a file, or a pipe to its end, with one key a line. Empty lines and those that start with `#` are comments.
    ///
    /// # Errors
    /// [`KeyFileError`] when it cannot be read, holds no key, or holds one that cannot be sent.
    pub fn from_file(path: &Path) -> Result<Self, KeyFileError> {
        let bytes = read_small_file(path, FILE_BYTES_MAX)
            .map_err(|source| KeyFileError::Read { path: path.to_owned(), source })?;
        let text = String::from_utf8(bytes)
            .map_err(|_| KeyFileError::NotText { path: path.to_owned() })?;
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let key = line.trim();
            if key.is_empty() || key.starts_with('#') {
                continue;
            }
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(KeyFileError::Malformed { path: path.to_owned(), line: index + 1 });
            }
            keys.push(key.to_owned());
        }
        if keys.is_empty() {
            return Err(KeyFileError::Empty { path: path.to_owned() });
        }
        Ok(Self { keys })
    }

    /// Whether anyone may ask.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a request with these headers may ask: `Authorization: Bearer KEY` or `x-api-key: KEY`.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> bool {
        self.is_open() || presented(headers).any(|key| self.holds(key))
    }

    /// Whose cached prefixes a request with these headers shares: those of the key that let it in. Without keys, all
    /// requests share them.
    pub(crate) fn cache_scope(&self, headers: &HeaderMap) -> CacheScope {
        let key = presented(headers).find(|key| self.holds(key));
        key.map_or_else(CacheScope::default, |key| CacheScope(Sha256::digest(key).into()))
    }

    /// Compares with every key in a time that does not tell where a wrong one differs.
    fn holds(&self, presented: &[u8]) -> bool {
        let equal = self.keys.iter().map(|key| key.as_bytes().ct_eq(presented));
        equal.fold(Choice::from(0), |any, one| any | one).into()
    }
}

/// The keys of a request. Client libraries always send a bearer, so it must not hide the other header.
fn presented(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key.trim_ascii())
    });
    let plain = headers.get("x-api-key").map(|value| value.as_bytes().trim_ascii());
    bearer.into_iter().chain(plain)
}
