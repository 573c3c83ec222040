//! Unit files of systemd, which podman's quadlets are too: how they are written and read line by line. Knows no key.

use std::fmt::Write as _;

/// What systemd puts in the place of a `%` or a `$` where a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expands {
    /// `%h` is the home of the user.
    Specifiers,
    /// `$HOME` is a variable besides: on command lines, and in all that podman puts on one.
    SpecifiersAndVariables,
}

/// A unit file in the making.
#[derive(Debug, Default)]
pub(super) struct UnitFile(String);

impl UnitFile {
    /// A file that begins with comments.
    pub(super) fn with_heading(lines: &[String]) -> Self {
        Self(lines.iter().map(|line| format!("# {line}\n")).collect())
    }

    /// Begins a section.
    pub(super) fn section(&mut self, name: &str) {
        self.write(format_args!("\n[{name}]\n"));
    }

    /// Adds a line; `value` is written as systemd reads it.
    pub(super) fn entry(&mut self, key: &str, value: impl std::fmt::Display) {
        self.write(format_args!("{key}={value}\n"));
    }

    /// The file.
    pub(super) fn finish(self) -> String {
        self.0
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a String takes what is written");
    }
}

/// One word of a value that is split at blanks: in quotes, with escapes, and expanded to exactly `word`.
///
/// Always in quotes: so a lone `;` is no border of commands, and a leading `-` or `@` is no prefix.
pub(super) fn unit_word(word: &str, expands: Expands) -> String {
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_ascii_control() => {
                write!(quoted, "\\x{:02x}", u32::from(c)).expect("a String takes what is written");
            }
            c => push_unexpanded(&mut quoted, c, expands),
        }
    }
    quoted.push('"');
    quoted
}

/// A value that is not split and knows no quotes; `None` where no such value is read back as `text`.
pub(super) fn whole_value(text: &str, expands: Expands) -> Option<String> {
    let is_lost = text.is_empty() || text.trim() != text || text.ends_with('\\');
    if is_lost || text.chars().any(char::is_control) {
        return None;
    }
    let mut value = String::with_capacity(text.len());
    text.chars().for_each(|c| push_unexpanded(&mut value, c, expands));
    Some(value)
}

fn push_unexpanded(out: &mut String, c: char, expands: Expands) {
    out.push(c);
    if c == '%' || (c == '$' && expands == Expands::SpecifiersAndVariables) {
        out.push(c);
    }
}

/// A line `key=value` of a unit file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// Its number, from 1 on.
    pub(super) line: usize,
    /// Its section; empty before the first.
    pub(super) section: &'a str,
    /// What is before the `=`; the whole line where it has none.
    pub(super) key: &'a str,
}

/// The entries of a unit file in order. A line that goes on in the next one, since it ends in a backslash, is one entry.
pub(super) fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut section = "";
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let is_comment = trimmed.is_empty() || trimmed.starts_with(['#', ';']);
        // A comment between the lines of an entry does not end it.
        if is_comment && continues {
            continue;
        }
        let is_rest = std::mem::replace(&mut continues, !is_comment && line.ends_with('\\'));
        if is_comment || is_rest {
            continue;
        }
        match trimmed.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) => section = name,
            None => {
                let key = trimmed.split_once('=').map_or(trimmed, |(key, _)| key.trim_end());
                entries.push(Entry { line: index + 1, section, key });
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_goes_on_in_the_next_line_is_one_entry() {
        let text = "# k=v\n[Unit]\nA = x\n\n[Service]\nB=x \\\n# a comment\nC=y\nD\n";
        let found: Vec<_> = entries(text).iter().map(|e| (e.line, e.section, e.key)).collect();
        assert_eq!(found, [(3, "Unit", "A"), (6, "Service", "B"), (9, "Service", "D")]);
    }

    #[test]
    fn a_value_that_would_not_be_read_back_is_none() {
        for lost in ["", " a", "a ", "a\\", "a\nb", "\u{7f}"] {
            assert_eq!(whole_value(lost, Expands::Specifiers), None, "{lost:?}");
        }
        let value = whole_value("a \"b\" %h $c \\d", Expands::SpecifiersAndVariables);
        assert_eq!(value.as_deref(), Some("a \"b\" %%h $$c \\d"));
        assert_eq!(whole_value("$c", Expands::Specifiers).as_deref(), Some("$c"));
    }
}
