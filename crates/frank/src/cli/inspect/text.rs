//! The facts of a model file as text for a terminal. Never lets a string of the file write to it raw.

use std::fmt::Write;

use frank_gguf::{Array, Value};
use frank_plan::Size;

use super::{ARRAY_SHOWN, ARRAY_WHOLE_MAX, Facts, TensorFacts, element_name};
use crate::report::printable;

/// Longer strings are cut: a chat template would fill the screen.
const STRING_CHARS_MAX: usize = 100;

/// All facts, in sections.
pub(super) fn of(facts: &Facts<'_>) -> String {
    let mut out = String::new();
    section(&mut out, "Files", &files(facts));
    section(
        &mut out,
        &format!("Metadata ({})", facts.metadata.0.metadata.iter().len()),
        &metadata(facts),
    );
    section(&mut out, &format!("Tensors ({})", facts.tensors.len()), &tensors(facts));
    section(&mut out, &format!("Layers ({})", facts.layers.len()), &layers(facts));
    section(&mut out, "Totals", &totals(facts));
    if facts.totals.experts > 0 {
        section(&mut out, "Dense and experts", &uses(facts));
    }
    if !facts.warnings.is_empty() {
        let rows: Vec<Row> =
            facts.warnings.iter().map(|warning| vec![Cell::left(printable(warning))]).collect();
        section(&mut out, "Warnings", &rows);
    }
    out
}

fn files(facts: &Facts<'_>) -> Vec<Row> {
    let rows = facts.parts.iter().map(|part| {
        vec![
            Cell::left(printable(&part.path)),
            Cell::right(Size(part.file_bytes).to_string()),
            Cell::left(format!(
                "GGUF version {}, alignment {}, data from byte {}",
                part.version, part.alignment, part.data_start
            )),
        ]
    });
    rows.collect()
}

fn metadata(facts: &Facts<'_>) -> Vec<Row> {
    let entries = facts.metadata.0.metadata.iter();
    entries
        .map(|(key, value)| vec![Cell::left(printable(key)), Cell::left(value_text(value))])
        .collect()
}

fn tensors(facts: &Facts<'_>) -> Vec<Row> {
    let heads = ["name", "type", "dims", "bytes", "offset", "part"];
    let rows = facts.tensors.iter().map(|tensor| {
        let TensorFacts { name, dims, bytes, offset, part, .. } = tensor;
        let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
        vec![
            Cell::left(printable(name)),
            Cell::left(type_text(tensor.type_name, tensor.type_id)),
            Cell::left(dims.join(" × ")),
            Cell::right(bytes.to_string()),
            Cell::right(offset.to_string()),
            Cell::right(part.to_string()),
        ]
    });
    with_heads(&heads, rows)
}

fn layers(facts: &Facts<'_>) -> Vec<Row> {
    let has_experts = facts.totals.experts > 0;
    let row = |name: String, tensors: String, bytes: u64, of_experts: [String; 3]| {
        let size = Cell::right(Size(bytes).to_string());
        let more = of_experts.map(Cell::right).into_iter().filter(|_| has_experts);
        [Cell::left(name), Cell::right(tensors), size].into_iter().chain(more).collect()
    };
    let rows = facts.layers.iter().map(|layer| {
        let dense = Size(layer.dense_bytes).to_string();
        let of_experts = match layer.experts {
            0 => [dense, String::new(), String::new()],
            n => [dense, n.to_string(), Size(layer.expert_bytes_each).to_string()],
        };
        row(format!("blk.{}", layer.layer), layer.tensors.to_string(), layer.bytes, of_experts)
    });
    let outside = facts.totals.bytes_outside_layers;
    let of_experts = [Size(outside).to_string(), String::new(), String::new()];
    let outside = row("outside".to_owned(), String::new(), outside, of_experts);
    let heads = ["layer", "tensors", "size", "dense", "experts", "each"];
    with_heads(&heads, rows.chain([outside]))
}

fn totals(facts: &Facts<'_>) -> Vec<Row> {
    let totals = &facts.totals;
    let rows = totals.types.iter().map(|facts| {
        type_row(
            type_text(facts.type_name, facts.type_id),
            facts.tensors,
            facts.values,
            facts.bytes,
        )
    });
    let all = type_row("all".to_owned(), totals.tensors, totals.values, totals.bytes);
    with_heads(&["type", "tensors", "values", "size"], rows.chain([all]))
}

