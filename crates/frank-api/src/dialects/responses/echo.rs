//! What a response tells again of its request, and what its writer has to know of it.

use serde_json::{Map, Value, json};

use crate::reply::ReplyHead;

/// What the reader of a request keeps for the writer of its reply.
#[derive(Clone, Debug, Default)]
pub(super) struct Echo {
    /// The fields of the response that come from the request.
    pub(super) repeated: Value,
    /// For each tool out of a namespace its name for the model, with the two names that the client has for it.
    pub(super) namespaced: Map<String, Value>,
    /// Whether thoughts are told as their summary.
    pub(super) tells_summary: bool,
    /// Whether thoughts are told in the form that clients send back unread.
    pub(super) tells_sealed: bool,
}

impl Echo {
    /// The form that [`Echo::of`] reads again.
    pub(super) fn into_value(self) -> Value {
        json!({
            "repeated": self.repeated,
            "namespaced": self.namespaced,
            "tells_summary": self.tells_summary,
            "tells_sealed": self.tells_sealed,
        })
    }

    /// What was kept for this reply.
    pub(super) fn of(head: &ReplyHead) -> Self {
        let echo = &head.echo;
        let is_set = |name: &str| echo[name].as_bool().unwrap_or(false);
        Self {
            repeated: match &echo["repeated"] {
                object @ Value::Object(_) => object.clone(),
                _ => repeated(&Value::Null),
            },
            namespaced: echo["namespaced"].as_object().cloned().unwrap_or_default(),
            tells_summary: is_set("tells_summary"),
            tells_sealed: is_set("tells_sealed"),
        }
    }
}

/// The fields that a response has of its request, with what holds where the request says nothing.
pub(super) fn repeated(body: &Value) -> Value {
    let mut told = defaults();
    let Some(told_fields) = told.as_object_mut() else { return told };
    for (name, value) in told_fields.iter_mut() {
        match (value, body.get(name).filter(|sent| !sent.is_null())) {
            (Value::Object(told), Some(Value::Object(sent))) => {
                let sent = sent.iter().filter(|(_, value)| !value.is_null());
                told.extend(sent.map(|(name, value)| (name.clone(), value.clone())));
            }
            (told, Some(sent)) => *told = sent.clone(),
            (_, None) => {}
        }
    }
    // What was done: there is one tier, and no prompt is cut.
    told_fields.insert("service_tier".to_owned(), "default".into());
    told_fields.insert("truncation".to_owned(), "disabled".into());
    // This one has no null in the specification.
    if let Some(user) = body.get("user").filter(|user| !user.is_null()) {
        told_fields.insert("user".to_owned(), user.clone());
    }
    told
}

fn defaults() -> Value {
    json!({
        "background": false,
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "metadata": {},
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "prompt_cache_key": null,
        "prompt_cache_retention": null,
        "reasoning": {"effort": null, "summary": null},
        "safety_identifier": null,
        "store": true,
        "temperature": null,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": null,
    })
}
