//! The `openai` package for Python reads every kind of reply.

use crate::client_programs::{Base, python};

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_for_python_streams_completes_lists_and_raises() {
    python("openai_stream.py", Base::V1, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_for_python_reads_answers_of_a_form() {
    python("openai_formats.py", Base::V1, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_for_python_calls_tools_in_chats() {
    python("openai_tools.py", Base::V1, &["chat"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_for_python_calls_tools_in_responses() {
    python("openai_tools.py", Base::V1, &["responses"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_for_python_streams_stores_and_parses_responses() {
    python("openai_responses.py", Base::V1, &[]).await;
}
