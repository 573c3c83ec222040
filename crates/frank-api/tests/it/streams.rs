//! Any answer, told in frames and put together again as clients do it, is the answer that is told whole.

use frank_api::{
    Answer, Choice, Delta, Event, FinishReason, Frame, ReplyHead, Timings, Totals, Usage,
};
use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use crate::dialect;

/// A piece of a choice, before it has a place in an answer.
#[derive(Clone, Debug)]
enum Piece {
    Reasoning(String),
    Text(String),
    /// Name and arguments, cut into fragments.
    Call(String, Vec<String>),
}

fn piece() -> impl Strategy<Value = Piece> {
    let text = || "\\PC{1,6}";
    prop_oneof![
        text().prop_map(Piece::Reasoning),
        text().prop_map(Piece::Text),
        ("[a-z]{1,5}", fragments()).prop_map(|(name, cut)| Piece::Call(name, cut)),
    ]
}

/// Arguments, cut anywhere.
fn fragments() -> impl Strategy<Value = Vec<String>> {
    let arguments = prop::collection::btree_map("\\PC{0,4}", "\\PC{0,8}", 0..4)
        .prop_map(|map| serde_json::to_string(&map).expect("texts are JSON"));
    (arguments, prop::collection::vec(any::<prop::sample::Index>(), 0..5)).prop_map(
        |(arguments, cuts)| {
            let mut cuts: Vec<usize> = cuts
                .iter()
                .map(|cut| arguments.floor_char_boundary(cut.index(arguments.len())))
                .chain([0, arguments.len()])
                .collect();
            cuts.sort_unstable();
            cuts.dedup();
            cuts.windows(2).map(|cut| arguments[cut[0]..cut[1]].to_owned()).collect()
        },
    )
}

/// The events of one choice, with its end.
fn events_of(choice: u32, pieces: Vec<Piece>) -> Vec<Event> {
    let mut n_calls = 0;
    let mut events = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Reasoning(text) => events.push(Event::Reasoning { choice, text }),
            Piece::Text(text) => events.push(Event::Delta(Delta { choice, text, logprobs: None })),
            Piece::Call(name, cut) => {
                let (index, id) = (n_calls, format!("call_{choice}_{n_calls}"));
                n_calls += 1;
                events.push(Event::ToolCall { choice, index, id, name });
                let fragments = cut.into_iter();
                events.extend(fragments.map(|fragment| Event::ToolArguments {
                    choice,
                    index,
                    fragment,
                }));
            }
        }
    }
    let reason = if n_calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop };
    events.push(Event::Finished { choice, reason, stop_text: None, totals: None });
    events
}

/// The events of several choices, mixed in the order that `turns` says. The last has the totals.
fn mixed(choices: Vec<Vec<Piece>>, turns: &[prop::sample::Index], totals: Totals) -> Vec<Event> {
    let numbered = (0..).zip(choices);
    let mut left: Vec<_> =
        numbered.map(|(choice, pieces)| events_of(choice, pieces).into_iter().peekable()).collect();
    let mut events = Vec::new();
    let mut turns = turns.iter().cycle();
    while !left.is_empty() {
        let turn = turns.next().map_or(0, |turn| turn.index(left.len()));
        events.extend(left[turn].next());
        if left[turn].peek().is_none() {
            drop(left.remove(turn));
        }
    }
    if let Some(Event::Finished { totals: last, .. }) = events.last_mut() {
        *last = Some(totals);
    }
    events
}

fn answer_of(events: &[Event], n_choices: usize, totals: Totals) -> Answer {
    let mut choices = vec![Choice::default(); n_choices];
    for event in events {
        let choice = match event {
            Event::Reasoning { choice, .. }
            | Event::Delta(Delta { choice, .. })
            | Event::ToolCall { choice, .. }
            | Event::ToolArguments { choice, .. }
            | Event::Finished { choice, .. } => *choice as usize,
            Event::Started(_) | Event::Failed(_) => continue,
        };
        choices[choice].push(event.clone());
    }
    Answer { choices, totals }
}

