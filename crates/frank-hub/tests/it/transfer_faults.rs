//! Answers that go wrong between a hub and the drive: what the transfer makes of each, and by which reason it refuses.

mod scene;
mod without_digest;
mod wrong_content;

use std::time::Duration;

use frank_hub::http::Delay;
use frank_hub::transfer::Notice;
use frank_testkit::mock_hub::{Answer, Content, Fault, Host, Place, Repository, Rule};

use frank_hub::Segment;
use scene::{
    BYTES, CONFIG_TEXT, MIB, MODEL, N_RANGES, PART, REPOSITORY, Scene, TOKEN, bytes, model,
    repository, resolve, sha256,
};

fn is_retry(notice: &Notice) -> bool {
    matches!(notice, Notice::Delayed { delay: Delay::Retry { attempt: 2, .. } })
}

#[test]
fn both_kinds_of_files_come_whole_and_by_bounded_ranges_only() {
    let scene = Scene::with([
        bytes(Fault::WithoutRange(Answer::status(400))),
        Rule::new(Place::Resolve, MODEL, Fault::WithoutRange(Answer::status(400))),
    ]);
    let got = scene.bring(scene.model());
    let brought = got.holds(&scene, &model());
    assert_eq!((brought.received, scene.sent_too_much()), (BYTES, 0));
    let mut sent = scene.hub.sent(MODEL);
    sent.sort_by_key(|sent| sent.start);
    assert!(sent.len() == N_RANGES && sent.iter().all(|sent| sent.end - sent.start <= MIB));
    scene.bring(scene.config()).holds(&scene, &CONFIG_TEXT.into());
}

#[test]
fn answers_that_fail_in_passing_are_asked_for_again() {
    for status in [408, 429, 500, 502, 503, 504] {
        let scene = Scene::with([
            bytes(Fault::Answer(Answer::status(status))).times(3),
            resolve(Answer::status(status)).times(1),
        ]);
        let got = scene.bring(scene.model());
        assert!(is_retry(&got.notices[0]), "{status}");
        got.holds(&scene, &model());
        assert_eq!(scene.sent_too_much(), 0, "{status}");
    }
}

#[test]
fn a_server_that_always_fails_is_given_up_after_so_many_tries() {
    let scene = Scene::with([bytes(Fault::Answer(Answer::status(500)))]);
    let error = scene.bring(scene.model()).refused("http");
    assert!(error.to_string().contains("500"), "{error}");
    assert_eq!(scene.statuses(), [500; 6]);
    let pauses = scene.pauses.lock().unwrap().clone();
    assert!(
        pauses.windows(2).all(|two| two[0] < 4 * two[1]) && pauses[4] > pauses[0],
        "{pauses:?}"
    );
}

#[test]
fn what_came_before_an_end_stays_and_is_not_asked_for_again() {
    let scene = Scene::with([]);
    scene.bring_part(scene.model());
    scene.hub.add(bytes(Fault::Answer(Answer::status(500))));
    scene.bring(scene.model()).refused("http");
    assert_eq!(scene.here(), PART);
    scene.hub.behave();
    let brought = scene.bring(scene.model()).holds(&scene, &model());
    assert_eq!((brought.received, scene.sent_too_much()), (BYTES - PART, 0));
    let again = scene.bring(scene.model()).holds(&scene, &model());
    assert_eq!((again.received, scene.sent_too_much()), (0, 0));
}

#[test]
fn the_pause_that_a_busy_server_asks_for_is_made_within_a_bound() {
    for (asked, made) in [("7", 7), ("100000", 300)] {
        let busy = Answer::status(429).header("retry-after", asked);
        let scene = Scene::with([bytes(Fault::Answer(busy)).times(1)]);
        scene.bring(scene.model()).holds(&scene, &model());
        assert_eq!(*scene.pauses.lock().unwrap(), [Duration::from_secs(made)], "{asked}");
    }
}

#[test]
fn a_refusal_is_named_and_leaves_no_file() {
    // As long as an error body once was that passed for a shard three times.
    let body = [b'x'; 153];
    for (status, reason) in [(401, "auth"), (404, "not_found"), (410, "not_found"), (418, "http")] {
        let scene = Scene::with([resolve(Answer::status(status).body(body))]);
        let error = scene.bring(scene.model()).refused(reason);
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!((scene.here(), scene.hub.requests().len()), (0, 1), "{status}");
    }
}

#[test]
fn a_gated_file_wants_its_token_which_goes_to_the_hub_alone() {
    let bring = |token: Option<&'static str>, repository: Repository| {
        let scene = Scene { token, ..Scene::new(repository) };
        let got = scene.bring(scene.model());
        (scene, got)
    };
    let gated = || repository().gated(TOKEN);
    let (scene, got) = bring(Some(TOKEN), gated());
    got.holds(&scene, &model());
    for request in scene.hub.requests() {
        let is_shown = request.header("authorization").is_some();
        assert_eq!(is_shown, request.host == Host::Hub, "{request:?}");
    }
    for (token, repository, said) in [
        (None, gated(), "401"),
        (Some("hf_wrong"), gated(), "401"),
        (Some(TOKEN), repository().refusing(TOKEN), "403"),
    ] {
        let (scene, got) = bring(token, repository);
        let error = got.refused("auth");
        let text = format!("{error} {:?}", error.hint());
        assert!(text.contains(said) && text.contains("token"), "{text}");
        assert!(!text.contains("hf_"), "{text}");
        assert_eq!(scene.here(), 0);
    }
}

