//! Connections: TCP, TLS, the proxy of the environment, and a pool of open ones. Never reads a body.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;
use url::Url;

use super::error::HttpError;
use super::redirect::{host_and_port, is_loopback, shown};
use super::said;

/// How long an open connection waits for its next request.
const POOL_IDLE: Duration = Duration::from_secs(30);

type Pool<C> = Client<HttpsConnector<C>, Empty<Bytes>>;

/// Open connections, and how to make new ones.
pub(super) struct Connections {
    direct: Pool<HttpConnector>,
    proxied: Option<Pool<Tunnel<HttpConnector>>>,
    matcher: Matcher,
    connect: Duration,
}

impl Connections {
    /// Reads the proxy from the environment and the authorities that the system trusts.
    pub(super) fn new(connect: Duration) -> Result<Connections, HttpError> {
        let setup = |said: String| HttpError::Setup { said };
        let tls = tls_config().map_err(|error| setup(error.to_string()))?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect));
        let matcher = Matcher::from_env();
        let proxied = match proxy(&matcher) {
            None => None,
            Some(proxy) if proxy.uri().scheme_str() == Some("http") => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), tcp.clone());
                if let Some(auth) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                Some(pool(tunnel, tls.clone()))
            }
            Some(proxy) => {
                let scheme = proxy.uri().scheme_str().unwrap_or_default();
                let why = "a proxy is spoken to by http only";
                return Err(setup(format!(
                    "HTTPS_PROXY or ALL_PROXY begins with {scheme}:, and {why}"
                )));
            }
        };
        Ok(Connections { direct: pool(tcp, tls), proxied, matcher, connect })
    }

    /// Sends a GET and waits for the head of the answer.
    pub(super) async fn send(
        &self,
        url: &Url,
        headers: HeaderMap,
        idle: Duration,
    ) -> Result<Response<Incoming>, HttpError> {
        let bad_url = |_| HttpError::BadUrl {
            url: shown(url),
            why: "it holds characters that no request can hold",
        };
        let uri: Uri = url.as_str().parse().map_err(bad_url)?;
        let is_proxied = !is_loopback(url) && self.matcher.intercept(&uri).is_some();
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let answer = match &self.proxied {
            Some(proxied) if is_proxied => proxied.request(request),
            _ => self.direct.request(request),
        };
        let after = self.connect + idle;
        match timeout(after, answer).await {
            Ok(answer) => answer.map_err(|error| unreachable(url, &error)),
            Err(_) => Err(HttpError::Stalled { url: shown(url), after }),
        }
    }
}

fn unreachable(url: &Url, error: &Error) -> HttpError {
    HttpError::Unreachable { host: host_and_port(url), said: said::innermost(error) }
}

/// The proxy for HTTPS, where the environment names one.
fn proxy(matcher: &Matcher) -> Option<Intercept> {
    matcher.intercept(&Uri::from_static("https://any.invalid/"))
}

fn pool<C>(connector: C, tls: ClientConfig) -> Pool<C>
where
    HttpsConnector<C>: hyper_util::client::legacy::connect::Connect + Clone,
{
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE)
        .build(https)
}

/// TLS with the authorities that the system trusts, or that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn tls_config() -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    // Where there are none, or some cannot be read, a connection that needs one says so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into());
    let config = config.with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
