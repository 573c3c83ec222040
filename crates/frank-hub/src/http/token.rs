//! Access tokens: where they come from and which host they go to. Never prints one.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::header::HeaderValue;
use url::Url;

use super::error::{HttpError, TokenUse};
use super::redirect::check_scheme;

/// The hub that is asked where `HF_ENDPOINT` names no other.
const ENDPOINT: &str = "https://huggingface.co";
/// Name of the token among the credentials that systemd hands to a service.
const CREDENTIAL: &str = "hf_token";
/// Most bytes of a token and its file.
const TOKEN_BYTES_MAX: u64 = 4096;

/// The token of the hub, if there is one. Its debug form says nothing of it.
#[derive(Clone, Default)]
pub struct Tokens {
    hub: Option<Token>,
    /// Why there is no token for a host that should get one.
    fault: Option<Fault>,
}

/// A token that cannot be used, and the host that it would be for.
#[derive(Clone)]
struct Fault {
    endpoint: Url,
    error: Arc<TokenError>,
}

#[derive(Clone)]
struct Token {
    /// The only host that it is sent to.
    endpoint: Url,
    text: String,
    header: HeaderValue,
}

/// Why there is no usable token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file with the token cannot be read.
    #[error("cannot read the token in {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is there is no token.
    #[error(
        "the token in {place} is empty, too long, or holds other than printable ASCII characters"
    )]
    NoToken {
        /// The variable or the file.
        place: String,
    },
    /// `HF_ENDPOINT` is no address of a hub.
    #[error("HF_ENDPOINT is no https URL (http is spoken with this machine only)")]
    BadEndpoint,
}

/// The address of the hub: `HF_ENDPOINT`, else the public one. Its path ends in `/`.
/// # Errors
/// [`TokenError::BadEndpoint`] when the variable holds no URL that may be asked.
pub fn hub_endpoint() -> Result<Url, TokenError> {
    endpoint(&|name| env::var_os(name))
}

