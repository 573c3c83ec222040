//! The same prompts as Python's Jinja set up as `transformers` does, which `tests/oracle/render.py` asks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use frank_chat::{ChatTemplate, Conversation, Message, Role, Tool, ToolCall};
use frank_testkit::assets;
use serde_json::{Value, json};

const BOS: &str = "<|bos|>";
const EOS: &str = "<|eos|>";
const NOW: u64 = 1_700_000_000;

/// A template, the messages as it sees them, and tools or null.
struct Job {
    name: String,
    source: String,
    messages: Value,
    tools: Value,
    /// Whether Jinja shall be as lenient as frank: see `tests/oracle/render.py`.
    lenient: bool,
}

/// What Jinja makes of each job; `Err` holds why it makes nothing.
fn jinja(jobs: &[Job]) -> Vec<Result<String, String>> {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let (jobs_path, out_path) = (dir.path().join("jobs.json"), dir.path().join("out.json"));
    let as_json = |job: &Job| json!({"source": job.source, "messages": job.messages, "tools": job.tools, "lenient": job.lenient});
    let given = json!({
        "bos": BOS,
        "eos": EOS,
        "now": NOW,
        "jobs": jobs.iter().map(as_json).collect::<Vec<_>>(),
    });
    fs::write(&jobs_path, given.to_string()).expect("the jobs can be written");
    let output = Command::new(assets::python())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/render.py"))
        .args([&jobs_path, &out_path])
        .output()
        .expect("python can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers = fs::read(out_path).expect("python wrote its answers");
    let answers: Vec<Value> = serde_json::from_slice(&answers).expect("a list");
    assert_eq!(answers.len(), jobs.len());
    let answer = |answer: &Value| match answer["text"].as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(answer["error"].to_string()),
    };
    answers.iter().map(answer).collect()
}

/// What frank makes of each job.
fn frank(jobs: &[Job]) -> Vec<Result<String, String>> {
    let mut templates = HashMap::new();
    let render = |job: &Job| {
        let template = templates.entry(job.source.clone()).or_insert_with(|| {
            ChatTemplate::new(&job.source, BOS, EOS).map_err(|error| error.to_string())
        });
        let prompt = template.as_ref().map_err(Clone::clone)?.render(&conversation(job), &[]);
        prompt.map(|prompt| prompt.text).map_err(|error| error.to_string())
    };
    jobs.iter().map(render).collect()
}

fn conversation(job: &Job) -> Conversation {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    Conversation {
        messages: list(&job.messages).iter().map(message).collect(),
        tools: list(&job.tools).iter().map(tool).collect(),
        now: Some(NOW),
        ..Conversation::default()
    }
}

fn message(value: &Value) -> Message {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let calls = value["tool_calls"].as_array().cloned().unwrap_or_default();
    let call = |call: &Value| ToolCall {
        id: call["id"].as_str().map(str::to_owned),
        name: call["function"]["name"].as_str().unwrap_or_default().to_owned(),
        arguments: call["function"]["arguments"].clone(),
    };
    let role = match value["role"].as_str() {
        Some("system") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        other => panic!("no role {other:?}"),
    };
    Message {
        role,
        content: text("content").unwrap_or_default(),
        name: text("name"),
        reasoning: text("reasoning_content"),
        tool_calls: calls.iter().map(call).collect(),
        tool_call_id: text("tool_call_id"),
    }
}

/// The messages of a job in the form in which frank gives them to the template.
fn accepted(template: &ChatTemplate, job: &Job) -> Value {
    match template.accepted(&conversation(job)) {
        Cow::Borrowed(_) => job.messages.clone(),
        Cow::Owned(talk) => talk.messages.iter().map(message_json).collect(),
    }
}

fn message_json(message: &Message) -> Value {
    let mut json = json!({"role": message.role.as_str(), "content": message.content});
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            json[key] = value;
        }
    };
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    set("name", text(&message.name));
    set("thinking", text(&message.reasoning));
    set("reasoning_content", text(&message.reasoning));
    set("tool_call_id", text(&message.tool_call_id));
    let call = |call: &ToolCall| {
        json!({"id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": call.arguments}})
    };
    let calls: Vec<Value> = message.tool_calls.iter().map(call).collect();
    set("tool_calls", (!calls.is_empty()).then(|| Value::from(calls)));
    json
}

