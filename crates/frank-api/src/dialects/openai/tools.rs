//! Reads the tools of a request and whether they are to be called, in the words that OpenAI began.

use frank_chat::Tool;
use serde_json::Value;

use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::request::ToolChoice;

/// Most tools of a request.
pub(in crate::dialects) const TOOLS_MAX: usize = 256;

/// Longest name of a tool. OpenAI takes 64 bytes, Anthropic twice as many.
pub(in crate::dialects) const NAME_BYTES_MAX: usize = 128;

/// Most kinds of skipped tools that a warning lists.
const KINDS_MAX: usize = 8;

/// Most characters of a kind that a warning quotes.
const KIND_CHARS_MAX: usize = 40;

/// What a request says about tools.
#[derive(Debug)]
pub(in crate::dialects) struct ToolUse {
    /// Those that may be called.
    pub(in crate::dialects) tools: Vec<Tool>,
    /// Whether they are called.
    pub(in crate::dialects) choice: ToolChoice,
    /// Whether one answer may call several.
    pub(in crate::dialects) parallel: bool,
    /// What was left out, in sentences.
    pub(in crate::dialects) warnings: Vec<String>,
}

/// Reads `tools`, `tool_choice` and `parallel_tool_calls` of a chat.
pub(in crate::dialects) fn of_chat(fields: &mut Fields) -> Result<ToolUse, ApiError> {
    let (mut tools, skipped) = tools(fields)?;
    let choice = choice(fields, &mut tools)?;
    let parallel = fields.bool("parallel_tool_calls")?.unwrap_or(true);
    Ok(ToolUse { tools, choice, parallel, warnings: skipped.warning().into_iter().collect() })
}

fn tools(fields: &mut Fields) -> Result<(Vec<Tool>, Skipped), ApiError> {
    let (mut tools, mut skipped) = (Vec::new(), Skipped::default());
    for (item, path) in items(fields, "tools")? {
        let mut item = Fields::of(item, path)?;
        let function = item.take("function");
        let kind = item.string("type")?;
        // A tool without a type is a function where it holds one.
        let is_function = kind.as_deref().map_or(function.is_some(), |kind| kind == "function");
        let (true, Some(function)) = (is_function, function) else {
            skipped.add(kind.as_deref().unwrap_or_default());
            continue;
        };
        let function = Fields::of(function, item.path("function"))?;
        ignore_cache_marks(&mut item);
        item.finish()?;
        add(read_function(function)?, &mut tools, &mut skipped)?;
    }
    Ok((tools, skipped))
}

/// The items of a list of tools, each with its path.
pub(in crate::dialects) fn items(
    fields: &mut Fields,
    name: &str,
) -> Result<Vec<(Value, String)>, ApiError> {
    let path = fields.path(name);
    let items = match fields.take(name) {
        None => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong_type(path, "a list", &other)),
    };
    if items.len() > TOOLS_MAX {
        let message = format!("{path} must hold at most {TOOLS_MAX} tools, not {}", items.len());
        return Err(ApiError::invalid(path, message));
    }
    let numbered = items.into_iter().enumerate();
    Ok(numbered.map(|(i, item)| (item, format!("{path}[{i}]"))).collect())
}

/// Where a vendor's cache should end a prefix.
fn ignore_cache_marks(fields: &mut Fields) {
    fields.ignore(&["cache_control"]);
}

/// Reads `name`, `description`, `parameters` and `strict`, of which `fields` has no other beside. Without a name there
/// is no tool. The path of the name comes along.
pub(in crate::dialects) fn read_function(
    mut fields: Fields,
) -> Result<Option<(Tool, String)>, ApiError> {
    let path = fields.path("name");
    let name = fields.string("name")?.filter(|name| !name.is_empty());
    let description = fields.string("description")?;
    let parameters = fields.take("parameters");
    if let Some(other) = parameters.as_ref().filter(|schema| !schema.is_object()) {
        return Err(wrong_type(fields.path("parameters"), "a JSON schema", other));
    }
    let strict = fields.bool("strict")?.unwrap_or(false);
    ignore_cache_marks(&mut fields);
    fields.finish()?;
    let Some(name) = name else { return Ok(None) };
    check_name(&name, &path)?;
    Ok(Some((Tool { name, description, parameters, strict }, path)))
}

/// Adds what [`read_function`] gave.
pub(in crate::dialects) fn add(
    read: Option<(Tool, String)>,
    tools: &mut Vec<Tool>,
    skipped: &mut Skipped,
) -> Result<(), ApiError> {
    let Some((tool, path)) = read else {
        skipped.nameless = true;
        return Ok(());
    };
    if tools.iter().any(|other| other.name == tool.name) {
        let message = format!("{path}: a tool before it is called {:?} too", tool.name);
        return Err(ApiError::invalid(path, message));
    }
    tools.push(tool);
    Ok(())
}

/// Checks the name of a tool, which models write and grammars spell.
pub(in crate::dialects) fn check_name(name: &str, path: &str) -> Result<(), ApiError> {
    let is_right = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_right) {
        return Ok(());
    }
    let message = format!(
        "{path} must have 1 to {NAME_BYTES_MAX} letters, digits and _ . : / - (ASCII), not {name:?}"
    );
    Err(ApiError::invalid(path, message))
}

