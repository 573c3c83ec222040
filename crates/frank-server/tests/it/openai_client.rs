//! The `openai` package for Python reads every kind of reply.

use std::process::Stdio;

use frank_server::{ApiKeys, ServerOptions};
use frank_testkit::assets;

use crate::script::says;
use crate::server::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_for_python_streams_completes_lists_and_raises() {
    let python = assets::python();
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("keys");
    std::fs::write(&key_file, "test-key\n").unwrap();
    let options = ServerOptions {
        api_keys: ApiKeys::from_file(&key_file).unwrap(),
        ..ServerOptions::default()
    };
    let server =
        Setup { answer: says("Hello \u{1F600}."), options, ..Setup::default() }.start().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/openai_stream.py");
    // A private home and no environment keep any real key and proxy away.
    let mut command = std::process::Command::new(python);
    command.env_clear().env("HOME", folder.path()).args([script, &server.url("/v1"), "test-key"]);
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
