//! A mock hub, a folder, and one file that is brought from the one into the other.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use frank_hub::digest::Digest;
use frank_hub::http::{Client, Patience, Tokens};
use frank_hub::transfer::{self, Brought, Notice, Segment, TransferError, Watch};
use frank_hub::{FailureKind, Progress, Sha256};
use frank_testkit::mock_hub::{
    Answer, Content, Fault, Host, Mark, MockHub, Place, Repository, Rule,
};
use tempfile::TempDir;

pub(crate) const REPOSITORY: &str = "org/tiny-GGUF";
pub(crate) const MODEL: &str = "tiny-Q4_K_M.gguf";
pub(crate) const CONFIG: &str = "config.json";
pub(crate) const CONFIG_TEXT: &str = "{\"model_type\": \"llama\"}";
pub(crate) const TOKEN: &str = "hf_rightright";
pub(crate) const MIB: u64 = 1 << 20;
/// Six ranges, of which the last is short.
pub(crate) const BYTES: u64 = 5 * MIB + 12_345;
pub(crate) const N_RANGES: usize = 6;
/// Where [`Scene::bring_part`] stops in each range, and what is here then.
pub(crate) const STALL: u64 = 500_000;
pub(crate) const PART: u64 = 5 * STALL + 12_345;

pub(crate) fn model() -> Content {
    Content::seeded(1, BYTES)
}

pub(crate) fn repository() -> Repository {
    Repository::new(REPOSITORY).lfs(MODEL, model()).git(CONFIG, CONFIG_TEXT)
}

/// A hub and a folder for what comes from it.
pub(crate) struct Scene {
    pub(crate) hub: MockHub,
    pub(crate) folder: TempDir,
    pub(crate) patience: Patience,
    /// The pauses that were made, in order.
    pub(crate) pauses: Arc<Mutex<Vec<Duration>>>,
    pub(crate) interrupt: Arc<AtomicBool>,
    pub(crate) token: Option<&'static str>,
}

/// What came of one transfer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) result: Result<Brought, TransferError>,
    pub(crate) notices: Vec<Notice>,
}

impl Scene {
    pub(crate) fn new(repository: Repository) -> Scene {
        let pauses: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let made = Arc::clone(&pauses);
        let patience = Patience {
            attempts: 6,
            pause: Arc::new(move |pause| {
                made.lock().unwrap().push(pause);
                Duration::ZERO
            }),
            ..Patience::default()
        };
        let (folder, interrupt) = (tempfile::tempdir().unwrap(), Arc::default());
        let hub = MockHub::start(vec![repository]);
        Scene { hub, folder, patience, pauses, interrupt, token: None }
    }

    /// A hub that misbehaves by these rules.
    pub(crate) fn with(rules: impl IntoIterator<Item = Rule>) -> Scene {
        let scene = Scene::new(repository());
        rules.into_iter().for_each(|rule| scene.hub.add(rule));
        scene
    }

    pub(crate) fn client(&self) -> Client {
        let endpoint = self.hub.endpoint().parse().unwrap();
        let tokens = self
            .token
            .map_or_else(Tokens::none, |token| Tokens::new(token, "a test", endpoint).unwrap());
        let client = Client::new(tokens, Some(Arc::clone(&self.interrupt))).unwrap();
        client.with_patience(self.patience.clone()).unwrap()
    }

    pub(crate) fn partial(&self) -> PathBuf {
        self.folder.path().join(MODEL)
    }

    pub(crate) fn bring(&self, segment: Segment) -> Got {
        self.bring_watched(segment, &|_| ())
    }

    pub(crate) fn bring_watched(&self, segment: Segment, progress: &dyn Fn(Progress)) -> Got {
        let notices = RefCell::new(Vec::new());
        let notice = |notice: &Notice| notices.borrow_mut().push(notice.clone());
        let watch = Watch { progress, notice: &notice };
        let result = transfer::bring(&self.client(), &[segment], &self.partial(), watch);
        Got { result, notices: notices.into_inner() }
    }

