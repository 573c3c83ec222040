//! From a reference to what its source has: the hub's answers, names on a web server, files of this machine.

use std::fs;
use std::path::Path;

use frank_hub::http::{Client, HttpError, Tokens};
use frank_hub::sources::list;
use frank_hub::{FailureKind, ListError, Listing, ModelFile, Reference, choose};
use frank_testkit::gguf_writer::GgufWriter;
use frank_testkit::mock_hub::{Answer, Content, Fault, MockHub, Place, Repository, Rule};
use serde_json::{Value, json};
use url::Url;

use crate::store_scene::{self, REPO, Scene};

const LARGE_BYTES: u64 = 5000;

fn repository() -> Repository {
    Repository::new(REPO)
        .git("config.json", "{}")
        .git("a folder/notes 50%.json", "[]")
        .lfs("Q8_0/tiny-Q8_0-00001-of-00002.gguf", Content::seeded(1, LARGE_BYTES))
        .lfs("Q8_0/tiny-Q8_0-00002-of-00002.gguf", Content::seeded(2, 10))
        .lfs("tiny-Q4_K_M.gguf", Content::seeded(3, 70))
}

fn listed_by(hub: &MockHub, reference: &str) -> Result<Listing, ListError> {
    let endpoint: Url = hub.endpoint().parse().unwrap();
    let client = Client::new(Tokens::none(), None).unwrap();
    list(&reference.parse().unwrap(), &endpoint, &client, &|_| ())
}

/// The listing of something that is no repository of the hub, so that nothing is asked.
fn listed(reference: &str) -> Result<Listing, ListError> {
    let client = Client::new(Tokens::none(), None).unwrap();
    let endpoint = "https://hub.invalid/".parse().unwrap();
    list(&reference.parse().unwrap(), &endpoint, &client, &|_| ())
}

fn paths(listing: &Listing) -> Vec<&str> {
    listing.files.iter().map(|file| file.path.as_str()).collect()
}

/// A hub whose tree is `entries`.
fn hub_listing(entries: &Value) -> MockHub {
    let hub = MockHub::start(vec![repository()]);
    let answer = Answer::json(200, entries);
    hub.add(Rule::new(Place::Api, "/tree/", Fault::Answer(answer)));
    hub
}

fn entry(path: &str, bytes: u64) -> Value {
    json!({"type": "file", "path": path, "size": bytes, "oid": "0".repeat(40)})
}

fn refused(entries: &Value) -> ListError {
    let error = listed_by(&hub_listing(entries), "hf:org/tiny-GGUF").unwrap_err();
    assert_eq!(error.kind(), FailureKind::Failed, "{error}");
    error
}

#[test]
fn a_repository_is_listed_with_sizes_digests_and_urls_at_its_commit() {
    let hub = MockHub::start(vec![repository()]);
    let listing = listed_by(&hub, "hf:org/tiny-GGUF:Q8_0").unwrap();
    assert_eq!(
        (listing.source.as_str(), listing.revision),
        ("hf:org/tiny-GGUF", repository().commit())
    );
    assert_eq!(listing.files.len(), 5);
    let file = |path: &str| listing.files.iter().find(|file| file.path == path).unwrap();
    let large = file("Q8_0/tiny-Q8_0-00001-of-00002.gguf");
    assert_eq!(large.bytes, Some(LARGE_BYTES));
    let sha256 = Content::seeded(1, LARGE_BYTES).sha256();
    assert_eq!(large.digest.unwrap().to_string(), sha256);
    let small = file("a folder/notes 50%.json");
    let sha1 = Content::from("[]").git_sha1();
    assert_eq!((small.bytes, small.digest.unwrap().to_string()), (Some(2), sha1));
    let at = format!("{}/{REPO}/resolve/{}", hub.endpoint(), repository().commit());
    assert_eq!(small.url.as_str(), format!("{at}/a%20folder/notes%2050%25.json"));
}

