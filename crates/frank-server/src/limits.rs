//! How large and slow a request may be, and how much memory all of them together may take while they arrive.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Request};
use frank_api::{ApiError, ErrorKind};
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Longest body of a request, however large the context is.
pub const BODY_BYTES_MAX: usize = 32 << 20;

/// Bytes that the bodies of all requests together may take, from their arrival until they are tokens.
pub const REQUEST_BYTES_MAX: usize = 64 << 20;

/// Bytes that one permit stands for: a semaphore counts in 32 bits.
const PERMIT_BYTES: usize = 1 << 10;

/// Hands out memory for bodies.
#[derive(Debug)]
pub(crate) struct Limits {
    room: Arc<Semaphore>,
    body_timeout: Duration,
}

/// A body and the right to the memory it takes.
#[derive(Debug)]
pub(crate) struct JsonBody {
    pub(crate) bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl Limits {
    /// Bodies may take `body_timeout` to arrive.
    pub(crate) fn new(body_timeout: Duration) -> Self {
        Self { room: Arc::new(Semaphore::new(REQUEST_BYTES_MAX / PERMIT_BYTES)), body_timeout }
    }

    /// The body of a request that says it is JSON, of `bytes_max` bytes at most.
    ///
    /// # Errors
    /// 415 when it says otherwise, 413 when it is too long, 408 when it is too slow, 503 when there is no room for
    /// it now, 400 when it breaks off.
    pub(crate) async fn read_json(
        &self,
        request: Request<Body>,
        bytes_max: usize,
    ) -> Result<JsonBody, ApiError> {
        check_is_json(request.headers())?;
        let declared = declared_bytes(request.headers());
        let room = self.room_for(declared.unwrap_or(bytes_max).min(bytes_max))?;
        let reading = read_up_to(bytes_max, request.into_body());
        match tokio::time::timeout(self.body_timeout, reading).await {
            Ok(bytes) => Ok(JsonBody { bytes: bytes?, _room: room }),
            Err(_) => {
                Err(ApiError::new(ErrorKind::RequestTimeout, "the body took too long to arrive"))
            }
        }
    }

    fn room_for(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let permits =
            u32::try_from(bytes.div_ceil(PERMIT_BYTES)).expect("a body is far below 2^32 permits");
        Arc::clone(&self.room).try_acquire_many_owned(permits).map_err(|_| {
            ApiError::new(ErrorKind::Unavailable, "too many large requests arrive at once")
                .with_code("busy")
        })
    }
}

fn check_is_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let refused = |message| Err(ApiError::new(ErrorKind::UnsupportedMediaType, message));
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return refused("the body must be sent as Content-Type: application/json");
    }
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            refused("the body must not be compressed")
        }
        _ => Ok(()),
    }
}

/// The length that the client declares; `None` where it sends in chunks.
fn declared_bytes(headers: &HeaderMap) -> Option<usize> {
    // The HTTP parser has refused what is not a number; what remains is one that is too large.
    let length = headers.get(CONTENT_LENGTH)?.to_str().ok();
    Some(length.and_then(|text| text.parse().ok()).unwrap_or(usize::MAX))
}

/// The body, if it has `bytes_max` bytes at most. A longer one is read to its end all the same, and forgotten: many
/// clients see an answer only after they have sent all they have.
async fn read_up_to(bytes_max: usize, body: Body) -> Result<Vec<u8>, ApiError> {
    let (mut bytes, mut n_bytes) = (Vec::new(), 0);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk =
            chunk.map_err(|_| ApiError::new(ErrorKind::InvalidRequest, "the body broke off"))?;
        n_bytes += chunk.len();
        if n_bytes <= bytes_max {
            bytes.extend_from_slice(&chunk);
        } else if n_bytes <= BODY_BYTES_MAX {
            bytes = Vec::new();
        } else {
            break;
        }
    }
    if n_bytes > bytes_max { Err(too_long(bytes_max)) } else { Ok(bytes) }
}

fn too_long(bytes_max: usize) -> ApiError {
    let message = format!(
        "the body is longer than {} KiB, which the context can never need",
        bytes_max >> 10
    );
    ApiError::new(ErrorKind::PayloadTooLarge, message)
}
