//! Tells a call part by part, as the grammar of a format reads it.

use std::sync::Arc;

use serde_json::Value;

use super::add_part;
use crate::conversation::Tool;
use crate::output::OutputPart;
use crate::schema::Kinds;

/// Tells calls.
pub(crate) struct CallWriter {
    tools: Arc<[Tool]>,
    /// What was told and not taken yet.
    pub(crate) parts: Vec<OutputPart>,
    open: Option<OpenCall>,
    /// A name that was read before the call's id.
    pub(crate) name: Option<String>,
    /// Whether calls are items of a list.
    pub(crate) is_list: bool,
}

/// A call that has begun.
struct OpenCall {
    tool: Option<usize>,
    has_arguments: bool,
    key: String,
}

impl CallWriter {
    pub(crate) fn new(tools: Arc<[Tool]>) -> Self {
        Self { tools, parts: Vec::new(), open: None, name: None, is_list: false }
    }

    /// Whether a call has begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether there is a tool of this name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    pub(crate) fn start(&mut self, id: Option<String>, name: String) {
        let tool = self.tools.iter().position(|tool| tool.name == name);
        self.open = Some(OpenCall { tool, has_arguments: false, key: String::new() });
        self.parts.push(OutputPart::CallStart { id, name });
    }

    /// The id of the call that began last, where it is written after its arguments.
    pub(super) fn set_id(&mut self, given: String) {
        let starts = self.parts.iter_mut().rev().find_map(|part| match part {
            OutputPart::CallStart { id, .. } => Some(id),
            _ => None,
        });
        if let Some(id) = starts {
            *id = Some(given);
        }
    }

    /// More of the arguments as JSON.
    pub(super) fn add(&mut self, json: &str) {
        if let Some(open) = &mut self.open
            && !json.is_empty()
        {
            open.has_arguments = true;
            add_part(&mut self.parts, OutputPart::CallArguments(json.to_owned()));
        }
    }

    /// Begins an argument of this name; its value follows.
    pub(crate) fn key(&mut self, key: &str) {
        let has_arguments = self.open.as_ref().is_some_and(|open| open.has_arguments);
        let before = if has_arguments { ", " } else { "{" };
        self.add(&format!("{before}{}: ", Value::from(key)));
        if let Some(open) = &mut self.open {
            key.clone_into(&mut open.key);
        }
    }

    /// What the value of the last key may be.
    pub(super) fn kinds(&self) -> Kinds {
        let open = self.open.as_ref();
        let tool = open.and_then(|open| self.tools.get(open.tool?));
        let parameters = tool.and_then(|tool| tool.parameters.as_ref());
        match (open, parameters) {
            (Some(open), Some(schema)) => Kinds::of_property(schema, &open.key),
            _ => Kinds::ANY,
        }
    }

    /// Ends a call whose arguments were written key by key.
    pub(crate) fn end_keyed(&mut self) {
        let has_arguments = self.open.as_ref().is_some_and(|open| open.has_arguments);
        self.add(if has_arguments { "}" } else { "{}" });
        self.end();
    }

    pub(crate) fn end(&mut self) {
        if self.open.take().is_some() {
            self.parts.push(OutputPart::CallEnd);
        }
    }
}
