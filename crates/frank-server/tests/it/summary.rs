//! The line of the log that each request gets.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use frank_experts::StoreStatistics;
use serde_json::json;

use crate::script::{UNREAD, says};
use crate::server::{Setup, TestServer, ask, server_that_says};

/// Everything that was logged by the tests of this process, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no test panics while it writes").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn of_this_process() -> &'static Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        LOG.get_or_init(|| {
            let log = Self::default();
            let writer = log.clone();
            let subscriber = tracing_subscriber::fmt().with_ansi(false);
            subscriber.with_writer(move || writer.clone()).init();
            log
        })
    }

    /// The only line about a request.
    fn line(&self, request: &str) -> String {
        let text = self.0.lock().expect("no test panics while it writes").clone();
        let text = String::from_utf8(text).expect("a log is text");
        let mut lines = text.lines().filter(|line| line.contains(request));
        let line = lines.next().unwrap_or_else(|| panic!("nothing of {request} in\n{text}"));
        assert_eq!(lines.next(), None, "a second line");
        line.to_owned()
    }
}

async fn line(server: &TestServer, extra: serde_json::Value) -> String {
    let answer = server.chat_ok(&ask("Hi", extra)).await;
    Log::of_this_process().line(answer["id"].as_str().expect("an answer has an id"))
}

fn has(line: &str, fields: &[&str]) {
    for field in fields {
        assert!(line.contains(field), "no {field} in {line}");
    }
}

#[tokio::test]
async fn a_request_is_one_line_with_its_tokens_speeds_and_end() {
    Log::of_this_process();
    let server = server_that_says("Hello.").await;
    let whole = line(&server, json!({})).await;
    has(
        &whole,
        &["model=\"scripted\"", "cached_tokens=0", "generated_tokens=6", "finish=\"stop\""],
    );
    has(&whole, &["prompt_tokens=", "ttft_ms=", "prefill_tok_s=", "decode_tok_s="]);
    assert!(!whole.contains("batch_"), "it streams no experts: {whole}");
    has(
        &line(&server, json!({"max_tokens": 2})).await,
        &["generated_tokens=2", "finish=\"length\""],
    );
}

#[tokio::test]
async fn a_request_to_a_streamed_model_tells_what_was_read_while_it_ran() {
    Log::of_this_process();
    let server = server_that_says("Hello.").await;
    let before = StoreStatistics { n_streamed: 4, misses: 1000, hits: 9, ..Default::default() };
    *server.controls.experts.lock().unwrap() = Some(before);
    // The engine has known of them since the first of these requests.
    let n_rows = server.chat_ok(&ask("Hi", json!({}))).await["usage"]["prompt_tokens"].clone();
    let n_rows = n_rows.as_u64().unwrap() + 6;
    let streamed = line(&server, json!({})).await;
    has(&streamed, &["batch_expert_hits=0 ", &format!("batch_expert_misses={n_rows} ")]);
    has(&streamed, &["batch_bytes_read=0 ", "batch_demand_wait_ms=0", "batch_prefetch_useful=0"]);
}

#[tokio::test]
async fn a_request_that_fails_and_one_whose_client_left_say_so() {
    let log = Log::of_this_process();
    let answer = vec![says("a")[0], UNREAD];
    let server = Setup { answer, ..Setup::default() }.start().await;
    server.controls.reads_fail.store(true, Ordering::Relaxed);
    let stream = server.chat(&ask("Hi", json!({"stream": true}))).await.text().await.unwrap();
    let id = stream.split('"').find(|part| part.starts_with("chatcmpl-")).unwrap();
    has(&log.line(id), &["generated_tokens=1", "finish=\"failed\""]);
    let mut server = Setup { held: true, ..Setup::default() }.start().await;
    let mut response = server.chat(&ask("Hi", json!({"stream": true}))).await;
    let first = response.chunk().await.unwrap().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    let id = first.split('"').find(|part| part.starts_with("chatcmpl-")).unwrap();
    drop(response);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !String::from_utf8_lossy(&log.0.lock().unwrap()).contains(id) {
        assert!(std::time::Instant::now() < deadline, "nothing of {id}");
        tokio::task::yield_now().await;
    }
    has(&log.line(id), &["generated_tokens=0", "finish=\"cancelled\""]);
    server.controls.release();
}
