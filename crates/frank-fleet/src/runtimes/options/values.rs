//! Values of options as arguments. Never a shell word: each argument is one as the program gets it.

use serde_json::Value;

use super::{Given, Kind};

/// Words that spell on and off, as runtimes and their help do.
const ON: [&str; 4] = ["on", "true", "enabled", "1"];
const OFF: [&str; 4] = ["off", "false", "disabled", "0"];

/// A number or a text as one text.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// One text or several.
pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().filter_map(text).collect(),
        value => text(value).into_iter().collect(),
    }
}

/// Whether a value says the same as a default in a runtime's help.
pub(super) fn says(value: &Value, default: &str) -> bool {
    match value {
        Value::Bool(true) => ON.contains(&default),
        Value::Bool(false) => OFF.contains(&default),
        value => text(value).is_some_and(|text| is_same(&text, default)),
    }
}

/// Whether two values are one: `0.8` is `0.80`.
pub(in super::super) fn is_same(left: &str, right: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.total_cmp(&right).is_eq(),
        _ => left == right,
    }
}

/// Arguments of an option, one list of words for each time that it is given.
///
/// # Errors
/// One sentence when the value is none that such an option can have.
pub(super) fn words(option: &Given<'_>) -> Result<Vec<Vec<String>>, String> {
    let name = format!("--{}", option.spelling);
    let one = |value: String| Ok(vec![vec![name.clone(), value]]);
    let value = option.value;
    match option.kind {
        Kind::Flag => match value {
            Value::Bool(true) => Ok(vec![vec![name]]),
            Value::Bool(false) => Ok(Vec::new()),
            _ => Err(format!("`{}` is on or off: true or false", option.name)),
        },
        Kind::Switch { no } => match value {
            Value::Bool(true) => Ok(vec![vec![name]]),
            Value::Bool(false) => {
                let no = no.split(',').next().unwrap_or(no);
                Ok(vec![vec![format!("--{no}")]])
            }
            _ => Err(format!("`{}` is on or off: true or false", option.name)),
        },
        Kind::Value | Kind::File | Kind::Folder => match value {
            Value::Array(_) if option.kind == Kind::Value => one(joined(option, ',')?),
            value => one(text(value).ok_or_else(|| needs_text(option))?),
        },
        Kind::List { separator } => one(joined(option, separator)?),
        Kind::Files => one(joined(option, ',')?),
        Kind::Json => one(match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        }),
        Kind::Words => {
            let words = several(option)?;
            Ok(vec![std::iter::once(name).chain(words).collect()])
        }
        Kind::Repeat => {
            let values = several(option)?.into_iter();
            Ok(values.map(|value| vec![name.clone(), value]).collect())
        }
        Kind::Removed | Kind::Ignored | Kind::Never => Ok(Vec::new()),
    }
}

fn needs_text(option: &Given<'_>) -> String {
    format!("`{}` takes a number or a text", option.name)
}

/// All values of an option, none of which is anything but a number or a text.
fn several(option: &Given<'_>) -> Result<Vec<String>, String> {
    let count = option.value.as_array().map_or(1, Vec::len);
    let texts = texts(option.value);
    if texts.len() == count && count > 0 { Ok(texts) } else { Err(needs_text(option)) }
}

/// Values of a list in one text. A value that holds the separator would be two.
fn joined(option: &Given<'_>, separator: char) -> Result<String, String> {
    let texts = several(option)?;
    if option.value.is_array() && texts.iter().any(|text| text.contains(separator)) {
        return Err(format!(
            "a value of `{}` holds `{separator}`, which stands between values",
            option.name
        ));
    }
    Ok(texts.join(&separator.to_string()))
}
