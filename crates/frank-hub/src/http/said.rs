//! What a server or a failed connection said, made fit for an error message. Never decides what it means.

use std::error::Error;

use serde::Deserialize;

/// Most characters of a server's words that are shown.
const SAID_MAX: usize = 200;

/// The text of an error body on one line: the `error` or `message` of a JSON object, nothing of a web page.
pub(super) fn printable(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(alias = "message")]
        error: String,
    }
    let text = match serde_json::from_slice::<Envelope>(body) {
        Ok(envelope) => envelope.error,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    if text.trim_start().starts_with('<') {
        return String::new();
    }
    let plain = text.replace(|c: char| c.is_control(), " ");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The beginning of a text that may be long.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SAID_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The message of the last cause: the layers above it only say that there was an error.
pub(super) fn innermost(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    shorten(&last.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_become_one_short_line() {
        for (body, expected) in [
            (&b"{\"error\":\"Repository not found\"}"[..], "Repository not found"),
            (b"{\"message\":\"quota\"}", "quota"),
            (b"  Access to\r\n\x1b[31mthis\x07 ", "Access to [31mthis"),
            (b"<!doctype html><html><body>Sign in", ""),
            (b"", ""),
        ] {
            assert_eq!(printable(body), expected);
        }
        assert_eq!(shorten(&"x".repeat(999)).chars().count(), SAID_MAX + 1);
        assert_eq!(shorten("short"), "short");
    }
}
