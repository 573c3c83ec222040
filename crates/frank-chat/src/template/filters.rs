//! Filters and tests where Jinja of Python differs from the engine's own. Never more lenient than either.

use minijinja::value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters};

use super::methods;

/// Bytes of text that one fuel pays for, in the engine's own terms.
const BYTES_PER_FUEL: usize = 64;

/// Fuel that an item costs when it is sorted.
const SORT_FUEL: u64 = 4;

/// Puts them into `environment`.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("dictsort", dictsort);
    environment.add_filter("indent", indent);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
}

/// The arguments at `names`, given by place or by name.
pub(super) fn arguments<const N: usize>(
    given: &[ValueOrKwargs],
    names: [&'static str; N],
) -> Result<[Option<Value>; N], Error> {
    let mut values = [const { None }; N];
    let mut places = values.iter_mut();
    let mut named = None;
    for argument in given {
        let argument = Value::clone(argument);
        if argument.is_kwargs() {
            named = Some(Kwargs::try_from(argument)?);
        } else {
            *places.next().ok_or_else(|| Error::from(ErrorKind::TooManyArguments))? =
                Some(argument);
        }
    }
    if let Some(named) = named {
        for (name, value) in names.iter().zip(&mut values) {
            if named.has(name) {
                *value = Some(named.get(name)?);
            }
        }
        named.assert_all_used()?;
    }
    Ok(values)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine gives the rest of the arguments by value"
)]
fn default(value: &Value, given: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [other, boolean] = arguments(&given, ["default_value", "boolean"])?;
    let is_lax = boolean.is_some_and(|boolean| boolean.is_true());
    if value.is_undefined() || (is_lax && !value.is_true()) {
        return Ok(other.unwrap_or_else(|| Value::from("")));
    }
    Ok(value.clone())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine gives the rest of the arguments by value"
)]
fn dictsort(state: &State, value: &Value, given: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    const NAMES: [&str; 3] = ["case_sensitive", "by", "reverse"];
    state.consume_fuel((value.len().unwrap_or(0) as u64).saturating_mul(SORT_FUEL))?;
    let values = arguments(&given, NAMES)?;
    let pairs = NAMES.into_iter().zip(values);
    filters::dictsort(value, pairs.filter_map(|(name, value)| Some((name, value?))).collect())
}

/// Puts spaces (or the text that `width` is) before all lines but the first and the blank ones.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine gives the rest of the arguments by value"
)]
fn indent(state: &State, text: &str, given: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let [width, first, blank] = arguments(&given, ["width", "first", "blank"])?;
    let is_on = |option: Option<Value>| option.is_some_and(|option| option.is_true());
    let (first, blank) = (is_on(first), is_on(blank));
    let width = width.unwrap_or_else(|| Value::from(4));
    let indent = match width.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let width = usize::try_from(width)?;
            state.consume_fuel((width / BYTES_PER_FUEL) as u64)?;
            " ".repeat(width)
        }
    };
    let mut indented = String::with_capacity(text.len());
    let with_end = format!("{text}\n");
    for (at, (line, _)) in methods::lines(&with_end).enumerate() {
        state.consume_fuel((indent.len() / BYTES_PER_FUEL) as u64 + 1)?;
        if at > 0 {
            indented.push('\n');
        }
        if if at == 0 { first } else { blank || !line.is_empty() } {
            indented.push_str(&indent);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

/// What is no number is `default`, which is 0.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine gives the rest of the arguments by value"
)]
fn int(state: &State, value: &Value, given: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [default, base] = arguments(&given, ["default", "base"])?;
    let base = base.map(u32::try_from).transpose()?;
    let default = default.unwrap_or_else(|| Value::from(0));
    filters::int(
        state,
        &trimmed(value),
        Some(default),
        base,
        Kwargs::from_iter([] as [(&str, Value); 0]),
    )
}

/// What is no number is `default`, which is 0.0.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine gives the rest of the arguments by value"
)]
fn float(state: &State, value: &Value, given: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [default] = arguments(&given, ["default"])?;
    let default = default.unwrap_or_else(|| Value::from(0.0));
    filters::float(
        state,
        &trimmed(value),
        Some(default),
        Kwargs::from_iter([] as [(&str, Value); 0]),
    )
}

/// Python reads numbers with white space around them.
fn trimmed(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), |text| Value::from(text.trim()))
}

fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Whatever has a length and items. A part of a list is a list here too.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map => true,
        ValueKind::Iterable => value.len().is_some(),
        _ => false,
    }
}
