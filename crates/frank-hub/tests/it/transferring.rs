//! One file brought from the mock hub: ranges, resuming, verification, and what is kept when it fails.

use std::cell::{Cell, RefCell};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use frank_hub::digest::Digest;
use frank_hub::http::{Client, Patience, Tokens};
use frank_hub::transfer::{
    Brought, Notice, Segment, TransferError, Watch, bring, discard, partial_bytes,
};
use frank_hub::{Progress, Sha256, Stage};
use frank_testkit::mock_hub::{Content, Fault, Host, MockHub, Place, Repository, Rule};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A folder for the partial file, and a client of the mock hub.
struct Scene {
    hub: MockHub,
    partial: PathBuf,
    interrupt: Arc<AtomicBool>,
    notices: RefCell<Vec<String>>,
    _dir: TempDir,
}

impl Scene {
    fn new(repository: Repository) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        Scene {
            hub: MockHub::start(vec![repository]),
            partial: dir.path().join("m.gguf"),
            interrupt: Arc::default(),
            notices: RefCell::default(),
            _dir: dir,
        }
    }

    /// A hub with one large file, and the segment that is it.
    fn with_file(content: &Content) -> (Scene, Segment) {
        let scene = Scene::new(Repository::new("org/repo").lfs("m.gguf", content.clone()));
        let segment = scene.segment("m.gguf", content.len(), &content.sha256());
        (scene, segment)
    }

    fn segment(&self, path: &str, bytes: u64, digest: &str) -> Segment {
        let url = format!("{}/org/repo/resolve/main/{path}", self.hub.endpoint());
        let digest = Some(digest.parse().unwrap());
        Segment { url: url.parse().unwrap(), bytes: Some(bytes), digest }
    }

    fn client(&self) -> Client {
        let pause = Arc::new(|_| Duration::ZERO);
        let patience = Patience { pause, ..Patience::default() };
        let interrupt = Some(Arc::clone(&self.interrupt));
        Client::new(Tokens::none(), interrupt).unwrap().with_patience(patience).unwrap()
    }

    fn bring(&self, segments: &[Segment]) -> Result<Brought, TransferError> {
        let notice = |notice: &Notice| self.notices.borrow_mut().push(notice.to_string());
        bring(&self.client(), segments, &self.partial, Watch { progress: &|_| {}, notice: &notice })
    }

    /// Brings so many ranges of 1 MiB of the large file, and then no further.
    fn bring_ranges(&self, n: u32, segments: &[Segment]) {
        self.hub.add(Rule::new(Place::Bytes, "m.gguf", Fault::Stall(0)).sparing(n));
        let here = u64::from(n) * MIB;
        let progress = |progress: Progress| {
            self.interrupt.store(progress.bytes == here, Ordering::Relaxed);
        };
        let watch = Watch { progress: &progress, notice: &|_| {} };
        let error = bring(&self.client(), segments, &self.partial, watch).unwrap_err();
        assert_eq!((error.reason(), self.here()), ("interrupted", here));
        self.interrupt.store(false, Ordering::Relaxed);
        self.hub.behave();
    }

    /// Bytes of an unfinished file that are here.
    fn here(&self) -> u64 {
        partial_bytes(&self.partial).unwrap().unwrap().0
    }

    fn holds(&self, content: &Content) -> bool {
        fs::read(&self.partial).unwrap() == content.to_vec()
    }

    fn has_nothing(&self) -> bool {
        !self.partial.exists() && partial_bytes(&self.partial).unwrap().is_none()
    }

    fn noticed(&self, text: &str) -> bool {
        self.notices.borrow().iter().any(|notice| notice.contains(text))
    }
}

#[test]
fn a_large_file_is_asked_for_in_bounded_ranges_from_byte_0_only() {
    let content = Content::seeded(1, 20 * MIB + 3);
    let (scene, segment) = Scene::with_file(&content);
    // What the storage of a real hub answers for a file of hundreds of GiB.
    let refusal = Fault::WithoutRange(frank_testkit::mock_hub::Answer::status(400));
    scene.hub.add(Rule::new(Place::Bytes, "m.gguf", refusal.clone()));
    scene.hub.add(Rule::new(Place::Resolve, "m.gguf", refusal));
    let brought = scene.bring(&[segment]).unwrap();
    assert_eq!((brought.bytes, brought.received), (content.len(), content.len()));
    assert_eq!(brought.sha256.to_string(), content.sha256());
    assert!(scene.holds(&content));
    for request in scene.hub.requests() {
        let range = request.header("range").unwrap().strip_prefix("bytes=").unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let bytes = last.parse::<u64>().unwrap() + 1 - first.parse::<u64>().unwrap();
        assert!(bytes <= 8 * MIB, "{range}");
    }
    // The hub itself is asked once; where it redirects to is kept.
    let asked_hub = scene.hub.requests().iter().filter(|request| request.host == Host::Hub).count();
    assert_eq!(asked_hub, 1);
}

