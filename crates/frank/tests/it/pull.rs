//! `frank pull` against a hub on loopback: what it prints, pins, refuses and leaves.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use frank_testkit::gguf_writer::GgufWriter;
use frank_testkit::mock_hub::{Answer, Content, Fault, Place, Repository, Rule};
use serde_json::json;

use crate::files::Folder;
use crate::hub_home::{HubHome, MODEL, PROJECTOR, REPO, TINY, names, tiny};
use crate::program::frank;

#[test]
fn a_pull_says_each_step_on_stderr_and_what_it_brought_on_stdout() {
    let home = HubHome::tiny();
    let run = home.frank(&["pull", TINY]).ended(0);
    let steps: Vec<&str> =
        run.stderr.lines().filter_map(|line| line.split_once(": ").map(|(step, _)| step)).collect();
    assert_eq!(
        steps,
        ["list", "choose", "room", "verify", "verify", "finalize", "lock"],
        "{run:?}"
    );
    assert!(run.stdout.contains("2 files") && run.stdout.lines().count() == 1, "{run:?}");
    let again = home.frank(&["pull", TINY]).ended(0);
    assert!(again.stdout.contains("0 B received"), "{again:?}");
}

#[test]
fn json_says_source_revision_digests_and_what_was_done() {
    let home = HubHome::tiny();
    let pulled = home.frank(&["pull", "--json", TINY]).ended(0).json();
    assert_eq!(pulled["failed"], json!(null));
    let payload = &pulled["payloads"][0];
    assert_eq!((&payload["source"], &payload["revision"]), (&json!(TINY), &json!(tiny().commit())));
    assert_eq!(payload["received"], json!(home.hub.bytes_sent()));
    let file = &payload["files"][0];
    assert_eq!(
        (&file["name"], &file["role"], &file["outcome"]),
        (&json!(MODEL), &json!("model"), &json!("fetched"))
    );
    assert_eq!(file["sha256"].as_str().map(str::len), Some(64));
    let again = home.frank(&["pull", "--json", TINY]).ended(0).json();
    assert_eq!(again["payloads"][0]["received"], json!(0));
}

#[test]
fn a_failure_names_its_step_file_and_reason() {
    let home = HubHome::tiny();
    // The bytes are wrong however often they are brought.
    home.hub.add(Rule::new(Place::Bytes, PROJECTOR, Fault::Flip(vec![3])));
    let run = home.frank(&["pull", "--json", TINY]).ended(4);
    let failed = &run.json()["failed"];
    assert_eq!((&failed["step"], &failed["file"]), (&json!("verify"), &json!(PROJECTOR)));
    assert_eq!(failed["reason"], json!("sha256"));
    assert!(run.stderr.contains("error: pull failed at verify, mmproj-tiny-F16.gguf: "), "{run:?}");
    assert_eq!(names(&home.models()), [".locks", "org--tiny-GGUF--F32"]);
    assert_eq!(
        names(&home.models().join("org--tiny-GGUF--F32")),
        [".partial"],
        "nothing has its name"
    );
}

#[test]
fn an_error_page_is_no_file_and_the_refusal_speaks_of_the_token() {
    let home = HubHome::new(vec![tiny().gated("hf_secret")]);
    let lines = home.frank(&["pull", TINY]).failed(1);
    let error = lines.iter().find(|line| line.starts_with("error: ")).expect("an error");
    assert!(error.contains("gated or private") && error.contains("transfer"), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.starts_with("hint: ") && line.contains("HF_TOKEN")),
        "{lines:?}"
    );
    assert_eq!(names(&home.models()), [".locks"]);
}

#[test]
fn a_token_from_a_file_opens_a_gated_repository_and_is_never_shown() {
    let token = "hf_AbCdEfGh0123456789";
    let home = HubHome::new(vec![tiny().gated(token)]);
    let path = home.folder.file("token", format!("{token}\n"));
    let path = path.to_str().expect("a plain path");
    let run = home.frank(&["pull", "--json", "--token-file", path, TINY]).ended(0);
    assert!(!format!("{run:?}").contains(token));
    for (host, _) in home
        .hub
        .requests()
        .iter()
        .filter_map(|request| Some((request.host, request.header("authorization")?.to_owned())))
    {
        assert_eq!(host, frank_testkit::mock_hub::Host::Hub);
    }
}

