//! Small files that options name: pipes are read to their end, and never waited for when nobody writes to them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files::{Folder, llama, str};
use crate::mixture::{Moe, STREAMED};
use crate::program::{Run, command, frank};

/// Options that name a small file, each with the beginning of a command that takes it.
const EXPERT_OPTIONS: [&str; 4] =
    ["--placement", "--hotness", "--protected-experts", "--router-bias"];

fn pipe(folder: &Folder) -> PathBuf {
    let path = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
    path
}

/// The program with `text` at its stdin, which is a pipe.
fn run_with(args: &[&str], text: &str) -> Run {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // It may have ended before.
    let _unread = stdin.write_all(text.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
    let code = output.status.code().expect("no signal ends the program");
    Run { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Commands with each option that names a small file, without its value; the file is for a model with experts or not.
fn commands(moe: &Moe, dense: &Path) -> Vec<Vec<String>> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut all: Vec<Vec<String>> = EXPERT_OPTIONS
        .map(|option| owned(&["fit", "--no-measure", str(&moe.model), option]))
        .to_vec();
    all.push(owned(&["fit", str(dense), "--machine"]));
    all.push(owned(&["serve", str(dense), "--port", "0", "--api-key-file"]));
    all.push(owned(&["serve", str(dense), "--port", "0", "--chat-template"]));
    all.push(owned(&["run", str(dense), "--raw", "hi", "--grammar-file"]));
    all
}

#[test]
fn a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for() {
    let (moe, dense) = (Moe::new(), llama());
    let pipe = pipe(&moe.folder);
    for command in commands(&moe, &dense) {
        let lines = frank(command.iter().map(String::as_str).chain([str(&pipe)])).failed(2);
        let told = lines.join("\n");
        assert!(told.contains("it is a pipe that nobody writes to"), "{command:?}: {told}");
    }
}

#[test]
fn a_file_without_an_end_is_refused() {
    let (moe, dense) = (Moe::new(), llama());
    for command in commands(&moe, &dense) {
        let lines = frank(command.iter().map(String::as_str).chain(["/dev/zero"])).failed(2);
        let told = lines.join("\n");
        assert!(told.contains("bytes that are taken"), "{command:?}: {told}");
    }
}

#[test]
fn a_pipe_is_read_as_the_file_that_it_stands_for() {
    let moe = Moe::new();
    let fit = |input: &str| {
        let options = ["fit", "--no-measure", str(&moe.model), "--hotness", "/dev/stdin"];
        run_with(&[&options[..], &STREAMED].concat(), input)
    };
    fit("layer,expert,count\n0,1,5\n").ended(0);
    let lines = fit("0,1,5\n0;1;5\n").failed(2);
    assert!(lines[1].starts_with("cause: line 2: "), "{lines:?}");
    let dense = llama();
    let serve = ["serve", str(&dense), "--port", "0", "--api-key-file", "/dev/stdin"];
    let lines = run_with(&serve, "# none\n").failed(2);
    assert!(lines[0].ends_with("holds no key"), "{lines:?}");
}
