//! The routes: what each takes and how it can answer. Knows schemas by their names only.

use serde_json::{Map, Value, json};

use super::schema::named;

/// An operation of a route.
struct Operation {
    path: &'static str,
    method: &'static str,
    id: &'static str,
    summary: &'static str,
    /// Schema of the body that it reads.
    request: Option<&'static str>,
    reply: Reply,
    /// Parameters of the path, the query and the headers.
    parameters: &'static [Parameter],
    /// Statuses of its refusals.
    refusals: &'static [Refusal],
    /// Schema of the error envelope.
    error: &'static str,
    /// Whether it answers without a key.
    is_public: bool,
    /// Operations that take the id of what a reply of this one holds.
    links: &'static [Link],
}

/// What a 200 holds.
enum Reply {
    Json(&'static str),
    /// JSON, or frames whose data has the second schema.
    JsonOrFrames(&'static str, &'static str),
    Text(&'static str),
}

/// Where it stands, its name, and what it is for.
type Parameter = (&'static str, &'static str, &'static str);

/// An operation, and where in the reply the id stands that it takes.
type Link = (&'static str, &'static str);

/// A status and what it means.
type Refusal = (&'static str, &'static str);

const OPENAI: &str = "OpenAiError";
const ANTHROPIC: &str = "AnthropicError";
/// Of whichever of the two asks.
const EITHER: &str = "ModelsError";

const BAD: Refusal =
    ("400", "The request cannot be honoured as it is; the message names the parameter.");
const NO_KEY: Refusal = ("401", "No API key, or a wrong one.");
const FORBIDDEN: Refusal = ("403", "The Host or Origin is not one that may ask.");
const ABSENT: Refusal = ("404", "There is no such thing here.");
const SLOW: Refusal = ("408", "The request took too long to arrive.");
const LARGE: Refusal = ("413", "The body is too long.");
const NOT_JSON: Refusal = ("415", "The body is not declared as JSON.");
const BUSY: Refusal = ("429", "This key has as many requests running as it may.");
const BROKEN: Refusal = ("500", "The server failed; its log says why.");
const NOT_NOW: Refusal = ("503", "Not now: loading, full, or ending.");

/// Refusals of what reads a body and needs the model.
const OF_POST: &[Refusal] =
    &[BAD, NO_KEY, FORBIDDEN, ABSENT, SLOW, LARGE, NOT_JSON, BUSY, BROKEN, NOT_NOW];
const OF_TOKENS: &[Refusal] =
    &[BAD, NO_KEY, FORBIDDEN, SLOW, LARGE, NOT_JSON, BUSY, BROKEN, NOT_NOW];
const OF_ONE: &[Refusal] = &[BAD, NO_KEY, FORBIDDEN, ABSENT, BROKEN, NOT_NOW];
const OF_ALL: &[Refusal] = &[NO_KEY, FORBIDDEN, BROKEN, NOT_NOW];
const OF_OWN: &[Refusal] = &[NO_KEY, FORBIDDEN, BROKEN];
const OF_PUBLIC: &[Refusal] = &[FORBIDDEN, BROKEN];

const ID: Parameter = ("path", "id", "Its id or name.");
const BETA: Parameter = ("query", "beta", "Sent by agents, and not used.");
const CATALOGUE: Parameter =
    ("query", "client_version", "With it the list has models[] too, in the form that Codex reads.");
const VERSION: Parameter =
    ("header", "anthropic-version", "With it the reply has the form of Anthropic's API.");

/// An operation that posts a body and needs a key.
const fn post(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    request: &'static str,
    reply: Reply,
) -> Operation {
    Operation {
        path,
        method: "post",
        id,
        summary,
        request: Some(request),
        reply,
        parameters: &[],
        refusals: OF_POST,
        error: OPENAI,
        is_public: false,
        links: &[],
    }
}

/// An operation that reads something and needs a key.
const fn get(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    reply: Reply,
) -> Operation {
    Operation {
        path,
        method: "get",
        id,
        summary,
        request: None,
        reply,
        parameters: &[],
        refusals: OF_ALL,
        error: OPENAI,
        is_public: false,
        links: &[],
    }
}

/// Every operation of every route.
static OPERATIONS: &[Operation] = &[
    post(
        "/v1/chat/completions",
        "createChatCompletion",
        "Answers a conversation (OpenAI Chat Completions).",
        "ChatRequest",
        Reply::JsonOrFrames("ChatReply", "ChatChunk"),
    ),
    post(
        "/v1/completions",
        "createCompletion",
        "Continues a text or token ids (OpenAI Completions).",
        "CompletionRequest",
        Reply::JsonOrFrames("CompletionReply", "CompletionChunk"),
    ),
    Operation {
        links: &[("getResponse", "/id"), ("deleteResponse", "/id")],
        ..post(
            "/v1/responses",
            "createResponse",
            "Answers a conversation (OpenAI Responses).",
            "ResponsesRequest",
            Reply::JsonOrFrames("ResponsesReply", "ResponsesEvent"),
        )
    },
    Operation {
        parameters: &[ID],
        refusals: OF_ONE,
        ..get(
            "/v1/responses/{id}",
            "getResponse",
            "Reads a stored response.",
            Reply::Json("ResponsesReply"),
        )
    },
    Operation {
        method: "delete",
        parameters: &[ID],
        refusals: OF_ONE,
        ..get(
            "/v1/responses/{id}",
            "deleteResponse",
            "Deletes a stored response.",
            Reply::Json("ResponsesDeleted"),
        )
    },
    Operation {
        parameters: &[BETA],
        error: ANTHROPIC,
        ..post(
            "/v1/messages",
            "createMessage",
            "Answers a conversation (Anthropic Messages).",
            "MessagesRequest",
            Reply::JsonOrFrames("MessagesReply", "MessagesEvent"),
        )
    },
    Operation {
        parameters: &[BETA],
        error: ANTHROPIC,
        ..post(
            "/v1/messages/count_tokens",
            "countTokens",
            "Counts the tokens of a conversation.",
            "CountRequest",
            Reply::Json("CountReply"),
        )
    },
    Operation {
        parameters: &[CATALOGUE, VERSION],
        error: EITHER,
        links: &[("getModel", "/data/0/id")],
        ..get(
            "/v1/models",
            "listModels",
            "Lists the models that are served.",
            Reply::Json("ModelList"),
        )
    },
    Operation {
        parameters: &[ID, VERSION],
        refusals: OF_ONE,
        error: EITHER,
        ..get("/v1/models/{id}", "getModel", "Describes a model.", Reply::Json("ModelCard"))
    },
    Operation {
        refusals: OF_TOKENS,
        ..post(
            "/tokenize",
            "tokenize",
            "Gives the tokens of a text.",
            "TokenizeRequest",
            Reply::Json("TokenizeReply"),
        )
    },
    Operation {
        refusals: OF_TOKENS,
        ..post(
            "/detokenize",
            "detokenize",
            "Gives the text of tokens.",
            "DetokenizeRequest",
            Reply::Json("DetokenizeReply"),
        )
    },
    Operation {
        refusals: OF_PUBLIC,
        is_public: true,
        ..get("/health", "health", "Says whether a token can be made.", Reply::Json("Health"))
    },
    Operation {
        refusals: OF_OWN,
        ..get(
            "/metrics",
            "metrics",
            "What the endpoint measures, for Prometheus.",
            Reply::Text("application/openmetrics-text"),
        )
    },
    Operation {
        refusals: OF_OWN,
        ..get("/openapi.json", "openapi", "This document.", Reply::Json("OpenApi"))
    },
    Operation {
        refusals: OF_PUBLIC,
        is_public: true,
        ..get("/", "page", "A page that says what there is.", Reply::Text("text/html"))
    },
    Operation {
        method: "head",
        refusals: OF_PUBLIC,
        is_public: true,
        ..get("/", "isAnyoneThere", "The same without the page.", Reply::Text("text/html"))
    },
];

/// The `paths` of the document.
pub(super) fn paths() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.value();
    }
    paths.into()
}

impl Operation {
    fn value(&self) -> Value {
        let mut value = json!({
            "operationId": self.id,
            "summary": self.summary,
            "responses": self.responses(),
        });
        if !self.parameters.is_empty() {
            value["parameters"] = self.parameters.iter().map(parameter).collect();
        }
        if let Some(request) = self.request {
            let content = json!({"application/json": {"schema": named(request)}});
            value["requestBody"] = json!({"required": true, "content": content});
        }
        if self.is_public {
            value["security"] = json!([]);
        }
        value
    }

