//! Reads which tools there are and whether they shall be called.

use frank_chat::Tool;
use serde_json::Value;

use crate::dialects::openai::tools::{TOOLS_MAX, check_name};
use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::request::ToolChoice;

/// The tools of a request.
pub(super) struct Offered {
    /// Those that the client runs.
    pub(super) tools: Vec<Tool>,
    /// A sentence about those that were left out.
    pub(super) warning: Option<String>,
}

/// Most tools that the warning names; it goes into a header.
const NAMED_MAX: usize = 8;

/// Longest name of one of them in the warning.
const NAME_CHARS_MAX: usize = 48;

/// Reads `tools`. Those that a vendor defined are left out: this endpoint runs none, and the model was not taught them.
pub(super) fn offered(fields: &mut Fields) -> Result<Offered, ApiError> {
    let items = match fields.take("tools") {
        None => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong_type("tools".to_owned(), "a list", &other)),
    };
    let mut tools: Vec<Tool> = Vec::new();
    let mut left_out = Vec::new();
    for (i, item) in items.into_iter().enumerate() {
        let path = format!("tools[{i}]");
        match read(item, path.clone())? {
            Read::Tool(tool) if tools.iter().any(|other| other.name == tool.name) => {
                let path = format!("{path}.name");
                let message = format!("{path} {:?} is the name of another tool too", tool.name);
                return Err(ApiError::invalid(path, message));
            }
            Read::Tool(_) if tools.len() == TOOLS_MAX => {
                let message = format!("tools must hold at most {TOOLS_MAX} tools");
                return Err(ApiError::invalid("tools", message));
            }
            Read::Tool(tool) => tools.push(tool),
            Read::Unknown(kind) => left_out.push(format!("{path} ({})", printable(&kind))),
            Read::Nameless => left_out.push(format!("{path} (without a name)")),
        }
    }
    Ok(Offered { tools, warning: warning(&left_out) })
}

enum Read {
    Tool(Tool),
    Unknown(String),
    Nameless,
}

fn read(item: Value, path: String) -> Result<Read, ApiError> {
    let mut fields = Fields::of(item, path)?;
    if let Some(kind) = fields.string("type")?.filter(|kind| kind != "custom") {
        return Ok(Read::Unknown(kind));
    }
    let Some(name) = fields.string("name")?.filter(|name| !name.is_empty()) else {
        return Ok(Read::Nameless);
    };
    check_name(&name, &fields.path("name"))?;
    // Caching and delivery on the vendor's side, and ways of calling that need its servers.
    fields.ignore(&["cache_control", "eager_input_streaming", "allowed_callers", "defer_loading"]);
    // The schema says what the examples show.
    fields.ignore(&["input_examples"]);
    let description = fields.string("description")?;
    let parameters = match fields.required("input_schema")? {
        schema @ Value::Object(_) => Some(schema),
        other => return Err(wrong_type(fields.path("input_schema"), "a JSON schema", &other)),
    };
    let strict = fields.bool("strict")?.unwrap_or(false);
    fields.finish()?;
    Ok(Read::Tool(Tool { name, description, parameters, strict }))
}

fn warning(left_out: &[String]) -> Option<String> {
    let named = left_out.get(..NAMED_MAX).unwrap_or(left_out);
    let n_more = left_out.len() - named.len();
    let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
    let list = named.join(", ");
    (!named.is_empty()).then(|| {
        format!("left out, for only tools of type custom with a name are known here: {list}{more}")
    })
}

/// What of a client's word a header can hold.
fn printable(word: &str) -> String {
    word.chars().filter(char::is_ascii_graphic).take(NAME_CHARS_MAX).collect()
}

/// Reads `tool_choice`: which calls shall be made, and whether there may be several.
pub(super) fn choice(fields: &mut Fields, tools: &[Tool]) -> Result<(ToolChoice, bool), ApiError> {
    let Some(value) = fields.take("tool_choice") else { return Ok((ToolChoice::Auto, true)) };
    let mut fields = Fields::of(value, "tool_choice".to_owned())?;
    let choice = match fields.required_string("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => any(tools)?,
        "tool" => named(fields.required_string("name")?, tools)?,
        other => {
            let message =
                format!("tool_choice.type must be auto, any, tool or none, not {other:?}");
            return Err(ApiError::invalid("tool_choice.type", message));
        }
    };
    let one_at_most = fields.bool("disable_parallel_tool_use")?.unwrap_or(false);
    fields.finish()?;
    Ok((choice, !one_at_most))
}

fn any(tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    if tools.is_empty() {
        let message = "tool_choice.type cannot be any: tools holds none of type custom";
        return Err(ApiError::invalid("tool_choice.type", message));
    }
    Ok(ToolChoice::Required)
}

fn named(name: String, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    if tools.iter().any(|tool| tool.name == name) {
        return Ok(ToolChoice::Named(name));
    }
    let message = format!("tool_choice.name {name:?} is none of the tools of type custom");
    Err(ApiError::invalid("tool_choice.name", message))
}