#[test]
fn list_shows_every_file_by_model_quant_and_scheme_and_fetches_none() {
    let repository = tiny()
        .lfs("big-Q4_K_S.gguf.part1of3", Content::seeded(1, 10))
        .lfs("big-Q4_K_S.gguf.part2of3", Content::seeded(2, 10))
        .lfs("big-Q4_K_S.gguf.part3of3", Content::seeded(3, 10))
        .lfs("UD-IQ4_XS/big-UD-IQ4_XS-00001-of-00002.gguf", Content::seeded(4, 10))
        .lfs("UD-IQ4_XS/big-UD-IQ4_XS-00002-of-00002.gguf", Content::seeded(5, 10));
    let home = HubHome::new(vec![repository]);
    let run = home.frank(&["pull", "--list", "hf:org/tiny-GGUF"]).ended(0);
    for text in
        ["Q4_K_S (3 fragments)", "UD-IQ4_XS (split of 2)", "F32 (single)", "README.md", "part3of3"]
    {
        assert!(run.stdout.contains(text), "{text} is not in {run:?}");
    }
    let groups = home.frank(&["pull", "--list", "--json", "hf:org/tiny-GGUF"]).ended(0).json();
    let groups = groups["sources"][0]["groups"].as_array().expect("a list").clone();
    let files: usize =
        groups.iter().map(|group| group["files"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!(files, 8);
    assert_eq!(home.hub.bytes_sent(), 0);
    assert!(names(&home.models()).is_empty());
}

#[test]
fn verify_only_reads_every_byte_and_fetches_none() {
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    let sent = home.hub.requests().len();
    let run = home.frank(&["pull", "--verify-only", &name]).ended(0);
    assert_eq!(run.stdout.lines().filter(|line| line.contains("is right")).count(), 2, "{run:?}");
    fs::write(folder.join(PROJECTOR), b"GGUF of a projectoR").expect("it is ours");
    let run = home.frank(&["pull", "--verify-only", "--json", TINY]).ended(4);
    let files = run.json()["payloads"][0]["files"].clone();
    assert_eq!(
        (&files[0]["verdict"]["verdict"], &files[1]["verdict"]["verdict"]),
        (&json!("verified"), &json!("sha256"))
    );
    assert!(run.stderr.contains("verify failed"), "{run:?}");
    assert_eq!(home.hub.requests().len(), sent, "nobody was asked");
}

#[test]
fn frank_lock_is_written_where_it_is_and_its_pins_are_checked_first() {
    let home = HubHome::tiny();
    home.pull();
    assert!(!home.folder.path().join("frank.lock").exists(), "nobody asked for one");
    home.frank(&["pull", "--lock", "frank.lock", TINY]).ended(0);
    let lock = home.folder.path().join("frank.lock");
    let text = fs::read_to_string(&lock).expect("it was written");
    for part in
        ["[[payload]]", "[[payload.file]]", TINY, &tiny().commit(), MODEL, "role = \"mmproj\""]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // All that is in the lock, and a hand that wrote a wrong size.
    home.frank(&["pull"]).ended(0);
    let bytes = fs::metadata(crate::files::llama()).expect("the tiny model").len();
    let wrong = text.replace(&format!("bytes = {bytes}"), "bytes = 1359284737");
    assert_ne!(wrong, text);
    fs::write(&lock, &wrong).expect("it is ours");
    let run = home.frank(&["pull", "--json"]).ended(4);
    assert_eq!(run.json()["failed"]["reason"], json!("manifest_mismatch"));
    assert!(run.stderr.contains("1359284737 in frank.lock"), "{run:?}");
    assert_eq!(
        fs::read_to_string(&lock).expect("it is there"),
        wrong,
        "it is for a person to mend"
    );
    let listed = home.frank(&["list", "--json"]).ended(0).json();
    assert_eq!(listed["payloads"][0]["state"], json!("complete"), "the good file stays");
    home.frank(&["pull", "--refresh"]).ended(0);
    assert_eq!(fs::read_to_string(&lock).expect("it is there"), text);
}

#[test]
fn without_a_reference_and_a_lock_there_is_nothing_to_pull() {
    let lines = HubHome::tiny().frank(&["pull"]).failed(2);
    assert!(lines[0].contains("nothing to pull"), "{lines:?}");
}

/// A repository with a model of 4 MiB that stalls in its middle until the hub behaves.
fn stalling() -> HubHome {
    let content =
        GgufWriter::new("llama").f32_tensor("x", &[1 << 20], &vec![1.0; 1 << 20]).to_bytes();
    let home = HubHome::new(vec![Repository::new(REPO).lfs(MODEL, content)]);
    home.hub.add(Rule::new(Place::Bytes, MODEL, Fault::Stall(1 << 19)).sparing(2));
    home
}

/// Starts a pull and waits until some of the file is in its range map.
fn partial(home: &HubHome) -> std::process::Child {
    let mut child = home
        .command(&["pull", TINY])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    loop {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it stalled");
        let listed = home.frank(&["list", "--json"]).ended(0).json();
        if listed["payloads"][0]["bytes_here"].as_u64().is_some_and(|here| here > 0) {
            return child;
        }
    }
}

#[test]
fn a_pull_that_failed_to_give_names_resumes_at_finalize() {
    let home = stalling();
    let child = partial(&home);
    // Something that no rename replaces, and that was not there when the pull looked.
    let in_the_way = home.models().join("org--tiny-GGUF--F32").join(MODEL);
    fs::create_dir(&in_the_way).expect("a folder");
    home.hub.behave();
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("pull failed at finalize"), "{stderr}");
    fs::remove_dir(&in_the_way).expect("it is empty");
    let sent = home.hub.bytes_sent();
    let run = home.frank(&["pull", TINY]).ended(0);
    assert!(run.stderr.contains("resumed at finalize"), "{run:?}");
    assert_eq!(home.hub.bytes_sent(), sent);
}

#[test]
fn ctrl_c_keeps_what_came_and_list_shows_how_much() {
    let home = stalling();
    let mut child = partial(&home);
    let status = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("there is a kill");
    assert!(status.success());
    let mut stderr = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{stderr}");
    assert!(stderr.contains("pull failed at transfer"), "{stderr}");
    let run = home.frank(&["list"]).ended(0);
    let percent = run.stdout.split("partial ").nth(1).and_then(|rest| rest.split(" %").next());
    let percent: u64 = percent.and_then(|text| text.parse().ok()).expect("a percentage");
    assert!((1..100).contains(&percent), "{run:?}");
}

#[test]
fn a_payload_of_a_killed_pull_is_refused_with_what_is_missing_and_completed_by_a_pull() {
    let home = stalling();
    let mut child = partial(&home);
    child.kill().expect("it runs");
    assert_eq!(child.wait().expect("it ends").signal(), Some(9));
    let name = "org--tiny-GGUF--F32";
    for command in
        [&["run", name, "hello"][..], &["serve", name], &["fit", name], &["run", TINY, "hello"]]
    {
        let lines = home.frank(command).failed(2);
        assert!(lines[0].contains("is incomplete: tiny-F32.gguf is "), "{lines:?}");
        assert!(lines[1].contains(&format!("`frank pull {TINY}` completes it")), "{lines:?}");
    }
    home.hub.behave();
    let before = home.hub.bytes_sent();
    let run = home.frank(&["pull", name]).ended(0);
    assert!(run.stderr.contains("resumed at transfer"), "{run:?}");
    assert!(home.hub.bytes_sent() - before < 4 << 20, "what was here came again");
    assert_eq!(
        home.frank(&["list", "--json"]).ended(0).json()["payloads"][0]["state"],
        json!("complete")
    );
}

#[test]
fn check_refuses_parts_that_were_glued_or_renamed_and_takes_them_as_published() {
    let folder = Folder::new();
    let part = |no: u16| {
        let name = format!("blk.{no}.x");
        GgufWriter::new("llama").split(no, 3, 3).f32_tensor(&name, &[64], &[1.0; 64])
    };
    let mut glued = Vec::new();
    let paths: Vec<_> = (0..3_u16)
        .map(|no| {
            glued.extend(part(no).to_bytes());
            folder.gguf(&format!("m-0000{}-of-00003.gguf", no + 1), &part(no))
        })
        .collect();
    let check =
        |path: &std::path::Path| frank(["pull".as_ref(), "--check".as_ref(), path.as_os_str()]);
    assert!(check(&paths[1]).ended(0).stdout.contains("m-00001-of-00003.gguf: whole, 3 parts"));
    let lines = check(&folder.file("m.gguf", glued)).failed(4);
    assert!(lines[0].contains("header says 3 parts, file name is not part 1 of 3"), "{lines:?}");
    assert!(lines[1].contains("-00001-of-00003.gguf"), "{lines:?}");
    fs::rename(&paths[2], folder.path().join("third.gguf")).expect("it is ours");
    let lines = check(&paths[0]).failed(4);
    assert!(lines[0].contains("m-00003-of-00003.gguf"), "{lines:?}");
    check(&folder.path().join("none.gguf")).failed(2);
}

#[test]
fn what_the_hub_has_not_is_said_with_what_it_has() {
    let home = HubHome::tiny();
    let run = home.frank(&["pull", "--json", "hf:org/tiny-GGUF:Q5_K_M"]).ended(2);
    assert_eq!(run.json()["failed"]["step"], json!("choose"));
    assert!(run.stderr.contains("F32"), "{run:?}");
    let lines = home.frank(&["pull", "hf:org/none"]).failed(2);
    assert!(
        lines[0].contains("pull failed at list") && lines[0].contains("no such repository"),
        "{lines:?}"
    );
}

#[test]
fn a_model_that_is_not_here_is_pulled_by_run_and_not_by_fit() {
    let home = HubHome::tiny();
    let lines = home.frank(&["fit", TINY]).failed(2);
    assert_eq!(lines[0], format!("error: {TINY} is not in the store"));
    assert!(lines[1].contains(&format!("frank pull {TINY}")), "{lines:?}");
    let run = home.frank(&["run", TINY, "--raw", "-n", "1", "--ctx-size", "128", "a"]).ended(0);
    assert!(run.stderr.contains("finalize: 2 files"), "{run:?}");
    home.hub.add(Rule::new(Place::Api, "/", Fault::Answer(Answer::status(503))));
    home.frank(&["fit", "--no-measure", TINY]).ended(0);
    home.frank(&["run", "org--tiny-GGUF--F32", "--raw", "-n", "1", "--ctx-size", "128", "a"])
        .ended(0);
}
