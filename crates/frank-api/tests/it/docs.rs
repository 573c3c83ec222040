//! docs/requests.md names every field that a request can have, and for which of the dialects.

use std::collections::BTreeSet;
use std::path::Path;

use frank_api::ApiError;
use serde_json::json;

use crate::dialect;
use crate::properties::FIELDS;

/// The fields of the tables, each with what its second column says.
fn documented() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/requests.md");
    let text = std::fs::read_to_string(path).expect("the page is there");
    let rows = text.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    });
    rows.collect()
}

/// Whether a dialect knows a field: given a value that no field takes, it says something else than "unknown".
fn knows(dialect_name: &str, field: &str) -> bool {
    let mut body = json!({"messages": [{"role": "user", "content": "Hi"}], "prompt": "Once"});
    let other = if dialect_name == "openai_chat" { "prompt" } else { "messages" };
    body.as_object_mut().expect("it is an object").remove(other);
    body[field] = json!([{"no": "field"}]);
    let parsed = (dialect(dialect_name).parse)(body.to_string().as_bytes());
    let unknown = |error: ApiError| {
        error.code == Some("unknown_parameter") && error.param.as_deref() == Some(field)
    };
    !parsed.is_err_and(unknown)
}

#[test]
fn the_page_says_which_dialect_knows_which_field() {
    for (field, dialects) in documented() {
        let known = match (knows("openai_chat", &field), knows("completions", &field)) {
            (true, true) => "both",
            (true, false) => "chat",
            (false, true) => "text",
            (false, false) => "none",
        };
        assert_eq!(dialects, known, "{field}");
    }
}

#[test]
fn the_page_has_every_field() {
    let documented: BTreeSet<String> = documented().into_iter().map(|(field, _)| field).collect();
    let is_real =
        |field: &&&str| ["openai_chat", "completions"].iter().any(|name| knows(name, field));
    let fields: BTreeSet<String> = FIELDS.iter().filter(is_real).map(ToString::to_string).collect();
    let missing: Vec<_> = fields.difference(&documented).collect();
    assert!(missing.is_empty(), "{missing:?} are not in docs/requests.md");
    let untested: Vec<_> = documented.difference(&fields).collect();
    assert!(untested.is_empty(), "{untested:?} are not in FIELDS");
}

/// A check of `knows` itself.
#[test]
fn a_field_of_the_future_is_unknown() {
    assert!(!knows("openai_chat", "a_name_of_the_future") && knows("completions", "logit_bias"));
}
