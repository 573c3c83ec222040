//! A store that is damaged, full, read-only or on another drive: every command says what it can do and what it cannot.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::files::{Folder, str};
use crate::hub_home::{HubHome, MODEL, PROJECTOR, TINY};
use crate::program::{Run, frank, run};

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

/// Runs `script` in a shell that may mount what nobody else sees; `$FRANK` is the program in this home. `None` where the
/// system allows no such mounts.
fn mounted(home: &HubHome, script: &str) -> Option<Run> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-ec"]).stdin(Stdio::null());
        command
    };
    let try_out = "mount -t tmpfs none /mnt";
    let mut trial = unshare();
    let is_allowed = trial.arg(try_out).stderr(Stdio::null()).status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        return None;
    }
    let inner = home.command(&[]);
    let mut command = unshare();
    for (variable, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    command.arg(script).env("FRANK", inner.get_program()).current_dir(home.folder.path());
    Some(run(&mut command))
}

#[test]
fn a_payload_that_cannot_be_read_is_listed_with_its_reason_beside_the_others() {
    let home = HubHome::tiny();
    let (name, _) = home.pull();
    let broken = home.models().join("broken");
    fs::create_dir(&broken).expect("a folder");
    make_pipe(&broken.join("payload.lock"));
    let reason = format!("{} is a pipe, not a file", broken.join("payload.lock").display());
    let listed = home.frank(&["list", "--json"]).ended(0).json();
    let payloads = listed["payloads"].as_array().expect("a list");
    let told: Vec<_> =
        payloads.iter().map(|payload| (&payload["name"], &payload["state"])).collect();
    assert_eq!(
        told,
        [(&json!("broken"), &json!("unreadable")), (&json!(name), &json!("complete"))]
    );
    assert_eq!(payloads[0]["faults"], json!([reason]));
    let run = home.frank(&["list"]).ended(0);
    assert!(run.stdout.lines().any(|line| line.contains("cannot be read")), "{run:?}");
    assert!(run.stdout.ends_with(&format!("broken: {reason}\n")), "{run:?}");
    for command in [["serve", "broken"], ["fit", "broken"], ["pull", "broken"]] {
        let lines = home.frank(&command).failed(1);
        assert!(lines[0].contains(&reason), "{lines:?}");
    }
    home.frank(&["rm", "broken"]).ended(0);
    assert_eq!(home.frank(&["list", "--json"]).ended(0).json()["payloads"][0]["name"], json!(name));
}

#[test]
fn a_file_to_check_or_to_pull_that_is_a_pipe_or_a_folder_is_refused_by_its_path() {
    let folder = Folder::new();
    let pipe = folder.path().join("m-F32.gguf");
    make_pipe(&pipe);
    let home = HubHome::tiny();
    for (path, kind) in [(pipe.as_path(), "pipe"), (folder.path(), "directory")] {
        let told = format!("{} is a {kind}, not a file", path.display());
        let lines = frank(["pull", "--check", str(path)]).failed(2);
        assert!(lines[0].contains(&told), "{lines:?}");
        let lines = home.frank(&["pull", &format!("file:{}", path.display())]).failed(2);
        assert!(lines.iter().any(|line| line.contains(&told)), "{lines:?}");
    }
}

#[test]
fn a_refresh_of_what_an_endpoint_needs_is_refused_with_its_name() {
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    fs::create_dir(folder.join("used-by")).expect("a folder");
    fs::write(folder.join("used-by/chat.6"), "rollback\n").expect("it is ours");
    home.frank(&["pull", "--refresh", &name]).ended(0);
    home.hub.shelf().push(crate::hub_home::REPO, PROJECTOR, b"GGUF of another".to_vec());
    let run = home.frank(&["pull", "--refresh", "--json", &name]).ended(3);
    assert_eq!(run.json()["failed"]["reason"], json!("in_use"));
    assert!(run.stderr.contains("chat generation 6 (rollback)"), "{run:?}");
    assert_eq!(fs::read(folder.join(PROJECTOR)).expect("it is there"), b"GGUF of a projector");
}

/// Changes a byte of a file, as a failing drive does.
fn rot(path: &Path) {
    let mut bytes = fs::read(path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).expect("it is ours");
}