fn tool(value: &Value) -> Tool {
    let function = &value["function"];
    Tool {
        name: function["name"].as_str().unwrap_or_default().to_owned(),
        description: function["description"].as_str().map(str::to_owned),
        parameters: function.get("parameters").cloned(),
        strict: false,
    }
}

/// Compares every job, and tells the first differences and their number. Both may refuse, each in its own words.
fn assert_same(jobs: &[Job]) {
    let mut differences = Vec::new();
    for ((job, ours), theirs) in jobs.iter().zip(frank(jobs)).zip(jinja(jobs)) {
        if ours != theirs && (ours.is_ok() || theirs.is_ok()) {
            differences.push(format!("{}\n  ours:   {ours:?}\n  theirs: {theirs:?}", job.name));
        }
    }
    let n = differences.len();
    differences.truncate(8);
    assert!(differences.is_empty(), "{n} of {} differ\n{}", jobs.len(), differences.join("\n"));
}

/// Conversations as templates see them, with tools or null.
fn conversations() -> Vec<(&'static str, Value, Value)> {
    let user = json!({"role": "user", "content": "What is 2 + 2?"});
    let bye = json!({"role": "user", "content": "  Thanks, <b>bye</b>!\n"});
    let four = json!({"role": "assistant", "content": "It is 4."});
    let system = json!({"role": "system", "content": "You are terse. 日本"});
    let call = |arguments: Value| {
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_abc1", "type": "function", "function": {"name": "weather", "arguments": arguments}},
        ]})
    };
    let two_calls = json!({"role": "assistant", "content": "Let me look.", "reasoning_content": "Two cities.",
        "thinking": "Two cities.", "tool_calls": [
        {"id": "abcdefgh1", "type": "function", "function":
            {"name": "weather", "arguments": {"city": "Oslo", "days": 2, "deep": {"a": [1, 2.5, null, true]}}}},
        {"id": "abcdefgh2", "type": "function", "function": {"name": "clock", "arguments": {}}},
    ]});
    let result = |id: &str| json!({"role": "tool", "content": "{\"celsius\": 3}", "name": "weather", "tool_call_id": id});
    let thought = json!({"role": "assistant", "content": "It is 4.", "thinking": "2 and 2.",
        "reasoning_content": "2 and 2."});
    let inline = json!({"role": "assistant", "content": "<think>\nAdd.\n</think>\n\nIt is 4."});
    let object = json!({"city": "Oslo", "days": 2});
    let text = json!("{\"city\": \"Oslo\"}");
    vec![
        ("one question", json!([user]), Value::Null),
        ("system", json!([system, user]), Value::Null),
        ("several turns", json!([system, user, four, bye]), Value::Null),
        ("turns without system", json!([user, four, bye, four, user]), Value::Null),
        ("answer last", json!([user, four]), Value::Null),
        ("two users, two answers", json!([user, user, four, four]), Value::Null),
        ("two systems", json!([system, system, user]), Value::Null),
        ("system in the middle", json!([user, four, system, user]), Value::Null),
        ("answer first", json!([four, user]), Value::Null),
        (
            "empty texts",
            json!([{"role": "system", "content": ""}, {"role": "user", "content": ""}]),
            Value::Null,
        ),
        ("name", json!([{"role": "user", "content": "Hi", "name": "ann"}]), Value::Null),
        ("reasoning", json!([user, thought, bye]), Value::Null),
        ("reasoning in the text", json!([user, inline, bye, inline]), Value::Null),
        ("tools", json!([system, user]), tools()),
        ("tools without system", json!([user]), tools()),
        ("one call", json!([user, call(object.clone())]), tools()),
        (
            "call and result",
            json!([system, user, call(object.clone()), result("call_abc1")]),
            tools(),
        ),
        ("arguments as text", json!([user, call(text), result("call_abc1"), four, bye]), tools()),
        (
            "two calls and results",
            json!([user, two_calls, result("abcdefgh1"), result("abcdefgh2")]),
            tools(),
        ),
        (
            "calls in history",
            json!([user, two_calls, result("abcdefgh1"), result("abcdefgh2"), thought, bye]),
            tools(),
        ),
        (
            "calls without tools",
            json!([user, call(object), result("call_abc1"), four, bye]),
            Value::Null,
        ),
        ("nothing", json!([]), Value::Null),
    ]
}

