//! Whatever a model does, the frames of a response come in the order that clients rely on, and end with what one piece
//! would have said.

use frank_api::{
    Alternative, Answer, ApiError, Call, Choice, Delta, ErrorKind, Event, FinishReason, Frame,
    Part, ReplyHead, Run, TokenLogprob, Totals, Usage,
};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Value, json};

use crate::dialect;

/// A step of an answer: one thought, one text or one call with its fragments.
fn step() -> impl Strategy<Value = Vec<Event>> {
    let text = || "[a-zé😀\"{}]{0,5}";
    let fragments = prop_oneof![
        prop::collection::vec("[a-z\"]{1,4}", 0..4),
        Just(vec!["{\"a\"".to_owned(), ": 1}".to_owned()]),
    ];
    prop_oneof![
        "[a-zé😀]{1,5}".prop_map(|text| vec![Event::Reasoning { choice: 0, text }]),
        (text(), any::<bool>()).prop_map(|(text, told)| vec![delta(text, told)]),
        ("[a-b]", fragments).prop_map(|(name, fragments)| {
            let call = Event::ToolCall { choice: 0, index: 0, id: format!("call_{name}"), name };
            let more = fragments.into_iter().map(|fragment| Event::ToolArguments {
                choice: 0,
                index: 0,
                fragment,
            });
            std::iter::once(call).chain(more).collect()
        }),
    ]
}

fn delta(text: String, is_told: bool) -> Event {
    let token = Alternative { bytes: text.as_bytes().to_vec(), logprob: -0.5 };
    let logprobs = is_told.then(|| vec![TokenLogprob { token, text_offset: 0, top: Vec::new() }]);
    Event::Delta(Delta { choice: 0, text, logprobs })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let reasons = vec![FinishReason::Stop, FinishReason::Length, FinishReason::ToolCalls];
    (prop::collection::vec(step(), 0..7), prop::sample::select(reasons)).prop_map(
        |(steps, reason)| {
            let mut events: Vec<Event> = vec![Event::Started(Usage::default())];
            events.extend(steps.into_iter().flatten());
            // Calls are numbered.
            let mut n_calls = 0;
            for event in &mut events {
                match event {
                    Event::ToolCall { index, .. } => {
                        *index = n_calls;
                        n_calls += 1;
                    }
                    Event::ToolArguments { index, .. } => *index = n_calls - 1,
                    _ => {}
                }
            }
            let totals = Some(Totals::default());
            events.push(Event::Finished { choice: 0, reason, stop_text: None, totals });
            events
        },
    )
}

fn head(echo: Value) -> ReplyHead {
    ReplyHead { id: "resp_1".to_owned(), created: 1, model: "m".to_owned(), echo }
}

fn whole(echo: Value, events: &[Event]) -> Value {
    let mut choice = Choice::default();
    events.iter().for_each(|event| choice.push(event.clone()));
    let answer = Answer { choices: vec![choice], totals: Totals::default() };
    (dialect("responses").whole)(&head(echo), &answer)
}

fn stream(echo: Value, events: &[Event]) -> Vec<Value> {
    let mut stream = (dialect("responses").stream)(head(echo), false);
    let mut frames = stream.start();
    frames.extend(events.iter().flat_map(|event| stream.event(event)));
    frames.iter().enumerate().map(|(i, frame)| checked(i, frame)).collect()
}

/// The data of a frame, which has its name and its number.
fn checked(i: usize, frame: &Frame) -> Value {
    let data: Value = serde_json::from_str(&frame.data).expect("data is JSON");
    assert_eq!(frame.event, data["type"].as_str(), "{data}");
    assert_eq!(data["sequence_number"], i, "{data}");
    data
}

fn kind(frame: &Value) -> &str {
    frame["type"].as_str().expect("a frame has a type")
}

/// Checks the frames of one item, from the one that adds it to the one that ends it.
fn check_item(frames: &[Value], index: usize) -> Value {
    let (first, last) = (&frames[0], &frames[frames.len() - 1]);
    assert_eq!(
        (kind(first), kind(last)),
        ("response.output_item.added", "response.output_item.done")
    );
    assert_eq!(first["item"]["status"], "in_progress");
    let id = &first["item"]["id"];
    let (mut joined, mut told) = (String::new(), None);
    for frame in frames {
        assert_eq!(frame["output_index"], index, "{frame}");
        assert!(frame["item_id"].is_null() || frame["item_id"] == *id, "{frame}");
        joined.push_str(frame["delta"].as_str().unwrap_or_default());
        if let Some(text) = frame["text"].as_str().or(frame["arguments"].as_str()) {
            assert_eq!(joined, text, "the fragments are the text");
            told = Some(text.to_owned());
        }
    }
    let item = &last["item"];
    assert_eq!((&item["id"], &item["type"]), (id, &first["item"]["type"]));
    let parts = ["content", "summary"].map(|name| item[name][0]["text"].as_str());
    let text = parts[0].or(parts[1]).or(item["arguments"].as_str());
    assert_eq!(text, told.as_deref(), "{item}");
    let kinds: Vec<&str> =
        frames.iter().map(kind).filter(|kind| !kind.ends_with(".delta")).collect();
    assert_eq!(kinds, expected_kinds(item), "{item}");
    item.clone()
}