#[test]
fn a_redirect_is_followed_to_another_host_without_the_token_and_never_in_circles() {
    let scene = Scene { token: Some(TOKEN), ..Scene::new(repository()) };
    // The other host sends the client on to itself, and says so to a third place too.
    let elsewhere = scene.hub.web_address(REPOSITORY, MODEL);
    scene.hub.add(resolve(Answer::redirect(308, &elsewhere)));
    scene.bring(scene.model()).holds(&scene, &model());
    for request in scene.hub.requests().iter().filter(|request| request.host == Host::Storage) {
        assert_eq!(request.header("authorization"), None, "{request:?}");
    }

    let own = format!("/{REPOSITORY}/resolve/main/{MODEL}");
    let scene = Scene::with([resolve(Answer::redirect(302, &own))]);
    scene.bring(scene.model()).refused("http");
    assert!(scene.hub.requests().len() < 20);
    // An address of no machine: it may not even be tried.
    let scene = Scene::with([resolve(Answer::redirect(302, "http://203.0.113.1/x"))]);
    scene.bring(scene.model()).refused("http");
}

#[test]
fn a_link_that_has_run_out_is_asked_for_anew() {
    let scene = Scene::with([bytes(Fault::Answer(Answer::status(403))).sparing(3).times(2)]);
    scene.bring(scene.model()).holds(&scene, &model());
    assert_eq!(scene.sent_too_much(), 0);
}

#[test]
fn a_link_that_never_works_is_no_endless_circle() {
    let scene = Scene { token: Some(TOKEN), ..Scene::with([]) };
    scene.bring_part(scene.model());
    scene.hub.add(bytes(Fault::Answer(Answer::status(403))));
    let before = scene.hub.requests().len();
    scene.bring(scene.model()).refused("http");
    assert!(scene.hub.requests().len() - before < 20, "{:?}", scene.statuses());
}

#[test]
fn a_server_without_ranges_is_read_in_one_piece_and_what_is_here_is_kept() {
    let scene = Scene::with([bytes(Fault::IgnoreRange)]);
    let got = scene.bring(scene.model());
    assert!(matches!(got.notices[..], [Notice::Unranged { .. }]), "{:?}", got.notices);
    got.holds(&scene, &model());

    // A part is here, and only then the ranges are ignored: nothing is appended to it.
    let scene = Scene::with([]);
    scene.bring_part(scene.model());
    scene.hub.add(bytes(Fault::IgnoreRange));
    scene.bring(scene.model()).holds(&scene, &model());
}

#[test]
fn an_answer_with_another_range_than_the_one_asked_for_is_refused() {
    let scene = Scene::with([bytes(Fault::ShiftRange(1))]);
    scene.bring(scene.model()).refused("range");
}

#[test]
fn a_body_that_is_cut_goes_on_where_it_ended() {
    let scene = Scene::with([bytes(Fault::Cut(300_000)).times(5)]);
    let got = scene.bring(scene.model());
    assert!(is_retry(&got.notices[0]));
    let brought = got.holds(&scene, &model());
    assert_eq!((brought.received, scene.sent_too_much()), (BYTES, 0));
    // However often it happens, as long as something comes each time.
    let scene = Scene::with([bytes(Fault::Cut(100_000))]);
    scene.bring(scene.model()).holds(&scene, &model());
    let scene = Scene::with([bytes(Fault::Cut(0))]);
    scene.bring(scene.model()).refused("http");
}

#[test]
fn a_slow_body_is_waited_for_and_a_silent_one_is_not() {
    let mut scene = Scene::with([bytes(Fault::Stall(1000)).times(3)]);
    scene.patience.idle = Duration::from_millis(300);
    scene.patience.attempts = 50;
    scene.bring(scene.model()).holds(&scene, &model());
    assert_eq!(scene.sent_too_much(), 0);

    let pause = Duration::from_millis(2);
    let scene = Scene::with([bytes(Fault::Slow { bytes: 60_000, pause })]);
    let got = scene.bring(scene.model());
    assert!(got.notices.is_empty(), "{:?}", got.notices);
    got.holds(&scene, &model());
}

#[test]
fn a_web_page_is_no_file() {
    for rule in [resolve(Answer::html()), bytes(Fault::Answer(Answer::html()))] {
        let scene = Scene::with([rule]);
        let error = scene.bring(scene.model()).refused("http");
        assert!(error.to_string().contains("web page"), "{error}");
        assert_eq!(scene.here(), 0);
    }
    // Not even where nothing is known of the file.
    let scene = Scene::with([bytes(Fault::Answer(Answer::html()))]);
    scene.bring(scene.web()).refused("http");
}

#[test]
fn a_range_that_the_server_denies_is_named() {
    let scene = Scene::with([bytes(Fault::Answer(Answer::status(416)))]);
    scene.bring(scene.model()).refused("range");
    assert_eq!(scene.statuses(), [416]);
}

#[test]
fn a_file_that_the_drive_has_no_room_for_is_refused_before_its_first_byte() {
    let huge = Content::seeded(9, 1 << 60);
    let digest = sha256(b"nobody can know");
    let repository = Repository::new(REPOSITORY).lfs_named(MODEL, huge, &digest.to_string());
    let scene = Scene::new(repository);
    let segment = Segment { bytes: Some(1 << 60), digest: Some(digest), ..scene.model() };
    scene.bring(segment).refused("disk_full");
    assert_eq!((scene.hub.bytes_sent(), scene.n_files()), (0, 0));
}
