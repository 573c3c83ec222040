//! What a template may call: Jinja as `transformers` sets it up, without what cannot be bounded.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat;

use super::error::Raised;
use super::json::to_json;

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
        // A width in the text would be allocated before it is charged.
        return Err(Error::new(
            ErrorKind::UnknownMethod,
            "str.format is not offered to chat templates",
        ));
    }
    for container in std::iter::once(value).chain(args) {
        if matches!(container.kind(), ValueKind::Seq | ValueKind::Iterable) {
            state.consume_fuel(container.len().unwrap_or(0) as u64)?;
        }
    }
    pycompat::unknown_method_callback(state, value, method, args)
}
