//! `frank pull` killed at any byte, and watched while it holds a token.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use frank_testkit::gguf_writer::GgufWriter;
use frank_testkit::mock_hub::{Answer, Content, Fault, Host, MockHub, Place, Repository, Rule};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

use crate::program::command;

const REPOSITORY: &str = "org/tiny-GGUF";
const MODEL: &str = "tiny-Q4_K_M.gguf";
const REFERENCE: &str = "hf:org/tiny-GGUF:Q4_K_M";
const TOKEN: &str = "hf_tokenthatmustneverbeseen";
/// Enough for many ranges, of which some are done and some are on their way whenever it ends.
const DATA_BYTES: u64 = 40 << 20;
/// Stores that are pulled into at the same time, and how often each pull is killed: fifty times in all.
const N_STORES: u64 = 5;
const KILLS_EACH: usize = 10;

/// A model file: a header, and random bytes as its one tensor.
fn model() -> Vec<u8> {
    let data = Content::seeded(11, DATA_BYTES).to_vec();
    GgufWriter::new("llama").tensor("blob", &[DATA_BYTES], I8, data).to_bytes()
}

/// The type of a tensor of single bytes.
const I8: u32 = 24;

/// A store beside the hub.
struct Scene {
    hub: MockHub,
    data: TempDir,
}

impl Scene {
    fn new(repository: Repository) -> Scene {
        let data = tempfile::tempdir().expect("a temporary folder");
        Scene { hub: MockHub::start(vec![repository]), data }
    }

    /// A hub that has this model and nothing else.
    fn of(model: &[u8]) -> Scene {
        Scene::new(Repository::new(REPOSITORY).lfs(MODEL, model))
    }

    /// `frank pull` with nothing of this machine's environment that it could take a token from.
    fn pull(&self) -> Command {
        let mut command = command(["pull", REFERENCE]);
        command.env_clear().env("HF_ENDPOINT", self.hub.endpoint());
        command.env("XDG_DATA_HOME", self.data.path()).env("HOME", self.data.path());
        command
    }

    fn payload(&self) -> PathBuf {
        self.data.path().join("frank/models/org--tiny-GGUF--Q4_K_M")
    }

    fn partial(&self) -> PathBuf {
        self.payload().join(".partial").join(MODEL)
    }
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// What the program says in all when it ends well.
fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let said = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8(bytes).expect("what frank says is UTF-8"))
        .concat();
    assert!(output.status.success(), "{said}");
    said
}

/// Kills a pull when the hub has sent `bytes` further bytes, with nothing sent meanwhile; where `saved` is a number, only
/// after the range map says that more than so many bytes are here.
fn kill_after(scene: &Scene, bytes: u64, saved: Option<u64>) {
    let (sender, receiver) = mpsc::channel::<u32>();
    let partial = scene.partial();
    scene.hub.at_bytes(scene.hub.bytes_sent() + bytes, move |_| {
        let id = receiver.recv().expect("the pull was started").to_string();
        if let Some(before) = saved {
            wait_until_more_is_saved(&partial, before);
        }
        Command::new("kill").args(["-KILL", &id]).status().expect("kill runs");
    });
    let child = start(&mut scene.pull());
    sender.send(child.id()).expect("the hub waits for it");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
}

