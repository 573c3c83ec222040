//! Programs of clients, each run by itself against an endpoint that follows one script. No key or proxy of the machine
//! reaches them.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use frank_server::{AnswerStore, ApiKeys, ServerOptions};
use frank_testkit::assets;

use crate::script::{Replies, says};
use crate::server::Setup;
use crate::tools::HERMES;

/// Tokens of a context in which tools and a conversation have room; here a token is a byte.
const N_CTX: usize = 4096;

/// What is said to whom nothing else is said.
const GREETING: &str = "Hello \u{1F600}.";

/// Prompts and the answers to them. A prompt has all of a conversation, so its end comes first.
const REPLIES: [(&str, &str); 5] = [
    ("18 degrees", "It is warm."),
    // litellm asks Anthropic's models for a form by a tool of this name that must be called.
    (
        "json_tool_call",
        "<tool_call>\n{\"name\": \"json_tool_call\", \"arguments\": {\"name\": \"Ada\", \"age\": 36}}\n</tool_call>",
    ),
    ("Who?", r#"{"name": "Ada", "age": 36} is my answer"#),
    (
        "warm in Paris and Rome?",
        "Let me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>\n\
         <tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>",
    ),
    (
        "warm in Paris?",
        "Let me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
    ),
];

/// The path below which the vendor of a client's protocol has it.
#[derive(Clone, Copy)]
pub(crate) enum Base {
    /// Clients add all of the path.
    Root,
    /// Clients add what comes after `/v1`.
    V1,
}

/// Runs a Python script of `tests/oracle` with the endpoint, its key and `arguments`.
pub(crate) async fn python(script: &str, base: Base, arguments: &[&str]) {
    let mut command = Command::new(assets::python());
    // litellm fetches a list of prices otherwise.
    command.env_clear().env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    run(command, script, base, arguments).await;
}

/// Runs a script of `tests/oracle` in Node.js with the endpoint, its key and `arguments`.
pub(crate) async fn node(script: &str, base: Base, arguments: &[&str]) {
    let mut command = Command::new(assets::node());
    command.env_clear().env("NODE_PATH", assets::node_modules_path());
    run(command, script, base, arguments).await;
}

/// Runs a script of `tests/oracle` in the interpreter of a command with the endpoint, its key and `arguments`.
pub(crate) async fn run(mut command: Command, script: &str, base: Base, arguments: &[&str]) {
    let home = tempfile::tempdir().expect("a folder");
    let server = Setup {
        answer: says(GREETING),
        replies: REPLIES.iter().map(|(text, reply)| (*text, says(reply))).collect::<Replies>(),
        n_ctx: N_CTX,
        kv_blocks: u32::try_from(4 * N_CTX / 32).expect("a small number"),
        template: Some(HERMES.to_owned()),
        options: options(home.path()),
        ..Setup::default()
    };
    let server = server.start().await;
    let url = server.url(if matches!(base, Base::V1) { "/v1" } else { "" });
    let script = format!("{}/tests/oracle/{script}", env!("CARGO_MANIFEST_DIR"));
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    command.env("HOME", home.path()).args([&script, &url, "test-key"]).args(arguments);
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("it does not panic").expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// One key, and room for stored answers.
fn options(home: &Path) -> ServerOptions {
    let key_file = home.join("keys");
    std::fs::write(&key_file, "test-key\n").expect("a file in it");
    ServerOptions {
        api_keys: ApiKeys::from_file(&key_file).expect("it holds a key"),
        store: Some(AnswerStore::open(&home.join("answers"), 64).expect("a folder in it")),
        ..ServerOptions::default()
    }
}
