//! The mock hub byte by byte: what it answers, how it misbehaves, what it notes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use frank_testkit::mock_hub::{
    Answer, Content, Fault, Host, MockHub, Place, Repository, Rule, Shelf,
};
use serde_json::Value;

const REPOSITORY: &str = "org/tiny-GGUF";
const MODEL: &str = "tiny-Q4_K_M.gguf";
const BYTES: u64 = 300_000;

/// What came back on a connection that was used once.
struct Got {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(held, _)| *held == name).map(|(_, value)| value).next()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Asks for `address` with further lines in the head.
fn ask(method: &str, address: &str, lines: &str) -> Got {
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "{method} /{path} HTTP/1.1\r\nconnection: close\r\n{lines}\r\n").unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    let end = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(got[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Got { status, head, body: got[end + 4..].to_vec() }
}

fn get(address: &str, lines: &str) -> Got {
    ask("GET", address, lines)
}

fn model() -> Content {
    Content::seeded(1, BYTES)
}

fn repository() -> Repository {
    Repository::new(REPOSITORY).git("config.json", "{}").lfs(MODEL, model())
}

fn resolve(hub: &MockHub, path: &str) -> String {
    format!("{}/{REPOSITORY}/resolve/main/{path}", hub.endpoint())
}

#[test]
fn a_large_file_is_a_redirect_to_the_other_host_which_knows_ranges() {
    let hub = MockHub::start(vec![repository()]);
    let first = ask("HEAD", &resolve(&hub, MODEL), "");
    assert_eq!((first.status, first.body.len()), (302, 0));
    assert_eq!(first.header("x-linked-size"), Some("300000"));
    assert_eq!(first.header("x-linked-etag"), Some(&*format!("\"{}\"", model().sha256())));
    assert_eq!(first.header("x-repo-commit"), Some(&*repository().commit()));
    let location = first.header("location").unwrap();
    assert!(location.starts_with(hub.storage()), "{location}");

    let part = get(location, "range: bytes=100-199\r\n");
    assert_eq!((part.status, &*part.body), (206, &model().to_vec()[100..200]));
    assert_eq!(part.header("content-range"), Some("bytes 100-199/300000"));
    let etag = part.header("etag").unwrap();
    assert_ne!(Some(etag), first.header("x-linked-etag"));
    assert_eq!(get(location, "").body, model().to_vec());
    assert_eq!(get(location, "range: bytes=300000-\r\n").status, 416);
    let kept = get(location, &format!("range: bytes=0-0\r\nif-range: {etag}\r\n"));
    assert_eq!((kept.status, kept.body.len()), (206, 1));
    let changed = get(location, "range: bytes=0-0\r\nif-range: \"other\"\r\n");
    assert_eq!((changed.status, changed.body.len() as u64), (200, BYTES));
    assert_eq!(hub.sent(MODEL), [100..200, 0..BYTES, 0..1, 0..BYTES]);
}

#[test]
fn a_small_file_is_a_relative_redirect_and_is_named_by_git() {
    let hub = MockHub::start(vec![repository()]);
    let first = get(&resolve(&hub, "config.json"), "");
    let location = first.header("location").unwrap();
    assert!(first.status == 307 && location.starts_with("/api/resolve-cache/"), "{location}");
    let second = get(&format!("{}{location}", hub.endpoint()), "");
    assert_eq!((second.status, &*second.body), (200, b"{}".as_slice()));
    assert_eq!(second.header("etag"), Some("\"9e26dfeeb6e641a33dae4961196235bdb965b21b\""));
}

#[test]
fn the_listing_comes_in_pages_with_folders_and_names() {
    let repository = repository().git("docs/a/b.md", "x").paged(2);
    let commit = repository.commit();
    let hub = MockHub::start(vec![repository]);
    let tree = format!("{}/api/models/{REPOSITORY}/tree/main", hub.endpoint());
    let mut next = Some(format!("{tree}?recursive=true"));
    let mut paths = Vec::new();
    while let Some(address) = next {
        let page = get(&address, "");
        let entries = page.json();
        assert!(entries.as_array().unwrap().len() <= 2);
        paths.extend(entries.as_array().unwrap().iter().map(|entry| {
            format!("{} {}", entry["type"].as_str().unwrap(), entry["path"].as_str().unwrap())
        }));
        let link = page.header("link").map(|link| link.split(['<', '>']).nth(1).unwrap());
        next = link.map(str::to_owned);
    }
    assert_eq!(
        paths,
        [
            "file config.json",
            "directory docs",
            "directory docs/a",
            "file docs/a/b.md",
            "file tiny-Q4_K_M.gguf"
        ]
    );
    assert_eq!(get(&tree, "").json().as_array().unwrap().len(), 2);
    let inside = get(&format!("{tree}/docs/a"), "").json();
    assert_eq!(inside[0]["path"], "docs/a/b.md");
    assert_eq!(get(&format!("{tree}/nowhere"), "").status, 404);

    let lfs = &get(&format!("{tree}?expand=true&limit=1&cursor=after%3A2"), "").json()[0];
    assert_eq!(lfs["lfs"]["oid"], model().sha256());
    assert_eq!(lfs["size"], BYTES);
    assert_ne!(lfs["oid"], model().git_sha1(), "git holds a pointer, not the file");
    let revision = format!("{}/api/models/{REPOSITORY}/revision/main", hub.endpoint());
    assert_eq!(get(&revision, "").json()["sha"], commit);
    assert_eq!(get(&format!("{revision}x"), "").header("x-error-code"), Some("RevisionNotFound"));
}

#[test]
fn closed_repositories_answer_as_those_of_the_real_hub() {
    let name = |name: &str| Repository::new(name).git("a", "b");
    let hub = MockHub::start(vec![
        name("org/gated").gated("right"),
        name("org/private").private("right"),
        name("org/refused").refusing("right"),
    ]);
    let check = |address: &str, token: &str, status: u16, code: Option<&str>| {
        let line = match token {
            "" => String::new(),
            _ => format!("authorization: Bearer {token}\r\n"),
        };
        let got = get(&format!("{}/{address}", hub.endpoint()), &line);
        assert_eq!((got.status, got.header("x-error-code")), (status, code), "{address} {token}");
    };
    for (token, status, code) in
        [("", 401, Some("GatedRepo")), ("wrong", 401, None), ("right", 307, None)]
    {
        check("org/gated/resolve/main/a", token, status, code);
        check("api/models/org/gated/tree/main", token, 200, None);
    }
    check("org/refused/resolve/main/a", "", 401, Some("GatedRepo"));
    check("org/refused/resolve/main/a", "right", 403, Some("GatedRepo"));
    check("api/models/org/private/tree/main", "", 401, Some("RepoNotFound"));
    check("api/models/org/private/tree/main", "wrong", 404, Some("RepoNotFound"));
    check("api/models/org/private/tree/main", "right", 200, None);
    check("org/nothing/resolve/main/a", "right", 404, Some("RepoNotFound"));
    check("org/gated/resolve/main/b", "right", 404, Some("EntryNotFound"));
}

#[test]
fn faults_strike_where_and_as_often_as_they_are_told() {
    let hub = MockHub::start(vec![repository()]);
    let address = hub.web_address(REPOSITORY, MODEL);
    let whole = model().to_vec();
    let with = |fault: Fault| {
        hub.behave();
        hub.add(Rule::new(Place::Bytes, MODEL, fault).times(1));
        let got = get(&address, "range: bytes=10-19\r\n");
        let after = get(&address, "range: bytes=10-19\r\n");
        assert_eq!((after.status, &*after.body), (206, &whole[10..20]));
        got
    };
    let busy = with(Fault::Answer(Answer::status(429).header("retry-after", "1")));
    assert_eq!((busy.status, busy.header("retry-after")), (429, Some("1")));
    let ignored = with(Fault::IgnoreRange);
    assert!(ignored.status == 200 && ignored.body == whole);
    let shifted = with(Fault::ShiftRange(4));
    assert_eq!((shifted.status, &*shifted.body), (206, &whole[14..20]));
    assert_eq!(shifted.header("content-range"), Some("bytes 14-19/300000"));
    let cut = with(Fault::Cut(3));
    assert_eq!((cut.header("content-length"), &*cut.body), (Some("10"), &whole[10..13]));
    let slow = with(Fault::Slow { bytes: 3, pause: Duration::from_millis(1) });
    assert_eq!(&*slow.body, &whole[10..20]);
    let flipped = with(Fault::Flip(vec![12]));
    let mut wrong = whole[10..20].to_vec();
    wrong[2] = !wrong[2];
    assert_eq!(flipped.body, wrong);

    hub.add(Rule::new(Place::Bytes, MODEL, Fault::WithoutRange(Answer::status(400))));
    assert_eq!(get(&address, "").status, 400);
    assert_eq!(get(&address, "range: bytes=0-\r\n").status, 206);
    hub.add(Rule::new(Place::Api, "/tree/", Fault::Answer(Answer::status(503))));
    let api = format!("{}/api/models/{REPOSITORY}", hub.endpoint());
    assert_eq!(get(&format!("{api}/tree/main"), "").status, 503);
    assert_eq!(get(&api, "").status, 200);
}

#[test]
fn a_file_changes_in_a_new_commit_or_under_the_feet_of_its_readers() {
    let repository = repository();
    let commit = repository.commit();
    let hub = MockHub::start(vec![repository]);
    let etag = |revision: &str| {
        let address = format!("{}/{REPOSITORY}/resolve/{revision}/{MODEL}", hub.endpoint());
        get(&address, "").header("x-linked-etag").unwrap().trim_matches('"').to_owned()
    };
    hub.shelf().push(REPOSITORY, MODEL, "second");
    assert_eq!(etag(&commit), model().sha256());
    assert_eq!(etag("main"), Content::from("second").sha256());

    let tag = |hub: &MockHub| {
        let got = get(&hub.web_address(REPOSITORY, MODEL), "");
        (got.header("etag").unwrap().to_owned(), got.body)
    };
    let before = tag(&hub);
    hub.at_bytes(hub.bytes_sent(), |shelf: &Shelf| shelf.overwrite(REPOSITORY, MODEL, "third"));
    // The change happens when the next bytes are about to be sent, which are still those of the file as it was.
    assert_eq!(tag(&hub), before);
    let after = tag(&hub);
    assert!(after.0 != before.0 && after.1 == b"third", "{after:?}");
    hub.shelf().remove(REPOSITORY, MODEL);
    assert_eq!(get(&resolve(&hub, MODEL), "").status, 404);
}

#[test]
fn the_record_has_every_header_and_the_act_comes_at_its_byte() {
    let hub = MockHub::start(vec![repository()]);
    let (sender, acts) = mpsc::channel();
    hub.at_bytes(100_001, move |_| sender.send("now").unwrap());
    get(&hub.web_address(REPOSITORY, MODEL), "range: bytes=0-100000\r\nx-mine: Yes\r\n");
    assert_eq!(acts.recv(), Ok("now"));
    assert_eq!(hub.bytes_sent(), 100_001);
    let requests = hub.requests();
    assert_eq!((requests.len(), requests[0].host, requests[0].status), (1, Host::Storage, 206));
    assert_eq!(requests[0].header("x-mine"), Some("Yes"));
    assert_eq!((requests[0].file.as_deref(), requests[0].sent.clone()), (Some(MODEL), 0..100_001));
}

#[test]
fn a_stalled_connection_ends_with_the_hub() {
    let hub = MockHub::start(vec![repository()]);
    hub.add(Rule::new(Place::Bytes, MODEL, Fault::Stall(5)));
    let host = hub.storage().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /web/etag/{REPOSITORY}/{MODEL} HTTP/1.1\r\n\r\n").unwrap();
    let mut got = vec![0; 20];
    stream.read_exact(&mut got).unwrap();
    drop(hub);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    got.extend(rest);
    assert!(got.ends_with(&model().to_vec()[..5]));
}

#[test]
fn a_file_on_a_disk_is_sent_like_any_other() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes = Content::seeded(3, 2_500_000).to_vec();
    std::fs::write(file.path(), &bytes).unwrap();
    let content = Content::file(file.path()).unwrap();
    let hub = MockHub::start(vec![Repository::new(REPOSITORY).lfs(MODEL, content)]);
    let got = get(&hub.web_address(REPOSITORY, MODEL), "range: bytes=7-\r\n");
    assert!(got.status == 206 && got.body == bytes[7..]);
}
