//! An endpoint from a prepared model to its end: bind, load, answer, drain. `serve` and `demo` share it.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use frank_chat::ChatTemplate;
use frank_engine::{DiskCache, Engine, EngineOptions, SamplingParams};
use frank_server::{ModelSlot, Served, ServerOptions};
use frank_telemetry::Metrics;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tracing_subscriber::EnvFilter;

use crate::answering::{Chosen, chosen_template, sampling_defaults};
use crate::cache_dir;
use crate::load::Prepared;
use crate::options::ModelOptions;
use crate::report::{Code, Failure};
use crate::thread_limit::check_threads;
use crate::usage::UsageWriter;

/// Threads that read requests and write answers. The compute pool has its own.
const HTTP_THREADS: usize = 2;

/// Requests that wait when nobody says.
pub(crate) const N_QUEUE_DEFAULT: usize = 64;

/// What an endpoint adds to a prepared model.
pub(crate) struct Endpoint {
    /// Names under which clients find the model, the main one first.
    pub(crate) names: Vec<String>,
    /// Requests that may wait.
    pub(crate) n_queue: usize,
    pub(crate) server: ServerOptions,
    template: Option<ChatTemplate>,
    sampling: SamplingParams,
    disk: Option<DiskCache>,
}

impl Endpoint {
    /// An endpoint for `prepared` with its chat template, its sampling defaults and its prefixes on disk.
    ///
    /// # Errors
    /// When `--chat-template`, the file's sampling keys or `--cache-dir` cannot be used.
    pub(crate) fn new(
        prepared: &Prepared,
        options: &ModelOptions,
        names: Vec<String>,
    ) -> anyhow::Result<Self> {
        let sampling = sampling_defaults(&prepared.file.header.metadata)?;
        Ok(Self {
            names,
            n_queue: N_QUEUE_DEFAULT,
            server: ServerOptions::default(),
            template: chat_template(prepared, options)?,
            sampling,
            disk: disk_cache(prepared, options)?,
        })
    }
}

/// The runtime of an endpoint, with its log on stderr (`FRANK_LOG`, by default warnings).
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    // The runtime panics without them.
    check_threads(HTTP_THREADS)?;
    let filter = EnvFilter::try_from_env("FRANK_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(HTTP_THREADS)
        .enable_all()
        .build()
        .context("cannot start threads")
}

/// Listens on `address`; port 0 picks a free one.
///
/// # Errors
/// Names the address, and says the way out when its port is in use.
pub(crate) async fn bind(host: &str, port: u16) -> anyhow::Result<TcpListener> {
    let fact = format!("cannot listen on {host}:{port}");
    TcpListener::bind((host, port)).await.map_err(|error| {
        let failure = Failure::new(Code::Failed, fact);
        let failure = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                failure.hint("--port 0 picks a free port, --port N another")
            }
            _ => failure,
        };
        anyhow::Error::new(error).context(failure)
    })
}

/// Loads the model into `slot` while `listener` already answers that it is loading, then answers until a signal.
/// `ready` runs beside the endpoint once the model is there; when it ends with `Flow::Stop`, so does the endpoint.
///
/// # Errors
/// When the model cannot be loaded, the listener fails, or `ready` fails.
pub(crate) async fn run<R, F>(
    listener: TcpListener,
    mut prepared: Prepared,
    options: &ModelOptions,
    mut endpoint: Endpoint,
    ready: R,
) -> anyhow::Result<()>
where
    R: FnOnce(SocketAddr) -> F,
    F: Future<Output = anyhow::Result<Flow>>,
{
    let address = listener.local_addr().context("the listener has no address")?;
    let slot = ModelSlot::loading();
    let stop = Arc::new(Notify::new());
    let is_loaded = Arc::new(AtomicBool::new(false));
    let asked_to_stop = wait_for_stop(Arc::clone(&stop), Arc::clone(&is_loaded))?;
    let server = std::mem::take(&mut endpoint.server);
    let metrics = server.metrics.clone();
    let http = tokio::spawn(frank_server::serve(listener, slot.clone(), server, asked_to_stop));
    let (served, usage) = tokio::task::block_in_place(|| {
        let served = load(&prepared, options, endpoint, metrics)?;
        // The header has done its work; its memory goes back before the first request.
        let usage = prepared.usage.take();
        drop(prepared);
        anyhow::Ok((served, usage))
    })?;
    let engine = served.engine.clone();
    let usage = usage.map(|usage| Arc::new(UsageWriter::new(usage, engine.clone())));
    let saving = usage.clone().map(|usage| tokio::spawn(async move { usage.keep_saving().await }));
    slot.fill(served);
    is_loaded.store(true, Ordering::Relaxed);
    if ready(address).await? == Flow::Stop {
        stop.notify_one();
    }
    let ended = http.await.context("the endpoint ended early")?;
    if let Some(saving) = saving {
        saving.abort();
    }
    tokio::task::block_in_place(|| {
        engine.shutdown();
        if let Some(usage) = usage {
            usage.save();
        }
    });
    ended.context("the endpoint failed")
}

