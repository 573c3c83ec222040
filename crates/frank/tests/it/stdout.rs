//! Stdout that nobody reads, or that is full.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::files::llama;
use crate::program::command;

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let llama = llama();
    for args in
        [&["inspect", llama.to_str().unwrap()][..], &["fit", llama.to_str().unwrap()], &["--help"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(
            (output.status.code(), output.stderr.as_slice()),
            (Some(0), &b""[..]),
            "{args:?}"
        );
    }
}

#[test]
fn a_full_disk_behind_stdout_is_a_failure() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let args = ["inspect".into(), llama().into_os_string()];
    let output = command(args).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("error: cannot write to stdout\ncause: No space left on device"),
        "{stderr}"
    );
}
