//! What requests of several dialects have in common: how tokens are drawn, where an answer ends and what it looks like,
//! and how much is thought.

use serde_json::{Value, json};

use super::schema::{
    Fields, any_object, any_of, anything, boolean, empty_list, integer, integer_from, json_schema,
    list_of, number, only, request, text, text_of, word,
};

/// Largest setting where there is no natural bound.
const LARGE: f64 = 100.0;

/// Largest number of tokens in a setting.
const TOKENS_MAX: i64 = u32::MAX as i64;

/// Settings that every dialect of OpenAI has here, whatever it calls the others.
pub(super) fn settings() -> Fields {
    let mut fields = vec![
        ("model", text()),
        ("min_tokens", integer_from(0)),
        ("stop", any_of(&[text_of(1, 4096), list_of(&text_of(1, 4096), 0, 16)])),
        ("ignore_eos", boolean()),
        ("n", integer(1, 128)),
        ("cache_prompt", boolean()),
        ("stream", boolean()),
        ("stream_options", stream_options()),
        ("response_format", response_format()),
        ("json_schema", json_schema()),
        ("grammar", text_of(0, 65536)),
        ("return_token_ids", boolean()),
        ("store", only(false)),
    ];
    fields.extend(sampling());
    fields.extend(hints());
    fields
}

/// Fields that are taken and not used, whatever they hold.
fn hints() -> Fields {
    let names = [
        "user",
        "metadata",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
    ];
    names.into_iter().map(|name| (name, anything())).collect()
}

fn sampling() -> Fields {
    vec![
        ("temperature", number(0.0, 2.0)),
        ("dynatemp_range", number(0.0, LARGE)),
        ("dynatemp_exponent", number(0.0, LARGE)),
        ("top_k", integer(-1, TOKENS_MAX)),
        ("top_p", number(0.0, 1.0)),
        ("min_p", number(0.0, 1.0)),
        ("typical_p", number(0.0, 1.0)),
        ("top_n_sigma", number(-1.0, LARGE)),
        ("xtc_probability", number(0.0, 1.0)),
        ("xtc_threshold", number(0.0, 1.0)),
        ("min_keep", integer(0, TOKENS_MAX)),
        ("repeat_penalty", number(0.01, LARGE)),
        ("repetition_penalty", number(0.01, LARGE)),
        ("repeat_last_n", integer(-1, TOKENS_MAX)),
        ("presence_penalty", number(-2.0, 2.0)),
        ("frequency_penalty", number(-2.0, 2.0)),
        ("dry_multiplier", number(0.0, LARGE)),
        ("dry_base", number(1.0, LARGE)),
        ("dry_allowed_length", integer(0, TOKENS_MAX)),
        ("dry_penalty_last_n", integer(-1, TOKENS_MAX)),
        ("dry_sequence_breakers", list_of(&text_of(1, 64), 0, 64)),
        ("mirostat", integer(0, 2)),
        ("mirostat_tau", number(0.0, LARGE)),
        ("mirostat_eta", number(0.0, 1.0)),
        ("samplers", samplers()),
        ("logit_bias", logit_bias()),
        ("seed", integer(i64::MIN, i64::MAX)),
    ]
}

fn samplers() -> Value {
    let letters = json!({"type": "string", "pattern": "^[edskypmxt]{0,16}$"});
    any_of(&[letters, list_of(&text(), 0, 16)])
}

fn logit_bias() -> Value {
    let bias = any_of(&[number(-LARGE, LARGE), only(false)]);
    let by_key = json!({"type": "object", "maxProperties": 1024, "additionalProperties": bias});
    let token = any_of(&[integer(0, TOKENS_MAX), text_of(1, 256)]);
    let pair =
        json!({"type": "array", "prefixItems": [token, bias], "items": false, "minItems": 2});
    any_of(&[by_key, list_of(&pair, 0, 1024)])
}

