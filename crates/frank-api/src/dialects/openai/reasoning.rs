//! Reads whether and how much a model shall think: one switch, one amount and one budget, under every name by which
//! clients send them. Names that disagree are refused.

use frank_chat::Conversation;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};

/// Most variables for the template.
const VARIABLES_MAX: usize = 16;

/// Longest name and longest text of a variable.
const VARIABLE_BYTES_MAX: usize = 1024;

/// What templates have already. A client that could set these would write the prompt.
const TAKEN: [&str; 11] = [
    "messages",
    "tools",
    "documents",
    "bos_token",
    "eos_token",
    "add_generation_prompt",
    "raise_exception",
    "strftime_now",
    "namespace",
    "range",
    "dict",
];

/// What a request says about thinking.
#[derive(Debug, Default)]
pub(in crate::dialects) struct Reasoning {
    switch: Said<bool>,
    effort: Said<String>,
    budget: Said<u64>,
    variables: Map<String, Value>,
}

/// Something that may be said more than once, but not differently.
#[derive(Debug)]
struct Said<T>(Option<(T, String)>);

impl<T> Default for Said<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> Said<T> {
    fn say(&mut self, value: T, path: String) -> Result<(), ApiError> {
        match &self.0 {
            Some((said, other)) if *said != value => Err(contradiction(&path, other)),
            Some(_) => Ok(()),
            None => {
                self.0 = Some((value, path));
                Ok(())
            }
        }
    }
}

fn contradiction(path: &str, other: &str) -> ApiError {
    ApiError::invalid(path, format!("{path} and {other} contradict each other: send one"))
}

/// Reads all that a chat can say about thinking, and sets it in `conversation`. Gives the budget.
pub(in crate::dialects) fn of_chat(
    fields: &mut Fields,
    conversation: &mut Conversation,
) -> Result<Option<u64>, ApiError> {
    let mut reasoning = Reasoning::default();
    reasoning.read_effort(fields, "reasoning_effort")?;
    reasoning.read_switch(fields, "enable_thinking")?;
    for name in ["thinking_budget", "thinking_budget_tokens", "reasoning_budget"] {
        reasoning.read_budget(fields, name)?;
    }
    reasoning.read_reasoning(fields)?;
    reasoning.read_thinking(fields)?;
    reasoning.read_template_variables(fields)?;
    let separate = |value: &Value| value == "auto" || value == "deepseek";
    fields.refuse_unless("reasoning_format", " or send \"auto\" or \"deepseek\"", separate)?;
    fields.refuse_unless("include_reasoning", " or send true", |value| value == true)?;
    reasoning.finish(conversation)
}

/// The amount of thought that a word asks for, in the words of templates; without thinking there is none.
pub(in crate::dialects) fn effort(
    word: &str,
    path: &str,
) -> Result<Option<&'static str>, ApiError> {
    match word {
        "none" => Ok(None),
        "minimal" | "low" => Ok(Some("low")),
        "medium" => Ok(Some("medium")),
        "high" | "xhigh" | "max" => Ok(Some("high")),
        other => {
            let message = format!(
                "{path} must be none, minimal, low, medium, high, xhigh or max, not {other:?}"
            );
            Err(ApiError::invalid(path, message))
        }
    }
}

impl Reasoning {
    /// An amount of thought, `none` included.
    pub(in crate::dialects) fn read_effort(
        &mut self,
        fields: &mut Fields,
        name: &str,
    ) -> Result<(), ApiError> {
        let Some(word) = fields.string(name)? else { return Ok(()) };
        let path = fields.path(name);
        match effort(&word, &path)? {
            None => self.switch.say(false, path),
            Some(effort) => self.effort.say(effort.to_owned(), path),
        }
    }

    fn read_switch(&mut self, fields: &mut Fields, name: &str) -> Result<(), ApiError> {
        let Some(is_on) = fields.bool(name)? else { return Ok(()) };
        self.switch.say(is_on, fields.path(name))
    }

    /// Tokens: -1 is as many as the model likes, 0 turns thinking off.
    fn read_budget(&mut self, fields: &mut Fields, name: &str) -> Result<(), ApiError> {
        let Some(n) = fields.integer(name, -1..=i64::MAX)? else { return Ok(()) };
        let Ok(n) = u64::try_from(n) else { return Ok(()) };
        if n == 0 {
            self.switch.say(false, fields.path(name))?;
        }
        self.budget.say(n, fields.path(name))
    }

