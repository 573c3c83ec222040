//! HTTP/1.1 as far as the mock hub speaks it: heads of requests in, heads of answers out. Never a body.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _};

/// A longer head of a request is refused.
const HEAD_BYTES_MAX: u64 = 1 << 16;

/// The head of a request.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) method: String,
    /// Path and query as they came.
    pub(super) target: String,
    /// Names in lower case, in the order they came in.
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    /// The next request of a connection, `None` when the client is done.
    /// # Errors
    /// What the socket says, or that it is no HTTP.
    pub(super) fn read(stream: &mut impl BufRead) -> io::Result<Option<Head>> {
        let mut lines = stream.take(HEAD_BYTES_MAX);
        let Some(first) = read_line(&mut lines)? else { return Ok(None) };
        let mut words = first.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut head =
            Head { method: method.to_owned(), target: target.to_owned(), headers: Vec::new() };
        loop {
            let line = read_line(&mut lines)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                return Ok(Some(head));
            }
            let (name, value) = line.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
            head.headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(held, _)| held == name).map(|(_, value)| value.as_str())
    }

    /// The parts of the path, each without its percent signs.
    pub(super) fn path(&self) -> Vec<String> {
        let path = self.target.split('?').next().unwrap_or_default();
        path.split('/').skip(1).map(decode).collect()
    }

    /// The value of a parameter of the query.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        let (_, query) = self.target.split_once('?')?;
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(held, _)| *held == name).map(|(_, value)| decode(value))
    }

    /// The token of a `Bearer` authorization.
    pub(super) fn token(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }
}

/// A line without its end, `None` at the end of the stream.
fn read_line(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    let line = String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(line.strip_suffix("\r\n").map(str::to_owned))
}

/// Takes the percent signs out of a path or a query.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some(&first) = rest.first() {
        let escaped = rest.get(1..3).and_then(|pair| std::str::from_utf8(pair).ok());
        let escaped = escaped.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let (byte, n) = escaped.filter(|_| first == b'%').map_or((first, 1), |byte| (byte, 3));
        bytes.push(byte);
        rest = &rest[n..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Puts percent signs into one part of a path.
pub(super) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut encoded = String::new();
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a String takes everything");
        }
    }
    encoded
}

/// An answer whose body is at hand: an error, a redirect, a listing, a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Further headers; `content-length` is added.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer with this status and a short text as its body.
    pub fn status(status: u16) -> Answer {
        let body = format!("{status} {}\n", reason(status)).into_bytes();
        Answer { status, headers: Vec::new(), body }
    }

    /// An answer with a JSON body.
    pub fn json(status: u16, value: &serde_json::Value) -> Answer {
        let body = value.to_string().into_bytes();
        Answer { status, headers: Vec::new(), body }.header("content-type", "application/json")
    }

    /// A web page in the place of a file, as portals of hotels and companies send it: status 200.
    pub fn html() -> Answer {
        let body = b"<!DOCTYPE html><html><body>Please log in</body></html>\n".to_vec();
        Answer { status: 200, headers: Vec::new(), body }.header("content-type", "text/html")
    }

    /// Sends the client elsewhere.
    pub fn redirect(status: u16, location: &str) -> Answer {
        Answer::status(status).header("location", location)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes another body.
    #[must_use]
    pub fn body(self, body: impl Into<Vec<u8>>) -> Answer {
        Answer { body: body.into(), ..self }
    }
}

/// The head of an answer, with everything up to the body; without its length, the end of the connection is that of the body.
pub(super) fn answer_head(
    status: u16,
    headers: &[(String, String)],
    body_bytes: Option<u64>,
) -> String {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").expect("a String takes everything");
    }
    match body_bytes {
        Some(bytes) => write!(head, "content-length: {bytes}\r\n\r\n"),
        None => write!(head, "connection: close\r\n\r\n"),
    }
    .expect("a String takes everything");
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Other",
    }
}

/// The bytes that a `Range` header asks for, of a file of `total` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// No range, or one that this server does not know: the whole file.
    Whole,
    /// From the first number up to, and without, the second.
    Part(u64, u64),
    /// Nothing that the file has.
    Outside,
}

impl Asked {
    pub(super) fn of(range: Option<&str>, total: u64) -> Asked {
        let Some((first, last)) =
            range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'))
        else {
            return Asked::Whole;
        };
        let part = |begin: u64, end: u64| {
            if begin < end { Asked::Part(begin, end) } else { Asked::Outside }
        };
        match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(begin), Ok(last)) if begin <= last => {
                part(begin, last.saturating_add(1).min(total))
            }
            (Ok(begin), Err(_)) if last.is_empty() => part(begin, total),
            (Err(_), Ok(n)) if first.is_empty() => part(total.saturating_sub(n), total),
            _ => Asked::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        let asked = |range| Asked::of(Some(range), 100);
        assert_eq!(asked("bytes=0-9"), Asked::Part(0, 10));
        assert_eq!(asked("bytes=90-500"), Asked::Part(90, 100));
        assert_eq!(asked("bytes=90-"), Asked::Part(90, 100));
        assert_eq!(asked("bytes=-10"), Asked::Part(90, 100));
        assert_eq!(asked("bytes=100-"), Asked::Outside);
        assert_eq!(asked("bytes=100-200"), Asked::Outside);
        assert_eq!(asked("bytes=-0"), Asked::Outside);
        for unknown in ["bytes=9-0", "bytes=0-1,5-6", "lines=0-1", "bytes=a-b"] {
            assert_eq!(asked(unknown), Asked::Whole, "{unknown}");
        }
        assert_eq!(Asked::of(None, 100), Asked::Whole);
    }

    #[test]
    fn a_head_is_read_with_its_path_and_query_decoded() {
        let text =
            b"GET /a%2Fb/c%20d?cursor=x%3D&e=1 HTTP/1.1\r\nHost: h\r\nRange:bytes=0-1\r\n\r\nrest";
        let head = Head::read(&mut text.as_slice()).unwrap().unwrap();
        assert_eq!(head.path(), ["a/b", "c d"]);
        assert_eq!(head.query("cursor").as_deref(), Some("x="));
        assert_eq!(head.header("range"), Some("bytes=0-1"));
        assert_eq!(encode("c d/é"), "c%20d%2F%C3%A9");
        assert!(Head::read(&mut [].as_slice()).unwrap().is_none());
        assert!(Head::read(&mut b"GET / HTTP/1.1\r\nHost".as_slice()).is_err());
    }
}