#[test]
fn a_store_on_a_drive_that_may_not_be_written_is_listed_and_verified() {
    const READ_ONLY: &str = "mount --bind \"$XDG_DATA_HOME\" \"$XDG_DATA_HOME\"
        mount -o remount,bind,ro,nosuid,nodev \"$XDG_DATA_HOME\"";
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    let frank = |command: &str| mounted(&home, &format!("{READ_ONLY}; exec \"$FRANK\" {command}"));
    let Some(listed) = frank("list --json") else { return };
    assert_eq!(listed.ended(0).json()["payloads"][0]["state"], json!("complete"));
    let verify = format!("pull --verify-only {name}");
    let run = frank(&verify).expect("as before").ended(0);
    assert!(run.stdout.contains(&format!("{MODEL} is right")), "{run:?}");
    assert!(!run.stderr.contains("note:"), "{run:?}");

    fs::remove_dir_all(home.models().join(".locks")).expect("it is ours");
    rot(&folder.join(MODEL));
    let run = frank(&verify).expect("as before").ended(4);
    for told in [
        "a pull that begins meanwhile is not kept away",
        "cannot be made: Read-only file system",
        "what was found is not noted in",
        "payload.lock: Read-only file system",
    ] {
        assert!(run.stderr.contains(told), "{told} is not in {run:?}");
    }
    let lines = frank(&format!("rm {name}")).expect("as before").failed(1);
    assert!(lines[0].contains("cannot move to the trash"), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("Read-only file system")), "{lines:?}");
}

#[test]
fn a_full_drive_keeps_nothing_from_the_trash_nor_in_it() {
    let home = HubHome::tiny();
    let full = format!(
        "mkdir -p \"$XDG_DATA_HOME\"; mount -t tmpfs -o size=16m none \"$XDG_DATA_HOME\"
        \"$FRANK\" pull {TINY} >pulled
        dd if=/dev/zero of=\"$XDG_DATA_HOME/fill\" bs=4k 2>/dev/null || true
        \"$FRANK\" rm --json org--tiny-GGUF--F32 >removed
        \"$FRANK\" trash --json >trash
        id=$(sed -n 's/.*\"id\": \"\\(.*\\)\".*/\\1/p' removed)
        \"$FRANK\" trash restore \"$id\" >restored
        \"$FRANK\" list --json"
    );
    let Some(run) = mounted(&home, &full) else { return };
    let listed = run.ended(0).json();
    assert_eq!(listed["payloads"][0]["state"], json!("complete"));
    let trash = fs::read_to_string(home.folder.path().join("trash")).expect("it ran");
    let trash: serde_json::Value = serde_json::from_str(&trash).expect("JSON");
    assert_eq!(trash["trash"][0]["reason"], json!(""), "the drive was not full: {trash}");
    assert_eq!(trash["trash"][0]["from"], listed["payloads"][0]["path"]);
}

#[test]
fn a_note_for_which_there_is_no_room_is_left_out_and_the_payload_comes_back_all_the_same() {
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    let model = fs::read(folder.join(MODEL)).expect("it is there");
    let full = |args: &[&str]| run(home.command(args).env("FRANK_FAULTS", "no-space")).ended(0);
    let removed = full(&["rm", "--json", &name, "--reason", "old"]).json();
    assert_eq!((&removed["reason"], &removed["from"]), (&json!("old"), &json!(folder)));
    assert!(!folder.exists());
    let listed = home.frank(&["trash", "--json"]).ended(0).json()["trash"][0].clone();
    assert_eq!((&listed["reason"], &listed["from"]), (&json!(""), &json!(folder)));
    full(&["trash", "restore", removed["id"].as_str().expect("a text")]);
    assert_eq!(fs::read(folder.join(MODEL)).expect("it is back"), model);
    let trash = home.models().with_file_name("trash");
    let left: Vec<_> = walk(&trash);
    assert!(left.is_empty(), "{left:?}");
}

