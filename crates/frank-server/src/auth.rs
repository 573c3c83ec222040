//! API keys: who may ask, under which name, and how much at once. Never prints or logs a key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use frank_api::ApiError;
use frank_engine::CacheScope;
use frank_os::{SmallFileError, read_small_file};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error;

/// A file of keys is not larger: it holds some ten thousand of them.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest name of a key.
const NAME_BYTES_MAX: usize = 64;

/// The keys that open the endpoint. Without any, it is open.
#[derive(Clone, Default)]
pub struct ApiKeys {
    keys: Vec<ApiKey>,
}

#[derive(Clone)]
struct ApiKey {
    secret: String,
    /// Whose it is, for the log.
    name: Option<String>,
    /// How many requests it may have at once, and their places.
    places: Option<(usize, Arc<Semaphore>)>,
}

/// The place of a request among those that its key may have at once. Dropping it gives it back.
#[derive(Debug, Default)]
pub(crate) struct KeyPlace {
    _permit: Option<OwnedSemaphorePermit>,
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
    /// A line that is none of the forms of a key.
    #[error(
        "key file {} line {line}: expected KEY, NAME KEY or NAME KEY N, of visible ASCII characters, where N is how many \
         requests it may have at once",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: usize,
    },
    /// A name or a key is there twice: which limit holds would depend on the order.
    #[error("key file {} line {line}: this name or key is on an earlier line already", path.display())]
    Repeated {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: usize,
    },
}

impl ApiKeys {
    /// Reads a file, or a pipe to its end, with one key a line: `KEY`, `NAME KEY`, or `NAME KEY N` for a key that may have
    /// N requests at once. Empty lines and those that start with `#` are comments.
    ///
    /// # Errors
    /// [`KeyFileError`] when it cannot be read, holds no key, or holds one that cannot be sent.
    pub fn from_file(path: &Path) -> Result<Self, KeyFileError> {
        let bytes = read_small_file(path, FILE_BYTES_MAX)
            .map_err(|source| KeyFileError::Read { path: path.to_owned(), source })?;
        let text = String::from_utf8(bytes)
            .map_err(|_| KeyFileError::NotText { path: path.to_owned() })?;
        let mut keys: Vec<ApiKey> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim().starts_with('#') {
                continue;
            }
            let (path, line_number) = (path.to_owned(), index + 1);
            let Some(key) = ApiKey::read(line) else {
                return Err(KeyFileError::Malformed { path, line: line_number });
            };
            if keys.iter().any(|other| other.is_like(&key)) {
                return Err(KeyFileError::Repeated { path, line: line_number });
            }
            keys.push(key);
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

    /// Whose cached prefixes and stored answers a request with these headers shares: those of the key that let it in.
    /// Without keys, all requests share them.
    pub(crate) fn cache_scope(&self, headers: &HeaderMap) -> CacheScope {
        let key = self.key_of(headers);
        key.map_or_else(CacheScope::default, |key| CacheScope(Sha256::digest(&key.secret).into()))
    }

    /// The name of the key that let a request in, where it has one.
    pub(crate) fn name_of(&self, headers: &HeaderMap) -> Option<&str> {
        self.key_of(headers)?.name.as_deref()
    }

    /// A place among the requests that this key may have at once.
    ///
    /// # Errors
    /// A 429 where it has all of them already.
    pub(crate) fn place(&self, headers: &HeaderMap) -> Result<KeyPlace, ApiError> {
        let Some((limit, places)) = self.key_of(headers).and_then(|key| key.places.as_ref()) else {
            return Ok(KeyPlace::default());
        };
        let place = Arc::clone(places).try_acquire_owned();
        place
            .map(|permit| KeyPlace { _permit: Some(permit) })
            .map_err(|_| error::key_is_busy(*limit))
    }

    fn key_of(&self, headers: &HeaderMap) -> Option<&ApiKey> {
        presented(headers).find_map(|presented| self.found(presented))
    }

    fn holds(&self, presented: &[u8]) -> bool {
        self.found(presented).is_some()
    }

    /// Compares with every key in a time that does not tell where a wrong one differs.
    fn found(&self, presented: &[u8]) -> Option<&ApiKey> {
        let is_it = |key: &ApiKey| bool::from(key.secret.as_bytes().ct_eq(presented));
        self.keys.iter().fold(None, |found, key| if is_it(key) { Some(key) } else { found })
    }
}

impl ApiKey {
    /// The key of a line.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, secret, limit) = match words[..] {
            [secret] => (None, secret, None),
            [name, secret] => (Some(name), secret, None),
            [name, secret, limit] => (Some(name), secret, Some(limit.parse().ok()?)),
            _ => return None,
        };
        let is_plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = name.is_none_or(|name| name.len() <= NAME_BYTES_MAX);
        let may_ask = limit.is_none_or(|limit| (1..=Semaphore::MAX_PERMITS).contains(&limit));
        (words.iter().all(is_plain) && fits && may_ask).then(|| Self {
            secret: secret.to_owned(),
            name: name.map(str::to_owned),
            places: limit.map(|limit| (limit, Arc::new(Semaphore::new(limit)))),
        })
    }

    /// Whether two keys cannot be told apart.
    fn is_like(&self, other: &Self) -> bool {
        self.secret == other.secret || (self.name.is_some() && self.name == other.name)
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
