//! From the text of `frank.toml` to its tables. Never stops at the first table that is at fault.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::fault::Fault;
use crate::fleet_file::FleetFile;
use crate::fleet_file::places::{LineStarts, Located, Places};

/// The tables of a `frank.toml`.
const TABLES: [&str; 4] = ["hosts", "models", "endpoints", "apps"];

/// A `frank.toml` that was read, and where everything stands in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// What it says.
    pub file: FleetFile,
    places: Places,
}

impl Fleet {
    /// Reads the text of a `frank.toml`, and nothing that it names.
    /// # Errors
    /// Every fault of syntax, or else the first one in each entry of its tables: a key that is unknown or missing, or a
    /// value of the wrong kind.
    pub fn read(text: &str) -> Result<Self, Vec<Located>> {
        let lines = LineStarts::of(text);
        let (root, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            return Err(errors.iter().map(|error| located(&lines, "", 0, error)).collect());
        }
        let mut reading = Reading { lines: &lines, faults: Vec::new() };
        let places = Places::of(text, root.get_ref());
        let file = reading.file(root.into_inner());
        reading.faults.sort_by_key(|fault| (fault.line, fault.column));
        if reading.faults.is_empty() { Ok(Self { file, places }) } else { Err(reading.faults) }
    }

    /// `fault` with where it stands.
    pub fn locate(&self, fault: Fault) -> Located {
        let (line, column) = self.places.find(&fault.place);
        Located { line, column, fault }
    }
}

struct Reading<'l> {
    lines: &'l LineStarts<'l>,
    faults: Vec<Located>,
}

impl Reading<'_> {
    fn file(&mut self, mut root: DeTable<'_>) -> FleetFile {
        let file = FleetFile {
            hosts: self.table(&mut root, "hosts"),
            models: self.table(&mut root, "models"),
            endpoints: self.table(&mut root, "endpoints"),
            apps: self.table(&mut root, "apps"),
        };
        for (key, _) in &root {
            let message = format!("unknown table `{}`", key.get_ref());
            let hint = format!("the tables are {}", TABLES.join(", "));
            let fault = Fault::error("unknown_key", key.get_ref().as_ref(), message).hint(hint);
            self.tell(key.span().start, fault);
        }
        file
    }

    /// The entries of the table `name`, each read by itself.
    fn table<T: DeserializeOwned>(
        &mut self,
        root: &mut DeTable<'_>,
        name: &'static str,
    ) -> BTreeMap<String, T> {
        let Some((_, value)) = root.remove_entry(name) else { return BTreeMap::new() };
        let start = value.span().start;
        let DeValue::Table(entries) = value.into_inner() else {
            let message = format!("`{name}` is no table of tables, as `[{name}.NAME]`");
            self.tell(start, Fault::error("syntax", name, message));
            return BTreeMap::new();
        };
        let read = entries.into_iter().filter_map(|(key, value)| {
            let entry = key.into_inner().into_owned();
            self.entry(&format!("{name}.{entry}"), value).map(|value| (entry, value))
        });
        read.collect()
    }

    fn entry<T: DeserializeOwned>(
        &mut self,
        place: &str,
        value: Spanned<DeValue<'_>>,
    ) -> Option<T> {
        let start = value.span().start;
        match T::deserialize(ValueDeserializer::from(value)) {
            Ok(entry) => Some(entry),
            Err(error) => {
                self.faults.push(located(self.lines, place, start, &error));
                None
            }
        }
    }

    fn tell(&mut self, offset: usize, fault: Fault) {
        let (line, column) = self.lines.place(offset);
        self.faults.push(Located { line, column, fault });
    }
}

/// An error with where it stands, or where what it is about begins.
fn located(lines: &LineStarts<'_>, place: &str, start: usize, error: &toml::de::Error) -> Located {
    let (line, column) = lines.place(error.span().map_or(start, |span| span.start));
    let message = without_values(&error.message().replace('\n', ", "));
    let code = if message.starts_with("unknown field") { "unknown_key" } else { "syntax" };
    Located { line, column, fault: Fault::error(code, place, message) }
}

/// A message about a wrong value without the value, which may be a secret that stands in the wrong place.
fn without_values(message: &str) -> String {
    let Some((before, rest)) = message.split_once("string \"") else { return message.to_owned() };
    // What is told of a value ends with the last quote; what was expected has backticks.
    match rest.rsplit_once('"') {
        Some((_, after)) => format!("{before}a text{after}"),
        None => format!("{before}a text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_about_a_value_does_not_repeat_it() {
        let told = without_values("invalid type: string \"hf_\\\"abc\", expected a map");
        assert_eq!(told, "invalid type: a text, expected a map");
        assert_eq!(without_values("unknown field `x`"), "unknown field `x`");
    }
}