/// The frames of an item without its deltas.
fn expected_kinds(item: &Value) -> Vec<&'static str> {
    let inner: &[&str] = match item["type"].as_str() {
        Some("message") => &[
            "response.content_part.added",
            "response.output_text.done",
            "response.content_part.done",
        ],
        Some("reasoning") if item["content"] != json!([]) => &[
            "response.content_part.added",
            "response.reasoning_text.done",
            "response.content_part.done",
        ],
        Some("reasoning") => &[
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
        ],
        _ => &["response.function_call_arguments.done"],
    };
    let ends = (["response.output_item.added"], ["response.output_item.done"]);
    ends.0.iter().chain(inner).chain(&ends.1).copied().collect()
}

/// Checks the order of all frames, and gives the response of the last.
fn check_order(frames: &[Value]) -> Value {
    let last = frames.len() - 1;
    assert_eq!(kind(&frames[0]), "response.created");
    assert_eq!(kind(&frames[1]), "response.in_progress");
    assert!(frames[..2].iter().all(|frame| frame["response"]["status"] == "in_progress"));
    let mut items = Vec::new();
    let mut rest = &frames[2..last];
    while !rest.is_empty() {
        let end = rest.iter().position(|frame| kind(frame) == "response.output_item.done");
        let (item, more) = rest.split_at(end.expect("each item is done") + 1);
        items.push(check_item(item, items.len()));
        rest = more;
    }
    let response = &frames[last]["response"];
    assert_eq!(
        response["output"],
        Value::from(items),
        "the last frame has the items as they were done"
    );
    let status = response["status"].as_str().expect("it has a status");
    assert_eq!(kind(&frames[last]), format!("response.{status}"));
    response.clone()
}

proptest! {
    #[test]
    fn each_item_is_done_before_the_next_and_the_end_says_what_one_piece_says(
        events in events(),
        summary in any::<bool>(),
        sealed in any::<bool>(),
    ) {
        let repeated = json!({"metadata": {"a": "b"}});
        let namespaced = json!({"a": {"name": "x", "namespace": "y"}});
        let echo = json!({"repeated": repeated, "namespaced": namespaced, "tells_summary": summary, "tells_sealed": sealed});
        let response = check_order(&stream(echo.clone(), &events));
        assert_eq!(response, whole(echo, &events));
    }

    #[test]
    fn a_failure_at_any_time_is_told_and_ends_the_response(events in events(), at in any::<prop::sample::Index>()) {
        let mut events = events;
        events.truncate(at.index(events.len()));
        events.push(Event::Failed(ApiError::new(ErrorKind::Internal, "no more")));
        let frames = stream(Value::Null, &events);
        let [.., error, failed] = &frames[..] else { panic!("two frames at least") };
        assert_eq!((kind(error), kind(failed)), ("error", "response.failed"));
        assert_eq!(failed["response"]["status"], "failed");
        assert_eq!(failed["response"]["error"]["message"], error["message"]);
    }
}

#[test]
fn a_call_that_is_whole_stays_so_when_the_answer_is_cut_after_it() {
    let call = |fragment: &str| {
        let id = "call_1".to_owned();
        let call = Event::ToolCall { choice: 0, index: 0, id, name: "f".to_owned() };
        let fragment = fragment.to_owned();
        let arguments = Event::ToolArguments { choice: 0, index: 0, fragment };
        let (reason, totals) = (FinishReason::Length, Some(Totals::default()));
        let end = Event::Finished { choice: 0, reason, stop_text: None, totals };
        whole(Value::Null, &[call, arguments, end])["output"][0]["status"].clone()
    };
    assert_eq!(call("{}"), "completed");
    assert_eq!(call("{"), "incomplete");
}

#[test]
fn thoughts_that_a_response_sealed_are_read_again() {
    let thought = Event::Reasoning { choice: 0, text: "Hm.".to_owned() };
    let item =
        whole(json!({"tells_summary": true, "tells_sealed": true}), &[thought])["output"][0].take();
    let body = json!({"input": [item, {"role": "assistant", "content": "a"}]});
    let parsed = (dialect("responses").parse)(body.to_string().as_bytes()).expect("it is taken");
    let frank_api::ApiRequest::Chat(request) = parsed else { panic!("it is a chat") };
    assert_eq!(request.conversation.messages[0].reasoning.as_deref(), Some("Hm."));
}

#[test]
fn a_choice_that_no_events_made_is_thoughts_text_and_calls() {
    let call = Call { id: "call_1".to_owned(), name: "f".to_owned(), arguments: "{}".to_owned() };
    let choice = |runs: Vec<Run>| Choice {
        reasoning: "t".to_owned(),
        text: "a".to_owned(),
        calls: vec![call.clone()],
        runs,
        ..Choice::default()
    };
    let text = Part::Text { text: "a", logprobs: None };
    let expected = [Part::Reasoning("t"), text, Part::Call(&call)];
    assert_eq!(choice(Vec::new()).parts(), expected);
    // These cut something else.
    assert_eq!(choice(vec![Run::Reasoning { bytes: 9 }]).parts(), expected);
    assert_eq!(choice(vec![Run::Call]).parts(), expected);
}
