//! docs/messages.md says of every field, block and error what becomes of it.

use std::collections::BTreeSet;
use std::path::Path;

use frank_api::{ApiError, ErrorKind};
use serde_json::{Value, json};

use crate::dialect;
use crate::messages::{body_with, parse};

/// What clients are known to send beside the fields of the page: none of it is a field.
const OTHERS: [&str; 6] =
    ["prompt", "stop", "n", "seed", "response_format", "max_completion_tokens"];

/// The cells of the rows of the section `title` that begin with a code word.
fn rows(title: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/messages.md");
    let text = std::fs::read_to_string(path).expect("the page is there");
    let heading = format!("## {title}\n");
    let section = text.split_once(&heading).expect("the section is there").1;
    let section = section.split("\n## ").next().expect("a split has a first part");
    let is_row = |line: &&str| line.starts_with('|') && line.contains('`');
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    section.lines().filter(is_row).map(cells).collect()
}

/// The codes of a field that is known and cannot be honoured.
const REFUSED: [&str; 2] = ["unsupported_parameter", "thread_unsupported_request"];

/// What becomes of a field, by what is said of a value that no field takes.
fn field_is(field: &str) -> &'static str {
    let mut extra = json!({});
    extra[field] = json!([{"no": "field"}]);
    let is_about = |error: &ApiError| error.param.as_deref() == Some(field);
    match parse(&body_with(extra)) {
        Ok(request) if request == parse(&body_with(json!({}))).expect("it is taken") => "ignored",
        Err(error) if error.code == Some("unknown_parameter") && is_about(&error) => "unknown",
        Err(error)
            if error.code.is_some_and(|code| REFUSED.contains(&code)) && is_about(&error) =>
        {
            "refused"
        }
        Ok(_) | Err(_) => "used",
    }
}

#[test]
fn the_page_says_what_becomes_of_each_field() {
    let rows = rows("Fields");
    assert!(rows.len() > 30);
    for row in rows {
        assert_eq!(row[1], field_is(&row[0]), "{}", row[0]);
    }
    for other in OTHERS {
        assert_eq!(field_is(other), "unknown", "{other}");
    }
}

/// The names in the code: whatever is read by a name and whatever is ignored.
#[test]
fn the_page_has_every_field() {
    let documented: BTreeSet<String> =
        rows("Fields").into_iter().map(|row| row[0].clone()).collect();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dialects");
    let mut words = BTreeSet::new();
    for file in ["messages.rs", "messages/prompt.rs", "messages/settings.rs", "messages/tools.rs"] {
        let text = std::fs::read_to_string(source.join(file)).expect("the source is there");
        words.extend(text.split('"').map(str::to_owned));
    }
    let is_name = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_field =
        |word: &&String| !word.is_empty() && is_name(word) && field_is(word) != "unknown";
    let missing: Vec<_> =
        words.iter().filter(is_field).filter(|word| !documented.contains(*word)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in docs/messages.md");
}

/// A block of a kind with all that it needs.
fn block(kind: &str) -> Value {
    let mut block = match kind {
        "text" => json!({"text": "x"}),
        "tool_use" => json!({"id": "a", "name": "f", "input": {}}),
        "tool_result" => json!({"tool_use_id": "a", "content": "x"}),
        "thinking" => json!({"thinking": "x", "signature": "s"}),
        "redacted_thinking" => json!({"data": "x"}),
        "search_result" => json!({"title": "t", "source": "s", "content": []}),
        "document" => json!({"source": {"type": "text", "data": "x"}}),
        "tool_reference" => json!({"tool_name": "f"}),
        _ => json!({}),
    };
    block["type"] = kind.into();
    block
}

fn block_is(kind: &str, role: &str) -> &'static str {
    let said = |content: Value| {
        let asked = |text: &str| json!({"role": "user", "content": text});
        json!([asked("Hi"), {"role": role, "content": content}, asked("?")])
    };
    let messages = |content: Value| {
        let request = parse(&body_with(json!({"messages": said(content)})))?;
        Ok::<_, ApiError>(request.conversation.messages)
    };
    match messages(json!([block(kind)])) {
        Err(error) => {
            assert_eq!(
                error.param.as_deref(),
                Some("messages[1].content[0].type"),
                "{kind}: {error}"
            );
            "refused"
        }
        Ok(taken) if taken == messages(json!([])).expect("it is taken") => "dropped",
        Ok(_) => "taken",
    }
}

fn result_part_is(kind: &str) -> &'static str {
    let call = json!({"role": "assistant", "content": [block("tool_use")]});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": [block(kind)]});
    let messages =
        json!([{"role": "user", "content": "Hi"}, call, {"role": "user", "content": [result]}]);
    let request = parse(&body_with(json!({"messages": messages}))).expect("a result is taken");
    let text = &request.conversation.messages[2].content;
    match text.starts_with('[') {
        true => "a note",
        false if kind == "document" => "its text, or a note",
        false => "taken",
    }
}

#[test]
fn the_page_says_what_becomes_of_each_block() {
    let rows = rows("Messages and their blocks");
    assert!(rows.len() > 8);
    for row in rows {
        let kind = row[0].as_str();
        let is = [
            block_is(kind, "system"),
            block_is(kind, "user"),
            block_is(kind, "assistant"),
            result_part_is(kind),
        ];
        assert_eq!(row[1..], is, "{kind}");
    }
}

#[test]
fn the_page_says_the_word_of_each_failure() {
    let kinds = [
        ErrorKind::InvalidRequest,
        ErrorKind::Authentication,
        ErrorKind::Forbidden,
        ErrorKind::NotFound,
        ErrorKind::MethodNotAllowed,
        ErrorKind::RequestTimeout,
        ErrorKind::PayloadTooLarge,
        ErrorKind::UnsupportedMediaType,
        ErrorKind::RateLimited,
        ErrorKind::Internal,
        ErrorKind::Unavailable,
    ];
    let rows = rows("Errors");
    for kind in kinds {
        let body = (dialect("messages").error)(&ApiError::new(kind, "why"));
        let status = kind.status().to_string();
        let row = rows.iter().find(|row| row[0].split(", ").any(|one| one == status));
        let row = row.unwrap_or_else(|| panic!("{status} is not in docs/messages.md"));
        assert_eq!(body["error"]["type"], row[1].as_str());
    }
}