#[test]
fn a_branch_tag_or_commit_is_listed_as_it_was() {
    let hub = MockHub::start(vec![repository().tagged("v1")]);
    let first = repository().commit();
    hub.shelf().remove(REPO, "config.json");
    assert_eq!(listed_by(&hub, "hf:org/tiny-GGUF").unwrap().files.len(), 4);
    for revision in ["v1", &first] {
        let listing = listed_by(&hub, &format!("hf:org/tiny-GGUF@{revision}")).unwrap();
        assert_eq!((listing.files.len(), &listing.revision), (5, &first));
        assert_eq!(listing.source, format!("hf:org/tiny-GGUF@{revision}"));
    }
    let error = listed_by(&hub, "hf:org/tiny-GGUF@refs/pr/7").unwrap_err();
    assert!(matches!(error, ListError::Http(HttpError::NotFound { .. })), "{error}");
    assert_eq!(error.kind(), FailureKind::Input);
    let asked = hub.requests();
    let last = &asked.last().unwrap().target;
    assert_eq!(last, "/api/models/org/tiny-GGUF/revision/refs%2Fpr%2F7");
}

#[test]
fn a_list_in_many_pages_is_read_to_its_end() {
    let mut repository = Repository::new(REPO).paged(7);
    for no in 0..30 {
        repository = repository.git(&format!("{no:02}/config.json"), "{}");
    }
    let hub = MockHub::start(vec![repository]);
    let listing = listed_by(&hub, "hf:org/tiny-GGUF").unwrap();
    assert_eq!(listing.files.len(), 30);
    let folders: Vec<&str> = listing.files.iter().map(|file| &file.path[..2]).collect();
    assert!(folders.is_sorted());
}

