//! Which `Host` and `Origin` may ask. Keeps web pages of strangers from reaching an endpoint on this machine or
//! network: neither by a name of theirs that resolves to it (DNS rebinding) nor by posting across sites.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri};
use frank_api::{ApiError, ErrorKind};
use thiserror::Error;

/// A web origin that may use the endpoint, and by whose host name it may be called: `https://chat.example.com`,
/// `http://box:3000`, or a bare name, which stands for any scheme and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigin {
    scheme: Option<String>,
    host: String,
    port: Option<u16>,
}

/// A text that is no origin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not an origin such as https://chat.example.com or a host name")]
pub struct OriginError {
    /// What was given.
    pub text: String,
}

impl FromStr for AllowedOrigin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let error = || OriginError { text: text.to_owned() };
        let (scheme, authority) = match text.split_once("://") {
            Some((scheme @ ("http" | "https"), authority)) => (Some(scheme.to_owned()), authority),
            Some(_) => return Err(error()),
            None => (None, text),
        };
        let (host, port) = host_and_port(authority.trim_end_matches('/')).ok_or_else(error)?;
        Ok(Self { scheme, host, port })
    }
}

impl AllowedOrigin {
    fn admits(&self, origin: &Origin) -> bool {
        let scheme_fits = self.scheme.as_ref().is_none_or(|scheme| *scheme == origin.scheme);
        // A scheme without a port means that scheme's own port; a bare name means any.
        let wanted = self.port.or_else(|| self.scheme.as_deref().and_then(default_port));
        scheme_fits
            && self.host == origin.host
            && wanted.is_none_or(|port| Some(port) == origin.port)
    }
}

/// Decides by the address that the endpoint listens on and the origins that its operator allowed.
///
/// As a host: loopback names and addresses, the address listened on, and allowed names; on a network also any
/// address and the names of this machine. As an origin: the host that was called, loopback, and allowed origins.
/// The address of another machine is no origin: a stranger's page can stand there.
#[derive(Clone, Debug)]
pub(crate) struct HostRules {
    bind: IpAddr,
    allowed: Vec<AllowedOrigin>,
    /// Names of this machine, by which it may be called when it listens on a network.
    host_names: Vec<String>,
}

impl HostRules {
    pub(crate) fn new(bind: IpAddr, allowed: Vec<AllowedOrigin>, host_names: &[String]) -> Self {
        let host_names = host_names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { bind, allowed, host_names }
    }

    /// The origin of an admitted request, if it has one.
    ///
    /// # Errors
    /// A 403 that names the header.
    pub(crate) fn check(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Option<HeaderValue>, ApiError> {
        let host = called_host(uri, headers)?;
        if let Some((name, _)) = &host
            && !self.host_is_allowed(name)
        {
            let message =
                format!("host {name:?} is not one of this server; allow it with --allow-origin");
            return Err(ApiError::new(ErrorKind::Forbidden, message).with_code("unknown_host"));
        }
        let Some(value) = headers.get(ORIGIN) else { return Ok(None) };
        let allowed = Origin::parse(value).is_some_and(|origin| {
            origin.is_same_as(host.as_ref()) || is_loopback(&origin.host) || self.is_listed(&origin)
        });
        if allowed {
            return Ok(Some(value.clone()));
        }
        let message =
            format!("origin {value:?} may not use this server; allow it with --allow-origin");
        Err(ApiError::new(ErrorKind::Forbidden, message).with_code("unknown_origin"))
    }

    fn host_is_allowed(&self, host: &str) -> bool {
        let on_network = !self.bind.is_loopback();
        let by_address = match ip_literal(host) {
            // Rebinding needs a name, so on a network any address will do.
            Some(ip) => ip == self.bind || on_network,
            None => on_network && self.host_names.iter().any(|name| name == host),
        };
        is_loopback(host) || by_address || self.allowed.iter().any(|allowed| allowed.host == host)
    }

    fn is_listed(&self, origin: &Origin) -> bool {
        self.allowed.iter().any(|allowed| allowed.admits(origin))
    }
}

/// The host that a request was sent to; `None` for clients of HTTP/1.0 that do not say.
fn called_host(uri: &Uri, headers: &HeaderMap) -> Result<Option<(String, Option<u16>)>, ApiError> {
    let malformed = || ApiError::new(ErrorKind::InvalidRequest, "the Host header is malformed");
    let mut values = headers.get_all(HOST).iter();
    let host = match (values.next(), values.next()) {
        (None, _) => {
            return uri
                .authority()
                .map_or(Ok(None), |a| host_and_port(a.as_str()).map(Some).ok_or_else(malformed));
        }
        (Some(host), None) => host,
        (Some(_), Some(_)) => return Err(malformed()),
    };
    let host = host.to_str().ok().and_then(host_and_port).ok_or_else(malformed)?;
    Ok(Some(host))
}

/// A web origin as browsers send it.
struct Origin {
    scheme: String,
    host: String,
    port: Option<u16>,
}

impl Origin {
    fn parse(value: &HeaderValue) -> Option<Self> {
        let uri: Uri = value.to_str().ok()?.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        let (host, port) = host_and_port(authority.as_str())?;
        Some(Self { scheme: scheme.to_owned(), host, port: port.or(default_port(scheme)) })
    }

