//! Streams of the Messages dialect keep their order and say the same as a message in one piece.

use frank_api::{
    Answer, ApiError, Choice, Delta, ErrorKind, Event, FinishReason, Frame, ReplyHead, Timings,
    Totals, Usage,
};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Value, json};

use crate::dialect;
use crate::messages::{body_with, parse};

const TOTALS: Totals = Totals {
    usage: Usage { prompt_tokens: 12, cached_tokens: 8, completion_tokens: 5, reasoning_tokens: 2 },
    timings: Timings { prompt_ms: 1.0, completion_ms: 1.0 },
};

fn head() -> ReplyHead {
    ReplyHead { id: "msg_0".to_owned(), created: 0, model: "m".to_owned(), echo: Value::Null }
}

/// The head of a reply to a client that wants to see nothing of what the model thinks, or to another one.
fn head_of(hides_thinking: bool) -> ReplyHead {
    let display = if hides_thinking { "omitted" } else { "summarized" };
    let body = body_with(json!({"thinking": {"type": "adaptive", "display": display}}));
    ReplyHead { echo: parse(&body).expect("it is taken").options.echo, ..head() }
}

fn frames(head: ReplyHead, events: &[Event]) -> Vec<Frame> {
    let mut stream = (dialect("messages").stream)(head, true);
    let mut frames = stream.start();
    frames.extend(events.iter().flat_map(|event| stream.event(event)));
    frames
}

fn whole(head: &ReplyHead, events: &[Event]) -> Value {
    let mut choice = Choice::default();
    events.iter().for_each(|event| choice.push(event.clone()));
    (dialect("messages").whole)(head, &Answer { choices: vec![choice], totals: TOTALS })
}

/// Puts a stream together as clients do, and checks on the way what they rely on.
#[derive(Default)]
struct Client {
    message: Value,
    /// The content so far, and the arguments of each block.
    blocks: Vec<(Value, String)>,
    is_open: bool,
    has_ended: bool,
}

impl Client {
    fn take(&mut self, frame: &Frame) {
        let data: Value = serde_json::from_str(&frame.data).expect("the data is JSON");
        assert_eq!(frame.event, data["type"].as_str(), "the name of the event is its type");
        assert!(!self.has_ended, "nothing follows the end: {data}");
        match frame.event.expect("each event has a name") {
            "message_start" => {
                assert!(self.message.is_null(), "a message begins once");
                assert_eq!(data["message"]["content"], json!([]));
                assert!(data["message"]["stop_reason"].is_null());
                self.message = data["message"].clone();
            }
            _ if self.message.is_null() => panic!("the message has not begun: {data}"),
            "ping" => {}
            "content_block_start" => self.start(&data),
            "content_block_delta" => self.delta(&data),
            "content_block_stop" => self.stop(&data),
            "message_delta" => self.end(&data),
            "message_stop" => self.has_ended = true,
            other => panic!("no such event: {other}"),
        }
    }

    fn start(&mut self, data: &Value) {
        assert!(!self.is_open, "a block begins in another: {data}");
        assert_eq!(data["index"], self.blocks.len(), "indexes rise by one: {data}");
        self.is_open = true;
        self.blocks.push((data["content_block"].clone(), String::new()));
    }

    fn delta(&mut self, data: &Value) {
        assert!(self.is_open && data["index"] == self.blocks.len() - 1, "no such block: {data}");
        let (block, arguments) = self.blocks.last_mut().expect("a block is open");
        let delta = &data["delta"];
        let mut add = |kind: &str, field: &str| {
            assert_eq!(block["type"], kind, "{data}");
            let more = delta[field].as_str().expect("a delta is a text");
            block[field] = format!("{}{more}", block[field].as_str().expect("it is a text")).into();
        };
        match delta["type"].as_str().expect("a delta has a type") {
            "text_delta" => add("text", "text"),
            "thinking_delta" => add("thinking", "thinking"),
            "signature_delta" => add("thinking", "signature"),
            "input_json_delta" => {
                assert_eq!(block["type"], "tool_use", "{data}");
                arguments.push_str(delta["partial_json"].as_str().expect("a text"));
            }
            other => panic!("no such delta: {other}"),
        }
    }

    fn stop(&mut self, data: &Value) {
        assert!(self.is_open && data["index"] == self.blocks.len() - 1, "no such block: {data}");
        self.is_open = false;
        let (block, arguments) = self.blocks.last_mut().expect("a block was open");
        if block["type"] == "tool_use" {
            block["input"] = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        }
    }

    fn end(&mut self, data: &Value) {
        assert!(!self.is_open, "all blocks are ended before the message");
        self.message["content"] = self.blocks.iter().map(|(block, _)| block.clone()).collect();
        for (name, value) in data["delta"].as_object().expect("it is an object") {
            self.message[name] = value.clone();
        }
        for (name, value) in data["usage"].as_object().expect("it is an object") {
            self.message["usage"][name] = value.clone();
        }
    }
}

fn assembled(head: ReplyHead, events: &[Event]) -> Client {
    let mut client = Client::default();
    frames(head, events).iter().for_each(|frame| client.take(frame));
    client
}

