//! The HTTP client of the hub: one GET at a time, redirects followed by hand, tokens kept to their host. Never writes files.

mod answer;
mod connect;
mod delay;
mod error;
mod link;
mod redirect;
mod retry;
mod said;
mod token;

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue, LINK, USER_AGENT};
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use url::Url;

pub(crate) use answer::Answer;
use connect::Connections;
pub use delay::Delay;
pub use error::{HttpError, Missing, TokenUse};
pub use redirect::is_loopback;
pub(crate) use redirect::{HOPS_MAX, check_scheme, plain, shown};
pub use retry::Patience;
pub(crate) use retry::Tries;
pub use token::{TokenError, Tokens, hub_endpoint};

/// Most bytes of a JSON answer.
const JSON_BYTES_MAX: u64 = 16 << 20;
/// How often the interrupt flag is looked at.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// An HTTP client for blocking callers. It runs its connections on the thread that calls it.
///
/// HTTPS goes through the proxy of `HTTPS_PROXY` (else `ALL_PROXY`) unless `NO_PROXY` names the host; plain HTTP is spoken
/// with this machine only, and never through a proxy. Certificates are checked against those the system trusts, so that
/// an authority of the site counts too.
pub struct Client {
    runtime: Runtime,
    connections: Connections,
    tokens: Tokens,
    interrupt: Option<Arc<AtomicBool>>,
    patience: Patience,
    /// Bytes a second that the network brings at most, where that was said.
    link_bytes: Option<u64>,
}

/// One page of a JSON answer.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// What the page holds.
    pub value: T,
    /// Where the next page is: the `Link` header with `rel="next"`.
    pub next: Option<Url>,
}

impl Client {
    /// A client that sends `tokens` to the host they are for, and whose calls end with [`HttpError::Interrupted`] soon
    /// after `interrupt` became true.
    /// # Errors
    /// [`HttpError::Setup`] when the system gives no event queue, or the proxy in the environment is none that can be used.
    pub fn new(tokens: Tokens, interrupt: Option<Arc<AtomicBool>>) -> Result<Client, HttpError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| HttpError::Setup { said: error.to_string() })?;
        let patience = Patience::default();
        let connections = Connections::new(patience.connect)?;
        Ok(Client { runtime, connections, tokens, interrupt, patience, link_bytes: None })
    }

    /// Waits and retries as `patience` says.
    /// # Errors
    /// As [`Client::new`].
    pub fn with_patience(self, patience: Patience) -> Result<Client, HttpError> {
        let connections = Connections::new(patience.connect)?;
        Ok(Client { connections, patience, ..self })
    }

    /// Takes the network to bring so many bytes a second at most, also from this machine; otherwise what the kernel says of
    /// its links counts.
    #[must_use]
    pub fn with_link_bytes(self, bytes: u64) -> Client {
        Client { link_bytes: Some(bytes), ..self }
    }

    /// Bytes a second that the network brings from there at most; `None` where nobody knows.
    pub(crate) fn link_bytes(&self, url: &Url) -> Option<u64> {
        let by_kernel = || link::bytes_max(Path::new("/sys/class/net"));
        self.link_bytes.or_else(|| if is_loopback(url) { None } else { by_kernel() })
    }

    /// Gets one page of JSON. What fails in passing is tried again; `tell` hears of that, and of an answer that is long in
    /// coming.
    /// # Errors
    /// [`HttpError`], [`HttpError::BadBody`] when the answer is no such JSON or larger than 16 MiB.
    pub fn json<T: DeserializeOwned>(
        &self,
        url: &Url,
        tell: &dyn Fn(&Delay),
    ) -> Result<Page<T>, HttpError> {
        self.block_on(async {
            let mut tries = Tries::first_contact(&self.patience);
            loop {
                match self.watched(url, tell, self.json_once(url)).await {
                    Err(error) => tries.again(error, tell).await?,
                    page => return page,
                }
            }
        })
    }

    /// Waits for the answer to a request to `url`, and tells when it is long in coming.
    pub(crate) async fn watched<T>(
        &self,
        url: &Url,
        tell: &dyn Fn(&Delay),
        answer: impl Future<Output = T>,
    ) -> T {
        let (mut answer, after) = (pin!(answer), self.patience.quiet);
        match tokio::time::timeout(after, &mut answer).await {
            Ok(answer) => answer,
            Err(_) => {
                tell(&Delay::Silence { host: redirect::host_and_port(url), after });
                answer.await
            }
        }
    }

    async fn json_once<T: DeserializeOwned>(&self, url: &Url) -> Result<Page<T>, HttpError> {
        let mut answer = self.get(url, &HeaderMap::new()).await?.into_success().await?;
        let next =
            answer.header(LINK.as_str()).and_then(|link| redirect::next_page(&answer.url, link));
        let bytes = answer.bytes(JSON_BYTES_MAX).await?;
        let value = serde_json::from_slice(&bytes).map_err(|error| HttpError::BadBody {
            url: shown(url),
            why: format!("not the JSON that was expected ({error})"),
        })?;
        Ok(Page { value, next })
    }

    /// Sends one GET and follows redirects; the answer may have any other status.
    pub(crate) async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<Answer, HttpError> {
        let mut url = url.clone();
        check_scheme(&url)?;
        let mut linked_etag = None;
        for _ in 0..=HOPS_MAX {
            let mut answer = self.get_once(&url, headers).await?;
            linked_etag = linked_etag.or_else(|| answer.linked_etag.take());
            let Some(location) = answer.redirect() else {
                answer.linked_etag = linked_etag;
                return Ok(answer);
            };
            // Another host would get the token with the address, and so would the log.
            let told = self.tokens.blot_out(location);
            if told != location {
                return Err(redirect::refused(&url, &told));
            }
            url = redirect::follow(&url, location)?;
        }
        Err(HttpError::Redirects { url: shown(&url) })
    }

    async fn get_once(&self, url: &Url, headers: &HeaderMap) -> Result<Answer, HttpError> {
        let mut headers = headers.clone();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        // A body that is packed has neither the size nor the digest of the file.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        self.tokens.check(url)?;
        if let Some(token) = self.tokens.header_for(url) {
            headers.insert(AUTHORIZATION, token);
        }
        let response = self.connections.send(url, headers, self.patience.idle).await?;
        Ok(Answer::new(url.clone(), response, self.patience.idle, self.tokens.clone()))
    }

    /// Runs `work` on this thread, until the interrupt flag is raised.
    pub(crate) fn block_on<T, E: From<HttpError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.runtime.block_on(async {
            tokio::select! {
                done = work => done,
                () = self.until_interrupted() => Err(HttpError::Interrupted.into()),
            }
        })
    }

    async fn until_interrupted(&self) {
        while !self.is_interrupted() {
            tokio::time::sleep(TICK).await;
        }
    }

    /// Whether the caller wants the work to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    pub(crate) fn patience(&self) -> &Patience {
        &self.patience
    }
}

/// What servers are told about this client.
const AGENT: &str = concat!("frank/", env!("CARGO_PKG_VERSION"));
