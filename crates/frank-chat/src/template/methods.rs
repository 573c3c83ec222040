//! Methods of Python's own types that templates call. Never makes more than was paid for.

use minijinja::value::{Kwargs, Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

/// Bytes of text that one fuel pays for, in the engine's own terms.
const BYTES_PER_FUEL: u64 = 64;

/// Widest field of `str.format`. Each field with a format is paid for as if it were so wide.
const FORMAT_WIDTH_MAX: u64 = 999;

/// Calls `value.method(args)`. What is not here is `pycompat`'s.
pub(super) fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str()
        && let Some(result) = call_on_text(state, text, method, args)?
    {
        return Ok(result);
    }
    match (value.kind(), method) {
        (ValueKind::Seq, "index") => return position(state, value, args),
        (ValueKind::Map, "copy") => {
            let () = from_args(args)?;
            return Ok(value.clone());
        }
        _ => {}
    }
    // What `pycompat` visits without paying for it.
    for container in std::iter::once(value).chain(args) {
        if matches!(container.kind(), ValueKind::Seq | ValueKind::Iterable) {
            state.consume_fuel(container.len().unwrap_or(0) as u64)?;
        }
    }
    pycompat::unknown_method_callback(state, value, method, args)
}

fn call_on_text(
    state: &State,
    text: &str,
    method: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    let result = match method {
        "strip" => stripped(text, args, true, true)?,
        "lstrip" => stripped(text, args, true, false)?,
        "rstrip" => stripped(text, args, false, true)?,
        "split" => split(state, text, args, Side::Left)?,
        "rsplit" => split(state, text, args, Side::Right)?,
        "splitlines" => {
            let (keep_ends, named): (Option<bool>, Kwargs) = from_args(args)?;
            let keep_ends =
                keep_ends.map_or_else(|| named.get("keepends"), |keep| Ok(Some(keep)))?;
            named.assert_all_used()?;
            state.consume_fuel(lines(text).count() as u64)?;
            let keep_ends = keep_ends == Some(true);
            lines(text)
                .map(|(line, end)| if keep_ends { end } else { line })
                .map(Value::from)
                .collect()
        }
        "partition" => partition(text, args, Side::Left)?,
        "rpartition" => partition(text, args, Side::Right)?,
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            text.strip_prefix(prefix).unwrap_or(text).into()
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            text.strip_suffix(suffix).unwrap_or(text).into()
        }
        "title" => {
            let () = from_args(args)?;
            title(text).into()
        }
        "swapcase" => {
            let () = from_args(args)?;
            swapped_case(text).into()
        }
        "casefold" => {
            let () = from_args(args)?;
            text.to_lowercase().replace('ß', "ss").into()
        }
        "index" | "rindex" => {
            let (part,): (&str,) = from_args(args)?;
            let at = if method == "index" { text.find(part) } else { text.rfind(part) };
            let at = at.ok_or_else(|| refused("substring not found"))?;
            text[..at].chars().count().into()
        }
        "join" => joined(state, text, args)?,
        "ljust" | "rjust" | "center" => justified(state, text, method, args)?,
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            zero_filled(state, text, width)?
        }
        "format" => {
            pay_for_format(state, text, args)?;
            return Ok(None);
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

fn refused(why: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

/// White space as `str.isspace` has it: four separators more than Unicode's property.
fn is_space(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\x1c'..='\x1f')
}

fn stripped(text: &str, args: &[Value], left: bool, right: bool) -> Result<Value, Error> {
    let (chars,): (Option<&str>,) = from_args(args)?;
    let goes = |char: char| match chars {
        Some(chars) => chars.contains(char),
        None => is_space(char),
    };
    let text = if left { text.trim_start_matches(goes) } else { text };
    Ok(Value::from(if right { text.trim_end_matches(goes) } else { text }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// `split(sep, maxsplit)` from a side. Without a separator, white space parts words and empty ones are left out.
fn split(state: &State, text: &str, args: &[Value], side: Side) -> Result<Value, Error> {
    let (separator, maxsplit, named): (Option<&str>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = separator.map_or_else(|| named.get("sep"), |text| Ok(Some(text)))?;
    let maxsplit = maxsplit.map_or_else(|| named.get("maxsplit"), |n| Ok(Some(n)))?;
    named.assert_all_used()?;
    let n_splits = usize::try_from(maxsplit.unwrap_or(-1)).unwrap_or(usize::MAX);
    // Parts take more memory than the text did, so each is paid for before it is there.
    let n_places = match separator {
        Some(separator) => text.matches(separator).take(n_splits).count(),
        None => text.matches(is_space).count(),
    };
    state.consume_fuel(n_places as u64)?;
    let parts = match separator {
        Some("") => return Err(refused("empty separator")),
        Some(separator) => split_at(text, separator, n_splits, side),
        None => words(text, n_splits, side),
    };
    Ok(parts.into_iter().map(Value::from).collect())
}

fn split_at<'a>(text: &'a str, separator: &str, n_splits: usize, side: Side) -> Vec<&'a str> {
    let n_parts = n_splits.saturating_add(1);
    match side {
        Side::Left => text.splitn(n_parts, separator).collect(),
        Side::Right => {
            let mut parts: Vec<_> = text.rsplitn(n_parts, separator).collect();
            parts.reverse();
            parts
        }
    }
}

fn words(text: &str, n_splits: usize, side: Side) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_matches(is_space);
    while !rest.is_empty() {
        let cut = if parts.len() == n_splits {
            None
        } else if side == Side::Left {
            rest.split_once(is_space)
        } else {
            rest.rsplit_once(is_space).map(|(before, word)| (word, before))
        };
        let (word, others) = cut.unwrap_or((rest, ""));
        parts.push(word);
        rest = others.trim_matches(is_space);
    }
    if side == Side::Right {
        parts.reverse();
    }
    parts
}

/// The lines of `text` as `str.splitlines` cuts them, each without and with its end.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_end = |char: char| {
        matches!(
            char,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = rest.find(is_end).unwrap_or(rest.len());
        let end = match rest[at..].chars().next() {
            Some('\r') if rest[at + 1..].starts_with('\n') => 2,
            first => first.map_or(0, char::len_utf8),
        };
        let (whole, after) = rest.split_at(at + end);
        rest = after;
        Some((&whole[..at], whole))
    })
}

fn partition(text: &str, args: &[Value], side: Side) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() {
        return Err(refused("empty separator"));
    }
    let parts = match side {
        Side::Left => text.split_once(separator).map_or([text, "", ""], |(a, b)| [a, separator, b]),
        Side::Right => {
            text.rsplit_once(separator).map_or(["", "", text], |(a, b)| [a, separator, b])
        }
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from).to_vec())))
}

