//! An endpoint on a free port of loopback, and the shortest ways to ask it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use frank_chat::ChatTemplate;
use frank_engine::{Engine, EngineOptions, SamplingParams};
use frank_server::{ModelSlot, ServeError, Served, ServerOptions, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::script::{CHATML, Controls, Replies, Script, says, tokenizer};

/// Tokens of a request's context, where a test does not say.
pub(crate) const N_CTX: usize = 256;

/// Blocks of the KV cache that one request of the whole context takes.
pub(crate) const BLOCKS_PER_REQUEST: u32 = 8;

/// What a test server is made of.
pub(crate) struct Setup {
    pub(crate) answer: Vec<u32>,
    pub(crate) replies: Replies,
    pub(crate) held: bool,
    pub(crate) template: Option<String>,
    pub(crate) n_parallel: usize,
    pub(crate) n_queue: usize,
    pub(crate) kv_blocks: u32,
    pub(crate) prefix_cache: bool,
    pub(crate) n_ctx: usize,
    pub(crate) options: ServerOptions,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            answer: says("Hello."),
            replies: Vec::new(),
            held: false,
            template: Some(CHATML.to_owned()),
            n_parallel: 4,
            n_queue: 8,
            kv_blocks: 4 * BLOCKS_PER_REQUEST,
            prefix_cache: false,
            n_ctx: N_CTX,
            options: ServerOptions::default(),
        }
    }
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) controls: Controls,
    pub(crate) client: reqwest::Client,
    pub(crate) shutdown: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<Result<(), ServeError>>,
}

/// A server that answers everything with `text`.
pub(crate) async fn server_that_says(text: &str) -> TestServer {
    Setup { answer: says(text), ..Setup::default() }.start().await
}

impl Setup {
    /// Room for tools and thoughts.
    pub(crate) fn with_long_context(self) -> Self {
        Self { n_ctx: 8 * N_CTX, kv_blocks: 8 * self.kv_blocks, ..self }
    }

    pub(crate) async fn start(self) -> TestServer {
        let slot = ModelSlot::loading();
        let (server, served) = self.start_loading(slot.clone()).await;
        slot.fill(served);
        server
    }

    /// A server whose model is still to be put into `slot`.
    pub(crate) async fn start_loading(self, slot: ModelSlot) -> (TestServer, Served) {
        let (model, controls) = Script::model(self.answer, self.replies, self.held, self.kv_blocks);
        let sizes = EngineOptions {
            n_ctx: self.n_ctx,
            n_parallel: self.n_parallel,
            n_queue: self.n_queue,
            prefix_cache: self.prefix_cache,
        };
        let engine = Engine::start(model, sizes, self.options.metrics.clone());
        let template = self.template.map(|source| {
            ChatTemplate::new(&source, "", "<|im_end|>").expect("the template compiles")
        });
        let served = Served {
            engine: engine.clone(),
            tokenizer: Arc::new(tokenizer()),
            template,
            model_name: "scripted".to_owned(),
            aliases: vec!["alias".to_owned()],
            sampling: SamplingParams::greedy(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (shutdown, asked) = oneshot::channel();
        let task = tokio::spawn(serve(listener, slot, self.options, async { drop(asked.await) }));
        let client = reqwest::Client::builder().no_proxy().build().expect("a client without TLS");
        let server =
            TestServer { address, engine, controls, client, shutdown: Some(shutdown), task };
        (server, served)
    }
}

impl TestServer {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(self.url(path))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        self.client.post(self.url(path)).json(body)
    }

    pub(crate) async fn chat(&self, body: &Value) -> reqwest::Response {
        self.post("/v1/chat/completions", body).send().await.expect("the server answers")
    }

    /// The answer to a chat request, which must be a 200.
    pub(crate) async fn chat_ok(&self, body: &Value) -> Value {
        let response = self.chat(body).await;
        assert_eq!(response.status(), 200, "{body}");
        response.json().await.expect("the answer is JSON")
    }

    /// The chunks of a streamed chat answer, without the `[DONE]` that must end it.
    pub(crate) async fn chat_stream(&self, body: &Value) -> Vec<Value> {
        let response = self.chat(body).await;
        assert_eq!(response.status(), 200, "{body}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let text = response.text().await.expect("the stream ends");
        let chunks =
            text.strip_suffix("data: [DONE]\n\n").unwrap_or_else(|| panic!("no end in {text}"));
        chunks_of(chunks)
    }

    /// Runs steps of a held model until no request runs or waits, or `limit` steps were allowed. Each step is
    /// followed by a request, so that the server has had its turn. Returns the number of steps.
    pub(crate) async fn steps_until_idle(&self, limit: usize) -> usize {
        for n_steps in 0..limit {
            let stats = self.engine.stats();
            if stats.running + stats.waiting == 0 {
                return n_steps;
            }
            self.controls.allow_step();
            self.get("/health").send().await.expect("the server answers");
        }
        limit
    }

    /// Returns when the engine's counts are as wanted.
    pub(crate) async fn wait_for(
        &self,
        what: &str,
        wanted: impl Fn(frank_engine::EngineStats) -> bool,
    ) {
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !wanted(self.engine.stats()) {
            assert!(
                std::time::Instant::now() < deadline,
                "never saw {what}: {:?}",
                self.engine.stats()
            );
            tokio::task::yield_now().await;
        }
    }
}

/// The bytes of the prompt `index` that a model of the script's vocabulary computed, as text.
pub(crate) fn prompt_text(server: &TestServer, index: usize) -> String {
    let prompts = server.controls.prompts();
    let bytes: Vec<u8> = prompts[index].iter().filter_map(|id| u8::try_from(*id).ok()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The JSON of each frame; comments are skipped.
pub(crate) fn chunks_of(stream: &str) -> Vec<Value> {
    let lines = stream.split("\n\n").filter(|frame| !frame.is_empty() && !frame.starts_with(':'));
    lines
        .map(|frame| {
            let data = frame
                .strip_prefix("data: ")
                .unwrap_or_else(|| panic!("not a data frame: {frame:?}"));
            serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))
        })
        .collect()
}

/// The text of streamed chat chunks.
pub(crate) fn text_of(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

/// A chat request that asks `content` and has `extra` fields.
pub(crate) fn ask(content: &str, extra: Value) -> Value {
    let mut body = json!({"model": "scripted", "messages": [{"role": "user", "content": content}]});
    let Value::Object(extra) = extra else { panic!("extra fields are an object") };
    body.as_object_mut().expect("the body is an object").extend(extra);
    body
}
