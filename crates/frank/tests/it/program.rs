//! Runs the built program.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What one run said.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program with an environment that does not depend on the machine, and nobody at its stdin.
pub(crate) fn command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frank"));
    command.args(args).env_remove("COLUMNS").stdin(Stdio::null());
    command
}

/// Runs `frank ARGS`.
pub(crate) fn frank<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    run(&mut command(args))
}

/// Runs a command that [`command`] made.
pub(crate) fn run(command: &mut Command) -> Run {
    let output = command.output().expect("the program starts");
    let code = output.status.code().expect("no signal ends the program");
    let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
    Run { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Run {
    /// The run, which must have ended with `code`.
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self
    }

    /// Its stdout as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Its errors, one a line; it must have failed with `code` and written no data.
    pub(crate) fn failed(self, code: i32) -> Vec<String> {
        let run = self.ended(code);
        assert_eq!(run.stdout, "", "{run:?}");
        run.stderr.lines().map(str::to_owned).collect()
    }
}
