//! Replays `tests/transcripts/<dialect>/<case>.json`: a request and the events of its answer. The reply must be
//! byte for byte that of `<case>.reply`.

use std::fs;
use std::path::{Path, PathBuf};

use frank_api::{
    Answer, ApiError, DIALECTS, Delivery, Dialect, ErrorKind, Event, FinishReason, Frame,
    ReplyHead, Usage,
};
use serde_json::Value;

#[test]
fn every_transcript_of_every_dialect_gives_its_exact_reply() {
    for dialect in DIALECTS {
        let cases = cases(dialect);
        assert!(!cases.is_empty(), "no transcript of {}", dialect.name);
        for case in cases {
            check(dialect, &case);
        }
    }
}

fn cases(dialect: &Dialect) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(dialect.name);
    let files = fs::read_dir(&folder).expect("each dialect has a folder of transcripts");
    let paths = files.map(|file| file.expect("the folder can be read").path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    paths
}

fn check(dialect: &Dialect, case: &Path) {
    let text = fs::read_to_string(case).expect("the case can be read");
    let transcript: Value = serde_json::from_str(&text).expect("the case is JSON");
    let version = concat!("frank-", env!("CARGO_PKG_VERSION"));
    let reply = replay(dialect, &transcript).replace(version, "frank-VERSION");
    let path = case.with_extension("reply");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &reply).expect("the reply can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        reply == expected,
        "{} differs; compare, or write it anew with: UPDATE=1 cargo test -p frank-api\n{reply}",
        path.display()
    );
}

fn replay(dialect: &Dialect, transcript: &Value) -> String {
    let body = transcript["request"].to_string();
    let request = match (dialect.parse)(body.as_bytes()) {
        Ok(request) => request,
        Err(error) => return format!("{} {}\n", error.kind.status(), (dialect.error)(&error)),
    };
    let head = ReplyHead {
        id: format!("{}0", dialect.id_prefix),
        created: 1_700_000_000,
        model: "test-model".to_owned(),
    };
    let events: Vec<Event> =
        transcript["events"].as_array().expect("events are a list").iter().map(event).collect();
    match request.options().delivery {
        Delivery::Whole => format!("200 {:#}\n", (dialect.whole)(&head, &answer(&events))),
        Delivery::Stream { usage } => {
            let mut stream = (dialect.stream)(head, usage);
            let mut frames = stream.start();
            frames.extend(events.iter().flat_map(|event| stream.event(event)));
            frames.iter().map(frame_text).collect()
        }
    }
}

fn frame_text(frame: &Frame) -> String {
    let name = frame.event.map(|event| format!("event: {event}\n")).unwrap_or_default();
    format!("{name}data: {}\n\n", frame.data)
}

fn event(value: &Value) -> Event {
    if let Some(text) = value["text"].as_str() {
        return Event::Text(text.to_owned());
    }
    if let Some(message) = value["failed"].as_str() {
        return Event::Failed(ApiError::new(ErrorKind::Internal, message));
    }
    let reason = match value["finished"].as_str() {
        Some("stop") => FinishReason::Stop,
        Some("length") => FinishReason::Length,
        other => panic!("unknown end {other:?}"),
    };
    let count = |name: &str| value[name].as_u64().expect("a finished event has token counts");
    let usage = Usage {
        prompt_tokens: count("prompt_tokens"),
        completion_tokens: count("completion_tokens"),
    };
    Event::Finished { reason, usage }
}

fn answer(events: &[Event]) -> Answer {
    let mut text = String::new();
    for event in events {
        match event {
            Event::Text(more) => text.push_str(more),
            Event::Finished { reason, usage } => {
                return Answer { text, reason: *reason, usage: *usage };
            }
            Event::Failed(error) => {
                panic!("a whole answer that failed has no body of its own: {error}")
            }
        }
    }
    panic!("the events do not finish");
}