    fn responses(&self) -> Value {
        let mut responses = json!({"200": self.success()});
        for (status, meaning) in self.refusals {
            responses[status] = self.refusal(status, meaning);
        }
        if self.id == "health" {
            responses["503"] = json!({
                "description": "No token can be made now.",
                "headers": headers(&["x-request-id", "retry-after"]),
                "content": {"application/json": {"schema": named("Trouble")}},
            });
        }
        responses
    }

    fn success(&self) -> Value {
        let names: &[&str] = if self.request.is_some() {
            &["x-request-id", "x-frank-warning"]
        } else {
            &["x-request-id"]
        };
        let mut success = json!({"description": "Done.", "headers": headers(names)});
        let json = |name: &str| json!({"schema": named(name)});
        let text = json!({"schema": {"type": "string"}});
        for (operation, place) in self.links {
            let id = format!("$response.body#{place}");
            success["links"][operation] =
                json!({"operationId": operation, "parameters": {"id": id}});
        }
        success["content"] = match self.reply {
            // A HEAD has the headers alone.
            _ if self.method == "head" => return success,
            Reply::Json(name) => json!({"application/json": json(name)}),
            Reply::JsonOrFrames(name, frame) => {
                json!({"application/json": json(name), "text/event-stream": {"itemSchema": event(frame)}})
            }
            Reply::Text(kind) => {
                let mut content = json!({});
                content[kind] = text;
                content
            }
        };
        success
    }

