//! Any bytes and any JSON as a request: read, or refused with a 400 that names the field. Never a panic.

use std::collections::BTreeSet;

use frank_api::{ApiError, ApiRequest, ChatRequest, DIALECTS, Dialect, ErrorKind, ToolChoice};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Map, Value, json};

/// Fields that one or the other dialect has, and two that none has.
pub(crate) const FIELDS: &[&str] = &[
    "model",
    "messages",
    "prompt",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "repetition_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "ignore_eos",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "response_format",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "n",
    "n_probs",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "dynatemp_range",
    "dynatemp_exponent",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "samplers",
    "min_keep",
    "grammar",
    "json_schema",
    "cache_prompt",
    "echo",
    "best_of",
    "suffix",
    "user",
    "metadata",
    "modalities",
    "audio",
    "reasoning_effort",
    "chat_template_kwargs",
    "enable_thinking",
    "thinking",
    "reasoning",
    "thinking_budget",
    "thinking_budget_tokens",
    "reasoning_budget",
    "reasoning_format",
    "include_reasoning",
    "store",
    "prediction",
    "parallel_tool_calls",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "return_token_ids",
    "web_search_options",
    "verbosity",
    "a_name_of_the_future",
    "",
];
/// Keys inside of messages, parts and options, so that made-up values reach the readers of these.
const INNER: &[&str] = &[
    "role",
    "content",
    "name",
    "type",
    "text",
    "tool_calls",
    "include_usage",
    "function",
    "arguments",
    "parameters",
    "tool_call_id",
    "function_call",
    "allowed_tools",
    "mode",
    "tools",
    "effort",
    "enabled",
    "enable_thinking",
    "reasoning_effort",
    "id",
    "schema",
    "json_schema",
    "strict",
    "5",
];
/// Words that some field takes.
const WORDS: &[&str] = &[
    "user",
    "system",
    "assistant",
    "tool",
    "text",
    "auto",
    "none",
    "json_object",
    "json_schema",
    "medium",
    "function",
    "required",
    "allowed_tools",
    "enabled",
    "{\"a\": [1]}",
    "top_k",
    "edskypmxt",
    "",
];

