//! Any JSON in the parameters of a response: read, or refused with a 400 that names the place. Never a panic.

use frank_api::ErrorKind;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use crate::dialect;

/// Parameters with values inside, and one that reads what it gives.
const PARAMETERS: &[&str] =
    &["input", "tools", "tool_choice", "reasoning", "text", "include", "metadata", "instructions"];

/// Keys of items, parts, tools and settings.
const KEYS: &[&str] = &[
    "type",
    "role",
    "content",
    "text",
    "output",
    "call_id",
    "name",
    "namespace",
    "arguments",
    "action",
    "tools",
    "summary",
    "encrypted_content",
    "mode",
    "format",
    "schema",
    "effort",
    "verbosity",
    "parameters",
    "strict",
    "id",
];

/// Words that some of them take.
const WORDS: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "custom_tool_call",
    "local_shell_call",
    "additional_tools",
    "item_reference",
    "web_search_call",
    "user",
    "assistant",
    "developer",
    "input_text",
    "output_text",
    "input_image",
    "function",
    "namespace",
    "allowed_tools",
    "auto",
    "required",
    "json_schema",
    "{}",
    "frank-thoughts:",
    "__",
    "",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => prop::sample::select(WORDS).prop_map(Value::from),
        1 => any::<String>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let entry = (prop::sample::select(KEYS), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(entry, 0..6).prop_map(|entries| {
                let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value));
                Value::Object(entries.collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_of_a_parameter_is_read_or_refused_by_its_name(
        parameter in prop::sample::select(PARAMETERS),
        value in value(),
    ) {
        let mut body = json!({"input": "Hi"});
        body[parameter] = value;
        if let Err(error) = (dialect("responses").parse)(body.to_string().as_bytes()) {
            assert_eq!(error.kind, ErrorKind::InvalidRequest, "{body}: {error}");
            let param = error.param.as_deref().unwrap_or_else(|| panic!("{body}: {error}"));
            assert!(param.starts_with(parameter) && error.message.contains(parameter), "{body}: {error}");
        }
    }

    #[test]
    fn any_items_are_read_or_refused_by_their_place(items in prop::collection::vec(value(), 0..4)) {
        let body = json!({"input": items});
        match (dialect("responses").parse)(body.to_string().as_bytes()) {
            Ok(request) => assert!(request.options().warnings.iter().all(|one| one.is_ascii())),
            Err(error) => {
                let param = error.param.unwrap_or_default();
                assert!(param.starts_with("input["), "{body}: {param}");
            }
        }
    }
}