/// What every token uses, and the routed experts, of which a token uses some.
fn uses(facts: &Facts<'_>) -> Vec<Row> {
    let totals = &facts.totals;
    let rows = [
        ("dense", String::new(), totals.dense_bytes),
        ("experts", totals.experts.to_string(), totals.expert_bytes),
    ];
    let rows = rows.map(|(name, count, bytes)| {
        let size = Size(bytes).to_string();
        vec![Cell::left(name.to_owned()), Cell::right(count), Cell::right(size)]
    });
    with_heads(&["kind", "count", "size"], rows.into_iter())
}

fn type_row(name: String, tensors: usize, values: u64, bytes: u64) -> Row {
    vec![
        Cell::left(name),
        Cell::right(tensors.to_string()),
        Cell::right(values.to_string()),
        Cell::right(Size(bytes).to_string()),
    ]
}

fn type_text(name: Option<&str>, id: u32) -> String {
    name.map_or_else(|| format!("type {id}"), str::to_owned)
}

fn value_text(value: &Value) -> String {
    match value {
        Value::U8(number) => number.to_string(),
        Value::I8(number) => number.to_string(),
        Value::U16(number) => number.to_string(),
        Value::I16(number) => number.to_string(),
        Value::U32(number) => number.to_string(),
        Value::I32(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::String(text) => string_text(text),
        Value::Array(array) => array_text(array),
    }
}

/// A string in quotes, with those inside escaped, so that its end can be told.
fn string_text(text: &str) -> String {
    let quoted = |text: &str| printable(&text.replace('\\', "\\\\").replace('"', "\\\""));
    match text.char_indices().nth(STRING_CHARS_MAX) {
        Some((end, _)) => {
            format!("\"{}…\" ({} characters)", quoted(&text[..end]), text.chars().count())
        }
        None => format!("\"{}\"", quoted(text)),
    }
}

fn array_text(array: &Array) -> String {
    fn first<T>(list: &[T], text: impl Fn(&T) -> String) -> String {
        let is_whole = list.len() <= ARRAY_WHOLE_MAX;
        let shown = if is_whole { list } else { &list[..ARRAY_SHOWN] };
        let mut texts: Vec<String> = shown.iter().map(text).collect();
        if !is_whole {
            texts.push("…".to_owned());
        }
        texts.join(", ")
    }
    let texts = match array {
        Array::U8(list) => first(list, u8::to_string),
        Array::I8(list) => first(list, i8::to_string),
        Array::U16(list) => first(list, u16::to_string),
        Array::I16(list) => first(list, i16::to_string),
        Array::U32(list) => first(list, u32::to_string),
        Array::I32(list) => first(list, i32::to_string),
        Array::U64(list) => first(list, u64::to_string),
        Array::I64(list) => first(list, i64::to_string),
        Array::F32(list) => first(list, f32::to_string),
        Array::F64(list) => first(list, f64::to_string),
        Array::Bool(list) => first(list, bool::to_string),
        Array::String(list) => first(list, |text| string_text(text)),
    };
    format!("{} {}: [{texts}]", array.len(), element_name(array))
}

/// One line of a section.
type Row = Vec<Cell>;

/// A text in a column.
struct Cell {
    text: String,
    is_right: bool,
}

impl Cell {
    fn left(text: String) -> Self {
        Self { text, is_right: false }
    }

    fn right(text: String) -> Self {
        Self { text, is_right: true }
    }
}

/// `rows` below their column heads, which stand as the first row's cells do.
fn with_heads(heads: &[&str], rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let rows: Vec<Row> = rows.collect();
    let Some(first) = rows.first() else { return rows };
    let heads = heads.iter().zip(first);
    let heads = heads
        .map(|(head, cell)| Cell { text: (*head).to_owned(), is_right: cell.is_right })
        .collect();
    std::iter::once(heads).chain(rows).collect()
}

/// Appends a section: its title, and its rows in columns.
fn section(out: &mut String, title: &str, rows: &[Row]) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(title);
    out.push('\n');
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.text.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..n_columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (Cell { text, is_right }, &width) in row.iter().zip(&widths) {
            let written = if *is_right {
                write!(line, "  {text:>width$}")
            } else {
                write!(line, "  {text:<width$}")
            };
            written.expect("a String takes every text");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
