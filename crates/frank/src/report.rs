//! What the program says: data to stdout, errors to stderr, the exit code. The only place that prints an error.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use frank_hub::FailureKind;
use frank_plan::Refusal;

/// Exit codes other than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// It could not be done.
    Failed = 1,
    /// What was asked for makes no sense: usage, bad input file, unknown architecture.
    Usage = 2,
    /// It does not fit, or must not be done as things are.
    Refused = 3,
    /// It was done, and the bytes are not the right ones.
    Verification = 4,
    /// The user stopped it.
    Interrupted = 130,
}

impl From<FailureKind> for Code {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Input => Self::Usage,
            FailureKind::Refused => Self::Refused,
            FailureKind::Failed => Self::Failed,
            FailureKind::Verification => Self::Verification,
            FailureKind::Interrupted => Self::Interrupted,
        }
    }
}

/// A fact that ends the program with its own exit code. Use it as an error, or as the context of one.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    fact: String,
    hints: Vec<String>,
}

impl Failure {
    /// A failure of `code` that says `fact`.
    pub(crate) fn new(code: Code, fact: impl Into<String>) -> Self {
        Self { code, fact: fact.into(), hints: Vec::new() }
    }

    /// Usage or bad input that says `fact`.
    pub(crate) fn usage(fact: impl Into<String>) -> Self {
        Self::new(Code::Usage, fact)
    }

    /// Adds a way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The ways out.
    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.fact)
    }
}

impl std::error::Error for Failure {}

impl From<&Refusal> for Failure {
    fn from(refusal: &Refusal) -> Self {
        let failure = Self::new(Code::Refused, refusal.to_string());
        match refusal.change.as_slice() {
            [] => failure,
            changes => failure.hint(format!("it fits with {}", changes.join(", or with "))),
        }
    }
}

/// `error` with the exit code of its kind and the way out; it keeps its own words.
pub(crate) fn known<E>(error: E, kind: FailureKind, hint: Option<String>) -> anyhow::Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    let hints = hint.into_iter().collect();
    let failure = Failure { code: kind.into(), fact: error.to_string(), hints };
    anyhow::Error::new(error).context(failure)
}

/// The reader of stdout went away, as `head` does: no failure, only the end of the work.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads the output any more")]
struct StdoutClosed;

/// Writes `text` to stdout.
///
/// # Errors
/// What the system says. When the reader went away, an error that [`failed`] turns into success.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write to stdout")),
    }
}

/// Says on stderr why the program ends, and gives its exit code.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    if let Some(error) = error.downcast_ref::<clap::Error>() {
        return command_line(error);
    }
    if error.is::<StdoutClosed>() {
        return ExitCode::SUCCESS;
    }
    let failure = error.downcast_ref::<Failure>();
    say(&message(error, failure.map_or(&[], |failure| &failure.hints)));
    ExitCode::from(failure.map_or(Code::Failed, |failure| failure.code) as u8)
}

/// The lines for `error`, its causes and the way out. A cause that the line before ends with says nothing new.
fn message(error: &anyhow::Error, hints: &[String]) -> String {
    let mut lines = vec![format!("error: {}", printable(&error.to_string()))];
    for cause in error.chain().skip(1) {
        let cause = printable(&cause.to_string());
        if !lines.last().is_some_and(|line| line.ends_with(&cause)) {
            lines.push(format!("cause: {cause}"));
        }
    }
    lines.extend(hints.iter().map(|hint| format!("hint: {}", printable(hint))));
    lines.join("\n") + "\n"
}

/// Says what clap has to say: help on stdout, a wrong command line on stderr in the words of every other error.
fn command_line(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return print(&text).map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS);
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        say(&text);
    } else {
        say(&usage_message(&text));
    }
    ExitCode::from(Code::Usage as u8)
}

/// One line for each paragraph of a clap error: the error itself, its tips, the usage.
fn usage_message(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        printable(&words.join(" "))
    });
    let lines = paragraphs.filter_map(|paragraph| {
        if paragraph.starts_with("error: ") {
            Some(paragraph)
        } else if let Some(tip) = paragraph.strip_prefix("tip: ") {
            Some(format!("hint: {tip}"))
        } else {
            paragraph.strip_prefix("Usage: ").map(|usage| format!("hint: usage: {usage}"))
        }
    });
    lines.map(|line| line + "\n").collect()
}

/// Tells the person at the terminal something that is no error and no data.
pub(crate) fn tell(text: &str) {
    say(&format!("{text}\n"));
}

/// Writes to stderr. When nobody reads that either, there is nobody left to tell.
fn say(text: &str) {
    let _unheard = io::stderr().lock().write_all(text.as_bytes());
}

/// `text` on one line and safe for a terminal: control characters, and those that reorder or hide text, are
/// written as escapes.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() || is_invisible(char) {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    out
}

/// Line separators, bidirectional controls, zero-width characters and noncharacters of the private tag block.
fn is_invisible(char: char) -> bool {
    matches!(char,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_never_sees_a_control_character() {
        let check = |text: &str, expected: &str| assert_eq!(printable(text), expected);
        check("plain ▁text, 日本語", "plain ▁text, 日本語");
        check("a\x1b[31mred\u{7}", "a\\u{1b}[31mred\\u{7}");
        check("two\nlines\r\t", "two\\nlines\\r\\t");
        check("\u{9b}31m \u{202e}gnp.exe", "\\u{9b}31m \\u{202e}gnp.exe");
    }

    #[test]
    fn causes_are_told_once_and_hints_last() {
        let cause = anyhow::anyhow!("No such file");
        let error = cause
            .context("x.gguf: No such file")
            .context(Failure::usage("load x.gguf").hint("look\nfor it"));
        let failure = error.downcast_ref::<Failure>().unwrap();
        let expected = "error: load x.gguf\ncause: x.gguf: No such file\nhint: look\\nfor it\n";
        assert_eq!(message(&error, &failure.hints), expected);
    }

    #[test]
    fn a_wrong_command_line_is_told_in_lines() {
        let text = "error: unexpected argument '--ctx' found\n\n  tip: a similar argument exists: '--ctx-size'\n\n\
            Usage: frank fit [OPTIONS]\n       <MODEL>\n\nFor more information, try '--help'.\n";
        let expected = "error: unexpected argument '--ctx' found\n\
            hint: a similar argument exists: '--ctx-size'\nhint: usage: frank fit [OPTIONS] <MODEL>\n";
        assert_eq!(usage_message(text), expected);
    }
}
