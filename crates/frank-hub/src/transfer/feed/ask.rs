//! Asks for a range of a segment, and makes sure that what comes is of the file that was begun. Never writes.

use bytes::Bytes;
use hyper::header::{
    CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderValue, IF_RANGE, RANGE,
};
use url::Url;

use crate::http::{Answer, Client, HttpError, Tries, shown};

use super::super::range_map::Validator;
use super::super::reply::{Asked, Head, Verdict, judge, names_another, strong, total_of};
use super::super::{Segment, TransferError, Watch};
use super::{Feed, Stop, Trouble};

/// Where the last answer came from. It is asked again without the redirects before it, until it refuses: the addresses
/// that a hub redirects to are good for a while only.
#[derive(Debug, Clone)]
pub(super) struct Target {
    url: Url,
    /// The strong `ETag` of its answers.
    etag: Option<String>,
}

/// The body of an answer, and which bytes of the segment it is.
pub(in super::super) struct Body {
    answer: Answer,
    /// The next byte that comes.
    position: u64,
    /// One past the last byte that is promised.
    end: u64,
}

impl Feed<'_> {
    /// Asks for the bytes from `start` to before `end`; the body may hold fewer.
    pub(super) async fn ask(&self, start: u64, end: u64) -> Result<Body, Trouble> {
        let target = self.target.borrow().clone();
        let (url, etag) = match &target {
            Some(target) => (&target.url, target.etag.clone()),
            None => (&self.segment.url, self.known_etag()),
        };
        let answer = self.place.client.get(url, &range_headers(start, end, etag.as_deref())).await;
        let answer = answer.inspect_err(|_| self.forget_target())?;
        let total = self.bytes();
        let verdict = judge(&head(&answer), Asked { start, end, total });
        if verdict != Verdict::Refused {
            let is_of_size = !matches!(verdict, Verdict::Size { .. });
            if is_of_size && names_another(answer.linked_etag.as_deref(), self.segment.digest) {
                return Err(TransferError::Changed { url: shown(&self.segment.url) }.into());
            }
            self.check_state(&answer, target.as_ref())?;
        }
        let shown_url = shown(&answer.url);
        match verdict {
            Verdict::Part { end } => Ok(self.accept(answer, start, end)),
            Verdict::Whole if start == 0 && end == total => Ok(self.accept(answer, 0, total)),
            Verdict::Whole => {
                let body = self.accept(answer, 0, total);
                Err(Trouble::Stop(Stop::Whole(Box::new(body))))
            }
            Verdict::Size { .. } if self.segment.bytes.is_none() => {
                Err(Trouble::Stop(Stop::Changed(shown_url)))
            }
            Verdict::Size { got } => {
                Err(TransferError::Size { url: shown_url, got, want: total }.into())
            }
            Verdict::WebPage => Err(HttpError::WebPage { url: shown_url }.into()),
            Verdict::Odd { why } => Err(TransferError::Range { url: shown_url, why }.into()),
            Verdict::Refused => Err(self.refusal(answer, target).await),
        }
    }

    /// Bytes of the segment.
    fn bytes(&self) -> u64 {
        self.place.board.layout().segments()[self.index].bytes
    }

    /// The `ETag` for the first request: where a redirect decides what the file is, that of its target may differ.
    fn known_etag(&self) -> Option<String> {
        let known = self.place.board.validator(self.index);
        known.etag.filter(|_| known.linked.is_none())
    }

    fn forget_target(&self) {
        self.target.replace(None);
    }

    /// Takes an answer, and remembers where it came from.
    fn accept(&self, answer: Answer, start: u64, end: u64) -> Body {
        let etag = strong(answer.header(ETAG.as_str())).map(str::to_owned);
        self.target.replace(Some(Target { url: answer.url.clone(), etag }));
        Body { answer, position: start, end }
    }

    /// Makes sure that the answer is of the file that was begun, and remembers what the source calls it.
    fn check_state(&self, answer: &Answer, target: Option<&Target>) -> Result<(), Trouble> {
        let (board, linked) = (self.place.board, answer.linked_etag.as_deref());
        let etag = strong(answer.header(ETAG.as_str()));
        let known = board.validator(self.index);
        let is_changed = match (target, &known.linked, linked) {
            (Some(target), _, _) => differ(target.etag.as_deref(), etag),
            (None, Some(known), Some(linked)) => known != linked,
            (None, _, _) => differ(known.etag.as_deref(), etag),
        };
        if is_changed {
            return Err(Trouble::Stop(Stop::Changed(shown(&self.segment.url))));
        }
        let or_known = |new: Option<&str>, known| new.map(str::to_owned).or(known);
        let (etag, linked) = (or_known(etag, known.etag), or_known(linked, known.linked));
        board.set_validator(self.index, Validator { etag, linked });
        Ok(())
    }

    /// What to do about a status that is an error.
    async fn refusal(&self, answer: Answer, target: Option<Target>) -> Trouble {
        self.forget_target();
        let status = answer.status().as_u16();
        let is_elsewhere = target.is_some_and(|target| target.url != self.segment.url);
        if is_elsewhere && matches!(status, 400 | 401 | 403 | 404 | 410) {
            return Trouble::Expired;
        }
        match answer.into_error().await {
            HttpError::Status { url, status: 416, .. } => {
                let why = "HTTP 416: there is no such range".to_owned();
                TransferError::Range { url, why }.into()
            }
            error => error.into(),
        }
    }

    /// The next piece of a body; `None` when all that was promised came.
    pub(super) async fn next_chunk(&self, body: &mut Body) -> Result<Option<Bytes>, Trouble> {
        if self.place.client.is_interrupted() {
            return Err(HttpError::Interrupted.into());
        }
        let chunk = body.answer.chunk().await.inspect_err(|_| self.forget_target())?;
        let left = body.end - body.position;
        match chunk {
            Some(chunk) if chunk.len() as u64 > left => {
                let why = format!("more bytes came than the {} of the answer", body.end);
                Err(TransferError::Range { url: shown(&body.answer.url), why }.into())
            }
            Some(chunk) => {
                body.position += chunk.len() as u64;
                self.place.board.add_received(chunk.len() as u64);
                Ok(Some(chunk))
            }
            None if left == 0 => Ok(None),
            None => {
                self.forget_target();
                Err(body.answer.cut("the body is shorter than declared").into())
            }
        }
    }
}

