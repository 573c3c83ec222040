//! The life of an endpoint: listen, answer, drain, end.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use frank_telemetry::Metrics;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::app::{App, Phase};
use crate::auth::ApiKeys;
use crate::connections::{self, Times};
use crate::origin::{AllowedOrigin, HostRules};
use crate::routes::router;
use crate::served::ModelSlot;
use crate::stored::AnswerStore;

/// Time for cut-off answers to say so before their connections are dropped.
const CLOSING_LIMIT: Duration = Duration::from_secs(2);

/// Time for the last bytes of answers to leave when a client keeps its connection open.
const FLUSH_TIME: Duration = Duration::from_secs(3);

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Who may ask.
    pub api_keys: ApiKeys,
    /// Web origins beside loopback that may ask, and by whose names the endpoint may be called.
    pub allowed_origins: Vec<AllowedOrigin>,
    /// Names of this machine, by which it may be called when it listens on a network.
    pub host_names: Vec<String>,
    /// Where it counts.
    pub metrics: Metrics,
    /// Silence in a stream after which it gets a comment.
    pub keep_alive: Duration,
    /// How long the head of a request may take to arrive, and how long a connection may idle between requests.
    pub head_timeout: Duration,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a client may take nothing of an answer that is there for it. Then its connection ends.
    pub write_timeout: Duration,
    /// How long running answers may go on after the end was asked for.
    pub drain_limit: Duration,
    /// Where answers are stored that clients want to go on after; without it none is.
    pub store: Option<AnswerStore>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            api_keys: ApiKeys::default(),
            allowed_origins: Vec::new(),
            host_names: Vec::new(),
            metrics: Metrics::new(),
            keep_alive: Duration::from_secs(10),
            head_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            drain_limit: Duration::from_secs(60),
            store: None,
        }
    }
}

/// Why an endpoint ended too early.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The listener has no address.
    #[error("the listener has no address: {0}")]
    NoAddress(#[source] io::Error),
}

/// Answers requests on `listener` until `shutdown`. Then it takes no more and returns when the running answers have
/// ended, or were cut off after `options.drain_limit`. The engine goes on; it is the caller's.
///
/// # Errors
/// [`ServeError`] when the listener has no address.
pub async fn serve(
    listener: TcpListener,
    model: impl Into<ModelSlot>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let bind = listener.local_addr().map_err(ServeError::NoAddress)?.ip();
    if !bind.is_loopback() && options.api_keys.is_open() {
        tracing::warn!(%bind, "anyone on this network may use this endpoint: it asks for no API key");
    }
    let (phase, phases) = watch::channel(Phase::Running);
    let hosts = HostRules::new(bind, options.allowed_origins.clone(), &options.host_names);
    let drain_limit = options.drain_limit;
    let times = Times { head: options.head_timeout, write: options.write_timeout };
    let app = Arc::new(App::new(model.into(), options, hosts, phases.clone()));
    let draining = wait_for_drain(phases);
    let mut server = pin!(connections::answer(listener, router(Arc::clone(&app)), times, draining));
    tokio::select! {
        () = &mut server => unreachable!("it ends only after the drain has begun"),
        () = shutdown => {}
    }
    phase.send_replace(Phase::Draining);
    tokio::select! {
        () = &mut server => return Ok(()),
        () = all_answered(&app) => return Ok(()),
        () = sleep(drain_limit) => {}
    }
    tracing::warn!(
        "answers still ran {} s after the end was asked for, and were cut off",
        drain_limit.as_secs()
    );
    phase.send_replace(Phase::Closing);
    // What does not even say that it was cut off is dropped with the runtime.
    drop(timeout(CLOSING_LIMIT, &mut server).await);
    Ok(())
}

/// Returns when every answer has ended and its last bytes have had time to leave. Connections on which nobody is
/// answered, some with half a request on them, are not waited for.
async fn all_answered(app: &App) {
    app.answers.all_ended().await;
    sleep(FLUSH_TIME).await;
}

async fn wait_for_drain(mut phases: watch::Receiver<Phase>) {
    // An error means that the endpoint is gone, which ends it too.
    drop(phases.wait_for(|phase| *phase != Phase::Running).await);
}
