//! The `tojson` filter as `transformers` has it: Python's `json.dumps(value, ensure_ascii=False)`, without the
//! HTML escapes of Jinja's own filter.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Deepest nesting that is written.
const DEPTH_MAX: usize = 128;

/// Bytes of JSON that one fuel pays for, beside the one that each value costs.
const BYTES_PER_FUEL: usize = 16;

/// `value | tojson`. Takes `indent`, `separators` and the default of `ensure_ascii` by name.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine hands the arguments of a filter over by value"
)]
pub(super) fn to_json(state: &State, value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    if ensure_ascii == Some(true) {
        return Err(refused("tojson does not offer ensure_ascii=true"));
    }
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.as_str(), key.as_str()),
        Some(_) => return Err(refused("separators must be two strings")),
        None if indent.is_some() => (",", ": "),
        None => (", ", ": "),
    };
    let mut writer = JsonWriter { state, indent, item, key, text: String::new() };
    writer.value(value, 0)?;
    Ok(Value::from(writer.text))
}

fn refused(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

/// Writes a value as JSON and pays for each part before it grows the text.
struct JsonWriter<'a, 'b> {
    state: &'a State<'b, 'b>,
    indent: Option<usize>,
    item: &'a str,
    key: &'a str,
    text: String,
}

impl JsonWriter<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.state.consume_fuel(1)?;
        if depth > DEPTH_MAX {
            return Err(refused("tojson of a value that is nested too deeply"));
        }
        match value.kind() {
            ValueKind::Undefined | ValueKind::None => self.plain("null"),
            ValueKind::Bool => self.plain(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.plain(&value.to_string()),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, depth),
            ValueKind::Map => self.map(value, depth),
            other => Err(Error::new(ErrorKind::InvalidOperation, format!("tojson of a {other}"))),
        }
    }

    fn plain(&mut self, text: &str) -> Result<(), Error> {
        self.state.consume_fuel((text.len() / BYTES_PER_FUEL) as u64)?;
        self.text.push_str(text);
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), Error> {
        let quoted = serde_json::to_string(text).expect("a string is always JSON");
        self.plain(&quoted)
    }

    fn sequence(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.plain("[")?;
        let mut empty = true;
        for item in value.try_iter()?.checked() {
            self.before_item(empty, depth)?;
            empty = false;
            self.value(&item?, depth + 1)?;
        }
        self.end("]", empty, depth)
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.plain("{")?;
        let mut empty = true;
        for key in value.try_iter()?.checked() {
            let key = key?;
            self.before_item(empty, depth)?;
            empty = false;
            self.string(&key.to_string())?;
            self.plain(self.key)?;
            self.value(&value.get_item(&key)?, depth + 1)?;
        }
        self.end("}", empty, depth)
    }

    fn before_item(&mut self, first: bool, depth: usize) -> Result<(), Error> {
        if !first {
            self.plain(self.item)?;
        }
        self.new_line(depth + 1)
    }

    fn end(&mut self, bracket: &str, empty: bool, depth: usize) -> Result<(), Error> {
        if !empty {
            self.new_line(depth)?;
        }
        self.plain(bracket)
    }

    fn new_line(&mut self, depth: usize) -> Result<(), Error> {
        let Some(width) = self.indent else { return Ok(()) };
        let n_spaces = width.saturating_mul(depth);
        self.state.consume_fuel((n_spaces / BYTES_PER_FUEL) as u64)?;
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n(' ', n_spaces));
        Ok(())
    }
}
