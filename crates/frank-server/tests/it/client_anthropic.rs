//! The `anthropic` package for Python reads messages, streams, counts and calls of tools.

use crate::client_programs::{Base, python};

#[tokio::test(flavor = "multi_thread")]
async fn the_anthropic_package_streams_parses_counts_and_lists() {
    python("anthropic_messages.py", Base::Root, &["text"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_anthropic_package_calls_tools() {
    python("anthropic_messages.py", Base::Root, &["tools"]).await;
}
