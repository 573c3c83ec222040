//! Payloads that nothing vouches for, and what looks wrong about them: models that are not whole, parts that are all the
//! same, transfers quicker than the network, and hubs that are long in answering.

use std::fs;

use frank_hub::store::{Note, PullOptions, Step, Upstream};
use frank_hub::{FailureKind, Role, Sha256};
use frank_testkit::gguf_writer::GgufWriter;
use frank_testkit::mock_hub::{Answer, Content, Fault, Mark, Place, Repository, Rule};

use crate::store_scene::{Ledger, REPO, Scene, TINY, codes, gguf, parse};

const MODEL: &str = "m-Q4_K_M.gguf";

fn cut(bytes: usize) -> Vec<u8> {
    let whole = gguf(1);
    whole[..whole.len() - bytes].to_vec()
}

#[test]
fn a_model_whose_end_its_server_lost_is_refused_though_its_size_is_the_declared_one() {
    // In the last tensor, before all of them, and in the header.
    for lost in [1, 8000, gguf(1).len() - 30] {
        let scene = Scene::new(vec![Repository::new(REPO).lfs(MODEL, cut(lost))]);
        let address = scene.hub.web_address(REPO, MODEL);
        let error = scene.pull(&address).unwrap_err();
        assert_eq!((error.step, error.reason()), (Step::Verify, "not_whole"), "{lost}: {error}");
        assert_eq!(error.kind(), FailureKind::Verification);
        assert_eq!(scene.files(), [] as [&str; 0]);
        // A digest knows better.
        scene.pull(&format!("{address}#sha256={}", Sha256::of(&cut(lost)))).unwrap();
    }
}

#[test]
fn a_file_of_this_machine_that_is_cut_off_is_refused() {
    let scene = Scene::tiny();
    let path = scene.path(MODEL);
    fs::write(&path, cut(1)).unwrap();
    let error = scene.pull(&format!("file:{}", path.display())).unwrap_err();
    assert_eq!(error.reason(), "not_whole", "{error}");
}

#[test]
fn parts_that_were_glued_together_are_refused_where_only_a_part_was_published() {
    let part = |no: u16| {
        let writer = if no == 0 { GgufWriter::new("llama") } else { GgufWriter::without_keys() };
        writer.split(no, 2, 2).f32_tensor(&format!("t{no}"), &[8], &[0.0; 8]).to_bytes()
    };
    let name = |no| frank_gguf::part_name("m-Q4_K_M", no, 2);
    let publish = |first: Vec<u8>| {
        Scene::new(vec![Repository::new(REPO).lfs(&name(0), first).lfs(&name(1), part(1))])
    };
    let scene = publish([part(0), part(1)].concat());
    let error = scene.pull(&scene.hub.web_address(REPO, &name(0))).unwrap_err();
    assert_eq!(error.reason(), "not_whole", "{error}");
    let scene = publish(part(0));
    let pulled = scene.pull(&scene.hub.web_address(REPO, &name(0))).unwrap();
    assert_eq!(pulled.files.len(), 2);
}

#[test]
fn a_server_that_marks_no_state_is_a_warning() {
    let scene = Scene::new(vec![Repository::new(REPO).lfs(MODEL, gguf(1))]);
    let pulled = scene.pull(&scene.hub.marked_address(Mark::Nothing, REPO, MODEL)).unwrap();
    assert_eq!(codes(&pulled), ["unmarked", "no_digest"]);
    // It may well have sent a weak one.
    let told = pulled.notes[0].to_string();
    assert!(told.contains("neither a strong ETag nor a Last-Modified"), "{told}");
    assert!(pulled.notes.iter().all(Note::is_warning));
}

#[test]
fn parts_that_are_all_the_same_are_a_warning_before_and_after_their_bytes_came() {
    let name = |no| frank_gguf::part_name("m-Q4_K_M", no, 3);
    // As long as an error body once was that was stored as a shard three times.
    let body = Content::from(vec![b'x'; 153]);
    let repository = Repository::new(REPO);
    let same = (0..3).fold(repository, |all, no| all.lfs(&name(no), body.clone()));
    let scene = Scene::new(vec![same]);
    let ledger = Ledger::default();
    let pull = scene.pull_watched("hf:org/tiny-GGUF:Q4_K_M", &|event| ledger.hear(event));
    assert_eq!(codes(&pull.unwrap()), ["same_bytes"]);
    let lines = ledger.lines();
    let (told, verified) = (
        lines.iter().position(|line| line.contains("3 parts are the same 153 bytes")),
        lines.iter().position(|line| line == "verify"),
    );
    assert!(told.is_some() && told < verified, "before a byte comes: {lines:?}");

    // A web server declares nothing, so it is found in the end.
    let same = (0..3).fold(Repository::new(REPO), |all, no| all.lfs(&name(no), gguf(1)));
    let scene = Scene::new(vec![same]);
    let pulled = scene.pull(&scene.hub.web_address(REPO, &name(0))).unwrap();
    assert_eq!(codes(&pulled).iter().filter(|code| **code == "same_bytes").count(), 1);
    let pulled = scene.pull(&scene.hub.web_address(REPO, &name(0))).unwrap();
    assert!(!codes(&pulled).contains(&"same_bytes"), "nothing came");
}

