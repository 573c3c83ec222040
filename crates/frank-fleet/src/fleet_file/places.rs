//! Where something stands in the text of `frank.toml`. Never says what is wrong with it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use toml::de::{DeTable, DeValue};

use crate::fault::Fault;

/// A fault with the line and the column where it stands, both from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Located {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// What is wrong there.
    #[serde(flatten)]
    pub fault: Fault,
}

impl fmt::Display for Located {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}: {}", self.line, self.column, self.fault.message)
    }
}

/// Line and column of each table, key and item, by its path in the form of [`Fault::place`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Places {
    found: BTreeMap<String, (usize, usize)>,
}

impl Places {
    pub(super) fn of(text: &str, root: &DeTable<'_>) -> Self {
        let (lines, mut places) = (LineStarts::of(text), Self::default());
        places.table(&lines, "", root);
        places
    }

    fn table(&mut self, lines: &LineStarts<'_>, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = joined(prefix, key.get_ref());
            // A value says more exactly where the fault is; a table is known by its name.
            let is_table = matches!(value.get_ref(), DeValue::Table(_));
            let start = if is_table { key.span().start } else { value.span().start };
            self.found.insert(path.clone(), lines.place(start));
            self.value(lines, &path, value.get_ref());
        }
    }

    fn value(&mut self, lines: &LineStarts<'_>, path: &str, value: &DeValue<'_>) {
        match value {
            DeValue::Table(table) => self.table(lines, path, table),
            DeValue::Array(array) => {
                for (index, item) in array.iter().enumerate() {
                    let path = joined(path, &index.to_string());
                    self.found.insert(path.clone(), lines.place(item.span().start));
                    self.value(lines, &path, item.get_ref());
                }
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => {}
        }
    }

    /// Where `path` stands, or else the next thing around it that is there.
    pub(super) fn find(&self, path: &str) -> (usize, usize) {
        let mut path = path;
        loop {
            match (self.found.get(path), path.rsplit_once('.')) {
                (Some(&place), _) => return place,
                (None, Some((around, _))) => path = around,
                (None, None) => return (1, 1),
            }
        }
    }
}

fn joined(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Byte offsets at which lines begin.
#[derive(Debug)]
pub(super) struct LineStarts<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineStarts<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        Self { text, starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    /// Line and column of a byte.
    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|&start| start <= offset);
        let start = self.starts[line - 1];
        let before = self.text.get(start..offset.min(self.text.len())).unwrap_or_default();
        (line, 1 + before.chars().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let lines = LineStarts::of("a\näöx\n");
        assert_eq!(lines.place(0), (1, 1));
        assert_eq!(lines.place(2), (2, 1));
        assert_eq!(lines.place(6), (2, 3));
        assert_eq!(lines.place(8), (3, 1));
    }
}
