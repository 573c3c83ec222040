//! A model hub on loopback that speaks the protocol of the real one, with a second host for large files as there, and
//! that misbehaves when told. It keeps a record of what it was asked. Never leaves this machine.
//!
//! ```
//! use frank_testkit::mock_hub::{Content, Fault, MockHub, Place, Repository, Rule};
//!
//! let repository = Repository::new("org/tiny-GGUF")
//!     .git("config.json", "{}")
//!     .lfs("tiny-Q4_K_M.gguf", Content::seeded(1, 10_000_000));
//! let hub = MockHub::start(vec![repository]);
//! hub.add(Rule::new(Place::Bytes, "tiny-Q4_K_M.gguf", Fault::Cut(100)).times(1));
//! // A client with HF_ENDPOINT set to `hub.endpoint()` reads from it.
//! assert!(hub.requests().is_empty());
//! ```

mod api;
mod body;
mod content;
mod fault;
mod files;
mod mark;
mod message;
mod record;
mod repository;
mod server;
mod shelf;

use std::ops::Range;

pub use content::Content;
pub use fault::{Fault, Place, Rule};
pub use mark::Mark;
pub use message::Answer;
pub use record::{Host, Request};
pub use repository::Repository;
use server::Server;
pub use shelf::Shelf;

/// A running hub. Both of its hosts stop, and every connection is closed, when it is dropped.
#[derive(Debug)]
pub struct MockHub {
    server: Server,
}

impl MockHub {
    /// Starts a hub with these repositories.
    pub fn start(repositories: Vec<Repository>) -> MockHub {
        let server = Server::start(Shelf::new(repositories));
        MockHub { server: server.expect("loopback has room for two listeners") }
    }

    /// Address of the hub: what `HF_ENDPOINT` is to be.
    pub fn endpoint(&self) -> &str {
        &self.server.shared.hub
    }

    /// Address of the other host, where large files come from.
    pub fn storage(&self) -> &str {
        &self.server.shared.storage
    }

    /// Address of a file as a plain web server has it: the other host answers it without a redirect, and with whatever
    /// the file is by then.
    pub fn web_address(&self, repository: &str, path: &str) -> String {
        self.marked_address(Mark::Etag, repository, path)
    }

    /// The same of a web server that marks the state of its files so.
    pub fn marked_address(&self, mark: Mark, repository: &str, path: &str) -> String {
        format!("{}/web/{}/{repository}/{path}", self.storage(), mark.word())
    }

    /// What the hub holds, to be changed while it runs.
    pub fn shelf(&self) -> &Shelf {
        &self.server.shared.shelf
    }

    /// Lets something go wrong from now on. Of several rules for a request, the first one is applied.
    pub fn add(&self, rule: Rule) {
        self.server.shared.rules.add(rule);
    }

    /// Lets nothing go wrong any more.
    pub fn behave(&self) {
        self.server.shared.rules.clear();
    }

    /// Lets `act` run when the hub has sent `bytes` bytes of files in all, of which no further one is sent before it has
    /// returned. It must not call the hub itself, only change what is on the shelf.
    pub fn at_bytes(&self, bytes: u64, act: impl FnOnce(&Shelf) + Send + 'static) {
        self.server.shared.meter.at(bytes, Box::new(act));
    }

    /// How many bytes of files were sent in all.
    pub fn bytes_sent(&self) -> u64 {
        self.server.shared.meter.bytes()
    }

    /// All requests so far, in the order they came in. What is said to be sent was handed to the operating system; a client
    /// that was killed need not have got it.
    pub fn requests(&self) -> Vec<Request> {
        self.server.shared.record.all()
    }

    /// The bytes of the file at `path` that were sent, request by request.
    pub fn sent(&self, path: &str) -> Vec<Range<u64>> {
        let requests = self.requests().into_iter();
        let of_file = requests.filter(|request| request.file.as_deref() == Some(path));
        of_file.map(|request| request.sent).filter(|sent| !sent.is_empty()).collect()
    }
}
