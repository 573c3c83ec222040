//! The answer to one GET: its head, and its body piece by piece, none of which may be long in coming. Never asks again.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode};
use tokio::time::timeout;
use url::Url;

use super::error::{HttpError, Missing, TokenUse};
use super::redirect::shown;
use super::retry::retry_after;
use super::said;
use super::token::Tokens;

/// Most bytes of an error body that are read.
const ERROR_BYTES_MAX: u64 = 4096;
/// What the hub calls the file behind a redirect.
const LINKED_ETAG: &str = "x-linked-etag";
/// Why the hub refuses, in one word and in a sentence.
const ERROR_CODE: &str = "x-error-code";
const ERROR_MESSAGE: &str = "x-error-message";

/// The answer to a GET.
pub(crate) struct Answer {
    /// The URL that gave it: the last one where there were redirects.
    pub(crate) url: Url,
    /// The `X-Linked-Etag` of the answer, or of a redirect that led to it.
    pub(crate) linked_etag: Option<String>,
    response: Response<Incoming>,
    /// Bytes of the body that came so far.
    got: u64,
    idle: Duration,
    tokens: Tokens,
}

impl Answer {
    pub(super) fn new(
        url: Url,
        response: Response<Incoming>,
        idle: Duration,
        tokens: Tokens,
    ) -> Answer {
        let mut answer = Answer { url, linked_etag: None, response, got: 0, idle, tokens };
        answer.linked_etag = answer.header(LINKED_ETAG).map(str::to_owned);
        answer
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// A header as text, where there is one and it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Where the answer redirects to.
    pub(super) fn redirect(&self) -> Option<&str> {
        let is_redirect = matches!(self.status().as_u16(), 301 | 302 | 303 | 307 | 308);
        is_redirect.then(|| self.header(LOCATION.as_str())).flatten()
    }

    /// The next piece of the body; `None` is its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = timeout(self.idle, self.response.body_mut().frame()).await;
            let Ok(frame) = frame else {
                return Err(HttpError::Stalled { url: shown(&self.url), after: self.idle });
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| self.cut(&said::innermost(&error)))?;
            // The only other frames are trailers.
            if let Ok(bytes) = frame.into_data() {
                self.got += bytes.len() as u64;
                return Ok(Some(bytes));
            }
        }
    }

    /// The error of a body that ended before it should.
    pub(crate) fn cut(&self, said: &str) -> HttpError {
        HttpError::Cut { url: shown(&self.url), got: self.got, said: said.to_owned() }
    }

    /// The whole body, which must not be longer than `max` bytes.
    pub(super) async fn bytes(&mut self, max: u64) -> Result<Vec<u8>, HttpError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if self.got > max {
                let why = format!("longer than {max} bytes");
                return Err(HttpError::BadBody { url: shown(&self.url), why });
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// Refuses every status but 200 to 299.
    pub(super) async fn into_success(self) -> Result<Answer, HttpError> {
        if self.status().is_success() { Ok(self) } else { Err(self.into_error().await) }
    }

    /// The error that an answer of this status is.
    pub(crate) async fn into_error(mut self) -> HttpError {
        let said = self.said().await;
        let (url, status) = (shown(&self.url), self.status().as_u16());
        let missing = match self.header(ERROR_CODE) {
            Some("RepoNotFound") => Some(Missing::Repository),
            Some("RevisionNotFound") => Some(Missing::Revision),
            Some("EntryNotFound") => Some(Missing::File),
            _ => matches!(status, 404 | 410).then_some(Missing::File),
        };
        let token = self.tokens.use_for(&self.url);
        match (missing, status) {
            (Some(missing), 401..=499) => HttpError::NotFound { url, status, missing, said },
            (_, 401 | 403) if status == 401 || token != TokenUse::OtherHost => {
                HttpError::Refused { url, status, token, said }
            }
            _ => {
                let now = SystemTime::now();
                let pause = self.header(RETRY_AFTER.as_str());
                let retry_after = pause.and_then(|text| retry_after(text, now));
                HttpError::Status { url, status, retry_after, said }
            }
        }
    }

    /// What the server says about an error, fit to be printed: behind a colon, or empty.
    async fn said(&mut self) -> String {
        let mut body = Vec::new();
        if let Some(message) = self.header(ERROR_MESSAGE) {
            body.extend_from_slice(message.as_bytes());
        } else {
            // An error body that breaks off is as good as one that ends.
            while let Ok(Some(chunk)) = self.chunk().await {
                body.extend_from_slice(&chunk);
                if self.got >= ERROR_BYTES_MAX {
                    break;
                }
            }
        }
        let text = said::printable(&body);
        let text = self.tokens.blot_out(&text);
        if text.is_empty() { text } else { format!(": {}", said::shorten(&text)) }
    }
}