#[test]
fn paths_that_leave_their_folder_are_refused_by_name() {
    for path in
        ["../x", "a/../../x", "/etc/passwd", "a//b", "", ".", "a/", "a\\b", "a\nb", "a\u{1b}[2Jb"]
    {
        let error = refused(&json!([entry("config.json", 1), entry(path, 1)]));
        let ListError::BadPath { path: named } = &error else { panic!("{path:?}: {error}") };
        assert_eq!(named, path);
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
    let long = "x/".repeat(600) + "x";
    assert!(matches!(refused(&json!([entry(&long, 1)])), ListError::BadPath { .. }));
}

#[test]
fn a_path_that_comes_twice_is_refused_by_name() {
    let error = refused(&json!([entry("m.gguf", 1), entry("m.gguf", 2)]));
    assert_eq!(error.to_string(), "the source lists m.gguf twice");
}

#[test]
fn sizes_that_no_file_can_have_are_refused() {
    let half = i64::MAX as u64 / 2 + 1;
    assert!(matches!(refused(&json!([entry("a", half), entry("b", half)])), ListError::TooLarge));
    assert!(matches!(refused(&json!([entry("a", u64::MAX), entry("b", 1)])), ListError::TooLarge));
    let mut negative = entry("a", 1);
    negative["size"] = json!(-1);
    assert!(matches!(refused(&json!([negative])), ListError::BadSize { path } if path == "a"));
}

#[test]
fn folders_and_kinds_that_are_not_known_are_no_files() {
    let folder = json!({"type": "directory", "path": "MTP", "oid": "x", "size": 0});
    let other = json!({"type": "link", "path": "../x"});
    let hub = hub_listing(&json!([folder, other, entry("m.gguf", 1)]));
    assert_eq!(paths(&listed_by(&hub, "hf:org/tiny-GGUF").unwrap()), ["m.gguf"]);
}

#[test]
fn pages_without_end_are_refused() {
    let again = Answer::json(200, &json!([]));
    let hub = MockHub::start(vec![repository()]);
    let next = format!("<{}/api/models/org/tiny-GGUF/tree/x?page=2>; rel=\"next\"", hub.endpoint());
    hub.add(Rule::new(Place::Api, "/tree/", Fault::Answer(again.header("Link", &next))));
    let error = listed_by(&hub, "hf:org/tiny-GGUF").unwrap_err();
    assert_eq!(error.to_string(), "the list of files of hf:org/tiny-GGUF has no end");
    assert!(hub.requests().len() < 10, "a page that leads to itself is seen at once");
}

#[test]
fn a_list_that_goes_on_at_another_host_is_refused_and_not_cut_short() {
    let hub = MockHub::start(vec![repository()]);
    let answer = Answer::json(200, &json!([entry("m.gguf", 1)]));
    let answer = answer.header("Link", &format!("<{}/more>; rel=\"next\"", hub.storage()));
    hub.add(Rule::new(Place::Api, "/tree/", Fault::Answer(answer)));
    let error = listed_by(&hub, "hf:org/tiny-GGUF").unwrap_err();
    assert!(matches!(error, ListError::ForeignPage { .. }), "{error}");
}

#[test]
fn more_files_than_a_repository_has_are_refused() {
    let entries: Vec<Value> = (0..20_001).map(|no| entry(&format!("{no}.json"), 1)).collect();
    assert!(matches!(refused(&json!(entries)), ListError::TooManyFiles));
}

#[test]
fn a_commit_that_is_none_or_another_is_refused() {
    let wanted = "a".repeat(40);
    for (sha, revision) in
        [("../../x", "main"), ("main", "main"), ("", "main"), (&"b".repeat(40), &wanted)]
    {
        let hub = MockHub::start(vec![repository()]);
        let answer = Answer::json(200, &json!({"sha": sha}));
        hub.add(Rule::new(Place::Api, "/revision/", Fault::Answer(answer)));
        let error = listed_by(&hub, &format!("hf:org/tiny-GGUF@{revision}")).unwrap_err();
        assert!(matches!(error, ListError::BadCommit { .. }), "{sha}: {error}");
    }
}

#[test]
fn a_url_of_one_piece_lists_all_pieces() {
    let digest = "ab".repeat(32);
    let listing =
        listed(&format!("https://h/d/m-00002-of-00003.gguf?x=1#sha256={digest}")).unwrap();
    assert_eq!(listing.source, "https://h/d/m-00001-of-00003.gguf?x=1");
    assert_eq!(
        paths(&listing),
        ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"]
    );
    assert_eq!(listing.files[2].url.as_str(), "https://h/d/m-00003-of-00003.gguf?x=1");
    let digests: Vec<bool> = listing.files.iter().map(|file| file.digest.is_some()).collect();
    assert_eq!(digests, [false, true, false]);
    let fragments = listed("https://h/m%20x.gguf.part2of2").unwrap();
    assert_eq!(fragments.files[0].url.as_str(), "https://h/m%20x.gguf.part1of2");
    let chosen = choose(&fragments, None).unwrap();
    assert_eq!((chosen.files[0].name.as_str(), chosen.files[0].segments.len()), ("m x.gguf", 2));
    assert!(matches!(listed("https://h/m.gguf.part1"), Err(ListError::OpenEnd { .. })));
}

#[test]
fn a_url_is_the_model_whatever_it_is_called() {
    let payload = |reference: &str| choose(&listed(reference).unwrap(), None).unwrap();
    let a = payload("https://h/a/model.bin");
    assert_eq!((a.files[0].role, a.files[0].name.as_str()), (frank_hub::Role::Model, "model.bin"));
    assert!(a.payload.starts_with("model.bin--"));
    assert_ne!(a.payload, payload("https://h/b/model.bin").payload);
    assert_eq!(
        a.payload,
        payload(&format!("https://h/a/model.bin#sha256={}", "ab".repeat(32))).payload
    );
}

#[test]
fn a_file_of_this_machine_is_listed_with_its_pieces_only() {
    let dir = tempfile::tempdir().unwrap();
    let part = |no: u16| GgufWriter::new("llama").split(no, 2, 0).to_bytes();
    for no in 0..2 {
        fs::write(dir.path().join(frank_gguf::part_name("m", no, 2)), part(no)).unwrap();
    }
    fs::write(dir.path().join("other.gguf"), part(0)).unwrap();
    let second = dir.path().join("m-00002-of-00002.gguf");
    let listing = listed(&format!("file:{}", second.display())).unwrap();
    assert_eq!(paths(&listing), ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]);
    assert_eq!(listing.files[0].bytes, Some(part(0).len() as u64));
    assert_eq!(listing.files[0].url.scheme(), "file");
    assert_eq!(
        listing,
        listed(&dir.path().join("m-00001-of-00002.gguf").display().to_string()).unwrap()
    );
}

