//! docs/responses.md names every parameter that a request for a response can have.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use crate::dialect;
use crate::properties::FIELDS;

/// Parameters that the other dialects do not have.
const OWN_FIELDS: &[&str] = &[
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "include",
    "previous_response_id",
    "client_metadata",
    "prompt_cache_options",
    "truncation",
    "background",
    "conversation",
    "moderation",
    "context_management",
    "text",
    "reasoning",
];

/// The fields of the first columns of the page's tables.
fn documented() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/responses.md");
    let text = std::fs::read_to_string(path).expect("the page is there");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.flat_map(|(names, _)| names.split("`, `").map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Whether the dialect knows a field: given a value that no field takes, it says something else than "unknown".
fn knows(field: &str) -> bool {
    let mut body = json!({"input": "Hi"});
    body[field] = json!([{"no": "field"}]);
    let parsed = (dialect("responses").parse)(body.to_string().as_bytes());
    !parsed.is_err_and(|error| {
        error.code == Some("unknown_parameter") && error.param.as_deref() == Some(field)
    })
}

#[test]
fn the_page_has_every_parameter_and_no_other() {
    let fields = FIELDS.iter().chain(OWN_FIELDS).filter(|field| knows(field));
    let known: BTreeSet<String> = fields.map(ToString::to_string).collect();
    let documented = documented();
    let missing: Vec<_> = known.difference(&documented).collect();
    assert!(missing.is_empty(), "{missing:?} are not in docs/responses.md");
    let too_many: Vec<_> = documented.difference(&known).collect();
    assert!(too_many.is_empty(), "{too_many:?} are in docs/responses.md and not in the code");
}

#[test]
fn null_is_absent_for_every_parameter() {
    let plain = (dialect("responses").parse)(br#"{"input": "Hi"}"#).expect("it is taken");
    for field in FIELDS.iter().chain(OWN_FIELDS).filter(|field| **field != "input") {
        let mut body = json!({"input": "Hi"});
        body[field] = json!(null);
        let parsed = (dialect("responses").parse)(body.to_string().as_bytes());
        assert_eq!(parsed.as_ref(), Ok(&plain), "{field}");
    }
}
