//! The target `process`: a program of a host without systemd, as a script that becomes it. The script starts it once; what
//! starts it again is on the host and not in the script.

use std::fmt::Write as _;

use crate::fault::Fault;
use crate::workload::Program;

use super::{
    NeededSecret, RenderedFile, SecretStore, Target, TargetInput, heading, host_program_faults,
    needed_secrets, plain_env, program_faults, secret_env,
};

/// Supervised processes.
pub(super) const PROCESS: Target = Target { name: "process", check, render, secrets };

fn check(input: &TargetInput<'_>) -> Vec<Fault> {
    let mut faults = program_faults(input);
    faults.extend(host_program_faults(input, PROCESS.name));
    if input.workload.memory_limit.is_some() {
        let message = "nothing but the program itself holds it to a limit of memory: a process has no control group";
        faults.push(Fault::warning("memory_limit", input.place, message));
    }
    faults
}

fn render(input: &TargetInput<'_>) -> Vec<RenderedFile> {
    let path = format!("~/.config/frank/process/{}", input.workload.name);
    vec![RenderedFile { path, mode: 0o755, content: script(input) }]
}

fn secrets(input: &TargetInput<'_>) -> Vec<NeededSecret> {
    let folder = format!("~/.config/frank/secrets/{}", input.workload.name);
    needed_secrets(input.workload, |variable| SecretStore::File(format!("{folder}/{variable}")))
}

/// A script for any POSIX shell. Its process becomes the program, so the number in the pid file is that of the program.
fn script(input: &TargetInput<'_>) -> String {
    let workload = input.workload;
    let name = &workload.name;
    let mut script = "#!/bin/sh\n".to_owned();
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(script, "{text}").expect("a String takes what is written")
    };
    for text in heading(input) {
        line(format_args!("# {text}"));
    }
    line(format_args!("set -eu\numask 077"));
    line(format_args!("state=\"$HOME/.local/state/frank\"\nmkdir -p \"$state\""));
    line(format_args!("exec </dev/null >>\"$state/{name}.log\" 2>&1"));
    if workload.locks_memory {
        line(format_args!(
            "ulimit -l unlimited || echo '{name}: memory beyond the limit above cannot be locked'"
        ));
    }
    for (variable, _) in secret_env(workload) {
        line(format_args!(
            "{variable}=$(cat \"$HOME/.config/frank/secrets/{name}/{variable}\")\nexport {variable}"
        ));
    }
    for (variable, value) in plain_env(workload) {
        line(format_args!("export {variable}={}", shell_word(value)));
    }
    line(format_args!("echo \"$$\" >\"$state/{name}.pid\""));
    let Program::Host { argv } = &workload.program else { return script };
    let words: Vec<String> = argv.iter().map(|word| shell_word(word)).collect();
    line(format_args!("exec {}", words.join(" ")));
    script
}

/// A word of a shell's command that is exactly `word`: in single quotes, within which nothing has a meaning but their end.
fn shell_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