/// The map is written about once a second. What the client has got may all be saved already.
fn wait_until_more_is_saved(partial: &Path, before: u64) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while here(partial).is_none_or(|here| here <= before) && Instant::now() < deadline {
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// Bytes of the file that are here, by its range map.
fn here(partial: &Path) -> Option<u64> {
    let bytes = frank_hub::transfer::partial_bytes(partial).expect("the map can be read");
    bytes.map(|(here, _)| here)
}

#[test]
fn a_pull_killed_at_any_byte_goes_on_with_the_missing_ranges_and_every_byte_is_right() {
    let model = model();
    thread::scope(|scope| {
        for seed in 0..N_STORES {
            scope.spawn({
                let model = &model;
                move || kill_again_and_again(seed, model)
            });
        }
    });
}

/// Kills pulls into one store so often, then lets one end.
fn kill_again_and_again(seed: u64, model: &[u8]) {
    let total = model.len() as u64;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut scene = Scene::of(model);
    let mut before = 0;
    for kill in 1..=KILLS_EACH {
        let missing = total - before;
        // The last one comes when every byte was sent, and none was said to be right.
        let bytes = if kill == KILLS_EACH { missing } else { random.random_range(1..=missing) };
        kill_after(&scene, bytes, random.random_bool(0.4).then_some(before));
        assert!(!scene.payload().join(MODEL).exists(), "{seed}, {kill}: it looks complete");
        let now = here(&scene.partial()).unwrap_or(0);
        assert!(now >= before, "{seed}, {kill}: {now} bytes of {before} left");
        before = now;
        if before == total {
            check_the_rest(&scene, model, before);
            (scene, before) = (Scene::of(model), 0);
        }
    }
    check_the_rest(&scene, model, before);
}

/// Lets a pull end, which has to bring exactly what is not here yet.
fn check_the_rest(scene: &Scene, model: &[u8], here: u64) {
    let before = scene.hub.bytes_sent();
    succeed(&mut scene.pull());
    assert!(fs::read(scene.payload().join(MODEL)).expect("the model") == model, "other bytes");
    assert_eq!(scene.hub.bytes_sent() - before, model.len() as u64 - here);
    succeed(&mut scene.pull());
    assert_eq!(scene.hub.bytes_sent() - before, model.len() as u64 - here, "a second pull");
}

/// The command lines of a process and of all below it.
fn command_lines(id: u32, lines: &mut Vec<String>) {
    let folder = Path::new("/proc").join(id.to_string());
    let line = fs::read(folder.join("cmdline")).unwrap_or_default();
    lines.push(String::from_utf8_lossy(&line).into_owned());
    for thread in fs::read_dir(folder.join("task")).expect("the process is there").flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            command_lines(child.parse().expect("a process id"), lines);
        }
    }
}

#[test]
fn a_token_is_in_no_command_line_and_no_output_and_goes_to_the_hub_only() {
    let sources: [for<'a> fn(&'a mut Command, &Path) -> &'a mut Command; 3] = [
        |pull, _| pull.env("HF_TOKEN", TOKEN),
        |pull, folder| pull.env("HF_TOKEN_PATH", folder.join("hf_token")),
        |pull, folder| pull.env("CREDENTIALS_DIRECTORY", folder),
    ];
    for source in sources {
        let scene = Scene::new(Repository::new(REPOSITORY).lfs(MODEL, model()).gated(TOKEN));
        let secrets = tempfile::tempdir().unwrap();
        fs::write(secrets.path().join("hf_token"), format!("{TOKEN}\n")).unwrap();
        let mut pull = scene.pull();
        source(pull.env("FRANK_LOG", "trace"), secrets.path());

        let (ids, id) = mpsc::channel();
        let (sender, lines) = mpsc::channel();
        scene.hub.at_bytes(DATA_BYTES / 2, move |_| {
            let mut lines = Vec::new();
            command_lines(id.recv().expect("the pull was started"), &mut lines);
            sender.send(lines).expect("the test waits");
        });
        let child = start(&mut pull);
        ids.send(child.id()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{said}");
        assert!(!said.contains(TOKEN), "{said}");
        let lines = lines.recv().unwrap();
        assert!(lines[0].contains("pull") && !lines.concat().contains(TOKEN), "{lines:?}");
        check_who_saw_it(&scene.hub);
    }
}

/// Every request for a file of the hub has the token, and no request of the other host has it anywhere.
fn check_who_saw_it(hub: &MockHub) {
    let bearer = format!("Bearer {TOKEN}");
    let mut hosts = BTreeSet::new();
    for request in hub.requests() {
        hosts.insert(format!("{:?}", request.host));
        assert!(!request.target.contains(TOKEN), "{request:?}");
        match request.host {
            Host::Hub => assert_eq!(request.header("authorization"), Some(&*bearer)),
            Host::Storage => assert!(!format!("{request:?}").contains(TOKEN), "{request:?}"),
        }
    }
    assert_eq!(hosts.len(), 2, "{hosts:?}");
}

#[test]
fn a_token_that_a_server_sends_back_is_not_shown() {
    let scene = Scene::new(Repository::new(REPOSITORY).lfs(MODEL, model()));
    let echo = format!("who is {TOKEN}?");
    for (status, answer) in [
        (403, Answer::status(403).header("x-error-message", &echo)),
        (401, Answer::status(401).body(echo.clone())),
        (404, Answer::status(404).body(echo.clone())),
        (302, Answer::redirect(302, &format!("http://203.0.113.1/{TOKEN}"))),
    ] {
        scene.hub.behave();
        scene.hub.add(Rule::new(Place::Resolve, MODEL, Fault::Answer(answer)));
        let output =
            scene.pull().env("HF_TOKEN", TOKEN).env("FRANK_LOG", "trace").output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{status}: {said}");
        assert!(said.contains("error:") && !said.contains(TOKEN), "{status}: {said}");
    }
}
