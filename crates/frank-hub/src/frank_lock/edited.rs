//! The text of a `frank.lock` with one payload renewed, in which all that people wrote stays. Never reads or writes a file.

mod comments;

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value};

use self::comments::{put_above, remove};
use super::{PinnedFile, PinnedPayload};

/// `text` with `pinned` in the place of its payload number `place`, or behind all of them. `None` where that cannot be
/// written: the text is not made of payloads and their files. Inline tables are written out.
pub(super) fn edited(text: &str, place: Option<usize>, pinned: &PinnedPayload) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let payloads = tables(document.as_table_mut(), "payload")?;
    let place = place.unwrap_or_else(|| added(payloads));
    let payload = payloads.get_mut(place)?;
    set(payload, "source", Some(pinned.source.as_str().into()));
    set(payload, "revision", pinned.revision.as_deref().map(Value::from));
    let files = tables(payload, "file")?;
    files.retain(|table| name(table).is_some_and(|name| pinned.file(name).is_some()));
    for file in &pinned.file {
        let there = files.iter().position(|table| name(table) == Some(file.name.as_str()));
        let place = there.unwrap_or_else(|| added(files));
        set_file(files.get_mut(place)?, file)?;
    }
    Some(document.to_string())
}

/// The tables called `[[key]]`, be there none yet, or be they written as `key = [{ … }]`.
fn tables<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut ArrayOfTables> {
    if table.get(key).is_some_and(Item::is_array) {
        write_out(table, key)?;
    }
    let none = || Item::ArrayOfTables(ArrayOfTables::new());
    table.entry(key).or_insert_with(none).as_array_of_tables_mut()
}

/// Makes `[[key]]` of `key = [{ … }]`. Comments inside and around it come above the table that they are about.
fn write_out(table: &mut Table, key: &str) -> Option<()> {
    let (name, item) = table.remove_entry(key)?;
    let array = item.as_array()?;
    let told = comments::of_array(&name, array);
    let mut tables = ArrayOfTables::new();
    for (value, lines) in array.iter().zip(&told.elements) {
        let mut written = value.as_inline_table()?.clone().into_table();
        put_above(written.decor_mut(), lines, "\n");
        tables.push(written);
    }
    // Where there is no table to stand above, comments stand above the one that has the array.
    put_above(table.decor_mut(), &told.others, "");
    table.insert(key, Item::ArrayOfTables(tables));
    Some(())
}

/// The place of a new table behind the others.
fn added(tables: &mut ArrayOfTables) -> usize {
    tables.push(Table::new());
    tables.len() - 1
}

fn name(table: &Table) -> Option<&str> {
    table.get("name")?.as_str()
}

fn set_file(table: &mut Table, file: &PinnedFile) -> Option<()> {
    let bytes = file.bytes.map(i64::try_from).transpose().ok()?;
    set(table, "name", Some(file.name.as_str().into()));
    set(table, "role", file.role.map(|role| role.word().into()));
    set(table, "path", file.path.as_deref().map(Value::from));
    set(table, "bytes", bytes.map(Value::from));
    set(table, "sha256", file.sha256.map(|sha256| sha256.to_string().into()));
    set(table, "git_sha1", file.git_sha1.map(|sha1| sha1.to_string().into()));
    Some(())
}

/// Gives the key a value and leaves what stands around it; one that says the same already is left as it is written.
fn set(table: &mut Table, key: &str, value: Option<Value>) {
    let Some(mut value) = value else {
        remove(table, key);
        return;
    };
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if is_same(old, &value) => {}
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            table.insert(key, Item::Value(value));
        }
    }
}

fn is_same(one: &Value, other: &Value) -> bool {
    (one.as_str(), one.as_integer()) == (other.as_str(), other.as_integer())
}
