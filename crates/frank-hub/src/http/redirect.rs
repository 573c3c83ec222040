//! Where a redirect or the link to a next page may lead. Never sends anything.

use std::net::IpAddr;

use url::{Host, Url};

use super::error::HttpError;

/// Most redirects of one GET.
pub(crate) const HOPS_MAX: usize = 8;
/// Most characters of a URL that are shown.
const SHOWN_MAX: usize = 200;

/// The URL without user, query and fragment, which may hold keys.
pub(crate) fn plain(url: &Url) -> Url {
    let mut plain = url.clone();
    plain.set_query(None);
    plain.set_fragment(None);
    // Both fail only for URLs that have no host, and those have no user either.
    plain.set_username("").ok();
    plain.set_password(None).ok();
    plain
}

/// The URL as it may be printed: without what may hold keys, and without an overlong end.
pub(crate) fn shown(url: &Url) -> String {
    let plain = plain(url);
    let text = plain.as_str();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Host and port of the URL.
pub(super) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether the URL leads to this machine: `localhost`, 127.0.0.0/8 or `::1`.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

/// Refuses what is neither `https` nor `http` to this machine.
pub(crate) fn check_scheme(url: &Url) -> Result<(), HttpError> {
    match url.scheme() {
        "https" if url.has_host() => Ok(()),
        "http" if is_loopback(url) => Ok(()),
        _ => {
            let why = "only https, or http to this machine, is spoken";
            Err(HttpError::BadUrl { url: shown(url), why })
        }
    }
}

/// Where a redirect from `from` leads. From another machine it never leads to plain HTTP, not even to this machine.
pub(super) fn follow(from: &Url, location: &str) -> Result<Url, HttpError> {
    let target = from.join(location).map_err(|_| refused(from, location))?;
    let is_downgrade = target.scheme() == "http" && !is_loopback(from);
    if is_downgrade || check_scheme(&target).is_err() {
        return Err(refused(from, location));
    }
    Ok(target)
}

/// A redirect that is not followed. What signs the address that it leads to is not shown, and nothing of an address that has
/// no host, all of which may be a key.
pub(super) fn refused(from: &Url, location: &str) -> HttpError {
    let to = match from.join(location) {
        Ok(target) if target.has_host() => shown(&target),
        Ok(target) => format!("{}:…", target.scheme()),
        Err(_) => "no URL".to_owned(),
    };
    HttpError::BadRedirect { from: shown(from), to }
}

/// The URL that a `Link` header marks as the next page. Whoever follows it sees to the host: a list that ends here in silence
/// would pass for a whole one.
pub(super) fn next_page(from: &Url, link: &str) -> Option<Url> {
    let mut entries =
        link.split(',').filter_map(|entry| entry.trim().strip_prefix('<')?.split_once('>'));
    let is_next = |parameters: &str| {
        parameters.split(';').any(|one| matches!(one.trim(), "rel=\"next\"" | "rel=next"))
    };
    let (target, _) = entries.find(|(_, parameters)| is_next(parameters))?;
    from.join(target).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn https_never_becomes_http_and_this_machine_may_speak_plainly_with_itself() {
        for (from, location, expected) in [
            ("https://a.example/x", "/y", Some("https://a.example/y")),
            ("https://a.example/x", "https://b.example/y?k=1", Some("https://b.example/y?k=1")),
            ("https://a.example/x", "//b.example/y", Some("https://b.example/y")),
            ("https://a.example/x", "http://a.example/x", None),
            ("https://a.example/x", "http://127.0.0.1/x", None),
            ("http://127.0.0.1:8/x", "http://127.0.0.1:9/x", Some("http://127.0.0.1:9/x")),
            ("http://[::1]:8/x", "http://localhost:9/x", Some("http://localhost:9/x")),
            ("http://127.0.0.1:8/x", "http://10.0.0.1/x", None),
            ("http://127.0.0.1:8/x", "https://a.example/x", Some("https://a.example/x")),
            ("https://a.example/x", "file:///etc/passwd", None),
            ("https://a.example/x", "ftp://a.example/x", None),
            ("https://a.example/x", "http://", None),
        ] {
            let target = follow(&url(from), location).ok();
            assert_eq!(target.as_ref().map(Url::as_str), expected, "{from} to {location}");
        }
    }

    #[test]
    fn what_may_hold_a_key_is_not_shown() {
        let signed = url("https://user:secret@cdn.example/a/b?X-Amz-Signature=secret#secret");
        assert_eq!(shown(&signed), "https://cdn.example/a/b");
        assert_eq!(
            shown(&url(&format!("https://a.example/{}", "x".repeat(999)))).chars().count(),
            201
        );
    }

    #[test]
    fn a_refused_redirect_shows_no_key_of_where_it_leads() {
        let from = url("https://hub.example/x?key=hunter2");
        for (location, shown) in [
            ("http://u:hunter2@h.example/m?X-Amz-Signature=hunter2#hunter2", "http://h.example/m"),
            ("s3:hunter2@bucket/m", "s3:…"),
            ("data:text/plain;hunter2,x", "data:…"),
            ("http://[hunter2", "no URL"),
        ] {
            let told = refused(&from, location).to_string();
            let expected =
                format!("https://hub.example/x: redirected to {shown}, which is not followed");
            assert_eq!(told, expected);
            assert!(follow(&from, location).is_err_and(|error| error.to_string() == told));
        }
    }

    #[test]
    fn the_next_page_is_the_one_marked_so() {
        let from = url("https://hub.example/api/tree?x=1");
        let next = |link| next_page(&from, link).map(String::from);
        let expected = Some("https://hub.example/api/tree?cursor=2".to_owned());
        assert_eq!(next("<https://hub.example/api/tree?cursor=2>; rel=\"next\""), expected);
        assert_eq!(next("</p>; rel=\"prev\", </api/tree?cursor=2>; rel=\"next\""), expected);
        let elsewhere = Some("https://other.example/api".to_owned());
        assert_eq!(next("<https://other.example/api>; rel=\"next\""), elsewhere);
        assert_eq!(next("garbage"), None);
    }
}
