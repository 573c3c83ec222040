//! A server with a tiny model, and schemathesis asking it for minutes what its OpenAPI document has and has not.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use frank_testkit::assets;

use crate::cargo::{execute, target_dir};
use crate::install;
use crate::server_process::{ServerProcess, tested_frank};

/// Tokens of context for each request.
const N_CTX: &str = "512";

const KEY: &str = "fuzzed";

/// The tiny models have no template. This one knows tools.
const TEMPLATE: &str = "\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call as <tool_call>{\"name\": …, \"arguments\": …}</tool_call><|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}<|im_start|>assistant
";

/// Runs schemathesis for some minutes. Without a seed the clock gives one, which is printed.
///
/// # Errors
/// An answer was a server's failure or broke the document, the server did not end well, or something cannot be run.
pub(super) fn run(root: &Path, minutes: u32, seed: Option<u64>) -> Result<()> {
    install::all()?;
    let mut serve = tested_frank(root)?;
    // In the build folder, not in the temporary one: that may be memory.
    let scratch = tempfile::Builder::new().prefix("fuzz-http-").tempdir_in(target_dir()?)?;
    let (keys, template) = (scratch.path().join("keys"), scratch.path().join("template.jinja"));
    fs::write(&keys, KEY).context("write the key")?;
    fs::write(&template, TEMPLATE).context("write the template")?;
    serve.arg("serve").arg(assets::tiny("llama.gguf"));
    serve.args(["--port", "0", "--ctx-size", N_CTX, "--api-key-file"]).arg(&keys);
    serve.arg("--chat-template").arg(&template).env("XDG_DATA_HOME", scratch.path());
    let server = ServerProcess::start(&mut serve)?;
    let mut ask = Command::new(assets::schemathesis_python());
    ask.arg(root.join("crates/frank-server/tests/oracle/schemathesis_routes.py"));
    ask.arg(format!("http://{}", server.address)).arg(KEY);
    ask.arg((60 * u64::from(minutes)).to_string()).arg(seed.unwrap_or_else(of_clock).to_string());
    // No proxy of the machine stands before its own loopback.
    let asked = execute(ask.env("HOME", scratch.path()).env("NO_PROXY", "127.0.0.1"));
    let ended = server.terminate();
    asked?;
    ended.map(drop)
}

/// A number that is another one at every run.
fn of_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
