//! Asks for a range of a segment, and makes sure that what comes is of the file that was begun. Never writes.

use bytes::Bytes;
use hyper::header::{
    CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    HeaderMap, HeaderValue, IF_RANGE, LAST_MODIFIED, RANGE,
};
use url::Url;

use crate::http::{Answer, Client, HttpError, Tries, shown};

use super::super::range_map::Validator;
use super::super::reply::{Asked, Head, Verdict, judge, names_another, total_of};
use super::super::state::State;
use super::super::{Notice, Segment, TransferError, Watch};
use super::{Feed, Stop, Trouble};

/// Where the last answer came from. It is asked again without the redirects before it, until it refuses: the addresses
/// that a hub redirects to are good for a while only.
#[derive(Debug, Clone)]
pub(super) struct Target {
    url: Url,
    /// That of the file, as its answers say it.
    state: State,
}

/// The body of an answer, and which bytes of the segment it is.
pub(in super::super) struct Body {
    answer: Answer,
    /// The next byte that comes.
    position: u64,
    /// One past the last byte that is promised.
    end: u64,
    /// Whether it was said to be the whole segment.
    is_whole: bool,
}

impl Feed<'_> {
    /// Asks for the bytes from `start` to before `end`; the body may hold fewer.
    pub(super) async fn ask(&self, start: u64, end: u64) -> Result<Body, Trouble> {
        let target = self.target.borrow().clone();
        let (url, state) = match &target {
            Some(target) => (&target.url, target.state.clone()),
            None => (&self.segment.url, self.known_state()),
        };
        let headers = range_headers(start, end, state.if_range());
        let answer = self.place.client.get(url, &headers).await;
        let answer = answer.inspect_err(|_| self.forget_target())?;
        let total = self.bytes();
        let verdict = judge(&head(&answer), Asked { start, end, total });
        self.check_file(&answer, &verdict, target.as_ref())?;
        match verdict {
            Verdict::Part { end } => Ok(self.accept(answer, target, start, end)),
            Verdict::Whole if start == 0 && end == total => {
                Ok(self.accept(answer, target, 0, total))
            }
            Verdict::Whole => {
                let body = self.accept(answer, target, 0, total);
                Err(Trouble::Stop(Stop::Whole(Box::new(body))))
            }
            Verdict::Refused => Err(self.refusal(answer, target).await),
            unusable => Err(self.trouble(unusable, shown(&answer.url))),
        }
    }

    /// Makes sure that an answer is of the file that was listed and begun, unless it is no answer at all.
    fn check_file(
        &self,
        answer: &Answer,
        verdict: &Verdict,
        target: Option<&Target>,
    ) -> Result<(), Trouble> {
        if *verdict == Verdict::Refused {
            return Ok(());
        }
        let is_of_size = !matches!(verdict, Verdict::Size { .. });
        if is_of_size && names_another(answer.linked_etag.as_deref(), self.segment.digest) {
            return Err(TransferError::Changed { url: shown(&self.segment.url) }.into());
        }
        self.check_state(answer, target)
    }

    /// What an answer means whose body is of no use.
    fn trouble(&self, verdict: Verdict, url: String) -> Trouble {
        match verdict {
            Verdict::Size { .. } if self.segment.bytes.is_none() => {
                Trouble::Stop(Stop::Changed(url))
            }
            Verdict::Size { got } => TransferError::Size { url, got, want: self.bytes() }.into(),
            Verdict::WebPage => HttpError::WebPage { url }.into(),
            Verdict::Odd { why } => TransferError::Range { url, why }.into(),
            Verdict::Part { .. } | Verdict::Whole | Verdict::Refused => {
                unreachable!("the caller has taken the body, or the refusal")
            }
        }
    }

    /// Bytes of the segment.
    fn bytes(&self) -> u64 {
        self.place.board.layout().segments()[self.index].bytes
    }

    /// The condition of the first request: where a redirect decides what the file is, its target may call it otherwise.
    fn known_state(&self) -> State {
        let known = self.place.board.validator(self.index);
        if known.linked.is_none() { known.state } else { State::default() }
    }

    /// What an answer says of the state of the file. Servers that share a file may have it from different times, so these
    /// count only where no digest would tell two states apart.
    fn state_of(&self, answer: &Answer) -> State {
        let modified = answer.header(LAST_MODIFIED.as_str());
        let modified = modified.filter(|_| self.segment.digest.is_none());
        State::of(answer.header(ETAG.as_str()), modified, answer.header(DATE.as_str()))
    }

    fn forget_target(&self) {
        self.target.replace(None);
    }

    /// Takes an answer of the place that was asked, and remembers where it came from.
    fn accept(&self, answer: Answer, asked: Option<Target>, start: u64, end: u64) -> Body {
        let known = asked.map(|asked| asked.state).unwrap_or_default();
        let state = self.state_of(&answer).or(known);
        self.target.replace(Some(Target { url: answer.url.clone(), state }));
        let is_whole = answer.status().as_u16() == 200;
        Body { answer, position: start, end, is_whole }
    }

    /// Makes sure that the answer is of the file that was begun, and remembers what the source calls it.
    fn check_state(&self, answer: &Answer, target: Option<&Target>) -> Result<(), Trouble> {
        let (board, linked) = (self.place.board, answer.linked_etag.as_deref());
        let state = self.state_of(answer);
        let known = board.validator(self.index);
        let is_changed = match (target, &known.linked, linked) {
            (Some(target), _, _) => target.state.differs(&state),
            (None, Some(known), Some(linked)) => known != linked,
            (None, _, _) => known.state.differs(&state),
        };
        if is_changed {
            return Err(Trouble::Stop(Stop::Changed(shown(&self.segment.url))));
        }
        let linked = linked.map(str::to_owned).or(known.linked);
        board.set_validator(self.index, Validator { state: state.or(known.state), linked });
        Ok(())
    }

    /// Tells, once, of a file that nothing marks.
    pub(super) fn tell_of_marks(&self) {
        let known = self.place.board.validator(self.index);
        let is_unmarked = self.segment.digest.is_none() && known == Validator::default();
        if is_unmarked && !self.is_told.replace(true) {
            (self.place.watch.notice)(&Notice::Unmarked { url: shown(&self.segment.url) });
        }
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
            Some(chunk) if chunk.len() as u64 > left => Err(self.too_long(body)),
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

    /// What a body is that goes on behind its promised end. Without a digest nothing else would tell of a file that is longer
    /// than was told before.
    fn too_long(&self, body: &Body) -> Trouble {
        let url = shown(&body.answer.url);
        if body.is_whole && self.segment.digest.is_none() {
            return Trouble::Stop(Stop::Changed(url));
        }
        let why = format!("more bytes came than the {} of the answer", body.end);
        TransferError::Range { url, why }.into()
    }
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

/// The headers that ask for the bytes from `start` to before `end`, if the file is still in this state.
fn range_headers(start: u64, end: u64, state: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let range = HeaderValue::try_from(format!("bytes={start}-{}", end - 1));
    headers.insert(RANGE, range.expect("digits and a dash are a header"));
    if let Some(state) = state.and_then(|state| HeaderValue::try_from(state).ok()) {
        headers.insert(IF_RANGE, state);
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
    let mut tries = Tries::first_contact(client.patience());
    let tell = |delay: &_| watch.delayed(delay);
    loop {
        match client.watched(url, &tell, size_once(client, url)).await {
            Err(TransferError::Http(error)) => tries.again(error, tell).await?,
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
