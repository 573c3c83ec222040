//! What a template may call: Jinja as `transformers` sets it up, without what cannot be bounded.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat;

use super::clock::UtcTime;
use super::error::Raised;
use super::json::to_json;

/// Bytes of text that one fuel pays for, in the engine's own terms.
const BYTES_PER_FUEL: u64 = 64;

/// An environment without templates.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_debug(false);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    environment.set_syntax(syntax.build().expect("the delimiters are Jinja's own"));
    environment.set_unknown_method_callback(call_python_method);
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("tojson", to_json);
    // These print without an end to their output, and no chat template needs them.
    environment.remove_filter("pprint");
    environment.remove_global("debug");
    environment
}

fn raise_exception(message: &str) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "the template refuses")
        .with_source(Raised(message.to_owned())))
}

/// Methods of Python's own types. What `pycompat` visits without paying for it is paid for here.
fn call_python_method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if method == "format" {
        pay_for_format(state, value.as_str().unwrap_or_default(), args)?;
    }
    for container in std::iter::once(value).chain(args) {
        if matches!(container.kind(), ValueKind::Seq | ValueKind::Iterable) {
            state.consume_fuel(container.len().unwrap_or(0) as u64)?;
        }
    }
    pycompat::unknown_method_callback(state, value, method, args)
}

/// Pays for what `str.format` writes, which the engine charges only when it is there. A width such as `{:9999}`
/// could be of any size, so there are none.
fn pay_for_format(state: &State, format: &str, args: &[Value]) -> Result<(), Error> {
    let mut fields = format.split('{').skip(1);
    if fields.any(|field| field.split('}').next().is_some_and(|field| field.contains(':'))) {
        let why = "str.format with a format after a colon is not offered to chat templates";
        return Err(Error::new(ErrorKind::UnknownMethod, why));
    }
    let n_fields = format.matches('{').count() as u64;
    let arg_bytes: usize = args.iter().filter_map(Value::as_str).map(str::len).sum();
    state.consume_fuel(n_fields.saturating_mul(arg_bytes as u64) / BYTES_PER_FUEL)
}

/// `strftime_now` of `transformers`, for a time that the caller gave.
pub(super) fn clock_function(unix_seconds: u64) -> Value {
    let time = UtcTime::from_unix(unix_seconds);
    Value::from_function(move |format: &str| {
        time.strftime(format).map_err(|code| {
            Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not know {code}"))
        })
    })
}