#[test]
fn a_file_that_is_there_and_verified_is_not_brought_again() {
    let content = Content::seeded(2, 3 * MIB);
    let (scene, segment) = Scene::with_file(&content);
    let first = scene.bring(std::slice::from_ref(&segment)).unwrap();
    let n_requests = scene.hub.requests().len();
    let second = scene.bring(&[segment]).unwrap();
    assert!(!first.verified_before && second.verified_before);
    assert_eq!((second.received, second.sha256), (0, first.sha256));
    assert_eq!(scene.hub.requests().len(), n_requests);
    discard(&scene.partial).unwrap();
    assert!(scene.has_nothing());
}

#[test]
fn an_interrupted_transfer_goes_on_with_the_bytes_it_lacks() {
    let content = Content::seeded(3, 12 * MIB);
    let (scene, segment) = Scene::with_file(&content);
    scene.bring_ranges(5, std::slice::from_ref(&segment));
    let here = 5 * MIB;
    let n_before = scene.hub.requests().len();
    let brought = scene.bring(&[segment]).unwrap();
    assert_eq!(brought.received, content.len() - here);
    let requests = scene.hub.requests();
    let sent = requests[n_before..].iter().map(|request| request.sent.end - request.sent.start);
    assert_eq!(sent.sum::<u64>(), content.len() - here);
    assert!(scene.holds(&content));
}

#[test]
fn a_file_that_stayed_the_same_at_another_revision_is_gone_on_with() {
    let content = Content::seeded(3, 12 * MIB);
    let scene = Scene::new(Repository::new("org/repo").lfs("m.gguf", content.clone()).tagged("v2"));
    let segment = scene.segment("m.gguf", content.len(), &content.sha256());
    scene.bring_ranges(5, std::slice::from_ref(&segment));
    let url = segment.url.as_str().replace("/main/", "/v2/").parse().unwrap();
    let brought = scene.bring(&[Segment { url, ..segment }]);
    assert_eq!(brought.unwrap().received, content.len() - 5 * MIB);
    assert!(scene.holds(&content) && !scene.noticed("changed at its source"));
}

#[test]
fn records_that_a_crash_tore_off_the_range_map_cost_their_ranges_only() {
    let content = Content::seeded(4, 12 * MIB);
    let (scene, segment) = Scene::with_file(&content);
    scene.bring_ranges(5, std::slice::from_ref(&segment));
    let whole = scene.here();
    let map = scene.partial.with_file_name("m.gguf.ranges");
    let length = map.metadata().unwrap().len();
    OpenOptions::new().write(true).open(&map).unwrap().set_len(length - 3).unwrap();
    let here = scene.here();
    assert_eq!(here, whole - MIB);
    assert_eq!(scene.bring(&[segment]).unwrap().received, content.len() - here);
    assert!(scene.holds(&content));
}

#[test]
fn a_byte_that_changed_on_the_drive_costs_its_range_only() {
    let content = Content::seeded(5, 12 * MIB);
    let (scene, segment) = Scene::with_file(&content);
    scene.bring_ranges(11, std::slice::from_ref(&segment));
    let here = scene.here();
    let file = OpenOptions::new().read(true).write(true).open(&scene.partial).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 100).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 100).unwrap();
    let brought = scene.bring(&[segment]).unwrap();
    assert_eq!(brought.received, content.len() - here + MIB);
    assert!(scene.noticed("1048576 bytes are not as they came"));
    assert!(scene.holds(&content));
}

#[test]
fn a_file_with_a_git_sha1_is_verified_by_that() {
    let config = Content::from("{\"hidden_size\": 8}\n");
    let scene = Scene::new(Repository::new("org/repo").git("config.json", config.clone()));
    let segment = scene.segment("config.json", config.len(), &config.git_sha1());
    let brought = scene.bring(std::slice::from_ref(&segment)).unwrap();
    assert_eq!(brought.sha256.to_string(), config.sha256());
    assert!(scene.holds(&config));
    discard(&scene.partial).unwrap();
    // The right size alone does not do.
    scene.hub.add(Rule::new(Place::Bytes, "config.json", Fault::Flip(vec![3])));
    let error = scene.bring(&[segment]).unwrap_err();
    assert_eq!(error.reason(), "git_sha1");
    assert!(error.to_string().contains(&config.git_sha1()), "{error}");
    assert!(scene.has_nothing());
}

