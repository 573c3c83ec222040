//! The tools that a request offers, some of them in namespaces. Those that only a vendor's machines run are left out.

use frank_chat::Tool;
use serde_json::{Map, Value, json};

use crate::dialects::openai::tools::{self, NAME_BYTES_MAX, Skipped, TOOLS_MAX};
use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::request::ToolChoice;

/// What separates a namespace from a name in the name that the model reads and writes.
const SEPARATOR: &str = "__";

/// Fields of a function that say who may call it and when it is read. Here it is the model, and always.
const UNUSED: &[&str] = &["output_schema", "defer_loading", "allowed_callers"];

/// The tools that the model may call.
#[derive(Debug, Default)]
pub(super) struct OfferedTools {
    pub(super) list: Vec<Tool>,
    /// For the name of each tool out of a namespace what the client calls it.
    pub(super) namespaced: Map<String, Value>,
    pub(super) skipped: Skipped,
}

/// The name by which the model knows a tool of a namespace: one `__` between the two, and no further `_` beside it.
pub(super) fn joined(namespace: Option<&str>, name: &str) -> String {
    match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => {
            let (namespace, name) = (namespace.trim_end_matches('_'), name.trim_start_matches('_'));
            format!("{namespace}{SEPARATOR}{name}")
        }
        None => name.to_owned(),
    }
}

impl OfferedTools {
    /// Reads `tools`.
    pub(super) fn read(fields: &mut Fields) -> Result<Self, ApiError> {
        let mut offered = Self::default();
        for (item, path) in tools::items(fields, "tools")? {
            offered.add(Fields::of(item, path)?)?;
        }
        Ok(offered)
    }

    /// Adds a tool or a namespace of them. One that is there already, word by word, changes nothing.
    pub(super) fn add(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        match fields.string("type")?.as_deref() {
            Some("function") => self.add_function(fields, None),
            Some("namespace") => self.add_namespace(fields),
            other => {
                self.skipped.add(other.unwrap_or_default());
                Ok(())
            }
        }
    }

    fn add_namespace(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let namespace = fields.required_string("name")?;
        fields.string("description")?;
        for (item, path) in tools::items(&mut fields, "tools")? {
            let mut item = Fields::of(item, path)?;
            match item.string("type")?.as_deref() {
                Some("function") => self.add_function(item, Some(&namespace))?,
                other => self.skipped.add(other.unwrap_or_default()),
            }
        }
        fields.finish()
    }

    fn add_function(
        &mut self,
        mut fields: Fields,
        namespace: Option<&str>,
    ) -> Result<(), ApiError> {
        fields.ignore(UNUSED);
        let Some((tool, path)) = tools::read_function(fields)? else {
            self.skipped.add("");
            return Ok(());
        };
        let names = match namespace {
            Some(namespace) => json!({"name": tool.name, "namespace": namespace}),
            None => Value::Null,
        };
        let tool = Tool { name: joined(namespace, &tool.name), ..tool };
        tools::check_name(&tool.name, &path)?;
        if let Some(other) = self.list.iter().find(|other| other.name == tool.name) {
            let is_same = *other == tool && self.names(&tool.name) == names;
            return if is_same { Ok(()) } else { Err(taken(&tool.name, &path)) };
        }
        if self.list.len() >= TOOLS_MAX {
            let message = format!("{path}: there must be at most {TOOLS_MAX} tools");
            return Err(ApiError::invalid(path, message));
        }
        if namespace.is_some() {
            self.namespaced.insert(tool.name.clone(), names);
        }
        self.list.push(tool);
        Ok(())
    }

    fn names(&self, name: &str) -> Value {
        self.namespaced.get(name).cloned().unwrap_or_default()
    }

    /// Reads `tool_choice`. Where it allows only some of the tools, the others are taken away.
    pub(super) fn choice(&mut self, fields: &mut Fields) -> Result<ToolChoice, ApiError> {
        let path = fields.path("tool_choice");
        let choice = match fields.take("tool_choice") {
            None => ToolChoice::Auto,
            Some(Value::String(word)) => tools::choice_of_word(&word, &path)?,
            Some(object @ Value::Object(_)) => {
                self.choice_of_object(Fields::of(object, path.clone())?)?
            }
            Some(other) => return Err(wrong_type(path, "a string or an object", &other)),
        };
        tools::check_choice(&choice, &self.list, &path)?;
        Ok(choice)
    }

    fn choice_of_object(&mut self, mut fields: Fields) -> Result<ToolChoice, ApiError> {
        let kind = fields.required_string("type")?;
        match kind.as_str() {
            "function" => {
                let name = function_name(&mut fields)?;
                fields.finish()?;
                Ok(ToolChoice::Named(name))
            }
            "allowed_tools" => tools::allow(fields, allowed_name, &mut self.list),
            other => {
                let path = fields.path("type");
                let message = format!(
                    "{path} must be function or allowed_tools, not {other:?}: only functions can be called"
                );
                Err(ApiError::invalid(path, message).with_code("unsupported_parameter"))
            }
        }
    }
}

fn taken(name: &str, path: &str) -> ApiError {
    let message = format!("{path}: a tool before it has the name {name:?} for the model too");
    ApiError::invalid(path, message)
}

fn allowed_name(fields: &mut Fields) -> Result<String, ApiError> {
    let name = function_name(fields)?;
    fields.ignore(&["description", "parameters", "strict"]);
    Ok(name)
}

fn function_name(fields: &mut Fields) -> Result<String, ApiError> {
    let name = fields.required_string("name")?;
    let namespace = fields.string("namespace")?;
    Ok(joined(namespace.as_deref(), &name).chars().take(2 * NAME_BYTES_MAX).collect())
}