/// What of an answer follows each other in any order.
#[derive(Clone, Debug)]
enum Piece {
    Reasoning(String),
    Text(String),
    /// The fragments of the arguments.
    Call(Vec<String>),
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), Just("é\n\"😀".to_owned())]
}

/// The arguments of a call, cut into fragments. An answer of the model may begin them with space.
fn arguments() -> impl Strategy<Value = Vec<String>> {
    let object = prop::collection::btree_map(any::<String>(), text(), 0..3);
    (object, 1_usize..5).prop_map(|(object, n)| {
        let text = format!(" {}", json!(object));
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(chars.len().div_ceil(n)).map(|chunk| chunk.iter().collect()).collect()
    })
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        text().prop_map(Piece::Reasoning),
        text().prop_map(Piece::Text),
        arguments().prop_map(Piece::Call),
        Just(Piece::Call(Vec::new())),
    ];
    prop::collection::vec(piece, 0..12)
}

fn end() -> impl Strategy<Value = (FinishReason, Option<String>)> {
    prop_oneof![
        Just((FinishReason::Stop, None)),
        Just((FinishReason::Stop, Some("END".to_owned()))),
        Just((FinishReason::Length, None)),
        Just((FinishReason::ToolCalls, None)),
    ]
}

fn events(pieces: Vec<Piece>, end: (FinishReason, Option<String>), announced: bool) -> Vec<Event> {
    let mut n_calls = 0;
    let mut events = Vec::new();
    if announced {
        let usage = Usage { completion_tokens: 0, reasoning_tokens: 0, ..TOTALS.usage };
        events.push(Event::Started(usage));
    }
    for piece in pieces {
        match piece {
            Piece::Reasoning(text) => events.push(Event::Reasoning { choice: 0, text }),
            Piece::Text(text) => events.push(Event::Delta(Delta { text, ..Delta::default() })),
            Piece::Call(fragments) => {
                let (index, id) = (n_calls, format!("toolu_{n_calls}"));
                n_calls += 1;
                events.push(Event::ToolCall { choice: 0, index, id, name: "f".to_owned() });
                let more = |fragment| Event::ToolArguments { choice: 0, index, fragment };
                events.extend(fragments.into_iter().map(more));
            }
        }
    }
    let (reason, stop_text) = end;
    events.push(Event::Finished { choice: 0, reason, stop_text, totals: Some(TOTALS) });
    events
}

proptest! {
    #[test]
    fn a_stream_keeps_its_order_and_becomes_the_whole_message(
        pieces in pieces(),
        end in end(),
        announced in any::<bool>(),
        hides_thinking in any::<bool>(),
    ) {
        let events = events(pieces, end, announced);
        let head = head_of(hides_thinking);
        let client = assembled(head.clone(), &events);
        assert!(client.has_ended);
        assert_eq!(client.message, whole(&head, &events));
    }

    #[test]
    fn fragments_join_to_exactly_the_arguments(fragments in arguments()) {
        let pieces = vec![Piece::Call(fragments.clone()), Piece::Call(Vec::new())];
        let client = assembled(head(), &events(pieces, (FinishReason::ToolCalls, None), true));
        assert_eq!(client.blocks[0].1, fragments.concat());
        assert_eq!(client.blocks[1].1, "{}");
    }

    #[test]
    fn a_call_that_is_cut_off_is_never_one_to_run(
        fragments in arguments(),
        n_kept in 0_usize..40,
        reason in prop::sample::select(vec![
            FinishReason::Length,
            FinishReason::ToolCalls,
            FinishReason::Stop,
        ]),
    ) {
        let text = fragments.concat();
        let kept: String = text.chars().take(n_kept.clamp(1, text.chars().count() - 1)).collect();
        let events = events(vec![Piece::Call(vec![kept.clone()])], (reason, None), true);
        let (client, whole) = (assembled(head(), &events), whole(&head(), &events));
        assert_eq!(whole["stop_reason"], "max_tokens");
        assert_eq!(whole["content"][0]["input"], json!({}));
        assert_eq!(client.blocks[0].1, kept);
        assert_eq!(client.message, whole);
    }

    #[test]
    fn an_answer_that_fails_ends_with_an_error(pieces in pieces()) {
        let mut events = events(pieces, (FinishReason::Stop, None), true);
        events.pop();
        events.push(Event::Failed(ApiError::new(ErrorKind::Internal, "a step failed")));
        let mut frames = frames(head(), &events);
        let last = frames.pop().expect("the error");
        assert_eq!(last.event, Some("error"));
        let data: Value = serde_json::from_str(&last.data).expect("the data is JSON");
        let error = json!({"type": "api_error", "message": "a step failed"});
        let expected = json!({"type": "error", "error": error});
        assert_eq!(data, expected);
        let mut client = Client::default();
        frames.iter().for_each(|frame| client.take(frame));
        assert!(!client.has_ended);
    }
}

#[test]
fn a_long_silence_is_filled_with_pings_once_the_message_has_begun() {
    let mut stream = (dialect("messages").stream)(head(), true);
    assert!(stream.start().is_empty() && stream.idle().is_none());
    stream.event(&Event::Started(Usage::default()));
    let ping = stream.idle().expect("a ping");
    assert_eq!((ping.event, ping.data.as_str()), (Some("ping"), "{\"type\":\"ping\"}"));
}
