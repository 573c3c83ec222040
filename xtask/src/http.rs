//! An HTTP/1.1 client as small as the tasks need, one request for each connection. Never retries, never pools.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A reply that says nothing for so long is lost.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Longest head of a reply, in bytes.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// What is asked of a server.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) api_key: Option<String>,
    /// JSON, or nothing.
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn get(path: &'static str) -> Self {
        Self { method: "GET", path, api_key: None, body: String::new() }
    }

    pub(crate) fn post(path: &'static str, body: impl Into<String>) -> Self {
        Self { method: "POST", path, api_key: None, body: body.into() }
    }

    pub(crate) fn with_key(self, api_key: &str) -> Self {
        Self { api_key: Some(api_key.to_owned()), ..self }
    }

    /// Sends it over a connection of its own. Whoever drops the connection gives up the reply.
    pub(crate) fn send(&self, address: SocketAddr) -> io::Result<TcpStream> {
        send(self.text(address).as_bytes(), address)
    }

    /// Sends its head and half of its body, as a client that dies does.
    pub(crate) fn send_half(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let text = self.text(address);
        let n_bytes = text.len() - self.body.len().div_ceil(2);
        send(&text.as_bytes()[..n_bytes], address)
    }

    /// Sends it and reads the head of the reply.
    pub(crate) fn reply(&self, address: SocketAddr) -> io::Result<Reply<BufReader<TcpStream>>> {
        Reply::read(BufReader::new(self.send(address)?))
    }

    fn text(&self, address: SocketAddr) -> String {
        let Self { method, path, api_key, body } = self;
        let key = api_key
            .as_ref()
            .map_or(String::new(), |key| format!("authorization: Bearer {key}\r\n"));
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{key}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

/// A reply whose head was read. Reading it gives the body without its framing, and an error where the body breaks off.
#[derive(Debug)]
pub(crate) struct Reply<R> {
    pub(crate) status: u16,
    source: R,
    rest: Rest,
}

/// What of a body is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// So many bytes.
    Bytes(u64),
    /// So many bytes of this chunk, then the end of its line and more chunks.
    Chunk(u64),
    /// A line with the length of a chunk.
    ChunkHead,
    UntilClosed,
}

impl<R: BufRead> Reply<R> {
    /// Reads a head.
    pub(crate) fn read(mut source: R) -> io::Result<Self> {
        let mut head = (&mut source).take(HEAD_BYTES_MAX);
        let status_line = line(&mut head)?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| invalid(format!("no status: {status_line:?}")))?;
        let mut rest = Rest::UntilClosed;
        loop {
            let header = line(&mut head)?.to_ascii_lowercase();
            if header.is_empty() {
                return Ok(Self { status, source, rest });
            }
            match header.split_once(':').map(|(name, value)| (name, value.trim())) {
                Some(("transfer-encoding", "chunked")) => rest = Rest::ChunkHead,
                Some(("content-length", length)) => {
                    let length =
                        length.parse().map_err(|_| invalid(format!("length {length:?}")))?;
                    rest = Rest::Bytes(length);
                }
                _ => {}
            }
        }
    }

    /// The whole body.
    pub(crate) fn text(mut self) -> io::Result<String> {
        let mut text = String::new();
        self.read_to_string(&mut text)?;
        Ok(text)
    }

    /// The `data` of each server-sent event. Comments are skipped; any other line is an error.
    pub(crate) fn events(self) -> impl Iterator<Item = io::Result<String>> {
        BufReader::new(self).lines().filter_map(|line| match line {
            Ok(line) if line.is_empty() || line.starts_with(':') => None,
            Ok(line) => Some(match line.strip_prefix("data: ") {
                Some(data) => Ok(data.to_owned()),
                None => Err(invalid(format!("no event: {line:?}"))),
            }),
            Err(error) => Some(Err(error)),
        })
    }

    /// Reads from the part that ends after `left` bytes, and says how many remain of it.
    fn read_part(&mut self, buffer: &mut [u8], left: u64) -> io::Result<(usize, u64)> {
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let n_bytes = self.source.read(&mut buffer[..room])?;
        if n_bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the reply broke off"));
        }
        Ok((n_bytes, left - n_bytes as u64))
    }

    /// Reads the line before a chunk. The last chunk is empty and has one more line.
    fn chunk_head(&mut self) -> io::Result<()> {
        let length = line(&mut self.source)?;
        let bytes = u64::from_str_radix(&length, 16);
        let bytes = bytes.map_err(|_| invalid(format!("chunk of {length:?} bytes")))?;
        self.rest = if bytes == 0 { Rest::Bytes(0) } else { Rest::Chunk(bytes) };
        if bytes == 0 { self.end_of_chunk() } else { Ok(()) }
    }

    fn end_of_chunk(&mut self) -> io::Result<()> {
        match line(&mut self.source)? {
            end if end.is_empty() => Ok(()),
            more => Err(invalid(format!("{more:?} after a chunk"))),
        }
    }
}