/// The texts of a list with `separator` between them. One text may be in the list many times, so each is paid for
/// before it is copied.
fn joined(state: &State, separator: &str, args: &[Value]) -> Result<Value, Error> {
    let (parts,): (&Value,) = from_args(args)?;
    let mut joined = String::new();
    for (at, part) in parts.try_iter()?.checked().enumerate() {
        let part = part?;
        let part = part.as_str().ok_or_else(|| refused("join of what is no text"))?;
        let separator = if at == 0 { "" } else { separator };
        state.consume_fuel(1 + (separator.len() + part.len()) as u64 / BYTES_PER_FUEL)?;
        joined.push_str(separator);
        joined.push_str(part);
    }
    Ok(Value::from(joined))
}

/// Upper case after whatever is no letter, lower case after a letter.
fn title(text: &str) -> String {
    let mut titled = String::with_capacity(text.len());
    let mut after_letter = false;
    for char in text.chars() {
        if after_letter {
            titled.extend(char.to_lowercase());
        } else {
            titled.extend(char.to_uppercase());
        }
        after_letter = char.is_alphabetic();
    }
    titled
}

fn swapped_case(text: &str) -> String {
    let mut swapped = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_uppercase() {
            swapped.extend(char.to_lowercase());
        } else {
            swapped.extend(char.to_uppercase());
        }
    }
    swapped
}

/// `text` in the middle or at a side of `width` characters.
fn justified(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (usize, Option<char>) = from_args(args)?;
    let n_missing = missing(state, text, width)?;
    let n_left = match method {
        "ljust" => 0,
        "rjust" => n_missing,
        // Python puts the odd one to the left of an even text, and to the right of an odd one.
        _ => n_missing / 2 + (n_missing & width & 1),
    };
    let fill = |n: usize| std::iter::repeat_n(fill.unwrap_or(' '), n);
    Ok(fill(n_left).chain(text.chars()).chain(fill(n_missing - n_left)).collect::<String>().into())
}

fn zero_filled(state: &State, text: &str, width: usize) -> Result<Value, Error> {
    let zeros = "0".repeat(missing(state, text, width)?);
    let digits = text.trim_start_matches(['+', '-']);
    let digits = if text.len() - digits.len() > 1 { &text[1..] } else { digits };
    let sign = &text[..text.len() - digits.len()];
    Ok(Value::from(format!("{sign}{zeros}{digits}")))
}

/// How many characters `text` lacks to be `width` long, paid for.
fn missing(state: &State, text: &str, width: usize) -> Result<usize, Error> {
    state.consume_fuel(width as u64 / BYTES_PER_FUEL)?;
    Ok(width.saturating_sub(text.chars().count()))
}

fn position(state: &State, list: &Value, args: &[Value]) -> Result<Value, Error> {
    let (wanted,): (&Value,) = from_args(args)?;
    for (at, item) in list.try_iter()?.checked().enumerate() {
        state.consume_fuel(1)?;
        if item? == *wanted {
            return Ok(at.into());
        }
    }
    Err(refused("the value is not in the list"))
}

/// Pays for what `str.format` writes, which the engine charges only when it is there. A width such as `{:9999}`
/// could be of any size, so wide ones are refused.
fn pay_for_format(state: &State, format: &str, args: &[Value]) -> Result<(), Error> {
    let mut widths: u64 = 0;
    for field in format.split('{').skip(1) {
        let Some((_, spec)) = field.split('}').next().and_then(|field| field.split_once(':'))
        else {
            continue;
        };
        let numbers = spec.split(|char: char| !char.is_ascii_digit());
        let is_narrow = |number: &str| {
            number.is_empty() || number.parse().is_ok_and(|width: u64| width <= FORMAT_WIDTH_MAX)
        };
        if field.ends_with(':') || !numbers.into_iter().all(is_narrow) {
            return Err(refused(
                "str.format with such a format after a colon is not offered to chat templates",
            ));
        }
        widths += FORMAT_WIDTH_MAX;
    }
    let n_fields = format.matches('{').count() as u64;
    let arg_bytes: usize = args.iter().filter_map(Value::as_str).map(str::len).sum();
    let bytes = n_fields.saturating_mul(arg_bytes as u64).saturating_add(widths);
    state.consume_fuel(bytes / BYTES_PER_FUEL)
}
