//! Names a request, so that a client's log and this one can be laid side by side.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::choice::new_id;

/// The header in which clients name a request, and in which they are told its name.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The name of the same header in the words of another vendor.
const REQUEST_ID_SHORT: HeaderName = HeaderName::from_static("request-id");

/// Longest name that is taken from a client.
const BYTES_MAX: usize = 128;

/// The name of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// The name that the client gave, if it is one for a log, or a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(REQUEST_ID).filter(|given| is_plain(given.as_bytes()));
        Self(given.cloned().unwrap_or_else(|| {
            HeaderValue::from_str(&new_id("req_")).expect("an id is plain text")
        }))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// Tells it in the head of a response.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        headers.insert(REQUEST_ID, self.0.clone());
        headers.insert(REQUEST_ID_SHORT, self.0.clone());
    }
}

fn is_plain(name: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    (1..=BYTES_MAX).contains(&name.len()) && name.iter().all(allowed)
}
