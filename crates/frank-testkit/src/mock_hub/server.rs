//! The listeners and connections of the mock hub, one thread each. Never what is answered.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::api;
use super::body::Sender;
use super::fault::{Circumstances, Fault, Place, Rules};
use super::files::{FileRequest, Reply};
use super::mark::Mark;
use super::message::{Answer, Head, answer_head};
use super::record::{Host, Meter, Record};
use super::shelf::Shelf;

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) shelf: Shelf,
    pub(super) rules: Rules,
    pub(super) record: Record,
    pub(super) meter: Meter,
    /// `http://ADDRESS:PORT` of the hub and of the other host.
    pub(super) hub: String,
    pub(super) storage: String,
    connections: Connections,
}

/// The connections that are open, to be closed in the end.
#[derive(Debug, Default)]
struct Connections {
    stopped: AtomicBool,
    open: Mutex<BTreeMap<u64, TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The two hosts, which run until this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) shared: Arc<Shared>,
    addresses: [SocketAddr; 2],
    listeners: Vec<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(shelf: Shelf) -> io::Result<Server> {
        let hub = TcpListener::bind("127.0.0.1:0")?;
        let storage = TcpListener::bind("127.0.0.1:0")?;
        let addresses = [hub.local_addr()?, storage.local_addr()?];
        let shared = Arc::new(Shared {
            shelf,
            rules: Rules::default(),
            record: Record::default(),
            meter: Meter::default(),
            hub: format!("http://{}", addresses[0]),
            storage: format!("http://{}", addresses[1]),
            connections: Connections::default(),
        });
        let listeners = [(hub, Host::Hub), (storage, Host::Storage)];
        let listeners = listeners.map(|(listener, host)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || accept(&shared, &listener, host))
        });
        Ok(Server { shared, addresses, listeners: listeners.into() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let connections = &self.shared.connections;
        connections.stopped.store(true, Ordering::SeqCst);
        // A connection wakes its listener, which then sees that it is over.
        self.addresses.iter().for_each(|address| drop(TcpStream::connect(address)));
        self.listeners.drain(..).for_each(|listener| drop(listener.join()));
        for stream in connections.open.lock().expect("no connection panics with it").values() {
            stream.shutdown(Shutdown::Both).ok();
        }
        let threads =
            std::mem::take(&mut *connections.threads.lock().expect("nobody panics with it"));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener, host: Host) {
    for (id, stream) in listener.incoming().enumerate() {
        let connections = &shared.connections;
        if connections.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok((stream, held)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream))) else {
            continue;
        };
        let id = 2 * id as u64 + u64::from(host == Host::Storage);
        connections.open.lock().expect("no connection panics with it").insert(id, held);
        let shared = Arc::clone(shared);
        let thread = thread::spawn({
            move || {
                // A client that hangs up in the middle is what many tests are about.
                serve(&shared, host, stream).ok();
                let open = &shared.connections.open;
                if let Some(stream) = open.lock().expect("no connection panics with it").remove(&id)
                {
                    stream.shutdown(Shutdown::Both).ok();
                }
            }
        });
        connections.threads.lock().expect("nobody panics with it").push(thread);
    }
}

/// Answers the requests of a connection, one after the other.
fn serve(shared: &Shared, host: Host, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(head) = Head::read(&mut reader)? {
        let number = shared.record.begin(host, &head);
        let reply = shared.reply(host, &head, number);
        let headers_only = head.method == "HEAD";
        let keep = match reply {
            Reply::Answer(answer) => {
                shared.record.change(number, |request| request.status = answer.status);
                let bytes = answer.body.len() as u64;
                let start = answer_head(answer.status, &answer.headers, Some(bytes));
                let mut message = start.into_bytes();
                message.extend(answer.body.iter().take_while(|_| !headers_only));
                stream.write_all(&message)?;
                true
            }
            Reply::File(part) => {
                shared.record.change(number, |request| request.status = part.status);
                let bytes = Some(part.end - part.begin);
                let bytes = bytes.filter(|_| part.fault != Some(Fault::NoLength));
                stream.write_all(answer_head(part.status, &part.headers, bytes).as_bytes())?;
                let Shared { meter, shelf, record, .. } = shared;
                let mut sender = Sender { stream: &mut stream, meter, shelf, record, number };
                headers_only || sender.send(&part)?
            }
        };
        if !keep
            || head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
        {
            break;
        }
    }
    Ok(())
}

impl Shared {
    fn reply(&self, host: Host, head: &Head, number: usize) -> Reply {
        if !matches!(head.method.as_str(), "GET" | "HEAD") {
            return Reply::Answer(Answer::status(405));
        }
        let held = self.shelf.held();
        let request = FileRequest { held: &held, rules: &self.rules, head, storage: &self.storage };
        let path = head.path();
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        let about = |file: &[&str]| {
            let file = file.join("/");
            self.record.change(number, |request| request.file = Some(file.clone()));
            file
        };
        match (host, parts.as_slice()) {
            (
                Host::Hub,
                ["api", "resolve-cache", "models", organisation, repository, commit, file @ ..],
            ) => request.cached(&format!("{organisation}/{repository}"), commit, &about(file)),
            (Host::Hub, ["api", "models", ..]) => Reply::Answer(match self.strike_api(head) {
                Some(answer) => answer,
                None => api::answer(&held, head, &path[2..], &self.hub),
            }),
            (Host::Hub, [organisation, repository, "resolve", revision, file @ ..]) => {
                request.resolve(&format!("{organisation}/{repository}"), revision, &about(file))
            }
            (Host::Storage, ["objects", sha256, _, _, file @ ..]) => {
                request.object(sha256, &about(file))
            }
            (Host::Storage, ["web", mark, organisation, repository, file @ ..]) => {
                let Some(mark) = Mark::called(mark) else {
                    return Reply::Answer(Answer::status(404));
                };
                request.web(&format!("{organisation}/{repository}"), &about(file), mark)
            }
            _ => Reply::Answer(Answer::status(404)),
        }
    }

    fn strike_api(&self, head: &Head) -> Option<Answer> {
        let place = Place::Api;
        let request = Circumstances { place, path: &head.target, ranged: false, wanted: (0, 0) };
        match self.rules.strike(request)? {
            Fault::Answer(answer) | Fault::WithoutRange(answer) => Some(answer),
            _ => None,
        }
    }
}