#[test]
fn a_transfer_that_is_quicker_than_the_network_is_a_warning() {
    let pull = |link_bytes: Option<u64>| {
        let scene = Scene::tiny();
        let Upstream { client, endpoint } = scene.upstream();
        let client = match link_bytes {
            Some(bytes) => client.with_link_bytes(bytes),
            None => client,
        };
        let upstream = Upstream { client, endpoint };
        let options = PullOptions::default();
        let pulled = scene.store().pull(&upstream, &parse(TINY), options, &|_| ()).unwrap();
        codes(&pulled)
    };
    // 8 KiB would take a day.
    assert_eq!(pull(Some(1))[..2], ["too_quick", "too_quick"]);
    assert_eq!(pull(Some(u64::MAX)), [] as [&str; 0]);
    assert_eq!(pull(None), [] as [&str; 0], "within this machine nothing is too quick");
}

#[test]
fn a_hub_that_fails_in_passing_is_told_of_before_there_is_a_list_and_not_afterwards() {
    let scene = Scene::tiny();
    let busy = Fault::Answer(Answer::status(503));
    scene.hub.add(Rule::new(Place::Api, "/revision/", busy.clone()).times(1));
    scene.hub.add(Rule::new(Place::Api, "/tree/", busy).times(1));
    let ledger = Ledger::default();
    let pulled = scene.pull_watched(TINY, &|event| ledger.hear(event)).unwrap();
    assert_eq!(codes(&pulled), [] as [&str; 0]);
    let lines = ledger.lines();
    assert!(lines[..2].iter().all(|line| line.starts_with("list: try 2 in ")), "{lines:?}");
    assert!(lines[0].contains("HTTP 503") && lines[2] == "list", "{lines:?}");
}

#[test]
fn a_refresh_of_what_declares_no_digest_fetches_it_again_and_keeps_what_was_here_in_the_trash() {
    let scene = Scene::new(vec![Repository::new(REPO).lfs(MODEL, gguf(1))]);
    let address = scene.hub.web_address(REPO, MODEL);
    let pulled = scene.pull(&address).unwrap();
    scene.hub.shelf().push(REPO, MODEL, gguf(2));
    let here = scene.path(&format!("models/{}/{MODEL}", pulled.payload));
    scene.pull(&address).unwrap();
    assert_eq!(fs::read(&here).unwrap(), gguf(1), "nobody asked for another");
    scene.refresh(&address).unwrap();
    assert_eq!(fs::read(&here).unwrap(), gguf(2));
    assert_eq!(scene.trash().len(), 1);
}

#[test]
fn a_digest_in_the_reference_counts_for_what_is_here_too() {
    let scene = Scene::new(vec![Repository::new(REPO).lfs(MODEL, gguf(1))]);
    let address = scene.hub.web_address(REPO, MODEL);
    let pulled = scene.pull(&address).unwrap();
    let error = scene.pull(&format!("{address}#sha256={}", Sha256::of(b"other"))).unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("sha256", FailureKind::Verification), "{error}");
    let here = scene.path(&format!("models/{}/{MODEL}", pulled.payload));
    assert_eq!(fs::read(&here).unwrap(), gguf(1), "the good file stays");
    scene.pull(&format!("{address}#sha256={}", Sha256::of(&gguf(1)))).unwrap();
}

/// A page as a proxy sends it behind what it had of a file.
const PAGE: &[u8] = b"<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>";

#[test]
fn bytes_behind_the_last_tensor_are_refused_unless_a_digest_vouches_for_them() {
    for behind in [PAGE, &gguf(2), &[0; 64], b"<html>"] {
        let content = [gguf(1).as_slice(), behind].concat();
        let scene = Scene::new(vec![Repository::new(REPO).lfs(MODEL, content.clone())]);
        let address = scene.hub.web_address(REPO, MODEL);
        let error = scene.pull(&address).unwrap_err();
        assert_eq!((error.step, error.reason()), (Step::Verify, "not_whole"), "{error}");
        assert_eq!(error.kind(), FailureKind::Verification);
        let told = format!("{} bytes behind its last tensor", behind.len());
        assert!(error.to_string().contains(&told), "{error}");
        assert_eq!(scene.files(), [] as [&str; 0]);
        scene.pull(&format!("{address}#sha256={}", Sha256::of(&content))).unwrap();
    }
}

