//! Why a GET gave nothing of use, and whether to try again. Never holds a token or the query of a URL.

use std::time::Duration;

/// Why a GET gave nothing of use. URLs are shown without user and query; what a server said is shortened, and tokens in it
/// are blotted out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The client could not be made.
    #[error("cannot set up an HTTP client: {said}")]
    Setup {
        /// What the system said.
        said: String,
    },
    /// The host should get a token, and there is one that cannot be used.
    #[error("{said}")]
    Token {
        /// What is wrong with it.
        said: String,
    },
    /// A URL that is not asked.
    #[error("{url}: {why}")]
    BadUrl {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No connection, or one that broke before there was an answer.
    #[error("no answer from {host}: {said}")]
    Unreachable {
        /// Host and port.
        host: String,
        /// What the connection failed with.
        said: String,
    },
    /// Nothing came for a while.
    #[error("{url}: nothing came for {} s", after.as_secs_f32())]
    Stalled {
        /// The URL.
        url: String,
        /// How long that was.
        after: Duration,
    },
    /// A body that ended before its declared length.
    #[error("{url}: the connection ended after {got} bytes of the answer: {said}")]
    Cut {
        /// The URL.
        url: String,
        /// Bytes of the body that came.
        got: u64,
        /// What the connection failed with.
        said: String,
    },
    /// 401, or 403 from the hub.
    #[error("{url}: HTTP {status}: the repository is gated or private, and {token}{said}")]
    Refused {
        /// The URL.
        url: String,
        /// The status.
        status: u16,
        /// Whether there was a token with the request.
        token: TokenUse,
        /// What the server said, behind a colon; empty where it said nothing.
        said: String,
    },
    /// 404 or 410.
    #[error("{url}: HTTP {status}: no such {missing}{said}")]
    NotFound {
        /// The URL.
        url: String,
        /// The status.
        status: u16,
        /// What there is none of.
        missing: Missing,
        /// What the server said, behind a colon; empty where it said nothing.
        said: String,
    },
    /// Any other status that is no success.
    #[error("{url}: HTTP {status}{said}")]
    Status {
        /// The URL.
        url: String,
        /// The status.
        status: u16,
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
        /// What the server said, behind a colon; empty where it said nothing.
        said: String,
    },
    /// A web page where a file was asked for.
    #[error("{url}: the answer is a web page and not the file")]
    WebPage {
        /// The URL.
        url: String,
    },
    /// A body that cannot be used.
    #[error("{url}: the answer is {why}")]
    BadBody {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A redirect to where none may lead.
    #[error("{from}: redirected to {to}, which is not followed")]
    BadRedirect {
        /// The URL that was asked.
        from: String,
        /// Where it would lead.
        to: String,
    },
    /// Redirects without end.
    #[error("{url}: more than {} redirects", super::HOPS_MAX)]
    Redirects {
        /// The last URL.
        url: String,
    },
    /// The interrupt flag was raised.
    #[error("interrupted")]
    Interrupted,
}

/// What became of the token of a request that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenUse {
    /// It was sent, and does not open the repository.
    Sent,
    /// There is none.
    Absent,
    /// There is one, for another host.
    OtherHost,
}

/// What a 404 is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The repository.
    Repository,
    /// The revision of the repository.
    Revision,
    /// The file.
    File,
}

impl std::fmt::Display for TokenUse {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            TokenUse::Sent => "the token that was sent does not open it",
            TokenUse::Absent => "no token was sent",
            TokenUse::OtherHost => "no token was sent, as the one at hand is for another host",
        })
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Missing::Repository => "repository, or a private one that the token does not open",
            Missing::Revision => "revision",
            Missing::File => "file",
        })
    }
}

impl HttpError {
    /// Whether the same request may succeed a little later.
    pub fn is_passing(&self) -> bool {
        match self {
            // A certificate that is not trusted is not trusted a little later either.
            HttpError::Unreachable { said, .. } => !said.contains("certificate"),
            HttpError::Stalled { .. } | HttpError::Cut { .. } => true,
            HttpError::Status { status, .. } => matches!(status, 408 | 425 | 429) || *status >= 500,
            HttpError::Setup { .. }
            | HttpError::Token { .. }
            | HttpError::BadUrl { .. }
            | HttpError::Refused { .. }
            | HttpError::NotFound { .. }
            | HttpError::WebPage { .. }
            | HttpError::BadBody { .. }
            | HttpError::BadRedirect { .. }
            | HttpError::Redirects { .. }
            | HttpError::Interrupted => false,
        }
    }

    /// How long the server asked to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            HttpError::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// One word that says which kind of failure it is: `http`, `auth`, `token`, `not_found` or `interrupted`.
    pub fn reason(&self) -> &'static str {
        match self {
            HttpError::Refused { .. } => "auth",
            HttpError::NotFound { .. } => "not_found",
            HttpError::Interrupted => "interrupted",
            HttpError::Token { .. } => "token",
            HttpError::Setup { .. }
            | HttpError::BadUrl { .. }
            | HttpError::Unreachable { .. }
            | HttpError::Stalled { .. }
            | HttpError::Cut { .. }
            | HttpError::Status { .. }
            | HttpError::WebPage { .. }
            | HttpError::BadBody { .. }
            | HttpError::BadRedirect { .. }
            | HttpError::Redirects { .. } => "http",
        }
    }

    /// Whether the server says that there is no such thing. A hub says 401 to strangers of all that they may not see, be it
    /// there or not.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, HttpError::NotFound { status: 404 | 410, .. })
    }

    /// Whether a stranger was refused, who may be let in with a token.
    pub(crate) fn lacks_token(&self) -> bool {
        match self {
            HttpError::NotFound { status, .. } => *status == 401,
            HttpError::Refused { status, token, .. } => {
                *status == 401 && *token == TokenUse::Absent
            }
            _ => false,
        }
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            HttpError::Refused { token: TokenUse::Absent, .. } => {
                "set HF_TOKEN, or put a token into the file that HF_TOKEN_PATH names; for a gated repository accept \
                 its terms on its web page first"
            }
            HttpError::Refused { token: TokenUse::Sent, .. } => {
                "accept the terms of the repository on its web page with the account of this token, or use a token \
                 that may read it"
            }
            HttpError::Refused { token: TokenUse::OtherHost, .. } => {
                "the token goes to the host of HF_ENDPOINT only"
            }
            HttpError::Token { .. } => "correct it, or take it away: what is public needs none",
            HttpError::NotFound { missing: Missing::Repository, .. } => {
                "check the spelling; a private repository needs a token in HF_TOKEN"
            }
            HttpError::Unreachable { said, .. } if said.contains("UnknownIssuer") => {
                "install the system's certificates (package ca-certificates), or name them with SSL_CERT_FILE"
            }
            HttpError::Unreachable { said, .. } if said.contains("certificate") => return None,
            HttpError::Unreachable { .. } => {
                "check the address, the network, and HF_ENDPOINT and HTTPS_PROXY where they are set"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}
