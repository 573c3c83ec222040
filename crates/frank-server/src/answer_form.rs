//! What an answer is kept to: a form that the client wants, the calls of tools that it may make, and the thoughts that
//! may come before either.

use frank_api::{AnswerFormat, ApiError, ChatRequest, FormatRule, ToolChoice};
use frank_chat::{CallRules, CallSyntax, ChatFormat, Pattern, Tool};
use frank_engine::Constraint;
use serde_json::{Map, Value, json};

use crate::prompt::ChatPrompt;
use crate::served::Loaded;

/// Bytes of the schemas of all tools together to whose form calls are kept.
const SCHEMA_BYTES_MAX: usize = 256 << 10;

/// Arguments of a tool to whose form calls are kept.
const ARGUMENTS_MAX: usize = 128;

/// What an answer is kept to, and what it may call.
#[derive(Debug, Default)]
pub(crate) struct AnswerForm {
    /// Follows the answer; each choice needs a clone.
    pub(crate) constraint: Option<Kept>,
    /// The tools that it may call.
    pub(crate) tools: Vec<Tool>,
    /// Whether its calls are kept to the form in which they are read.
    pub(crate) keeps_calls: bool,
    /// Whether it is all text: it is kept to a grammar, in which the model does not think first.
    pub(crate) is_text: bool,
}

/// A constraint that can be had once for each choice.
pub(crate) struct Kept(Box<dyn Fn() -> Box<dyn Constraint> + Send>);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kept")
    }
}

impl Kept {
    /// Clones of `constraint`.
    pub(crate) fn new(constraint: impl Constraint + Clone + 'static) -> Self {
        Self::of(move || Box::new(constraint.clone()))
    }

    /// Whatever `make` makes.
    pub(crate) fn of(make: impl Fn() -> Box<dyn Constraint> + Send + 'static) -> Self {
        Self(Box::new(make))
    }

    /// One for a choice.
    pub(crate) fn constraint(&self) -> Box<dyn Constraint> {
        (self.0)()
    }
}

/// The form of the answer to `chat`.
///
/// # Errors
/// A 400 that names what cannot be kept.
pub(crate) fn answer_form(
    loaded: &Loaded,
    chat: &ChatRequest,
    prompt: &ChatPrompt,
) -> Result<AnswerForm, ApiError> {
    let tools = callable(chat);
    let format = chat.options.format.as_ref();
    if tools.is_empty() {
        let constraint = format.map(|rule| form_alone(loaded, rule, prompt)).transpose()?;
        let is_text = format.is_some_and(|rule| matches!(rule.format, AnswerFormat::Gbnf(_)));
        return Ok(AnswerForm { constraint, is_text, ..AnswerForm::default() });
    }
    let objects = tools.iter().map(with_object_arguments).collect::<Result<Vec<Tool>, _>>();
    let sized = objects.and_then(|objects| check_sizes(&objects).map(|()| objects));
    let objects = match sized {
        Ok(objects) => objects,
        Err(error) => {
            let is_free = chat.tool_choice == ToolChoice::Auto && format.is_none();
            if is_free && !tools.iter().any(|tool| tool.strict) {
                return Ok(AnswerForm { tools, ..AnswerForm::default() });
            }
            return Err(error);
        }
    };
    let rules = CallRules { tools: objects.into(), parallel: chat.parallel_tool_calls };
    let calls = (prompt.voice.format.calls)(&rules);
    if chat.tool_choice == ToolChoice::Auto && format.is_none() {
        return free_to_call(loaded, tools, calls, prompt);
    }
    let body = match format {
        Some(rule) if chat.tool_choice == ToolChoice::Auto => {
            let form = said(prompt.voice.format, form_beside_calls(rule)?);
            Pattern::OneOf(vec![form, calls_alone(calls)])
        }
        _ => calls_alone(calls),
    };
    let pattern = after_thoughts(prompt.voice.format, prompt, body);
    let constraint = loaded.pattern(&pattern).map_err(|error| {
        let param = format.map_or("tools", |rule| rule.param);
        ApiError::invalid(param, format!("{param}: {error}"))
    })?;
    let constraint = Some(Kept::new(constraint));
    Ok(AnswerForm { constraint, tools, keeps_calls: true, is_text: false })
}

/// The tool with a schema that only objects satisfy, for arguments are one.
fn with_object_arguments(tool: &Tool) -> Result<Tool, ApiError> {
    let Some(Value::Object(keywords)) = &tool.parameters else { return Ok(tool.clone()) };
    let is_object = |name: &Value| name == "object";
    let may_be_object = match keywords.get("type") {
        None => true,
        Some(Value::Array(names)) => names.iter().any(is_object),
        Some(name) => is_object(name),
    };
    if !may_be_object {
        let message =
            format!("tools: the parameters of {:?} must be a schema of objects", tool.name);
        return Err(ApiError::invalid("tools", message));
    }
    let mut keywords = keywords.clone();
    // Beside a reference the compiler takes no other keyword.
    if !keywords.contains_key("$ref") {
        keywords.insert("type".to_owned(), "object".into());
    }
    Ok(Tool { parameters: Some(Value::Object(keywords)), ..tool.clone() })
}

