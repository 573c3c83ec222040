//! What a template may call: Jinja as `transformers` sets it up, without what cannot be bounded.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, Output, State, escape_formatter};

use super::clock::UtcTime;
use super::error::Raised;
use super::json::python_float;
use super::{filters, methods};

/// An environment without templates.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_debug(false);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    environment.set_syntax(syntax.build().expect("the delimiters are Jinja's own"));
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(print_value);
    environment.add_function("raise_exception", raise_exception);
    filters::add(&mut environment);
    // These print without an end to their output, and no chat template needs them.
    environment.remove_filter("pprint");
    environment.remove_global("debug");
    environment
}

/// What `{{ value }}` writes: the engine's own form, which is Python's for all but very large and small floats.
fn print_value(output: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if value.is_number()
        && !value.is_integer()
        && let Ok(float) = f64::try_from(value.clone())
    {
        return Ok(output.write_str(&python_float(float))?);
    }
    escape_formatter(output, state, value)
}

fn raise_exception(message: &str) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "the template refuses")
        .with_source(Raised(message.to_owned())))
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
