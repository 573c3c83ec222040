//! litellm reads chats, messages and responses.

use crate::client_programs::{Base, python};

#[tokio::test(flavor = "multi_thread")]
async fn litellm_streams_parses_and_calls_tools_by_each_of_its_ways() {
    python("litellm_routes.py", Base::Root, &[]).await;
}
