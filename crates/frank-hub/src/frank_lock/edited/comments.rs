//! Comments of TOML that stood beside what is written anew, and where they go. Never changes a value.

use toml_edit::{Array, Decor, InlineTable, Key, RawString, Table};

/// Comments in and around an array of inline tables, each a line from its `#` on.
#[derive(Default)]
pub(super) struct ArrayComments {
    /// Those of each element.
    pub(super) elements: Vec<Vec<String>>,
    /// Those of an array without elements.
    pub(super) others: Vec<String>,
}

/// The comments of `key = [{ … }]`. What stands on a line behind an element is about that one, and what stands on lines of
/// its own about the next one; around the array it is about the first and the last.
pub(super) fn of_array(key: &Key, array: &Array) -> ArrayComments {
    let mut told = ArrayComments::default();
    let mut above = comments(key.leaf_decor().prefix());
    for value in array {
        let (behind, before) = split(value.decor().prefix());
        match told.elements.last_mut() {
            Some(last) => last.extend(behind),
            None => above.extend(behind),
        }
        above.extend(before);
        above.extend(value.as_inline_table().map(inside).unwrap_or_default());
        above.extend(comments(value.decor().suffix()));
        told.elements.push(std::mem::take(&mut above));
    }
    above.extend(comments(Some(array.trailing())));
    above.extend(comments(array.decor().suffix()));
    told.elements.last_mut().unwrap_or(&mut told.others).extend(above);
    told
}

/// Puts lines of comments above what `decor` is of, behind `empty` where nothing stands there.
pub(super) fn put_above(decor: &mut Decor, lines: &[String], empty: &str) {
    let old = decor.prefix().and_then(RawString::as_str).unwrap_or(empty);
    let (blank, rest) = old.split_at(old.len() - old.trim_start_matches('\n').len());
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    decor.set_prefix(format!("{blank}{lines}{rest}"));
}

/// Removes a key. Comments above and behind it come above the key that follows, or else above the one before it.
pub(super) fn remove(table: &mut Table, key: &str) {
    let is_written = |(_, item): &(&str, &toml_edit::Item)| item.is_value();
    let keys: Vec<String> =
        table.iter().filter(is_written).map(|(key, _)| key.to_owned()).collect();
    let Some(place) = keys.iter().position(|there| there == key) else { return };
    let Some((removed, item)) = table.remove_entry(key) else { return };
    let mut lines = comments(removed.leaf_decor().prefix());
    lines.extend(comments(item.as_value().and_then(|value| value.decor().suffix())));
    let neighbour = keys.get(place + 1).or_else(|| keys.get(place.checked_sub(1)?));
    if let Some(mut neighbour) = neighbour.and_then(|neighbour| table.key_mut(neighbour)) {
        put_above(neighbour.leaf_decor_mut(), &lines, "");
    }
}

/// Comments between the keys of an inline table.
fn inside(table: &InlineTable) -> Vec<String> {
    let mut told = Vec::new();
    for (key, value) in table.iter() {
        told.extend(comments(table.key(key).and_then(|key| key.leaf_decor().prefix())));
        told.extend(comments(value.decor().suffix()));
    }
    told.extend(comments(Some(table.trailing())));
    told
}

/// Comments up to the first end of a line, and those behind it.
fn split(text: Option<&RawString>) -> (Vec<String>, Vec<String>) {
    let text = text.and_then(RawString::as_str).unwrap_or_default();
    let (behind, before) = text.split_once('\n').unwrap_or((text, ""));
    (lines(behind), lines(before))
}

fn comments(text: Option<&RawString>) -> Vec<String> {
    lines(text.and_then(RawString::as_str).unwrap_or_default())
}

fn lines(text: &str) -> Vec<String> {
    let comments = text.lines().map(str::trim).filter(|line| line.starts_with('#'));
    comments.map(str::to_owned).collect()
}