fn differ(known: Option<&str>, new: Option<&str>) -> bool {
    known.zip(new).is_some_and(|(known, new)| known != new)
}

fn head(answer: &Answer) -> Head<'_> {
    Head {
        status: answer.status().as_u16(),
        content_range: answer.header(CONTENT_RANGE.as_str()),
        content_length: answer.header(CONTENT_LENGTH.as_str()),
        content_type: answer.header(CONTENT_TYPE.as_str()),
        content_encoding: answer.header(CONTENT_ENCODING.as_str()),
        content_disposition: answer.header(CONTENT_DISPOSITION.as_str()),
    }
}

/// The headers that ask for the bytes from `start` to before `end`, if the file still has this `ETag`.
fn range_headers(start: u64, end: u64, etag: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let range = HeaderValue::try_from(format!("bytes={start}-{}", end - 1));
    headers.insert(RANGE, range.expect("digits and a dash are a header"));
    if let Some(etag) = etag.and_then(|etag| HeaderValue::try_from(etag).ok()) {
        headers.insert(IF_RANGE, etag);
    }
    headers
}

/// The sizes of all segments; those that were not declared are asked for.
pub(in super::super) fn sizes(
    client: &Client,
    segments: &[Segment],
    watch: Watch<'_>,
) -> Result<Vec<u64>, TransferError> {
    client.block_on(async {
        let mut sizes = Vec::with_capacity(segments.len());
        for segment in segments {
            sizes.push(match segment.bytes {
                Some(bytes) => bytes,
                None => size(client, &segment.url, watch).await?,
            });
        }
        Ok(sizes)
    })
}

async fn size(client: &Client, url: &Url, watch: Watch<'_>) -> Result<u64, TransferError> {
    let mut tries = Tries::new(client.patience());
    loop {
        match size_once(client, url).await {
            Err(TransferError::Http(error)) => tries.again(error, watch.retrying()).await?,
            size => return size,
        }
    }
}

/// Asks for the first byte, as the answer to that says how many there are. A body that holds more is not waited for.
async fn size_once(client: &Client, url: &Url) -> Result<u64, TransferError> {
    let answer = client.get(url, &range_headers(0, 1, None)).await?;
    let of_range = answer.header(CONTENT_RANGE.as_str()).and_then(total_of);
    let total = match answer.status().as_u16() {
        206 | 416 => of_range,
        200 => {
            let length = answer.header(CONTENT_LENGTH.as_str());
            length.and_then(|text| text.parse().ok())
        }
        _ => return Err(answer.into_error().await.into()),
    };
    total.ok_or_else(|| TransferError::SizeUnknown { url: shown(url) })
}
