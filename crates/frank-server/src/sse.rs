//! Server-sent events: frames of a dialect become bytes, and silence becomes comments.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use frank_api::{Frame, ReplyStream};
use futures_util::stream;
use tokio::time::timeout;

use crate::answer_events::AnswerEvents;
use crate::app::App;
use crate::under_way::AnswerUnderWay;

/// A comment, which clients skip.
const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// The response that streams `events` in the words of `reply`. Dropping it cancels the answer.
pub(crate) fn response(
    app: Arc<App>,
    reply: Box<dyn ReplyStream>,
    events: AnswerEvents,
    under_way: AnswerUnderWay,
) -> Response {
    let state = Stream { app, reply, events, place: Place::Start, _under_way: under_way };
    let body = Body::from_stream(stream::unfold(state, |mut state| async {
        let bytes = state.next().await?;
        Some((Ok::<_, Infallible>(bytes), state))
    }));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that buffer would turn the stream into one piece.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Stream {
    app: Arc<App>,
    reply: Box<dyn ReplyStream>,
    events: AnswerEvents,
    place: Place,
    _under_way: AnswerUnderWay,
}

enum Place {
    Start,
    Middle,
    End,
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        match self.place {
            Place::Start => {
                self.place = Place::Middle;
                let frames = self.reply.start();
                // A dialect without a first frame has nothing to send before the first event.
                if frames.is_empty() { self.after_event().await } else { Some(bytes_of(&frames)) }
            }
            Place::Middle => self.after_event().await,
            Place::End => None,
        }
    }

    async fn after_event(&mut self) -> Option<Bytes> {
        let Ok(event) = timeout(self.app.keep_alive, self.events.next(&self.app)).await else {
            let comment = || Bytes::from_static(KEEP_ALIVE.as_bytes());
            return Some(self.reply.idle().map_or_else(comment, |frame| bytes_of(&[frame])));
        };
        if event.is_last() {
            self.place = Place::End;
        }
        Some(bytes_of(&self.reply.event(&event)))
    }
}

fn bytes_of(frames: &[Frame]) -> Bytes {
    let mut text = String::new();
    for frame in frames {
        if let Some(event) = frame.event {
            text.extend(["event: ", event, "\n"]);
        }
        // Some clients take these for the end of a line. In JSON they stand in strings only.
        let data = frame.data.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        let data = data.replace('\u{85}', "\\u0085");
        text.extend(["data: ", &data, "\n\n"]);
    }
    text.into()
}