#[test]
fn glued_parts_are_refused_before_anything_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let part = |no: u16| GgufWriter::new("llama").split(no, 3, 0).to_bytes();
    let glued = dir.path().join("m.gguf");
    fs::write(&glued, [part(0), part(1), part(2)].concat()).unwrap();
    let error = listed(glued.to_str().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "m.gguf: header says 3 parts, file name is not part 1 of 3");
    assert!(error.hint().unwrap().contains("-00001-of-00003.gguf"));
    assert_eq!(error.kind(), FailureKind::Input);
}

#[test]
fn paths_that_lead_to_no_file_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let kind = |path: &Path| listed(&format!("file:{}", path.display())).unwrap_err().kind();
    assert_eq!(kind(&dir.path().join("none.gguf")), FailureKind::Input);
    assert_eq!(kind(dir.path()), FailureKind::Input);
    for reference in ["pip:a==1#x.gguf", "a-name"] {
        let reference: Reference = reference.parse().unwrap();
        assert!(matches!(listed(&reference.to_string()), Err(ListError::NothingToList { .. })));
    }
}

#[test]
fn what_a_repository_has_beside_the_payload_is_neither_fetched_nor_verified() {
    let mut repository = store_scene::tiny(REPO);
    for other in ["tiny-BF16", "tiny-Q4_K_S", "tiny-Q8_0", "MTP/tiny-a-Q8_0", "MTP/tiny-b-Q8_0"] {
        repository = repository.lfs(&format!("{other}.gguf"), Content::seeded(9, 50));
    }
    let scene = Scene::new(vec![repository]);
    let pulled = scene.pull("hf:org/tiny-GGUF:q4_k_m").unwrap();
    let verified = scene.store().verify(&pulled.payload, &|_, _| ()).unwrap();
    let names: Vec<&str> = verified.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, [store_scene::MODEL, store_scene::PROJECTOR, store_scene::TEMPLATE]);
    assert!(verified.files.iter().all(|file| file.verdict.reason() == "verified"), "{verified:?}");
    let seen = scene.hub.requests();
    assert!(
        !seen.iter().any(|request| request.target.contains("MTP")),
        "nothing of it is asked for"
    );
}

#[test]
fn a_runtime_is_given_the_first_part_whichever_was_named() {
    let part = |no: u16| {
        let writer = if no == 0 { GgufWriter::new("llama") } else { GgufWriter::without_keys() };
        writer.split(no, 3, 3).f32_tensor(&format!("t{no}"), &[8], &[0.0; 8]).to_bytes()
    };
    let name = |no: u16| frank_gguf::part_name("UD-IQ4_XS/tiny-UD-IQ4_XS", no, 3);
    let repository = (0..3).fold(Repository::new(REPO), |all, no| all.lfs(&name(no), part(no)));
    let scene = Scene::new(vec![repository]);
    let pulled = scene.pull("hf:org/tiny-GGUF:tiny-UD-IQ4_XS-00002-of-00003.gguf").unwrap();
    assert_eq!(pulled.lock.file.len(), 3);
    let model = scene.store().payload(&pulled.payload).unwrap().usable_model().unwrap();
    assert_eq!(model.file_name().unwrap(), "tiny-UD-IQ4_XS-00001-of-00003.gguf");
    let model = ModelFile::open(&model).unwrap();
    assert_eq!(model.paths().len(), 3, "all parts lie beside each other");
}