#[test]
fn zeros_up_to_the_alignment_are_no_bytes_behind_the_last_tensor() {
    let content = GgufWriter::new("llama").f32_tensor("t", &[3], &[1.0; 3]).to_bytes();
    let padded = content.len().next_multiple_of(32);
    for (byte, is_good) in [(0, true), (b'x', false)] {
        let mut content = content.clone();
        content.resize(padded, byte);
        let scene = Scene::new(vec![Repository::new(REPO).lfs(MODEL, content)]);
        let pulled = scene.pull(&scene.hub.web_address(REPO, MODEL));
        assert_eq!(pulled.is_ok(), is_good, "{byte}");
    }
}

#[test]
fn a_file_of_this_machine_that_is_no_model_is_refused_whatever_it_is_called() {
    let scene = Scene::tiny();
    for name in ["notes.txt", "mem", "m-Q4_K_M.gguf"] {
        let path = scene.path(name);
        fs::write(&path, "GUFF").unwrap();
        let error = scene.pull(&format!("file:{}", path.display())).unwrap_err();
        assert_eq!((error.reason(), error.kind()), ("not_gguf", FailureKind::Verification));
        assert!(error.to_string().contains(name), "{error}");
    }
    for (device, kind) in [("/proc/self/mem", "not_gguf"), ("/dev/zero", "listing")] {
        assert_eq!(scene.pull(&format!("file:{device}")).unwrap_err().reason(), kind, "{device}");
    }
    assert_eq!(scene.files(), [] as [&str; 0]);
}

#[test]
fn an_address_of_something_that_is_no_model_is_refused_whatever_it_is_called() {
    let scene = Scene::new(vec![Repository::new(REPO).lfs("m.bin", b"none".to_vec())]);
    let error = scene.pull(&scene.hub.web_address(REPO, "m.bin")).unwrap_err();
    assert_eq!(error.reason(), "not_gguf", "{error}");
}

#[test]
fn a_template_a_config_and_a_model_without_an_extension_are_taken_for_what_they_are() {
    let scene = Scene::tiny();
    for (name, content, role) in [
        ("chat_template.jinja", b"{{ messages }}".to_vec(), Role::Template),
        ("config.json", b"{}".to_vec(), Role::Config),
        ("sha256-0123", gguf(1), Role::Model),
    ] {
        fs::create_dir_all(scene.path("alone")).unwrap();
        let path = scene.path("alone").join(name);
        fs::write(&path, content).unwrap();
        let pulled = scene.pull(&format!("file:{}", path.display())).unwrap();
        assert_eq!(pulled.files[0].role, role, "{name}");
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn all_ways_to_a_file_of_this_machine_are_one_payload() {
    let scene = Scene::tiny();
    fs::create_dir_all(scene.path("a/b")).unwrap();
    std::os::unix::fs::symlink(scene.path("a"), scene.path("link")).unwrap();
    fs::write(scene.path("a").join(MODEL), gguf(1)).unwrap();
    for way in ["a", "a/b/..", "link", "link/b/../../a"] {
        let reference = format!("file:{}", scene.path(way).join(MODEL).display());
        scene.pull(&reference).unwrap();
        let found = scene.store().find(&parse(&reference));
        assert!(found.is_ok(), "{way}: {found:?}");
    }
    assert_eq!(scene.store().payloads().unwrap().len(), 1);
}

#[test]
fn what_is_here_of_a_file_whose_size_nobody_declared_is_not_all_of_it() {
    let content = Content::seeded(7, 5 << 20);
    let scene = Scene::new(vec![Repository::new(REPO).lfs(MODEL, content)]);
    scene.hub.add(Rule::new(Place::Bytes, MODEL, Fault::Answer(Answer::status(500))).sparing(2));
    let ledger = Ledger::default();
    let pull = scene.pull_watched(&scene.hub.web_address(REPO, MODEL), &|event| ledger.hear(event));
    assert!(pull.is_err());
    let payload = scene.store().payloads().unwrap().remove(0);
    let (here, all) = payload.bytes();
    assert!(here > 0 && payload.percent() == Some(here * 100 / (5 << 20)), "{payload:?}");
    assert_eq!(all, 5 << 20, "the server said it");
    let lines = ledger.lines();
    assert!(lines.iter().any(|line| line == "room"), "{lines:?}");
}
