//! The `openai` package for Python reads every kind of reply.

use std::process::Stdio;

use frank_server::{ApiKeys, ServerOptions};
use frank_testkit::assets;

use crate::script::says;
use crate::server::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_for_python_streams_completes_lists_and_raises() {
    run("openai_stream.py", "Hello \u{1F600}.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_for_python_reads_answers_of_a_form() {
    run("openai_formats.py", r#"{"name": "Ada", "age": 36} is my answer"#).await;
}

/// Runs a script against an endpoint that wants to say `text`.
async fn run(script: &str, text: &str) {
    let python = assets::python();
    let folder = tempfile::tempdir().expect("a folder");
    let key_file = folder.path().join("keys");
    std::fs::write(&key_file, "test-key\n").expect("a file in it");
    let options = ServerOptions {
        api_keys: ApiKeys::from_file(&key_file).expect("it holds a key"),
        ..ServerOptions::default()
    };
    let server = Setup { answer: says(text), options, ..Setup::default() }.start().await;
    let script = format!("{}/tests/oracle/{script}", env!("CARGO_MANIFEST_DIR"));
    // A private home and no environment keep any real key and proxy away.
    let mut command = std::process::Command::new(python);
    command.env_clear().env("HOME", folder.path()).args([&script, &server.url("/v1"), "test-key"]);
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("it does not panic").expect("python starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