impl<R: BufRead> Read for Reply<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.rest == Rest::ChunkHead {
            self.chunk_head()?;
        }
        match self.rest {
            Rest::Bytes(0) => Ok(0),
            Rest::Bytes(left) => {
                let (n_bytes, left) = self.read_part(buffer, left)?;
                self.rest = Rest::Bytes(left);
                Ok(n_bytes)
            }
            Rest::Chunk(left) => {
                let (n_bytes, left) = self.read_part(buffer, left)?;
                self.rest = Rest::Chunk(left);
                if left == 0 {
                    self.end_of_chunk()?;
                    self.rest = Rest::ChunkHead;
                }
                Ok(n_bytes)
            }
            Rest::UntilClosed => self.source.read(buffer),
            Rest::ChunkHead => unreachable!("the head was read above"),
        }
    }
}

fn send(bytes: &[u8], address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.write_all(bytes)?;
    Ok(stream)
}

/// The next line, without its end.
fn line(source: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    source.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the reply broke off in a line")),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    fn check(reply: &str, status: u16, body: Result<&str, io::ErrorKind>) {
        let reply = Reply::read(reply.as_bytes()).unwrap();
        assert_eq!(reply.status, status);
        assert_eq!(reply.text().map_err(|error| error.kind()), body.map(str::to_owned));
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        check("HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno, more", 404, Ok("no"));
        check("HTTP/1.1 204 Nothing\r\ncontent-length: 0\r\n\r\n", 204, Ok(""));
        check("HTTP/1.0 200 OK\r\n\r\nuntil closed", 200, Ok("until closed"));
        check(
            &format!("{CHUNKED}3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"),
            200,
            Ok("abc0123456789"),
        );
    }

    #[test]
    fn a_body_that_breaks_off_is_an_error() {
        let broken_off = Err(io::ErrorKind::UnexpectedEof);
        check("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", 200, broken_off);
        for chunks in ["", "3", "3\r\n", "3\r\nab", "3\r\nabc", "3\r\nabc\r\n", "0\r\n"] {
            check(&format!("{CHUNKED}{chunks}"), 200, broken_off);
        }
        for chunks in ["x\r\n", "1\r\nab\r\n", "0\r\nx\r\n"] {
            check(&format!("{CHUNKED}{chunks}"), 200, Err(io::ErrorKind::InvalidData));
        }
    }

    #[test]
    fn what_has_no_whole_head_is_an_error() {
        for head in
            ["", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\n", "nonsense\r\n\r\n", "HTTP/1.1 x\r\n\r\n"]
        {
            assert!(Reply::read(head.as_bytes()).is_err(), "{head:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\na: {}", "a".repeat(1 << 20));
        assert!(Reply::read(endless.as_bytes()).is_err());
    }

    #[test]
    fn events_come_without_comments() {
        let reply = "HTTP/1.1 200 OK\r\n\r\n: wait\n\ndata: {}\n\ndata: [DONE]\n\n";
        let events = Reply::read(reply.as_bytes()).unwrap().events();
        assert_eq!(events.map(Result::unwrap).collect::<Vec<_>>(), ["{}", "[DONE]"]);
        let reply = "HTTP/1.1 200 OK\r\n\r\ndata: {}\n\nnonsense\n";
        assert!(Reply::read(reply.as_bytes()).unwrap().events().nth(1).unwrap().is_err());
    }

    #[test]
    fn a_request_carries_its_key_and_the_length_of_its_body() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let text = Request::post("/v1/x", "{}").with_key("k").text(address);
        assert!(text.starts_with("POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:1\r\n"), "{text}");
        assert!(text.contains("\r\nauthorization: Bearer k\r\n"), "{text}");
        assert!(text.ends_with("\r\ncontent-length: 2\r\n\r\n{}"), "{text}");
    }
}