/// Tools that were left out, because the model cannot call them.
#[derive(Debug, Default)]
pub(in crate::dialects) struct Skipped {
    kinds: Vec<String>,
    nameless: bool,
}

impl Skipped {
    /// A tool of another type.
    pub(in crate::dialects) fn add(&mut self, kind: &str) {
        let quoted: String = kind.chars().take(KIND_CHARS_MAX).collect();
        let quoted = format!("\"{}\"", quoted.escape_default());
        if kind.is_empty() || kind == "function" {
            self.nameless = true;
        } else if self.kinds.len() < KINDS_MAX && !self.kinds.contains(&quoted) {
            self.kinds.push(quoted);
        }
    }

    /// A sentence about all of them, in ASCII.
    pub(in crate::dialects) fn warning(&self) -> Option<String> {
        let mut kinds = self.kinds.clone();
        if self.nameless {
            kinds.push("none or without a name".to_owned());
        }
        (!kinds.is_empty()).then(|| {
            format!(
                "tools of type {} were left out: only functions can be called",
                kinds.join(", ")
            )
        })
    }
}

/// Reads `tool_choice`. Where it allows only some of the tools, the others are taken from them.
fn choice(fields: &mut Fields, tools: &mut Vec<Tool>) -> Result<ToolChoice, ApiError> {
    let path = fields.path("tool_choice");
    let choice = match fields.take("tool_choice") {
        None => ToolChoice::Auto,
        Some(Value::String(word)) => choice_of_word(&word, &path)?,
        Some(object @ Value::Object(_)) => {
            choice_of_object(Fields::of(object, path.clone())?, tools)?
        }
        Some(other) => return Err(wrong_type(path, "a string or an object", &other)),
    };
    check_choice(&choice, tools, &path)?;
    Ok(choice)
}

/// The choices that are one word.
pub(in crate::dialects) fn choice_of_word(word: &str, path: &str) -> Result<ToolChoice, ApiError> {
    match word {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        other => {
            let message =
                format!("{path} must be auto, none, required or name a tool, not {other:?}");
            Err(ApiError::invalid(path, message))
        }
    }
}

fn choice_of_object(mut fields: Fields, tools: &mut Vec<Tool>) -> Result<ToolChoice, ApiError> {
    let choice = match fields.required_string("type")?.as_str() {
        "function" => ToolChoice::Named(function_name(&mut fields)?),
        "allowed_tools" => {
            let allowed = fields.required("allowed_tools")?;
            let allowed = Fields::of(allowed, fields.path("allowed_tools"))?;
            allow(allowed, function_name, tools)?
        }
        other => {
            let path = fields.path("type");
            let message = format!("{path} must be function or allowed_tools, not {other:?}");
            return Err(ApiError::invalid(path, message).with_code("unsupported_parameter"));
        }
    };
    fields.finish()?;
    Ok(choice)
}

/// The name in `{"function": {"name": …}}`.
fn function_name(fields: &mut Fields) -> Result<String, ApiError> {
    let function = fields.required("function")?;
    let mut function = Fields::of(function, fields.path("function"))?;
    let name = function.required_string("name")?;
    function.finish()?;
    Ok(name)
}

/// Reads `mode` and `tools` of a choice among some of the tools, and takes the others from them. `name_of` reads the name
/// of one of the allowed.
pub(in crate::dialects) fn allow(
    mut fields: Fields,
    name_of: impl Fn(&mut Fields) -> Result<String, ApiError>,
    tools: &mut Vec<Tool>,
) -> Result<ToolChoice, ApiError> {
    let path = fields.path("mode");
    let choice = match fields.required_string("mode")?.as_str() {
        "auto" => ToolChoice::Auto,
        "required" => ToolChoice::Required,
        other => {
            let message = format!("{path} must be auto or required, not {other:?}");
            return Err(ApiError::invalid(path, message));
        }
    };
    let list = fields.path("tools");
    let mut names = Vec::new();
    for (item, path) in items(&mut fields, "tools")? {
        let mut item = Fields::of(item, path.clone())?;
        // The others were left out with a warning already.
        if item.required_string("type")? == "function" {
            let name = name_of(&mut item)?;
            check_is_there(&name, tools, &path)?;
            names.push(name);
        }
    }
    fields.finish()?;
    if names.is_empty() {
        return Err(ApiError::invalid(&list, format!("{list} must hold at least one function")));
    }
    tools.retain(|tool| names.contains(&tool.name));
    Ok(choice)
}

/// Refuses a choice that no answer can keep.
pub(in crate::dialects) fn check_choice(
    choice: &ToolChoice,
    tools: &[Tool],
    path: &str,
) -> Result<(), ApiError> {
    match choice {
        ToolChoice::Auto | ToolChoice::None => Ok(()),
        ToolChoice::Required if tools.is_empty() => {
            let message = format!("{path} requires a call, but tools holds no function");
            Err(ApiError::invalid(path, message))
        }
        ToolChoice::Required => Ok(()),
        ToolChoice::Named(name) => check_is_there(name, tools, path),
    }
}

fn check_is_there(name: &str, tools: &[Tool], path: &str) -> Result<(), ApiError> {
    if tools.iter().any(|tool| tool.name == name) {
        return Ok(());
    }
    Err(ApiError::invalid(path, format!("{path} names {name:?}, which is none of the tools")))
}