/// Puts the chunks of a chat together, in the way of OpenAI's own clients, and gives the choices.
fn put_together(frames: &[Frame], n_choices: usize) -> Vec<Value> {
    let mut choices = vec![json!({"message": {"content": ""}}); n_choices];
    let (done, chunks) = frames.split_last().expect("a stream has frames");
    assert_eq!(done.data, "[DONE]");
    for chunk in chunks {
        let chunk: Value = serde_json::from_str(&chunk.data).expect("a chunk is JSON");
        for part in chunk["choices"].as_array().expect("a chunk has choices") {
            let index = part["index"].as_u64().expect("a choice has an index");
            let choice = &mut choices[usize::try_from(index).expect("few")];
            assert!(choice["finish_reason"].is_null(), "a choice ends once and last: {chunk}");
            let delta = part["delta"].as_object().expect("a choice has a delta");
            add_delta(&mut choice["message"], delta);
            choice["finish_reason"] = part["finish_reason"].clone();
        }
    }
    choices
}

fn add_delta(message: &mut Value, delta: &Map<String, Value>) {
    for (key, value) in delta {
        match (key.as_str(), value) {
            ("tool_calls", Value::Array(calls)) => {
                calls.iter().for_each(|call| add_call(message, call));
            }
            ("role", role) => {
                assert!(message["role"].is_null(), "the role is told once");
                message["role"] = role.clone();
            }
            (_, Value::String(more)) => {
                assert!(!message["role"].is_null(), "the role comes first");
                let old = message[key].as_str().unwrap_or_default();
                message[key] = format!("{old}{more}").into();
            }
            other => panic!("no client knows {other:?}"),
        }
    }
}

/// The first delta of a call tells all but its arguments; the others nothing else.
fn add_call(message: &mut Value, delta: &Value) {
    if message["tool_calls"].is_null() {
        message["tool_calls"] = json!([]);
    }
    let calls = message["tool_calls"].as_array_mut().expect("it is a list");
    let index = usize::try_from(delta["index"].as_u64().expect("an index")).expect("few");
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect();
    let (outer, inner): (Vec<String>, Vec<String>) = (keys(delta), keys(&delta["function"]));
    if index == calls.len() {
        assert_eq!(outer, ["index", "id", "type", "function"]);
        assert_eq!(
            (inner, &delta["function"]["arguments"]),
            (vec!["name".to_owned(), "arguments".to_owned()], &json!(""))
        );
        let mut call = delta.clone();
        call.as_object_mut().expect("it is an object").remove("index");
        calls.push(call);
    } else {
        assert_eq!(
            (index, outer),
            (calls.len() - 1, vec!["index".to_owned(), "function".to_owned()])
        );
        assert_eq!(inner, ["arguments"]);
        let arguments = &mut calls[index]["function"]["arguments"];
        let more = delta["function"]["arguments"].as_str().expect("a text");
        *arguments = format!("{}{more}", arguments.as_str().expect("a text")).into();
    }
}

/// What a client knows of the choices of a whole answer.
fn known(whole: &Value) -> Vec<Value> {
    let choices = whole["choices"].as_array().expect("a list").iter();
    choices
        .map(|choice| {
            let mut message = choice["message"].clone();
            message.as_object_mut().expect("an object").remove("refusal");
            if message["content"].is_null() {
                message["content"] = "".into();
            }
            json!({"message": message, "finish_reason": choice["finish_reason"]})
        })
        .collect()
}

proptest! {
    #[test]
    fn the_chunks_of_a_chat_put_together_are_the_whole_message(
        choices in prop::collection::vec(prop::collection::vec(piece(), 0..6), 1..4),
        turns in prop::collection::vec(any::<prop::sample::Index>(), 1..9),
        usage in any::<bool>(),
    ) {
        let dialect = dialect("openai_chat");
        let head = ReplyHead { id: "id".to_owned(), created: 1, model: "m".to_owned(), echo: Value::Null };
        let totals = Totals { usage: Usage { prompt_tokens: 9, ..Usage::default() }, timings: Timings::default() };
        let n_choices = choices.len();
        let events = mixed(choices, &turns, totals);
        let answer = answer_of(&events, n_choices, totals);
        let whole = (dialect.whole)(&head, &answer);
        let mut stream = (dialect.stream)(head, usage);
        let mut frames = stream.start();
        frames.extend(events.iter().flat_map(|event| stream.event(event)));
        assert_eq!(put_together(&frames, n_choices), known(&whole));
        for (choice, whole) in answer.choices.iter().zip(known(&whole)) {
            for (call, told) in choice.calls.iter().zip(whole["message"]["tool_calls"].as_array().into_iter().flatten()) {
                assert_eq!(told["function"]["arguments"], call.arguments);
                assert!(serde_json::from_str::<Value>(&call.arguments).is_ok_and(|value| value.is_object()));
            }
        }
    }
}