fn tools() -> Value {
    json!([
        {"type": "function", "function": {
            "name": "weather",
            "description": "Weather of a <city> & \"more\"",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of the city"},
                    "days": {"type": "integer", "minimum": 1, "default": 1},
                    "unit": {"type": "string", "enum": ["c", "f"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "deep": {"type": "object", "properties": {"a": {"type": ["number", "null"]}}, "required": ["a"]},
                    "any": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
                },
                "required": ["city"],
                "additionalProperties": false,
            },
        }},
        {"type": "function", "function": {
            "name": "clock",
            "description": "The time",
            "parameters": {"type": "object", "properties": {}},
        }},
    ])
}

/// The templates of many models by name.
fn templates() -> Vec<(String, String)> {
    let dir = assets::chat_templates();
    let entries = fs::read_dir(&dir).expect("the templates are installed");
    let paths = entries.map(|entry| entry.expect("a file").path());
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    assert!(paths.len() >= 70, "{} templates in {}", paths.len(), dir.display());
    let read = |path: &PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(path).expect("UTF-8"))
    };
    paths.iter().map(read).collect()
}

/// Templates that Jinja refuses or spoils where frank, like llama.cpp, goes on. Set up to do the same, it agrees.
const LENIENT: [(&str, &str); 5] = [
    ("CohereForAI-c4ai-command-r-plus-tool_use", "goes through `tools` though there are none"),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "goes through `tools` though there are none"),
    ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "goes through `tools` though there are none"),
    ("llama-cpp-deepseek-r1", "writes what `map` gives as JSON"),
    (
        "meetkai-functionary-medium-v3.1",
        "marks its own words as `safe`, and all others become HTML",
    ),
];

fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for (template, source) in templates() {
        let compiled = ChatTemplate::new(&source, BOS, EOS).expect("every template compiles");
        for (name, messages, tools) in conversations() {
            let lenient = LENIENT.iter().any(|(name, _)| *name == template);
            let name = format!("{template}: {name}");
            let mut job = Job { name, source: source.clone(), messages, tools, lenient };
            job.messages = accepted(&compiled, &job);
            jobs.push(job);
        }
    }
    jobs
}

#[test]
fn the_templates_of_many_models_render_as_in_jinja() {
    assert_same(&jobs());
}

#[test]
fn the_templates_that_jinja_refuses_or_spoils_are_those_that_are_listed() {
    let listed = jobs().into_iter().filter(|job| job.lenient);
    let jobs: Vec<Job> = listed.map(|job| Job { lenient: false, ..job }).collect();
    let pairs = jobs.iter().zip(frank(&jobs)).zip(jinja(&jobs));
    let differing = pairs.filter(|((_, ours), theirs)| ours != theirs && ours.is_ok());
    let mut names: Vec<_> =
        differing.filter_map(|((job, _), _)| job.name.split(':').next()).collect();
    names.dedup();
    assert_eq!(names, LENIENT.map(|(name, _)| name));
}

#[test]
fn expressions_statements_and_filters_mean_what_they_mean_in_jinja() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/snippets.txt");
    let snippets = fs::read_to_string(path).expect("the snippets lie beside the script");
    let messages = json!([
        {"role": "user", "content": "Hi you & <b>"},
        {"role": "assistant", "content": "It's \"4\"."},
    ]);
    let job = |source: &str| Job {
        name: source.to_owned(),
        source: source.replace('⏎', "\n"),
        messages: messages.clone(),
        tools: Value::Null,
        lenient: false,
    };
    let jobs: Vec<Job> = snippets.lines().map(job).collect();
    assert!(jobs.len() > 200);
    assert_same(&jobs);
}