    /// Whether a page of this origin asks the server that it came from.
    fn is_same_as(&self, called: Option<&(String, Option<u16>)>) -> bool {
        called.is_some_and(|(host, port)| {
            *host == self.host && port.or(default_port(&self.scheme)) == self.port
        })
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Splits `name:port`. The name comes out in lower case, without the brackets of an IPv6 address and without the
/// dot that ends a full name.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let authority: Authority = text.parse().ok()?;
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let bare = bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase();
    let has_port = authority.as_str().len() > host.len();
    let port = authority.port_u16();
    let is_name =
        !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b));
    // What is neither the host nor `:port` is user info or a port out of range.
    (is_name && has_port == port.is_some() && !text.contains('@')).then_some((bare, port))
}

fn ip_literal(host: &str) -> Option<IpAddr> {
    host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || ip_literal(host).is_some_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a server on `bind` that allows `allowed` admits a request with this `Host` and `Origin`.
    fn admits(bind: &str, allowed: &[&str], host: &str, origin: Option<&str>) -> bool {
        let allowed = allowed.iter().map(|text| text.parse().unwrap()).collect();
        let rules = HostRules::new(bind.parse().unwrap(), allowed, &["Box".to_owned()]);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        rules.check(&Uri::from_static("/"), &headers).is_ok()
    }

    #[test]
    fn on_loopback_only_loopback_names_are_hosts() {
        let check = |host: &str, expected: bool| {
            assert_eq!(admits("127.0.0.1", &[], host, None), expected, "{host}")
        };
        check("127.0.0.1:7770", true);
        check("127.0.0.1", true);
        check("127.9.9.9:1", true);
        check("localhost:7770", true);
        check("LOCALHOST.:7770", true);
        check("frank.localhost", true);
        check("[::1]:7770", true);
        check("[::ffff:127.0.0.1]:7770", true);
        check("evil.example", false);
        check("localhost.evil.example", false);
        check("192.168.1.5:7770", false);
        check("0.0.0.0:7770", false);
        check("box", false);
        check("user@localhost", false);
        check("localhost:99999", false);
        check("", false);
    }

    #[test]
    fn on_a_network_any_address_and_the_names_of_the_machine_are_hosts() {
        let check = |host: &str, expected: bool| {
            assert_eq!(admits("0.0.0.0", &[], host, None), expected, "{host}")
        };
        check("192.168.1.5:7770", true);
        check("[2001:db8::1]:7770", true);
        check("box:7770", true);
        check("localhost", true);
        check("evil.example", false);
    }

    #[test]
    fn allowed_names_are_hosts_and_origins() {
        let allowed = ["https://chat.example.com", "http://tool:3000", "name"];
        let check = |host: &str, origin: Option<&str>, expected: bool| {
            assert_eq!(admits("127.0.0.1", &allowed, host, origin), expected, "{host} {origin:?}");
        };
        check("chat.example.com", None, true);
        check("name:7770", None, true);
        check("localhost", Some("https://chat.example.com"), true);
        check("localhost", Some("https://chat.example.com:444"), false);
        check("localhost", Some("http://chat.example.com"), false);
        check("localhost", Some("http://tool:3000"), true);
        check("localhost", Some("http://tool"), false);
        check("localhost", Some("https://name:8443"), true);
    }

    #[test]
    fn pages_of_strangers_are_refused_and_own_and_local_pages_are_not() {
        let check = |bind: &str, host: &str, origin: &str, expected: bool| {
            assert_eq!(admits(bind, &[], host, Some(origin)), expected, "{bind} {host} {origin}");
        };
        check("127.0.0.1", "127.0.0.1:7770", "http://127.0.0.1:7770", true);
        check("127.0.0.1", "localhost:7770", "http://localhost:3000", true);
        check("127.0.0.1", "localhost:7770", "https://evil.example", false);
        check("127.0.0.1", "localhost:7770", "null", false);
        check("127.0.0.1", "localhost:7770", "http://localhost.evil.example", false);
        check("0.0.0.0", "192.168.1.5:7770", "http://192.168.1.5:7770", true);
        check("0.0.0.0", "192.168.1.5:7770", "http://192.168.1.6", false);
        check("0.0.0.0", "192.168.1.5:7770", "http://6.6.6.6", false);
    }

    #[test]
    fn texts_that_are_no_origin_are_refused() {
        for text in ["", "ftp://x", "https://", "a b", "https://x:99999", "*"] {
            let outcome = text.parse::<AllowedOrigin>();
            assert_eq!(outcome, Err(OriginError { text: text.to_owned() }), "{text}");
        }
    }
}
