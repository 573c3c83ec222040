//! Contents that are not what they are said to be: files that change, bytes and sizes that are wrong.

use std::fs;

use frank_hub::FailureKind;
use frank_hub::transfer::{Notice, Segment};
use frank_testkit::mock_hub::{Answer, Content, Fault, Place, Repository, Rule, Shelf};

use super::scene::{
    BYTES, CONFIG, CONFIG_TEXT, MIB, MODEL, PART, REPOSITORY, Scene, bytes, model, repository,
    sha256,
};

#[test]
fn a_file_that_changes_midway_is_begun_again_and_never_mixed() {
    // So long that there are requests both before and after the change.
    let (long, other) = (Content::seeded(1, 40 * MIB), Content::seeded(2, 40 * MIB));
    let scene = Scene::new(Repository::new(REPOSITORY).lfs(MODEL, long));
    scene.hub.at_bytes(20 * MIB, {
        let other = other.clone();
        move |shelf: &Shelf| shelf.overwrite(REPOSITORY, MODEL, other)
    });
    let got = scene.bring(scene.web());
    assert!(got.notices.iter().any(|notice| matches!(notice, Notice::Changed { .. })), "{got:?}");
    got.holds(&scene, &other);

    // Between two calls too, and where it has another size then.
    for other in
        [Content::seeded(3, BYTES), Content::seeded(4, BYTES + MIB), Content::seeded(5, 100)]
    {
        let scene = Scene::with([]);
        scene.bring_part(scene.web());
        scene.hub.shelf().overwrite(REPOSITORY, MODEL, other.clone());
        scene.bring(scene.web()).holds(&scene, &other);
    }
}

#[test]
fn a_file_of_the_hub_that_is_not_the_listed_one_any_more_is_refused() {
    let other = Content::seeded(2, BYTES);
    // The hub's listing declared the old bytes, which are there no more.
    let scene = Scene::with([]);
    scene.hub.shelf().overwrite(REPOSITORY, MODEL, other);
    let error = scene.bring(scene.model()).refused("changed");
    assert_eq!(error.kind(), FailureKind::Verification);
}

#[test]
fn bytes_that_are_wrong_once_are_found_and_only_their_range_is_written_anew() {
    for at in [0, MIB + 17, BYTES - 1] {
        let scene = Scene::with([bytes(Fault::Flip(vec![at])).times(1)]);
        let got = scene.bring(scene.model());
        assert!(matches!(got.notices[..], [Notice::Comparing { .. }]), "{at}: {:?}", got.notices);
        got.holds(&scene, &model());
    }
}

#[test]
fn bytes_that_went_wrong_on_the_drive_are_found_and_only_their_range_is_brought_again() {
    let scene = Scene::with([]);
    scene.bring_part(scene.model());
    let mut held = fs::read(scene.partial()).unwrap();
    let whole = model().to_vec();
    assert_eq!(held[17], whole[17]);
    held[17] ^= 1;
    fs::write(scene.partial(), held).unwrap();
    let got = scene.bring(scene.model());
    assert!(matches!(got.notices[..], [Notice::Repairing { bytes: MIB }]), "{:?}", got.notices);
    let brought = got.holds(&scene, &model());
    assert_eq!(brought.received, BYTES - PART + MIB);
}

#[test]
fn bytes_that_stay_wrong_are_refused_by_the_kind_of_their_digest_and_not_kept() {
    let scene = Scene::with([bytes(Fault::Flip(vec![2 * MIB]))]);
    let error = scene.bring(scene.model()).refused("sha256");
    assert_eq!(error.kind(), FailureKind::Verification);
    assert_eq!(scene.n_files(), 0);

    let scene = Scene::with([Rule::new(Place::Bytes, CONFIG, Fault::Flip(vec![3]))]);
    scene.bring(scene.config()).refused("git_sha1");
    assert_eq!(scene.n_files(), 0);
    scene.hub.behave();
    scene.bring(scene.config()).holds(&scene, &CONFIG_TEXT.into());
}

#[test]
fn a_size_other_than_the_declared_one_is_refused_before_any_digest() {
    for declared in [BYTES - 1, BYTES + 1, 153] {
        let scene = Scene::new(repository().declaring(MODEL, declared));
        let segment =
            Segment { bytes: Some(declared), digest: Some(sha256(b"x")), ..scene.model() };
        scene.bring(segment).refused("size");
    }
}

#[test]
fn status_size_and_digest_are_looked_at_in_this_order() {
    let wrong = |scene: &Scene| Segment {
        bytes: Some(BYTES + 1),
        digest: Some(sha256(b"x")),
        ..scene.web()
    };
    let refused = || Fault::Answer(Answer::status(401));
    let scene = Scene::with([bytes(refused())]);
    scene.bring(wrong(&scene)).refused("auth");
    let scene = Scene::with([]);
    scene.bring(wrong(&scene)).refused("size");
    scene.bring(Segment { bytes: Some(BYTES), ..wrong(&scene) }).refused("sha256");
    // Right bytes do not help an answer that says no.
    let scene = Scene::with([bytes(Fault::Answer(Answer::status(401).body(model().to_vec())))]);
    scene.bring(scene.web()).refused("auth");
}
