//! A running `frank serve`, seen through its port.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use crate::program::command;

/// A served model. Ends with the test.
pub(crate) struct Endpoint {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) address: SocketAddr,
    /// What it said before it was ready.
    pub(crate) preface: String,
}

/// What one request brought back.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Endpoint {
    /// Serves `model` on a free port and waits until it is ready.
    pub(crate) fn start(model: &Path, options: &[&str]) -> Self {
        Self::start_logging("warn", model, options)
    }

    /// As [`Endpoint::start`], with a log of `level`.
    pub(crate) fn start_logging(level: &str, model: &Path, options: &[&str]) -> Self {
        Self::start_with(&[("FRANK_LOG", level)], model, options)
    }

    /// As [`Endpoint::start`], with variables of the environment.
    pub(crate) fn start_with(variables: &[(&str, &str)], model: &Path, options: &[&str]) -> Self {
        let mut args =
            vec![OsStr::new("serve"), model.as_os_str(), "--port".as_ref(), "0".as_ref()];
        args.extend(options.iter().map(OsStr::new));
        let mut child = command(args)
            .env("FRANK_LOG", "warn")
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut preface = String::new();
        let address = loop {
            let mut line = String::new();
            let n_bytes = stderr.read_line(&mut line).expect("the program writes UTF-8");
            assert!(n_bytes > 0, "it ended before it was ready: {preface}");
            if let Some(address) = line.trim_end().strip_prefix("ready on http://") {
                break address.parse().expect("an address");
            }
            preface.push_str(&line);
        };
        Self { child, stderr, address, preface }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Posts a JSON body.
    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        Reply::read(self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )))
    }

    /// Gets a path, with further header lines.
    pub(crate) fn get(&self, path: &str, headers: &str) -> Reply {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\n{headers}connection: close\r\n\r\n",
            self.address
        );
        Reply::read(self.send(&request))
    }

    /// Sends the bytes of a request and leaves the reading to the caller.
    pub(crate) fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Peak of resident memory so far, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the process lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Waits for its end; returns its exit code and what else it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("the program writes UTF-8");
        (self.child.wait().expect("it ends").code(), rest)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Reply {
    /// Reads a whole HTTP/1.1 reply; chunked bodies are joined.
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("it answers");
        let text = String::from_utf8(bytes).expect("it answers in UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        Self { status, body: if is_chunked { unchunk(body) } else { body.to_owned() } }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}