    fn refusal(&self, status: &str, meaning: &str) -> Value {
        let names: &[&str] = match status {
            "401" => &["x-request-id", "www-authenticate"],
            "429" | "503" => &["x-request-id", "retry-after"],
            _ => &["x-request-id"],
        };
        let mut refusal = json!({"description": meaning, "headers": headers(names)});
        if self.method != "head" {
            refusal["content"] = json!({"application/json": {"schema": named(self.error)}});
        }
        refusal
    }
}

/// A server-sent event: a frame as JSON, or the end of a stream of OpenAI's older dialects.
fn event(frame: &str) -> Value {
    let data = json!({
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": named(frame),
    });
    json!({
        "type": "object",
        "required": ["data"],
        "properties": {"event": {"type": "string"}, "data": {"anyOf": [{"const": "[DONE]"}, data]}},
    })
}

fn parameter((place, name, meaning): &Parameter) -> Value {
    json!({
        "in": place,
        "name": name,
        "description": meaning,
        "required": *place == "path",
        "schema": {"type": "string"},
    })
}

fn headers(names: &[&str]) -> Value {
    let headers = names.iter().map(|name| {
        let meaning = match *name {
            "x-request-id" => "Names the request, in the server's log too.",
            "x-frank-warning" => "What of the request was left out, a sentence in each.",
            "retry-after" => "Seconds after which to try again.",
            _ => "How to send a key.",
        };
        ((*name).to_owned(), json!({"description": meaning, "schema": {"type": "string"}}))
    });
    headers.collect::<Map<_, _>>().into()
}
