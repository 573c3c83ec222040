//! A runtime's list of options, one a line. Never looks at a value.

use super::super::learned::Learned;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// Its name alone, or nothing.
    Flag,
    /// Its name, or a name that says no.
    Switch {
        /// Names that say no, with commas between.
        no: &'static str,
    },
    /// A number or a text.
    Value,
    /// Several in one text.
    List {
        /// What stands between them.
        separator: char,
    },
    /// Several after one name.
    Words,
    /// Its name before each.
    Repeat,
    /// JSON.
    Json,
    /// Path of a file that must be there.
    File,
    /// Paths of files with commas between.
    Files,
    /// Path of a folder, which is made where it is missing.
    Folder,
    /// Taken out of the runtime.
    Removed,
    /// Without effect.
    Ignored,
    /// Prints something and ends, or the like.
    Never,
}

/// An option of a runtime.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Row {
    /// Its first name, without dashes.
    pub(in super::super) name: &'static str,
    /// Its other names, with commas between.
    aliases: &'static str,
    /// How its value is written.
    pub(in super::super) kind: Kind,
    /// What it is without being given.
    pub(in super::super) default: Option<&'static str>,
    /// The field of an endpoint that sets it.
    pub(in super::super) field: Option<&'static str>,
}

impl Row {
    fn aliases(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.aliases.split(',').filter(|alias| !alias.is_empty())
    }
}

/// The options of a runtime.
#[derive(Debug)]
pub(in super::super) struct OptionList {
    rows: Vec<Row>,
}

impl OptionList {
    /// Reads a list of ours: name, other names, kind, default, field; `-` is none.
    pub(in super::super) fn parse(text: &'static str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let rows = lines.map(|line| {
            let columns: Vec<&str> = line.split(' ').collect();
            let [name, aliases, kind, default, field] = columns[..] else {
                panic!("five columns in a list of options: {line}");
            };
            let some = |column: &'static str| (column != "-").then_some(column);
            let aliases = some(aliases).unwrap_or_default();
            Row { name, aliases, kind: kind_of(kind), default: some(default), field: some(field) }
        });
        Self { rows: rows.collect() }
    }

    /// The option of this name. A name that says no is an option of its own, which is on when it is given.
    pub(in super::super) fn find(&self, name: &str) -> Option<Row> {
        let is_it = |row: &&Row| row.name == name || row.aliases().any(|alias| alias == name);
        self.rows.iter().find(is_it).copied().or_else(|| self.negation(name))
    }

    fn negation(&self, name: &str) -> Option<Row> {
        self.rows.iter().find_map(|row| {
            let Kind::Switch { no } = row.kind else { return None };
            let (name, aliases) = no
                .split_once(',')
                .filter(|_| no.split(',').any(|no| no == name))
                .or((no == name).then_some((no, "")))?;
            let default = row.default.map(|default| if default == "on" { "off" } else { "on" });
            Some(Row { name, aliases, kind: Kind::Flag, default, field: row.field })
        })
    }

    /// Every option.
    pub(in super::super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// All names of the option of this first name.
    pub(in super::super) fn spellings(
        &self,
        name: &str,
    ) -> impl Iterator<Item = &'static str> + use<> {
        self.find(name).into_iter().flat_map(|row| std::iter::once(row.name).chain(row.aliases()))
    }

    /// The first of its names that the build has, since names change from one version to the next.
    pub(in super::super) fn spelling(&self, name: &str, build: Option<&Learned>) -> String {
        let is_there = |name: &&str| build.is_none_or(|build| build.find(name).is_some());
        self.spellings(name).find(is_there).unwrap_or(name).to_owned()
    }

    /// What an option is without being given: as the build says, else as the list does.
    pub(in super::super) fn default(&self, name: &str, build: Option<&Learned>) -> Option<String> {
        let learned =
            build.and_then(|build| self.spellings(name).find_map(|name| build.find(name)));
        match learned {
            Some(option) => option.default.clone(),
            None => self.find(name)?.default.map(str::to_owned),
        }
    }

    /// Names of options that look like `name`, the nearest first, at most three.
    pub(in super::super) fn nearest(&self, name: &str, learned: &[&str]) -> Vec<String> {
        let own = self.rows.iter().filter(|row| row.field.is_none()).map(|row| row.name);
        let mut near: Vec<(f64, &str)> = own
            .chain(learned.iter().copied())
            .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
            .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        near.dedup_by_key(|(_, known)| *known);
        near.into_iter().take(3).map(|(_, known)| format!("`{known}`")).collect()
    }
}

/// Share of two names that must be alike for one to be offered for the other.
const LIKENESS_MIN: f64 = 0.7;

fn kind_of(word: &'static str) -> Kind {
    if let Some(no) = word.strip_prefix("switch:") {
        return Kind::Switch { no };
    }
    if let Some(separator) = word.strip_prefix("list").and_then(|rest| rest.chars().next()) {
        return Kind::List { separator };
    }
    match word {
        "flag" => Kind::Flag,
        "value" => Kind::Value,
        "words" => Kind::Words,
        "repeat" => Kind::Repeat,
        "json" => Kind::Json,
        "file" => Kind::File,
        "files" => Kind::Files,
        "folder" => Kind::Folder,
        "removed" => Kind::Removed,
        "ignored" => Kind::Ignored,
        "never" => Kind::Never,
        _ => panic!("a kind of option that is none: {word}"),
    }
}