/// Reads the weights and starts the engine.
fn load(
    prepared: &Prepared,
    options: &ModelOptions,
    endpoint: Endpoint,
    metrics: Metrics,
) -> anyhow::Result<Served> {
    let engine_options = EngineOptions {
        n_ctx: prepared.plan.ctx_size as usize,
        n_parallel: prepared.plan.parallel as usize,
        n_queue: endpoint.n_queue,
        prefix_cache: options.cache.keeps_prefixes(),
    };
    let devices = &prepared.plan.devices;
    let budget = devices.iter().map(|device| device.used).sum::<u64>()
        + devices.first().map_or(0, |device| device.left);
    let budget = options.memory_budget.map_or(budget, |said| said.min(budget));
    metrics.memory_budget.set(i64::try_from(budget).unwrap_or(i64::MAX));
    let model = prepared.load(options, engine_options.n_parallel)?;
    let mut names = endpoint.names.into_iter();
    Ok(Served {
        engine: Engine::start_with_disk(model, engine_options, endpoint.disk, metrics),
        tokenizer: Arc::clone(&prepared.tokenizer),
        template: endpoint.template,
        model_name: names.next().unwrap_or_default(),
        aliases: names.collect(),
        sampling: endpoint.sampling,
    })
}

/// Whether an endpoint goes on after what ran beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Until a signal.
    Serve,
    /// It ends now.
    Stop,
}

/// Resolves at the first Ctrl-C, SIGTERM or SIGHUP, or when `stop` is notified. While the model loads nobody is being
/// answered, so a signal ends the process at once then; a second one does so at any time.
fn wait_for_stop(
    stop: Arc<Notify>,
    is_loaded: Arc<AtomicBool>,
) -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut signals = StopSignals::listen().context("cannot listen for signals")?;
    Ok(async move {
        tokio::select! {
            () = signals.next() => {}
            () = stop.notified() => return,
        }
        if !is_loaded.load(Ordering::Relaxed) {
            end_at_once(0);
        }
        // A terminal that goes away may say so more than once.
        signals.hangup = None;
        tokio::spawn(async move {
            signals.next().await;
            end_at_once(Code::Interrupted as i32);
        });
    })
}

/// The signals that ask an endpoint to end.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where nobody is to end when the terminal goes away, as under `nohup`.
    hangup: Option<Signal>,
}

impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if frank_os::ignores_hangup() {
                None
            } else {
                Some(signal(SignalKind::hangup())?)
            },
        })
    }

    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

#[expect(
    clippy::exit,
    reason = "reading weights and waiting for answers cannot be broken off otherwise"
)]
fn end_at_once(code: i32) -> ! {
    std::process::exit(code)
}

/// The prefixes in the folder of `--cache-dir`.
fn disk_cache(prepared: &Prepared, options: &ModelOptions) -> anyhow::Result<Option<DiskCache>> {
    let Some((directory, bytes)) = options.cache.directory() else { return Ok(None) };
    let router_bias = prepared.router_bias.as_deref();
    cache_dir::open(directory, bytes, &prepared.file, options.kv_types, router_bias).map(Some)
}

/// The template of `--chat-template`, else of the file. One in the file that cannot be used costs only chat.
fn chat_template(
    prepared: &Prepared,
    options: &ModelOptions,
) -> anyhow::Result<Option<ChatTemplate>> {
    match chosen_template(prepared, options)? {
        Chosen::Template(template) => Ok(Some(template)),
        Chosen::None => Ok(None),
        Chosen::Unusable(error) => {
            tracing::warn!(
                "the chat template of the model cannot be used, chat requests are refused: {error}"
            );
            Ok(None)
        }
    }
}
