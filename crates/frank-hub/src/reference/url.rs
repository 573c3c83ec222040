//! `https:` and `file:` references. Never asks a server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use url::Url;

use super::signed::unsigned;
use super::{ReferenceError, is_stored_name};
use crate::digest::Sha256;
use crate::http::is_loopback;

/// `https://host/path/file[#sha256=HEX]`; plain `http://` to this machine only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlReference {
    /// Where the file is, without a fragment, a user or a password.
    pub url: Url,
    /// Digest of the file that the URL names.
    pub sha256: Option<Sha256>,
}

impl UrlReference {
    /// Name of the file: the last component of the path.
    pub fn file_name(&self) -> String {
        file_name(&self.url).unwrap_or_default()
    }

    /// The address without what signs a request for it and without the digest: what the lock file calls the source.
    pub fn source(&self) -> String {
        unsigned(&self.url).to_string()
    }
}

impl FromStr for UrlReference {
    type Err = ReferenceError;

    /// Parses the whole reference, scheme included.
    fn from_str(text: &str) -> Result<UrlReference, ReferenceError> {
        let mut url: Url = text.parse().map_err(|_| bad(plain(text), "it is no URL"))?;
        let sha256 = match url.fragment().map(|fragment| fragment.split_once('=')) {
            None => None,
            Some(Some(("sha256", hex))) => Some(hex.parse()?),
            Some(_) => {
                return Err(bad(&shown(&url), "only `#sha256=HEX` may follow the address"));
            }
        };
        url.set_fragment(None);
        check(&url)?;
        Ok(UrlReference { url, sha256 })
    }
}

impl fmt::Display for UrlReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(out)?;
        self.sha256.map_or(Ok(()), |sha256| write!(out, "#sha256={sha256}"))
    }
}

/// The path behind `file:`: as it is written, or percent-encoded when `//` follows the scheme.
pub(super) fn file_path(text: &str, rest: &str) -> Result<PathBuf, ReferenceError> {
    let bad = || ReferenceError::BadFile { text: text.to_owned() };
    if rest.is_empty() {
        return Err(bad());
    }
    if !rest.starts_with("//") {
        return Ok(PathBuf::from(rest));
    }
    let url: Url = text.parse().map_err(|_| bad())?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad());
    }
    url.to_file_path().map_err(|()| bad())
}

fn check(url: &Url) -> Result<(), ReferenceError> {
    let fault = match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => {
            "a user or password in it would be seen by everyone on this machine"
        }
        "http" if !is_loopback(url) => "plain http is for this machine only; use https",
        _ if url.host().is_none() => "it has no host",
        _ if file_name(url).is_none() => "its path does not end in the name of a file",
        _ if is_page(url) => "`/blob/` leads to a page about the file; `/resolve/` to the file",
        _ => return Ok(()),
    };
    Err(bad(&shown(url), fault))
}

/// The last component of the path, decoded, if it can be the name of a stored file.
fn file_name(url: &Url) -> Option<String> {
    let last = url.path_segments()?.next_back()?;
    let name = percent_decode_str(last).decode_utf8().ok()?.into_owned();
    is_stored_name(&name).then_some(name)
}

/// A web page of the hub about a file, which browsers show in their address line.
fn is_page(url: &Url) -> bool {
    url.path_segments().and_then(|mut segments| segments.nth(2)) == Some("blob")
}

/// The URL without what may be a secret in it.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have a user anyway.
    url.set_username("").ok();
    url.set_password(None).ok();
    url.set_query(None);
    url.to_string()
}

/// What may be shown of a text that is no URL: nothing from before an `@` or behind a `?`.
pub(super) fn plain(text: &str) -> &str {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    text.rsplit('@').next().unwrap_or_default()
}

fn bad(url: &str, fault: &'static str) -> ReferenceError {
    ReferenceError::BadUrl { url: url.to_owned(), fault }
}

#[cfg(test)]
mod tests {
    use super::super::Reference;
    use super::*;

    fn url(text: &str) -> UrlReference {
        match text.parse() {
            Ok(Reference::Url(url)) => url,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn refusal(text: &str) -> String {
        text.parse::<Reference>().unwrap_err().to_string()
    }

    #[test]
    fn an_address_with_and_without_a_digest() {
        let plain = "https://example.org/models/m.Q4_0.gguf?download=true";
        assert_eq!(url(plain).file_name(), "m.Q4_0.gguf");
        assert_eq!(url(plain).to_string(), plain);
        let with_digest = format!("{plain}#sha256={}", "0123456789abcdef".repeat(4));
        assert_eq!(url(&with_digest).url.as_str(), plain);
        assert_eq!(url(&with_digest).to_string(), with_digest);
        assert_eq!(url("HTTPS://Example.org/a%20b.gguf").file_name(), "a b.gguf");
    }

    #[test]
    fn plain_http_is_for_this_machine_only() {
        for host in ["127.0.0.1:8080", "127.9.9.9", "localhost", "[::1]:1"] {
            url(&format!("http://{host}/m.gguf"));
        }
        for host in ["example.org", "10.0.0.1", "localhost.example.org", "[::2]", "0.0.0.0"] {
            let refusal = refusal(&format!("http://{host}/m.gguf"));
            assert!(refusal.contains("use https"), "{refusal}");
        }
    }

    #[test]
    fn a_password_is_refused_and_not_repeated() {
        for text in ["https://u:hunter2@h/m.gguf", "https://hunter2@h/m.gguf?hunter2"] {
            let refusal = refusal(text);
            assert!(refusal.contains("user or password"), "{refusal}");
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
        let refusal = refusal("https://u:hunter2@h:99999/m.gguf?hunter2");
        assert!(refusal.contains("it is no URL") && !refusal.contains("hunter2"), "{refusal}");
    }

    #[test]
    fn addresses_that_name_no_file_are_refused() {
        for text in [
            "https:",
            "https://",
            "https://h",
            "https://h/",
            "https://h/dir/",
            "https://h/..%2Fx",
            "https://h/a%2Fb.gguf",
            "https://h/%2e.hidden",
            "https://h/a%0Ab.gguf",
            "https://h/%ff.gguf",
            "https://h/payload.lock",
            "https://h/m.gguf#",
            "https://h/m.gguf#md5=12",
            "https://h/m.gguf#sha256=12",
            "https://h:99999/m.gguf",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_page_about_a_file_is_not_taken_for_the_file() {
        assert!(refusal("https://h/o/r/blob/main/m.gguf").contains("`/resolve/`"));
        url("https://h/o/r/resolve/main/m.gguf");
    }

    #[test]
    fn files_by_path_and_by_url() {
        for (text, path) in [
            ("file:m.gguf", "m.gguf"),
            ("file:dir/a%20b", "dir/a%20b"),
            ("file:/abs/m.gguf", "/abs/m.gguf"),
            ("file:///abs/a%20b.gguf", "/abs/a b.gguf"),
            ("file://localhost/abs/m.gguf", "/abs/m.gguf"),
        ] {
            assert_eq!(text.parse(), Ok(Reference::Path(PathBuf::from(path))), "{text}");
        }
        for text in ["file:", "file://host/m.gguf", "file:///m.gguf?x", "file:///m.gguf#x"] {
            assert!(matches!(text.parse::<Reference>(), Err(ReferenceError::BadFile { .. })));
        }
    }
}
