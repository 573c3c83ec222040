//! Whatever clients say in whatever order: a conversation that templates take, or a 400 that names the place.

use frank_api::ErrorKind;
use frank_chat::Role;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Value, json};

use crate::messages::{body_with, parse};

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "x-anthropic-billing-header: v=1", "Words."])
        .prop_map(str::to_owned)
}

/// Blocks that some message may have, and one that is nowhere taken.
fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => word().prop_map(|text| json!({"type": "text", "text": text})),
        4 => word().prop_map(|id| json!({"type": "tool_use", "id": id, "name": "f", "input": {}})),
        4 => (word(), word()).prop_map(|(id, text)| {
            json!({"type": "tool_result", "tool_use_id": id, "content": text})
        }),
        2 => word().prop_map(|text| json!({"type": "thinking", "thinking": text, "signature": "s"})),
        1 => Just(json!({"type": "redacted_thinking", "data": "x"})),
        1 => Just(json!({"type": "image"})),
    ]
}

/// A message whose blocks belong to its writer, mostly.
fn message() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(vec!["user", "user", "assistant", "assistant", "system"]);
    let blocks = prop::collection::vec(block(), 0..5);
    (role, blocks, any::<bool>()).prop_map(|(role, mut blocks, is_careless)| {
        let belongs = |block: &Value| match block["type"].as_str() {
            Some("text") => true,
            Some("tool_result") => role == "user",
            Some("tool_use" | "thinking" | "redacted_thinking") => role == "assistant",
            _ => false,
        };
        if !is_careless {
            blocks.retain(belongs);
        }
        json!({"role": role, "content": blocks})
    })
}

proptest! {
    #[test]
    fn no_two_messages_of_one_writer_follow_each_other(
        system in prop::option::of(word()),
        messages in prop::collection::vec(message(), 0..8),
    ) {
        let body = body_with(json!({"system": system, "messages": messages}));
        let request = match parse(&body) {
            Ok(request) => request,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::InvalidRequest, "{body}: {error}");
                let param = error.param.as_deref().unwrap_or_default();
                assert!(param.starts_with("messages"), "{body}: {error}");
                return Ok(());
            }
        };
        let said = &request.conversation.messages;
        for pair in said.windows(2) {
            let is_repeated = pair[0].role == pair[1].role && pair[0].role != Role::Tool;
            assert!(!is_repeated, "{body}: {pair:?}");
            let follows_its_call = matches!(pair[0].role, Role::Assistant | Role::Tool | Role::System);
            assert!(pair[1].role != Role::Tool || follows_its_call, "{body}: {pair:?}");
        }
        let last = said.last().expect("there is a message");
        assert_ne!(last.role, Role::Assistant);
        assert!(said[0].role != Role::Tool);
        for (at, result) in said.iter().enumerate().filter(|(_, message)| message.role == Role::Tool) {
            let is_its_call = |call: &frank_chat::ToolCall| call.id == result.tool_call_id;
            let calls = said[..at].iter().flat_map(|message| &message.tool_calls);
            assert!(calls.into_iter().any(is_its_call), "{body}: {result:?}");
            assert_eq!(result.name.as_deref(), Some("f"));
        }
        assert!(said.iter().all(|one| one.role != Role::System || !one.content.contains("billing")));
    }
}
