//! Connections: how many there may be, and how long each may take to say what it wants.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::timed_writes::TimedWrites;

/// Connections at the same time. More wait in the listener's own queue until one ends.
const CONNECTIONS_MAX: usize = 512;

/// Bytes of a request's head at most. Every connection may hold as many before anyone asked for its key.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// Pause after the system could not give a connection, for example because all file descriptors are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// To send the head of a request; a connection may idle so long between two of them.
    pub(crate) head: Duration,
    /// To take anything of what is there for it.
    pub(crate) write: Duration,
}

/// Answers what comes in on `listener` with `router` until `drain` resolves; then takes no more and returns when the
/// running answers have ended.
pub(crate) async fn answer(
    listener: TcpListener,
    router: Router,
    times: Times,
    drain: impl Future<Output = ()>,
) {
    let connections = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(times.head).max_buf_size(HEAD_BYTES_MAX);
    let mut drain = pin!(drain);
    loop {
        let place =
            Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
        let stream = tokio::select! {
            stream = accept(&listener) => stream,
            () = &mut drain => break,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = connections.watch(
            http.serve_connection(TokioIo::new(TimedWrites::new(stream, times.write)), service),
        );
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
    drop(listener);
    connections.shutdown().await;
}

/// The next connection. What goes wrong with one is no reason to end the others.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Frames are small and wanted at once. A connection that refuses the option works without it.
                drop(stream.set_nodelay(true));
                return stream;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be taken");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether a client gave up between its connecting and our accepting.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