    /// Brings a part of every range of the large file, and is interrupted then.
    pub(crate) fn bring_part(&self, segment: Segment) {
        self.hub.add(bytes(Fault::Stall(STALL)));
        let got = self.bring_watched(segment, &|progress| {
            self.interrupt.store(progress.bytes == PART, Ordering::Relaxed);
        });
        let error = got.refused("interrupted");
        assert_eq!(error.kind(), FailureKind::Interrupted);
        self.interrupt.store(false, Ordering::Relaxed);
        self.hub.behave();
        assert_eq!(self.here(), PART);
    }

    /// Bytes of the large file that are here.
    pub(crate) fn here(&self) -> u64 {
        transfer::partial_bytes(&self.partial()).unwrap().map_or(0, |(here, _)| here)
    }

    /// The large file as the listing of the hub declares it.
    pub(crate) fn model(&self) -> Segment {
        Segment {
            url: self.address(MODEL),
            bytes: Some(BYTES),
            digest: Some(model().sha256().parse().unwrap()),
        }
    }

    /// The small file.
    pub(crate) fn config(&self) -> Segment {
        Segment {
            url: self.address(CONFIG),
            bytes: Some(CONFIG_TEXT.len() as u64),
            digest: Some(Content::from(CONFIG_TEXT).git_sha1().parse().unwrap()),
        }
    }

    /// The large file on a plain web server, of which nothing else is known.
    pub(crate) fn web(&self) -> Segment {
        let url = self.hub.web_address(REPOSITORY, MODEL).parse().unwrap();
        Segment { url, bytes: None, digest: None }
    }

    /// The same on a web server that marks the state of its files so.
    pub(crate) fn marked(&self, mark: Mark) -> Segment {
        let url = self.hub.marked_address(mark, REPOSITORY, MODEL).parse().unwrap();
        Segment { url, ..self.web() }
    }

    pub(crate) fn address(&self, path: &str) -> url::Url {
        format!("{}/{REPOSITORY}/resolve/main/{path}", self.hub.endpoint()).parse().unwrap()
    }

    /// The statuses of all answers about bytes of the large file, sorted.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let requests = self.hub.requests().into_iter();
        let of_bytes = requests.filter(|request| request.host == Host::Storage);
        let mut statuses: Vec<u16> = of_bytes.map(|request| request.status).collect();
        statuses.sort_unstable();
        statuses
    }

    /// Bytes of the large file that were sent beyond one of each.
    pub(crate) fn sent_too_much(&self) -> u64 {
        self.hub.sent(MODEL).iter().map(|sent| sent.end - sent.start).sum::<u64>() - BYTES
    }

    /// How many files lie in the folder.
    pub(crate) fn n_files(&self) -> usize {
        fs::read_dir(self.folder.path()).unwrap().count()
    }
}

impl Got {
    /// The transfer went well, and `content` is what lies there.
    pub(crate) fn holds(self, scene: &Scene, content: &Content) -> Brought {
        let brought = self.result.unwrap_or_else(|error| panic!("{error}: {:?}", self.notices));
        assert!(fs::read(scene.partial()).unwrap() == content.to_vec(), "other bytes");
        assert_eq!(brought.sha256.to_string(), content.sha256());
        assert_eq!(brought.bytes, content.len());
        brought
    }

    /// The transfer was refused for this reason.
    pub(crate) fn refused(self, reason: &str) -> TransferError {
        let error = self.result.expect_err("it must fail");
        assert_eq!(error.reason(), reason, "{error}");
        error
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    Digest::Sha256(Sha256::of(bytes))
}

pub(crate) fn bytes(fault: Fault) -> Rule {
    Rule::new(Place::Bytes, MODEL, fault)
}

pub(crate) fn resolve(answer: Answer) -> Rule {
    Rule::new(Place::Resolve, MODEL, Fault::Answer(answer))
}