fn number() -> impl Strategy<Value = Value> {
    let edges = vec![json!(0), json!(1), json!(-1), json!(2), json!(u64::MAX), json!(i64::MIN)];
    let floats = vec![json!(0.5), json!(-0.0), json!(1e308), json!(5e-324), json!(4_294_967_296.0)];
    prop_oneof![
        prop::sample::select([edges, floats].concat()),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        prop::sample::select(WORDS).prop_map(str::to_owned),
        any::<String>(),
        Just("é".repeat(5000)),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let key =
            prop_oneof![prop::sample::select(INNER).prop_map(str::to_owned), any::<String>(),];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

pub(crate) fn dialect() -> impl Strategy<Value = &'static Dialect> {
    (0..DIALECTS.len()).prop_map(|index| &DIALECTS[index])
}

/// A request of `dialect` that is taken.
pub(crate) fn taken(dialect: &Dialect) -> Map<String, Value> {
    let body = match dialect.name {
        "openai_chat" => json!({"messages": [{"role": "user", "content": "Hi"}]}),
        "completions" => json!({"prompt": "Once"}),
        "responses" => json!({"input": "Hi"}),
        "messages" => {
            json!({"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]})
        }
        other => panic!("a request of {other} belongs here"),
    };
    body.as_object().expect("it is an object").clone()
}

/// The field of the body that a path like `messages[2].content` begins with.
fn field_of(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or_default()
}

/// What holds for every refusal of a body that is a JSON object.
fn check_refusal(error: &ApiError, body: &str) -> String {
    assert_eq!(error.kind, ErrorKind::InvalidRequest, "{body}: {error}");
    let param = error.param.as_deref().unwrap_or_else(|| panic!("{body}: {error}"));
    assert!(error.message.contains(field_of(param)), "{body}: {param}: {error}");
    assert!(error.message.len() < 1100 && param.len() < 300, "{body}: {error}");
    field_of(param).to_owned()
}

fn check_taken(request: &ApiRequest) {
    if let ApiRequest::Chat(chat) = request {
        check_tools(chat);
    }
    let options = request.options();
    let sampling = &options.sampling;
    let is_in =
        |number: Option<f32>, low: f32, high: f32| number.is_none_or(|n| n >= low && n <= high);
    assert!(is_in(sampling.temperature, 0.0, 2.0), "{sampling:?}");
    assert!(is_in(sampling.top_p, 0.0, 1.0) && is_in(sampling.min_p, 0.0, 1.0), "{sampling:?}");
    assert!(is_in(sampling.presence_penalty, -2.0, 2.0), "{sampling:?}");
    assert!(is_in(sampling.frequency_penalty, -2.0, 2.0), "{sampling:?}");
    assert!(sampling.repeat_penalty.is_none_or(|n| n > 0.0), "{sampling:?}");
    assert!(is_in(sampling.typical_p, 0.0, 1.0), "{sampling:?}");
    assert!(is_in(sampling.xtc_probability, 0.0, 1.0), "{sampling:?}");
    assert!(is_in(sampling.dry.base, 1.0, 100.0), "{sampling:?}");
    assert!(sampling.mirostat.is_none_or(|version| version <= 2), "{sampling:?}");
    assert!(
        sampling.logit_bias.iter().all(|b| !b.bias.is_nan() && b.bias <= 100.0),
        "{sampling:?}"
    );
    assert!(options.n_choices != Some(0) && options.n_logprobs.is_none_or(|n| n <= 20));
    assert!(options.min_tokens <= options.max_tokens.unwrap_or(u64::MAX));
    assert_ne!(options.max_tokens, Some(0));
    assert!(options.stop.iter().all(|stop| !stop.is_empty()));
}

/// What the server relies on, whichever dialect read it.
fn check_tools(chat: &ChatRequest) {
    let names: BTreeSet<&str> =
        chat.conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names.len(), chat.conversation.tools.len(), "{names:?}");
    assert!(!names.contains(""), "{names:?}");
    match &chat.tool_choice {
        ToolChoice::Auto | ToolChoice::None => {}
        ToolChoice::Required => assert!(!names.is_empty()),
        ToolChoice::Named(name) => assert!(names.contains(name.as_str()), "{name} of {names:?}"),
    }
    assert!(chat.conversation.variables.len() <= 16);
    assert!(chat.options.warnings.iter().all(|warning| warning.is_ascii()));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(dialect in dialect(), body in any::<Vec<u8>>()) {
        if let Err(error) = (dialect.parse)(&body) {
            assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error}");
        }
    }

    #[test]
    fn any_json_is_read_or_refused(dialect in dialect(), body in value()) {
        if let Err(error) = (dialect.parse)(body.to_string().as_bytes()) {
            assert_eq!(error.kind, ErrorKind::InvalidRequest, "{body}: {error}");
        }
    }

    #[test]
    fn every_refusal_names_a_field_of_the_request_or_one_that_is_missing(
        dialect in dialect(),
        fields in prop::collection::vec((prop::sample::select(FIELDS), value()), 0..8),
    ) {
        let mut body = taken(dialect);
        body.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let text = Value::Object(body.clone()).to_string();
        match (dialect.parse)(text.as_bytes()) {
            Ok(request) => check_taken(&request),
            Err(error) => {
                let field = check_refusal(&error, &text);
                assert!(body.contains_key(&field), "{text}: {field} is none of its fields");
            }
        }
    }

    #[test]
    fn a_request_that_one_field_spoils_is_refused_by_the_name_of_that_field(
        dialect in dialect(),
        field in prop::sample::select(FIELDS),
        value in value(),
    ) {
        let mut body = taken(dialect);
        body.insert(field.to_owned(), value);
        let text = Value::Object(body).to_string();
        match (dialect.parse)(text.as_bytes()) {
            Ok(request) => check_taken(&request),
            Err(error) => assert_eq!(check_refusal(&error, &text), field, "{text}: {error}"),
        }
    }
}