fn stream_options() -> Value {
    request(
        vec![],
        vec![
            ("include_usage", boolean()),
            ("include_obfuscation", anything()),
            ("continuous_usage_stats", boolean()),
        ],
    )
}

fn response_format() -> Value {
    let kind = |kind: &str| ("type", only(kind));
    let wrapped = request(
        vec![("schema", json_schema())],
        vec![("name", text()), ("description", text()), ("strict", boolean())],
    );
    any_of(&[
        request(vec![kind("text")], vec![]),
        request(vec![kind("json_object")], vec![("schema", json_schema())]),
        request(vec![kind("json_schema"), ("schema", json_schema())], vec![]),
        request(vec![kind("json_schema"), ("json_schema", wrapped)], vec![]),
    ])
}

/// Whether and how much is thought, but for `reasoning`, which dialects read in their own ways.
pub(super) fn thinking() -> Fields {
    let budget = || integer(-1, i64::MAX);
    let typed = request(
        vec![("type", word(&["enabled", "disabled", "adaptive", "auto"]))],
        vec![("budget_tokens", budget())],
    );
    vec![
        ("enable_thinking", boolean()),
        ("reasoning_effort", effort()),
        ("thinking_budget", budget()),
        ("thinking_budget_tokens", budget()),
        ("reasoning_budget", budget()),
        ("thinking", any_of(&[boolean(), typed])),
        ("chat_template_kwargs", template_variables()),
        ("reasoning_format", word(&["auto", "deepseek"])),
        ("include_reasoning", only(true)),
    ]
}

/// `reasoning` of chats.
pub(super) fn reasoning() -> Value {
    request(
        vec![],
        vec![
            ("enabled", boolean()),
            ("effort", effort()),
            ("max_tokens", integer(-1, i64::MAX)),
            ("exclude", only(false)),
        ],
    )
}

pub(super) fn effort() -> Value {
    word(&["none", "minimal", "low", "medium", "high", "xhigh", "max"])
}

fn template_variables() -> Value {
    json!({
        "type": "object",
        "maxProperties": 16,
        "properties": {
            "enable_thinking": {"type": ["boolean", "null"]},
            "thinking": {"type": ["boolean", "null"]},
            "reasoning_effort": {"type": ["string", "null"], "maxLength": 1024},
        },
        "patternProperties": {
            "^[a-z_][a-z0-9_]*$": {"type": ["string", "number", "boolean", "null"], "maxLength": 1024},
        },
        "additionalProperties": {"type": "null"},
    })
}

/// A function that the model may call, as OpenAI's dialects describe it.
pub(super) fn function() -> Fields {
    vec![
        ("name", json!({"type": "string", "pattern": "^[A-Za-z0-9_.:/-]{0,128}$"})),
        ("description", text()),
        ("parameters", any_object()),
        ("strict", boolean()),
        ("cache_control", anything()),
    ]
}

/// Tools of which a list may hold none.
pub(super) fn no_tools() -> Fields {
    vec![("tools", empty_list()), ("tool_choice", word(&["none", "auto"]))]
}

/// A list of tools; those that the model cannot call are left out of it.
pub(super) fn tools(function: &Value) -> Value {
    let other = json!({
        "type": "object",
        "description": "A tool that is left out, with a warning in the reply's header.",
        "properties": {"type": {"type": "string", "not": {"const": "function"}}},
        "required": ["type"],
    });
    let untyped = json!({
        "type": "object",
        "description": "A tool that is left out for want of a type or a function.",
        "properties": {"type": {"type": ["string", "null"]}, "function": {"type": "null"}},
    });
    list_of(&any_of(&[function.clone(), other, untyped]), 0, 256)
}

/// A choice among some of the tools, each named by `tool`.
pub(super) fn allowed(tool: &Value) -> Fields {
    let other =
        json!({"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}});
    let mut tools = list_of(&any_of(&[tool.clone(), other]), 1, 256);
    // The others were left out of the tools.
    tools["contains"] = tool.clone();
    vec![("mode", word(&["auto", "required"])), ("tools", tools)]
}
