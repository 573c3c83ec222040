//! Replays `tests/transcripts/<dialect>/<case>.json`: a request and the events of its answer. The reply must be
//! byte for byte that of `<case>.reply`.

use std::fs;
use std::path::{Path, PathBuf};

use frank_api::{
    Alternative, Answer, ApiError, Choice, DIALECTS, Delivery, Delta, Dialect, ErrorKind, Event,
    FinishReason, Frame, ReplyHead, Timings, TokenLogprob, Totals, Usage,
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

pub(crate) fn cases(dialect: &Dialect) -> Vec<PathBuf> {
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

pub(crate) fn replay(dialect: &Dialect, transcript: &Value) -> String {
    let body = transcript["request"].to_string();
    let request = match (dialect.parse)(body.as_bytes()) {
        Ok(request) => request,
        Err(error) => return format!("{} {}\n", error.kind.status(), (dialect.error)(&error)),
    };
    let head = ReplyHead {
        id: format!("{}0", dialect.id_prefix),
        created: 1_700_000_000,
        model: "test-model".to_owned(),
        echo: request.options().echo.clone(),
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

/// One of: `{"started": prompt tokens, "cached_tokens"}`, `{"reasoning": …}`, `{"text": …, "logprobs"}`,
/// `{"call": name, "id": …, "index"}`, `{"arguments": fragment, "index"}`, `{"finished": reason, "stop_text", "prompt_tokens", …}`,
/// `{"failed": message}`; each with `choice` where it is not 0.
fn event(value: &Value) -> Event {
    let number = |name: &str| u32::try_from(value[name].as_u64().unwrap_or(0)).expect("few");
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let (choice, index) = (number("choice"), number("index"));
    if let Some(text) = text("text") {
        let logprobs = value["logprobs"].as_array().map(|all| all.iter().map(token).collect());
        Event::Delta(Delta { choice, text, logprobs })
    } else if let Some(message) = text("failed") {
        Event::Failed(ApiError::new(ErrorKind::Internal, message))
    } else if let Some(text) = text("reasoning") {
        Event::Reasoning { choice, text }
    } else if let Some(name) = text("call") {
        let id = text("id").expect("a call has an id");
        Event::ToolCall { choice, index, id, name }
    } else if let Some(fragment) = text("arguments") {
        Event::ToolArguments { choice, index, fragment }
    } else if let Some(prompt_tokens) = value["started"].as_u64() {
        let cached_tokens = value["cached_tokens"].as_u64().unwrap_or(0);
        Event::Started(Usage { prompt_tokens, cached_tokens, ..Usage::default() })
    } else {
        let totals = value.get("prompt_tokens").map(|_| totals(value));
        Event::Finished { choice, reason: reason(value), stop_text: text("stop_text"), totals }
    }
}

fn reason(value: &Value) -> FinishReason {
    match value["finished"].as_str() {
        Some("stop") => FinishReason::Stop,
        Some("length") => FinishReason::Length,
        Some("tool_calls") => FinishReason::ToolCalls,
        other => panic!("unknown end {other:?}"),
    }
}

fn totals(value: &Value) -> Totals {
    let count = |name: &str| value[name].as_u64().unwrap_or(0);
    let usage = Usage {
        prompt_tokens: count("prompt_tokens"),
        cached_tokens: count("cached_tokens"),
        completion_tokens: count("completion_tokens"),
        reasoning_tokens: count("reasoning_tokens"),
    };
    let ms = |name: &str| value[name].as_f64().unwrap_or(0.0);
    let timings = Timings { prompt_ms: ms("prompt_ms"), completion_ms: ms("completion_ms") };
    Totals { usage, timings }
}

/// `{"token": …, "logprob": …, "offset": …, "top": [{"token": …, "logprob": …}]}`
fn token(value: &Value) -> TokenLogprob {
    let top = value["top"].as_array().expect("a token has a list of the most likely ones");
    TokenLogprob {
        token: alternative(value),
        text_offset: value["offset"].as_u64().expect("a token has a place"),
        top: top.iter().map(alternative).collect(),
    }
}

/// A token is given as a text or, where it is none, as bytes.
fn alternative(value: &Value) -> Alternative {
    let bytes = match &value["token"] {
        Value::String(text) => text.as_bytes().to_vec(),
        other => serde_json::from_value(other.clone()).expect("a token is a text or bytes"),
    };
    #[expect(clippy::cast_possible_truncation, reason = "log probabilities are f32")]
    let logprob = value["logprob"].as_f64().expect("a token has a log probability") as f32;
    Alternative { bytes, logprob }
}

fn answer(events: &[Event]) -> Answer {
    let mut choices: Vec<Choice> = Vec::new();
    for event in events {
        let index = match event {
            Event::Started(_) => continue,
            Event::Reasoning { choice, .. }
            | Event::Delta(Delta { choice, .. })
            | Event::ToolCall { choice, .. }
            | Event::ToolArguments { choice, .. }
            | Event::Finished { choice, .. } => *choice as usize,
            Event::Failed(error) => {
                panic!("a whole answer that failed has no body of its own: {error}")
            }
        };
        if choices.len() <= index {
            choices.resize(index + 1, Choice::default());
        }
        choices[index].push(event.clone());
        if let Event::Finished { totals: Some(totals), .. } = event {
            return Answer { choices, totals: *totals };
        }
    }
    panic!("the events do not finish");
}
