//! The program `llm` reads chats and responses.

use crate::client_programs::{Base, python};

#[tokio::test(flavor = "multi_thread")]
async fn llm_prompts_goes_on_keeps_a_schema_and_calls_tools() {
    python("llm_prompt.py", Base::V1, &[]).await;
}
