//! The OpenAPI document: every route, what it reads and how it answers. Tells what the parsers do, and never does it for
//! them.

mod chat;
mod messages;
mod responses;
mod rest;
mod routes;
mod schema;
mod shared;

use serde_json::{Map, Value, json};

/// The page that says what the fields of requests mean.
const REQUESTS_PAGE: &str = include_str!("../../../docs/requests.md");

/// The same of Responses, with what it has of its own.
const RESPONSES_PAGE: &str = include_str!("../../../docs/responses.md");

/// The same of Messages.
const MESSAGES_PAGE: &str = include_str!("../../../docs/messages.md");

/// The document, in OpenAPI 3.2 (the first that can say what events a stream has), for a server of this version.
#[must_use]
pub fn openapi_document(server_version: &str) -> Value {
    json!({
        "openapi": "3.2.0",
        "info": {
            "title": "frank",
            "description": "Large language models on your own machines. In requests null is the same as leaving a field out.",
            "version": server_version,
        },
        "security": [{"bearer": []}, {"xApiKey": []}, {}],
        "paths": routes::paths(),
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "xApiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
            "schemas": schemas(),
        },
    })
}

fn schemas() -> Value {
    let all = [chat::schemas(), responses::schemas(), messages::schemas(), rest::schemas()];
    let mut schemas: Map<String, Value> =
        all.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema)).collect();
    schemas.insert(
        "OpenApi".to_owned(),
        json!({"type": "object", "required": ["openapi", "info", "paths"]}),
    );
    let pages: [(&str, &[&str]); 5] = [
        ("ChatRequest", &[REQUESTS_PAGE]),
        ("CompletionRequest", &[REQUESTS_PAGE]),
        ("ResponsesRequest", &[RESPONSES_PAGE, REQUESTS_PAGE]),
        ("MessagesRequest", &[MESSAGES_PAGE]),
        ("CountRequest", &[MESSAGES_PAGE]),
    ];
    for (name, pages) in pages {
        if let Some(schema) = schemas.get_mut(name) {
            describe(schema, pages);
        }
    }
    schemas.into()
}

/// Gives the fields of a request the descriptions that the tables of some pages have. A row about one field says more
/// than a row about several, and an earlier page more than a later one.
fn describe(request: &mut Value, pages: &[&str]) {
    let mut rows: Vec<(Vec<&str>, &str)> =
        pages.iter().flat_map(|page| page.lines().filter_map(row)).collect();
    rows.sort_by_key(|(names, _)| names.len());
    for (names, meaning) in rows {
        for name in names {
            let field = request["properties"].get_mut(name).and_then(Value::as_object_mut);
            if let Some(field) = field.filter(|_| !meaning.is_empty()) {
                field.entry("description").or_insert_with(|| meaning.into());
            }
        }
    }
}

/// The names in the first cell of a row, and its last cell.
fn row(line: &str) -> Option<(Vec<&str>, &str)> {
    let cells = line.strip_prefix("| `")?.strip_suffix('|')?;
    let (first, meaning) = (cells.split(" | ").next()?, cells.rsplit(" | ").next()?);
    Some((first.trim_end_matches('`').split("`, `").collect(), meaning.trim()))
}