fn endpoint(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Url, TokenError> {
    let text = match variable("HF_ENDPOINT") {
        Some(text) if !text.is_empty() => {
            text.into_string().map_err(|_| TokenError::BadEndpoint)?
        }
        _ => ENDPOINT.to_owned(),
    };
    let slash = if text.ends_with('/') { "" } else { "/" };
    let url: Url = format!("{text}{slash}").parse().map_err(|_| TokenError::BadEndpoint)?;
    check_scheme(&url).map_err(|_| TokenError::BadEndpoint)?;
    Ok(url)
}

impl Tokens {
    /// No token: only what is public can be read.
    pub fn none() -> Tokens {
        Tokens::default()
    }

    /// The first token of `HF_TOKEN`, the credential `hf_token` of a systemd service, the file that `HF_TOKEN_PATH` names,
    /// and the file `token` in `HF_HOME` or `~/.cache/huggingface`. It is for the host of [`hub_endpoint`]. One that cannot
    /// be used is said when that host is to be asked: other places need none. A file that does not exist holds none.
    /// # Errors
    /// [`TokenError::BadEndpoint`].
    pub fn from_environment() -> Result<Tokens, TokenError> {
        Tokens::from_variables(&|name| env::var_os(name))
    }

    fn from_variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Tokens, TokenError> {
        let endpoint = endpoint(variable)?;
        Ok(Tokens::found(variable).unwrap_or_else(|error| {
            let fault = Some(Fault { endpoint, error: Arc::new(error) });
            Tokens { hub: None, fault }
        }))
    }

    /// The token in a file, for the host of [`hub_endpoint`].
    /// # Errors
    /// [`TokenError`] when the file cannot be read or holds no token.
    pub fn from_file(path: &Path) -> Result<Tokens, TokenError> {
        let text = read(path).map_err(|source| unreadable(path, source))?;
        Tokens::new(&text, &path.display().to_string(), hub_endpoint()?)
    }

    /// `token` for the host of `endpoint`; `place` says in an error where it came from.
    /// # Errors
    /// [`TokenError::NoToken`] when it is no token.
    pub fn new(token: &str, place: &str, endpoint: Url) -> Result<Tokens, TokenError> {
        let text = token.trim().to_owned();
        let refused = || TokenError::NoToken { place: place.to_owned() };
        let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token || text.len() as u64 > TOKEN_BYTES_MAX {
            return Err(refused());
        }
        let mut header = HeaderValue::try_from(format!("Bearer {text}")).map_err(|_| refused())?;
        header.set_sensitive(true);
        Ok(Tokens { hub: Some(Token { endpoint, text, header }), fault: None })
    }

    fn found(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Tokens, TokenError> {
        let endpoint = endpoint(variable)?;
        if let Some(token) = variable("HF_TOKEN").filter(|token| !token.is_empty()) {
            let token = token.into_string().unwrap_or_default();
            return Tokens::new(&token, "HF_TOKEN", endpoint);
        }
        for path in files(variable) {
            match read(&path) {
                Ok(text) => return Tokens::new(&text, &path.display().to_string(), endpoint),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(unreadable(&path, source)),
            }
        }
        Ok(Tokens::none())
    }

    /// Refuses to ask `url` without the token that it should get.
    pub(super) fn check(&self, url: &Url) -> Result<(), HttpError> {
        let faults = self.fault.iter();
        let fault = faults.into_iter().find(|fault| fault.endpoint.origin() == url.origin());
        let Some(Fault { error, .. }) = fault else { return Ok(()) };
        let said = match &**error {
            TokenError::Unreadable { source, .. } => format!("{error}: {source}"),
            TokenError::NoToken { .. } | TokenError::BadEndpoint => error.to_string(),
        };
        Err(HttpError::Token { said })
    }

    /// The header to send to `url`: none to any other scheme, host or port than the token is for.
    pub(super) fn header_for(&self, url: &Url) -> Option<HeaderValue> {
        let token = self.hub.as_ref()?;
        (token.endpoint.origin() == url.origin()).then(|| token.header.clone())
    }

    /// What became of the token in a request to `url`.
    pub(super) fn use_for(&self, url: &Url) -> TokenUse {
        match (&self.hub, self.header_for(url)) {
            (None, _) => TokenUse::Absent,
            (Some(_), Some(_)) => TokenUse::Sent,
            (Some(_), None) => TokenUse::OtherHost,
        }
    }

    /// `text` without the token: a server may send back what it got.
    pub(super) fn blot_out(&self, text: &str) -> String {
        match &self.hub {
            Some(token) => text.replace(&token.text, "[token]"),
            None => text.to_owned(),
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = usize::from(self.hub.is_some());
        write!(out, "Tokens({n})")
    }
}

/// Where a token may lie, in order.
fn files(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let folder = |name| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let home = || folder("HF_HOME").or_else(|| Some(cache()?.join("huggingface")));
    let credential = folder("CREDENTIALS_DIRECTORY").map(|path| path.join(CREDENTIAL));
    let token = folder("HF_TOKEN_PATH").or_else(|| Some(home()?.join("token")));
    credential.into_iter().chain(token).collect()
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte more than is allowed, so that too much is seen as that.
    File::open(path)?.take(TOKEN_BYTES_MAX + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn unreadable(path: &Path, source: io::Error) -> TokenError {
    TokenError::Unreadable { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TOKEN: &str = "hf_abcdefghijklmnop";

    fn tokens(endpoint: &str) -> Tokens {
        Tokens::new(TOKEN, "a test", endpoint.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_token_goes_to_its_scheme_host_and_port_only() {
        let tokens = tokens("https://hub.example/");
        let goes = |url: &str| tokens.header_for(&url.parse().unwrap()).is_some();
        assert!(goes("https://hub.example/api/models/a/b"));
        assert!(goes("https://hub.example:443/"));
        for url in [
            "http://hub.example/",
            "https://hub.example:8443/",
            "https://cdn.hub.example/",
            "https://hub.example.evil.example/",
            "https://user@evil.example/hub.example",
        ] {
            assert!(!goes(url), "{url}");
        }
    }

    #[test]
    fn neither_debug_output_nor_the_words_of_a_server_show_a_token() {
        let tokens = tokens("https://hub.example/");
        assert_eq!(format!("{tokens:?}"), "Tokens(1)");
        assert_eq!(tokens.blot_out(&format!("got Bearer {TOKEN}.")), "got Bearer [token].");
        assert!(
            !format!("{:?}", tokens.header_for(&"https://hub.example/".parse().unwrap()))
                .contains("hf_")
        );
    }

    #[test]
    fn the_first_place_that_holds_a_token_counts() {
        let dir = tempfile::tempdir().unwrap();
        let folder = |name: &str| dir.path().join(name);
        for (place, file) in
            [("run", "hf_token"), ("home", "token"), ("cache/huggingface", "token")]
        {
            fs::create_dir_all(folder(place)).unwrap();
            fs::write(folder(place).join(file), format!("{place}\n")).unwrap();
        }
        fs::write(folder("named"), "named").unwrap();
        let mut variables = vec![
            ("HF_TOKEN", OsString::from("variable")),
            ("CREDENTIALS_DIRECTORY", folder("run").into()),
            ("HF_TOKEN_PATH", folder("named").into()),
            ("HF_HOME", folder("home").into()),
            ("XDG_CACHE_HOME", folder("cache").into()),
        ];
        for expected in ["variable", "run", "named", "home", "cache/huggingface"] {
            let look = |name: &str| {
                variables.iter().find(|(have, _)| *have == name).map(|(_, value)| value.clone())
            };
            let found = Tokens::found(&look).unwrap().hub.unwrap();
            assert_eq!(found.text, expected);
            assert_eq!(found.endpoint.as_str(), "https://huggingface.co/");
            variables.remove(0);
        }
        assert!(Tokens::found(&|_| None).unwrap().hub.is_none());
    }

    #[test]
    fn a_token_that_cannot_be_used_is_a_fault_of_what_asks_its_host_alone() {
        let dir = tempfile::tempdir().unwrap();
        for (name, value) in [
            ("HF_TOKEN_PATH", OsString::from(dir.path())),
            ("HF_TOKEN", OsString::from("two words")),
        ] {
            let look = |asked: &str| Some(value.clone()).filter(|_| asked == name);
            let tokens = Tokens::from_variables(&look).unwrap();
            let check = |url: &str| tokens.check(&url.parse().unwrap());
            assert_eq!(check("https://elsewhere.example/m.gguf"), Ok(()));
            let error = check("https://huggingface.co/api/models/o/r").unwrap_err();
            assert_eq!(error.reason(), "token");
            assert!(error.to_string().contains("the token in"), "{error}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused_without_being_shown() {
        let endpoint: Url = ENDPOINT.parse().unwrap();
        for text in ["", "  \n", "two words", "tok\u{e9}n", "a\r\nHost: b", &"x".repeat(5000)] {
            let error = Tokens::new(text, "HF_TOKEN", endpoint.clone()).unwrap_err().to_string();
            assert!(error.starts_with("the token in HF_TOKEN is"), "{error}");
            assert!(text.trim().is_empty() || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn the_hub_is_asked_by_https_or_on_this_machine() {
        let read = |text: &'static str| endpoint(&|_| Some(OsString::from(text)));
        assert_eq!(read("http://127.0.0.1:9").unwrap().as_str(), "http://127.0.0.1:9/");
        assert_eq!(
            read("https://mirror.example/hf").unwrap().as_str(),
            "https://mirror.example/hf/"
        );
        assert_eq!(read("").unwrap().as_str(), "https://huggingface.co/");
        assert!(read("http://mirror.example").is_err());
        assert!(read("mirror.example").is_err());
    }
}