#[test]
fn fragments_are_joined_and_a_damaged_one_alone_is_brought_again() {
    let parts =
        [Content::seeded(6, 3 * MIB + 5), Content::seeded(7, 7), Content::seeded(8, 2 * MIB)];
    let mut repository = Repository::new("org/repo");
    for (n, part) in parts.iter().enumerate() {
        repository = repository.lfs(&format!("m.gguf.part{n}"), part.clone());
    }
    let scene = Scene::new(repository);
    let segment = |(n, part): (usize, &Content)| {
        scene.segment(&format!("m.gguf.part{n}"), part.len(), &part.sha256())
    };
    let segments: Vec<Segment> = parts.iter().enumerate().map(segment).collect();
    scene.hub.add(Rule::new(Place::Bytes, "m.gguf.part1", Fault::Flip(vec![2])).times(1));
    let brought = scene.bring(&segments).unwrap();
    let whole: Vec<u8> = parts.iter().flat_map(Content::to_vec).collect();
    assert_eq!(fs::read(&scene.partial).unwrap(), whole);
    assert_eq!(brought.sha256, Sha256::of(&whole));
    assert_eq!(brought.received, whole.len() as u64 + 7);
}

#[test]
fn a_size_that_nobody_declared_is_asked_for() {
    let content = Content::seeded(9, 2 * MIB + 1);
    let scene = Scene::new(
        Repository::new("org/repo").lfs("m.gguf", content.clone()).lfs("empty", Content::from("")),
    );
    let bring = |path: &str| {
        let url = scene.hub.web_address("org/repo", path).parse().unwrap();
        let brought = scene.bring(&[Segment { url, bytes: None, digest: None }]).unwrap();
        assert_eq!(fs::metadata(&scene.partial).unwrap().len(), brought.bytes);
        brought
    };
    assert_eq!(bring("m.gguf").sha256.to_string(), content.sha256());
    discard(&scene.partial).unwrap();
    assert_eq!(bring("empty").sha256, Sha256::of(b""));
}

#[test]
fn a_file_that_the_drive_cannot_hold_is_refused_before_anything_is_asked_for() {
    let content = Content::seeded(10, 10);
    let (scene, segment) = Scene::with_file(&content);
    let huge = Segment { bytes: Some(1 << 60), ..segment };
    let error = scene.bring(std::slice::from_ref(&huge)).unwrap_err();
    assert_eq!(error.reason(), "disk_full");
    assert!(matches!(error, TransferError::DiskFull { need, .. } if need == 1 << 60));
    let error =
        scene.bring(&[huge.clone(), Segment { bytes: Some(u64::MAX), ..huge }]).unwrap_err();
    assert_eq!(error.reason(), "size");
    assert!(scene.hub.requests().is_empty() && scene.has_nothing());
}

#[test]
fn what_lies_there_of_another_file_is_not_gone_on_with() {
    let (old, new) = (Content::seeded(11, 6 * MIB), Content::seeded(12, 6 * MIB));
    let (scene, segment) = Scene::with_file(&old);
    scene.bring_ranges(3, std::slice::from_ref(&segment));
    scene.hub.shelf().push("org/repo", "m.gguf", new.clone());
    let digest: Option<Digest> = Some(new.sha256().parse().unwrap());
    let brought = scene.bring(&[Segment { digest, ..segment }]).unwrap();
    assert_eq!(brought.received, new.len());
    assert!(scene.holds(&new) && scene.noticed("changed at its source"));
    // A file without its map, and a map without its file, are worth nothing.
    for lost in [scene.partial.clone(), scene.partial.with_file_name("m.gguf.ranges")] {
        fs::remove_file(lost).unwrap();
        let again = scene.segment("m.gguf", new.len(), &new.sha256());
        assert_eq!(scene.bring(&[again]).unwrap().received, new.len());
    }
}

#[test]
fn progress_grows_from_what_is_here_to_the_whole_file_and_ends_with_the_check() {
    let content = Content::seeded(13, 8 * MIB);
    let (scene, segment) = Scene::with_file(&content);
    scene.bring_ranges(3, std::slice::from_ref(&segment));
    let (here, last) = (scene.here(), Cell::new((Stage::Download, 0)));
    let progress = |progress: Progress| {
        assert_eq!(progress.total, Some(content.len()));
        match (last.get(), progress.stage) {
            ((Stage::Check, bytes), Stage::Check) | ((Stage::Download, bytes), Stage::Download) => {
                assert!(
                    progress.bytes
                        >= bytes.max(if progress.stage == Stage::Download { here } else { 0 })
                );
            }
            ((Stage::Download, _), Stage::Check) => {}
            (before, after) => panic!("{after:?} after {before:?}"),
        }
        last.set((progress.stage, progress.bytes));
    };
    let watch = Watch { progress: &progress, notice: &|_| {} };
    bring(&scene.client(), &[segment], &scene.partial, watch).unwrap();
    assert_eq!(last.get(), (Stage::Check, content.len()));
}