    /// The object that OpenRouter began.
    fn read_reasoning(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let Some(object) = fields.take("reasoning") else { return Ok(()) };
        let mut object = Fields::of(object, fields.path("reasoning"))?;
        self.read_effort(&mut object, "effort")?;
        self.read_switch(&mut object, "enabled")?;
        self.read_budget(&mut object, "max_tokens")?;
        object.refuse_unless("exclude", " or send false", |value| value == false)?;
        object.finish()
    }

    /// The object of Anthropic, which several vendors take in chats.
    fn read_thinking(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let path = fields.path("thinking");
        let mut object = match fields.take("thinking") {
            None => return Ok(()),
            Some(Value::Bool(is_on)) => return self.switch.say(is_on, path),
            Some(other) => Fields::of(other, path)?,
        };
        let path = object.path("type");
        match object.required_string("type")?.as_str() {
            "enabled" => self.switch.say(true, path)?,
            "disabled" => self.switch.say(false, path)?,
            "adaptive" | "auto" => {}
            other => {
                let message =
                    format!("{path} must be enabled, disabled or adaptive, not {other:?}");
                return Err(ApiError::invalid(path, message));
            }
        }
        self.read_budget(&mut object, "budget_tokens")?;
        object.finish()
    }

    fn read_template_variables(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let path = fields.path("chat_template_kwargs");
        let object = match fields.take("chat_template_kwargs") {
            None => return Ok(()),
            Some(Value::Object(map)) => map,
            Some(other) => return Err(wrong_type(path, "an object", &other)),
        };
        if object.len() > VARIABLES_MAX {
            let message =
                format!("{path} must hold at most {VARIABLES_MAX} variables, not {}", object.len());
            return Err(ApiError::invalid(path, message));
        }
        for (name, value) in object.into_iter().filter(|(_, value)| !value.is_null()) {
            let path = format!("{path}.{name}");
            self.read_variable(name, value, path)?;
        }
        Ok(())
    }

    fn read_variable(&mut self, name: String, value: Value, path: String) -> Result<(), ApiError> {
        match (name.as_str(), value) {
            ("enable_thinking" | "thinking", Value::Bool(is_on)) => self.switch.say(is_on, path),
            ("enable_thinking" | "thinking", other) => {
                Err(wrong_type(path, "true or false", &other))
            }
            ("reasoning_effort", Value::String(word)) if word == "none" => {
                self.switch.say(false, path)
            }
            // Templates have words of their own.
            ("reasoning_effort", Value::String(word)) if word.len() <= VARIABLE_BYTES_MAX => {
                self.effort.say(word, path)
            }
            ("reasoning_effort", other) => Err(wrong_type(path, "a short string", &other)),
            (_, value) => {
                check_variable(&name, &value, &path)?;
                self.variables.insert(name, value);
                Ok(())
            }
        }
    }

    /// Sets what was read. An amount or a budget asks for thought where nothing says whether.
    pub(in crate::dialects) fn finish(
        self,
        conversation: &mut Conversation,
    ) -> Result<Option<u64>, ApiError> {
        if let (Some((false, switch)), Some((_, effort))) = (&self.switch.0, &self.effort.0) {
            return Err(contradiction(effort, switch));
        }
        let budget = self.budget.0.map(|(n, _)| n);
        let is_amount_given = self.effort.0.is_some() || budget.is_some();
        conversation.thinking =
            self.switch.0.map(|(is_on, _)| is_on).or(is_amount_given.then_some(true));
        conversation.effort = self.effort.0.map(|(word, _)| word);
        conversation.variables = self.variables;
        Ok(budget)
    }
}

fn check_variable(name: &str, value: &Value, path: &str) -> Result<(), ApiError> {
    let mut bytes = name.bytes();
    let starts_right = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    let goes_on_right = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !(starts_right && goes_on_right) || name.len() > VARIABLE_BYTES_MAX {
        let message = format!("{path} is no name of a variable: small letters, digits and _");
        return Err(ApiError::invalid(path, message));
    }
    if TAKEN.contains(&name) {
        let message = format!("{path} cannot be set: every template has a value of this name");
        return Err(ApiError::invalid(path, message).with_code("unsupported_parameter"));
    }
    match value {
        Value::String(text) if text.len() > VARIABLE_BYTES_MAX => {
            let message =
                format!("{path} must have at most {VARIABLE_BYTES_MAX} bytes, not {}", text.len());
            Err(ApiError::invalid(path, message))
        }
        Value::Array(_) | Value::Object(_) => {
            Err(wrong_type(path.to_owned(), "a text, a number or a boolean", value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}
