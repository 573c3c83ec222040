//! Files that no digest vouches for: what still tells of changes, of lost ends and of bytes that went wrong.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use frank_hub::Segment;
use frank_hub::transfer::Notice;
use frank_testkit::mock_hub::{Content, Fault, Mark, Repository, Shelf};

use url::Url;

use super::scene::{BYTES, MIB, MODEL, PART, REPOSITORY, Scene, bytes, model};

fn is_begun_again(notices: &[Notice]) -> bool {
    notices.iter().any(|notice| matches!(notice, Notice::Changed { .. }))
}

#[test]
fn a_file_without_an_etag_that_changes_midway_is_begun_again_and_never_mixed() {
    for mark in [Mark::Dated, Mark::Fresh] {
        // So long that there are requests both before and after the change.
        let (long, other) = (Content::seeded(1, 40 * MIB), Content::seeded(2, 40 * MIB));
        let scene = Scene::new(Repository::new(REPOSITORY).lfs(MODEL, long));
        scene.hub.at_bytes(20 * MIB, {
            let other = other.clone();
            move |shelf: &Shelf| shelf.overwrite(REPOSITORY, MODEL, other)
        });
        let got = scene.bring(scene.marked(mark));
        assert!(is_begun_again(&got.notices), "{mark:?} {got:?}");
        got.holds(&scene, &other);
    }
}

#[test]
fn a_time_is_made_a_condition_only_when_no_other_change_can_hide_behind_it() {
    let conditions = |mark| {
        let scene = Scene::with([]);
        scene.bring(scene.marked(mark)).holds(&scene, &model());
        let requests = scene.hub.requests();
        requests.iter().filter(|request| request.header("if-range").is_some()).count()
    };
    // Neither the question for the size nor the first range has one.
    assert_eq!(conditions(Mark::Dated), 5);
    assert_eq!(conditions(Mark::Fresh), 0);
    assert_eq!(conditions(Mark::Nothing), 0);
}

#[test]
fn what_is_here_of_a_file_is_gone_on_with_only_when_a_change_would_be_seen() {
    for (mark, came) in [(Mark::Dated, BYTES - PART), (Mark::Fresh, BYTES), (Mark::Nothing, BYTES)]
    {
        let scene = Scene::with([]);
        scene.bring_part(scene.marked(mark));
        let brought = scene.bring(scene.marked(mark)).holds(&scene, &model());
        assert_eq!(brought.received, came, "{mark:?}");
    }
    let (scene, other) = (Scene::with([]), Content::seeded(3, BYTES));
    scene.bring_part(scene.marked(Mark::Dated));
    scene.hub.shelf().overwrite(REPOSITORY, MODEL, other.clone());
    let got = scene.bring(scene.marked(Mark::Dated));
    assert!(is_begun_again(&got.notices), "{got:?}");
    got.holds(&scene, &other);
}

#[test]
fn a_file_that_nothing_marks_is_told_of_once() {
    let told = |mark| {
        let scene = Scene::with([]);
        let got = scene.bring(scene.marked(mark));
        let told = |notice: &&Notice| matches!(notice, Notice::Unmarked { .. });
        let n = got.notices.iter().filter(told).count();
        got.holds(&scene, &model());
        n
    };
    assert_eq!([Mark::Nothing, Mark::Fresh, Mark::Etag].map(told), [1, 0, 0]);
    // What a digest vouches for needs no mark.
    let scene = Scene::with([]);
    assert!(scene.bring(scene.model()).notices.is_empty());
}

#[test]
fn a_file_whose_size_nobody_tells_is_refused() {
    let scene = Scene::with([bytes(Fault::NoLength)]);
    let error = scene.bring(scene.web()).refused("size");
    assert!(error.to_string().contains("does not say how large the file is"), "{error}");
    assert_eq!(scene.n_files(), 0);
}

#[test]
fn a_body_that_is_longer_or_shorter_than_was_told_never_counts_as_the_file() {
    for bytes_then in [BYTES + 1, BYTES + MIB, BYTES - 1, 100] {
        let scene = Scene::with([bytes(Fault::NoLength).sparing(1)]);
        // The question for the size costs one byte, and then the file is another one that nothing marks as such.
        scene.hub.at_bytes(1, move |shelf: &Shelf| {
            shelf.overwrite(REPOSITORY, MODEL, Content::seeded(7, bytes_then));
        });
        let error = scene.bring(scene.marked(Mark::Nothing)).result.unwrap_err();
        let reasons: &[&str] = if bytes_then < BYTES { &["http"] } else { &["range", "size"] };
        assert!(reasons.contains(&error.reason()), "{bytes_then}: {} {error}", error.reason());
        // Nothing of it is taken for good later.
        scene.hub.behave();
        let now = Content::seeded(7, bytes_then);
        scene.bring(scene.marked(Mark::Nothing)).holds(&scene, &now);
    }
}

/// A server that gives these answers, one for each connection.
fn answering(answers: Vec<&'static str>) -> (Url, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/m.gguf", listener.local_addr().unwrap()).parse().unwrap();
    let thread = thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            assert!(lines.map(Result::unwrap).any(|line| line.is_empty()), "the head ends");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, thread)
}

#[test]
fn a_body_that_goes_on_behind_its_last_byte_is_of_another_file() {
    let size = "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-0/5\r\n\
                content-length: 1\r\nconnection: close\r\n\r\n1";
    let longer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
                  5\r\n12345\r\n2\r\n67\r\n0\r\n\r\n";
    let (url, thread) = answering([size, longer].repeat(4));
    let scene = Scene::with([]);
    let got = scene.bring(Segment { url, ..scene.web() });
    assert!(is_begun_again(&got.notices), "{got:?}");
    got.refused("changed");
    assert_eq!(scene.n_files(), 0);
    thread.join().unwrap();
}

#[test]
fn bytes_that_went_wrong_on_the_drive_are_found_though_no_digest_tells() {
    let scene = Scene::with([]);
    scene.bring_part(scene.marked(Mark::Dated));
    let mut held = fs::read(scene.partial()).unwrap();
    held[17] ^= 1;
    fs::write(scene.partial(), held).unwrap();
    let got = scene.bring(scene.marked(Mark::Dated));
    assert!(matches!(got.notices[..], [Notice::Repairing { bytes: MIB }]), "{:?}", got.notices);
    got.holds(&scene, &model());
}

#[test]
fn a_whole_file_that_was_touched_before_it_got_its_name_is_hashed_again() {
    for declared in [true, false] {
        let scene = Scene::with([]);
        let segment = || if declared { scene.model() } else { scene.marked(Mark::Dated) };
        scene.bring(segment()).holds(&scene, &model());
        let mut held = fs::read(scene.partial()).unwrap();
        held[17] ^= 1;
        fs::write(scene.partial(), held).unwrap();
        let brought = scene.bring(segment()).holds(&scene, &model());
        assert!(!brought.verified_before && brought.received == MIB, "{brought:?}");
        let again = scene.bring(segment()).holds(&scene, &model());
        assert!(again.verified_before && again.received == 0, "{again:?}");
    }
}