/// Refuses tools whose forms would be larger than what they are made of allows: some formats write each argument that
/// may be left out once for each that may come before it.
fn check_sizes(tools: &[Tool]) -> Result<(), ApiError> {
    let schemas = || tools.iter().filter_map(|tool| tool.parameters.as_ref());
    let bytes: usize = schemas().map(|schema| schema.to_string().len()).sum();
    let n_arguments = |schema: &Value| schema["properties"].as_object().map_or(0, Map::len);
    let longest = schemas().map(n_arguments).max().unwrap_or(0);
    if bytes <= SCHEMA_BYTES_MAX && longest <= ARGUMENTS_MAX {
        return Ok(());
    }
    let message = format!(
        "tools: their schemas may have {SCHEMA_BYTES_MAX} bytes together and {ARGUMENTS_MAX} properties each to be kept, \
         not {bytes} and {longest}"
    );
    Err(ApiError::invalid("tools", message))
}

/// The tools that the answer may call.
fn callable(chat: &ChatRequest) -> Vec<Tool> {
    let tools = &chat.conversation.tools;
    match &chat.tool_choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Auto | ToolChoice::Required => tools.clone(),
        ToolChoice::Named(name) => {
            tools.iter().filter(|tool| tool.name == *name).cloned().collect()
        }
    }
}

/// An answer that calls tools or does not. Its calls are kept to their form where that can be had; only tools that are
/// strict insist on it.
fn free_to_call(
    loaded: &Loaded,
    tools: Vec<Tool>,
    calls: CallSyntax,
    prompt: &ChatPrompt,
) -> Result<AnswerForm, ApiError> {
    let is_strict = tools.iter().any(|tool| tool.strict);
    if calls.only_at_start && !is_strict {
        return Ok(AnswerForm { tools, ..AnswerForm::default() });
    }
    let CallSyntax { opening, rest, only_at_start } = calls;
    // Where text has an opening of its own, none stands before a call.
    let called = if only_at_start || !prompt.voice.format.answer_opening.is_empty() {
        Pattern::Sequence(vec![Pattern::Literal(opening.clone()), rest])
    } else {
        Pattern::Sequence(vec![Pattern::TextThrough { end: opening.clone() }, rest])
    };
    let text = said(prompt.voice.format, Pattern::TextWithout { markers: vec![opening] });
    let body = Pattern::OneOf(vec![text, called]);
    match loaded.pattern(&after_thoughts(prompt.voice.format, prompt, body)) {
        Ok(constraint) => {
            let constraint = Some(Kept::new(constraint));
            Ok(AnswerForm { constraint, tools, keeps_calls: true, is_text: false })
        }
        Err(error) if is_strict => Err(ApiError::invalid("tools", format!("tools: {error}"))),
        Err(error) => {
            tracing::debug!(%error, "calls of tools are read and not kept to their form");
            Ok(AnswerForm { tools, ..AnswerForm::default() })
        }
    }
}

/// A form without tools. Thoughts come before it where the model has any.
fn form_alone(loaded: &Loaded, rule: &FormatRule, prompt: &ChatPrompt) -> Result<Kept, ApiError> {
    if !prompt.voice.thinks {
        return loaded.constraint(rule).map(Kept::new);
    }
    match form_beside_calls(rule) {
        Ok(form) => {
            let form = said(prompt.voice.format, form);
            let constraint = loaded.pattern(&after_thoughts(prompt.voice.format, prompt, form));
            let named = |error| ApiError::invalid(rule.param, format!("{}: {error}", rule.param));
            constraint.map(Kept::new).map_err(named)
        }
        // A grammar begins with the answer: the model does not think before it.
        Err(_) => loaded.constraint(rule).map(Kept::new),
    }
}

/// A form as a part of a larger one.
fn form_beside_calls(rule: &FormatRule) -> Result<Pattern, ApiError> {
    match &rule.format {
        AnswerFormat::JsonObject => Ok(Pattern::Json(json!({"type": "object"}))),
        AnswerFormat::JsonSchema(schema) => Ok(Pattern::Json(schema.clone())),
        AnswerFormat::Gbnf(_) => {
            let message =
                format!("{} cannot be kept beside tools: send one of the two", rule.param);
            Err(ApiError::invalid(rule.param, message).with_code("unsupported_parameter"))
        }
    }
}

/// `body` as the text of an answer.
fn said(format: &ChatFormat, body: Pattern) -> Pattern {
    if format.answer_opening.is_empty() {
        return body;
    }
    Pattern::Sequence(vec![Pattern::literal(format.answer_opening), body])
}

fn calls_alone(calls: CallSyntax) -> Pattern {
    Pattern::Sequence(vec![Pattern::Literal(calls.opening), calls.rest])
}

/// `body` after the thoughts that the model has begun or may begin.
fn after_thoughts(format: &ChatFormat, prompt: &ChatPrompt, body: Pattern) -> Pattern {
    let through = || Pattern::TextThrough { end: format.reasoning.closing.to_owned() };
    if prompt.begins_in_reasoning {
        return Pattern::Sequence(vec![through(), Pattern::Space, body]);
    }
    if !prompt.voice.thinks || format.reasoning.opening.is_empty() {
        return body;
    }
    let opening = Pattern::Literal(format.reasoning.opening.to_owned());
    let thoughts = Pattern::Sequence(vec![opening, through(), Pattern::Space]);
    Pattern::Sequence(vec![Pattern::Optional(Box::new(thoughts)), body])
}
