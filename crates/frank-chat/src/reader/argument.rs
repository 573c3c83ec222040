//! Reads an argument that stands as text between marks.

use serde_json::Value;

use super::call_writer::CallWriter;
use crate::schema::Kinds;

/// Reads a value up to its closing mark.
pub(super) struct ArgumentText {
    end: &'static str,
    /// Whether the line breaks at both ends are not part of it.
    trims: bool,
    kinds: Kinds,
    held: String,
    /// A line break that may be the one before the mark.
    has_break: bool,
    has_begun: bool,
    /// The value, where it must be whole to be told.
    text: String,
}

impl ArgumentText {
    pub(super) fn new(
        end: &'static str,
        trims: bool,
        is_string: Option<bool>,
        calls: &mut CallWriter,
    ) -> Self {
        let kinds = match is_string {
            Some(true) => Kinds::STRING,
            Some(false) => Kinds::ANY,
            None => calls.kinds(),
        };
        if kinds.is_string() {
            calls.add("\"");
        }
        let (held, text) = (String::new(), String::new());
        Self { end, trims, kinds, held, has_break: false, has_begun: false, text }
    }

    /// Reads a character, and tells whether it was the last one.
    pub(super) fn feed(&mut self, c: char, calls: &mut CallWriter) -> bool {
        self.held.push(c);
        while !self.held.is_empty() && !self.end.starts_with(&self.held) {
            let first = self.held.remove(0);
            self.add(first, calls);
        }
        if self.held != self.end {
            return false;
        }
        if self.has_break && !self.trims {
            self.write('\n', calls);
        }
        let json =
            if self.kinds.is_string() { "\"".to_owned() } else { self.kinds.json_of(&self.text) };
        calls.add(&json);
        true
    }

    fn add(&mut self, c: char, calls: &mut CallWriter) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first && self.trims && c == '\n' {
            return;
        }
        if std::mem::take(&mut self.has_break) {
            self.write('\n', calls);
        }
        if c == '\n' {
            self.has_break = true;
        } else {
            self.write(c, calls);
        }
    }

    fn write(&mut self, c: char, calls: &mut CallWriter) {
        if self.kinds.is_string() {
            calls.add(&in_json_string(c));
        } else {
            self.text.push(c);
        }
    }
}

/// A character as it stands between the quotes of a JSON string.
pub(super) fn in_json_string(c: char) -> String {
    let quoted = Value::from(c.to_string()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
