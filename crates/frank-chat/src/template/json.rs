//! The `tojson` filter as `transformers` has it: Python's `json.dumps`, with `ensure_ascii=False` where
//! nobody says, and without the HTML escapes of Jinja's own filter.

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State};

use super::filters::arguments;

/// Deepest nesting that is written.
const DEPTH_MAX: usize = 128;

/// Most spaces of an indent. Each level adds as many again.
const INDENT_MAX: usize = 256;

/// Bytes of JSON that one fuel pays for, beside the one that each value costs.
const BYTES_PER_FUEL: usize = 16;

/// The `tojson` filter: `ensure_ascii`, `indent`, `separators` and `sort_keys`, by place or by name. `guard` is
/// no character of the text, so it is never escaped.
pub(super) fn filter(
    guard: char,
) -> impl Fn(&State, &Value, Rest<ValueOrKwargs>) -> Result<Value, Error> + Send + Sync + 'static {
    move |state, value, given| {
        let style = Style::of(&given)?;
        let mut writer = JsonWriter { state, style, guard, text: String::new() };
        writer.value(value, 0)?;
        Ok(Value::from(writer.text))
    }
}

/// How the JSON is laid out.
struct Style {
    ensure_ascii: bool,
    /// What a line is indented by for each level; without it there is one line.
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
}

impl Style {
    fn of(given: &[ValueOrKwargs]) -> Result<Self, Error> {
        let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
        let [ensure_ascii, indent, separators, sort_keys] = arguments(given, names)?;
        let indent = indent.filter(|indent| !indent.is_none()).map(indentation).transpose()?;
        let (item, key) = match separators.filter(|pair| !pair.is_none()) {
            Some(pair) => separator_pair(&pair)?,
            None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
            None => (", ".to_owned(), ": ".to_owned()),
        };
        let is_on = |option: Option<Value>| option.is_some_and(|option| option.is_true());
        Ok(Self {
            ensure_ascii: is_on(ensure_ascii),
            indent,
            item,
            key,
            sort_keys: is_on(sort_keys),
        })
    }
}

/// A number of spaces, or the text itself.
fn indentation(indent: Value) -> Result<String, Error> {
    if let Some(text) = indent.as_str() {
        return Ok(text.to_owned());
    }
    let width = i64::try_from(indent)?;
    match usize::try_from(width.max(0)) {
        Ok(width) if width <= INDENT_MAX => Ok(" ".repeat(width)),
        _ => Err(refused("tojson with an indent of more spaces than a line holds")),
    }
}

fn separator_pair(pair: &Value) -> Result<(String, String), Error> {
    let texts =
        pair.try_iter()?.checked().map(|text| text.map(|text| text.as_str().map(str::to_owned)));
    match texts.collect::<Result<Vec<_>, _>>()?.as_slice() {
        [Some(item), Some(key)] => Ok((item.clone(), key.clone())),
        _ => Err(refused("separators must be two strings")),
    }
}

fn refused(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

/// Writes a value as JSON and pays for each part before it grows the text.
struct JsonWriter<'a, 'b> {
    state: &'a State<'b, 'b>,
    style: Style,
    guard: char,
    text: String,
}

impl JsonWriter<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.state.consume_fuel(1)?;
        if depth > DEPTH_MAX {
            return Err(refused("tojson of a value that is nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => self.plain("null"),
            ValueKind::Bool => self.plain(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.plain(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, depth),
            ValueKind::Map => self.map(value, depth),
            other => Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson of a value that is {other}"),
            )),
        }
    }

    fn plain(&mut self, text: &str) -> Result<(), Error> {
        self.state.consume_fuel((text.len() / BYTES_PER_FUEL) as u64)?;
        self.text.push_str(text);
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), Error> {
        let quoted = serde_json::to_string(text).expect("a string is always JSON");
        if self.style.ensure_ascii {
            self.plain(&ascii(&quoted, self.guard))
        } else {
            self.plain(&quoted)
        }
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
        let mut keys = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        self.state.consume_fuel(keys.len() as u64)?;
        if self.style.sort_keys {
            keys.sort();
        }
        for key in keys {
            self.before_item(empty, depth)?;
            empty = false;
            self.key(&key)?;
            let between = std::mem::take(&mut self.style.key);
            self.plain(&between)?;
            self.style.key = between;
            self.value(&value.get_item(&key)?, depth + 1)?;
        }
        self.end("}", empty, depth)
    }

    /// Keys are strings in JSON, whatever they were.
    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::None => self.string("null"),
            ValueKind::Bool => self.string(if key.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.string(&number(key)),
            _ => match key.as_str() {
                Some(text) => self.string(text),
                None => Err(refused("tojson of a map with keys that are no strings")),
            },
        }
    }

    fn before_item(&mut self, first: bool, depth: usize) -> Result<(), Error> {
        if !first {
            let between = std::mem::take(&mut self.style.item);
            self.plain(&between)?;
            self.style.item = between;
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
        let Some(indent) = &self.style.indent else { return Ok(()) };
        self.state.consume_fuel((indent.len() * depth / BYTES_PER_FUEL) as u64)?;
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n(indent.as_str(), depth));
        Ok(())
    }
}

/// A number as Python writes it; what is no finite number has the words of JavaScript.
fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        _ if value.is_integer() => value.to_string(),
        Ok(float) if float.is_nan() => "NaN".to_owned(),
        Ok(float) if float.is_infinite() => {
            (if float > 0.0 { "Infinity" } else { "-Infinity" }).to_owned()
        }
        Ok(float) => python_float(float),
        Err(_) => value.to_string(),
    }
}

/// A float as Python's `repr` writes it: the shortest digits that read back the same.
pub(super) fn python_float(float: f64) -> String {
    if !float.is_finite() {
        return format!("{float}").to_lowercase();
    }
    // Rust begins to write exponents where Python does, but neither signs nor pads them.
    let text = format!("{float:?}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().expect("an exponent is a number");
            format!("{digits}e{exponent:+03}")
        }
        None => text,
    }
}

/// JSON without characters beyond ASCII, but for `guard`.
fn ascii(json: &str, guard: char) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        if char == guard || (char.is_ascii() && char != '\u{7f}') {
            text.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        let check = |float: f64, expected: &str| assert_eq!(python_float(float), expected);
        check(1.0, "1.0");
        check(-0.0, "-0.0");
        check(0.1, "0.1");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(1e15, "1000000000000000.0");
        check(1e16, "1e+16");
        check(-1.5e300, "-1.5e+300");
        check(f64::NAN, "nan");
        check(f64::NEG_INFINITY, "-inf");
    }

    #[test]
    fn characters_beyond_ascii_are_escaped_in_units_of_utf_16_and_the_guard_is_none() {
        assert_eq!(ascii("\"é\u{1f600}\u{7f}~^\"", '^'), r#""\u00e9\ud83d\ude00\u007f~^""#);
    }
}