/// Files and links below a folder.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("it is readable"))
    {
        if entry.file_type().expect("a kind").is_dir() {
            found.extend(walk(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// Runs the model `name` for one token.
fn run_one(home: &HubHome, name: &str) -> Run {
    home.frank(&["run", name, "--raw", "-n", "1", "--ctx-size", "128", "a"])
}

/// Changes a byte of a file and sets its time back, as whoever does not want to be noticed does.
fn rot_unseen(path: &Path) {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a time");
    rot(path);
    let file = fs::File::options().write(true).open(path).expect("it is ours");
    file.set_modified(modified).expect("it is ours");
}

#[test]
fn a_model_that_was_changed_behind_its_time_is_not_run() {
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    let listed = || home.frank(&["list", "--json"]).ended(0).json()["payloads"][0]["state"].clone();
    rot_unseen(&folder.join(MODEL));
    assert_eq!(listed(), json!("changed"));
    for command in [&["serve", &name, "--port", "0"][..], &["run", TINY, "--raw", "a"]] {
        let lines = home.frank(command).failed(4);
        let error = lines.iter().find(|line| line.starts_with("error: ")).expect("an error");
        assert!(error.contains(MODEL) && error.contains("sha256"), "{lines:?}");
        let way_out = format!("`frank pull {name}`");
        assert!(lines.iter().any(|line| line.contains(&way_out)), "{lines:?}");
        // It was noted: the next one finds it damaged without reading it.
        assert_eq!(listed(), json!("damaged"));
        home.frank(&["pull", &name]).ended(0);
        run_one(&home, &name).ended(0);
        rot_unseen(&folder.join(MODEL));
    }
}

#[test]
fn a_model_that_was_only_touched_is_read_once_before_it_is_run_and_that_is_said() {
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    assert!(!run_one(&home, &name).ended(0).stderr.contains("touched"), "nobody did");
    let file = fs::File::options().write(true).open(folder.join(MODEL)).expect("it is ours");
    file.set_modified(std::time::UNIX_EPOCH).expect("it is ours");
    let run = run_one(&home, &name).ended(0);
    assert!(run.stderr.contains(&format!("{MODEL} was touched since it was verified")), "{run:?}");
    let run = run_one(&home, &name).ended(0);
    assert!(!run.stderr.contains("touched"), "it was noted: {run:?}");
    let listed = home.frank(&["list", "--json"]).ended(0).json();
    assert_eq!(listed["payloads"][0]["state"], json!("complete"));
}

#[test]
fn a_touched_model_of_a_store_that_may_not_be_written_is_run_and_what_is_not_noted_is_said() {
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    let frank = |command: &str| {
        let read_only = "mount --bind \"$XDG_DATA_HOME\" \"$XDG_DATA_HOME\"
            mount -o remount,bind,ro,nosuid,nodev \"$XDG_DATA_HOME\"";
        mounted(&home, &format!("{read_only}; exec \"$FRANK\" {command}"))
    };
    let file = fs::File::options().write(true).open(folder.join(MODEL)).expect("it is ours");
    file.set_modified(std::time::UNIX_EPOCH).expect("it is ours");
    let command = format!("run {name} --raw -n 1 --ctx-size 128 a");
    let Some(run) = frank(&command) else { return };
    assert!(run.ended(0).stderr.contains("what was found is not noted in"));
    rot_unseen(&folder.join(MODEL));
    frank(&command).expect("as before").ended(4);
}

#[test]
fn a_token_that_cannot_be_read_stops_only_what_asks_the_hub() {
    let home = HubHome::tiny();
    let (name, _) = home.pull();
    let frank = |args: &[&str]| {
        let mut command = home.command(args);
        // A folder is no file with a token.
        run(command.env("HF_TOKEN_PATH", home.folder.path()))
    };
    frank(&["pull", "--verify-only", &name]).ended(0);
    let copy = home.folder.file("copy-F32.gguf", fs::read(crate::files::llama()).expect("it is"));
    frank(&["pull", &format!("file:{}", str(&copy))]).ended(0);
    let elsewhere = HubHome::tiny();
    frank(&["pull", &elsewhere.hub.web_address(crate::hub_home::REPO, MODEL)]).ended(0);
    let run = frank(&["pull", "--json", "--refresh", &name]).ended(2);
    assert_eq!(run.json()["failed"]["reason"], json!("token"), "{run:?}");
    assert!(run.stderr.contains("cannot read the token in"), "{run:?}");
}

#[test]
fn what_signs_an_address_that_is_not_in_the_store_is_not_shown() {
    let home = HubHome::tiny();
    let address = "https://h.example/m.gguf?version=3&X-Amz-Signature=hunter2";
    for args in [&["fit", address][..], &["inspect", address], &["pull", "--verify-only", address]]
    {
        let run = home.frank(args).ended(2);
        assert!(!format!("{run:?}").contains("hunter2"), "{run:?}");
        assert!(run.stderr.contains("https://h.example/m.gguf?version=3"), "{run:?}");
    }
}

#[test]
fn verify_only_compares_with_the_digest_in_the_reference() {
    let home = HubHome::tiny();
    let address = home.hub.web_address(crate::hub_home::REPO, MODEL);
    home.frank(&["pull", &address]).ended(0);
    let right = frank_hub::Sha256::of(&fs::read(crate::files::llama()).expect("the model"));
    home.frank(&["pull", "--verify-only", &format!("{address}#sha256={right}")]).ended(0);
    let wrong = format!("{address}#sha256={}", "0".repeat(64));
    let run = home.frank(&["pull", "--json", "--verify-only", &wrong]).ended(4);
    let failed = run.json()["failed"].clone();
    assert_eq!((&failed["reason"], &failed["file"]), (&json!("sha256"), &json!(MODEL)), "{run:?}");
    assert!(run.stderr.contains("the reference says"), "{run:?}");
    let listed = home.frank(&["list", "--json"]).ended(0).json();
    assert_eq!(listed["payloads"][0]["state"], json!("complete"), "it is what was pulled");
}

#[test]
fn check_refuses_bytes_behind_the_last_tensor() {
    let folder = Folder::new();
    let model = fs::read(crate::files::llama()).expect("the model");
    let page = b"<!doctype html><html><body>502 Bad Gateway</body></html>";
    let good = folder.file("good-F32.gguf", &model);
    frank(["pull", "--check", str(&good)]).ended(0);
    let path = folder.file("m-F32.gguf", [model.as_slice(), page].concat());
    let lines = frank(["pull", "--check", str(&path)]).failed(4);
    let told = format!("{} bytes behind its last tensor", page.len());
    assert!(lines[0].contains(&told), "{lines:?}");
}
