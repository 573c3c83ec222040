//! The `openai` package for Node.js reads chats, responses, their streams and calls of tools.

use crate::client_programs::{Base, node};

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_for_node_streams_chats_and_responses_and_runs_tools() {
    node("openai_node.cjs", Base::V1, &[]).await;
}
