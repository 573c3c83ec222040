//! Reads the fields of a JSON object one by one, so that each mistake is named and nothing is dropped in silence.
//! `null` is absent everywhere.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::{ApiError, ErrorKind};

/// The fields of an object that were not read yet.
pub(crate) struct Fields {
    /// Where the object stands in the body; empty for the body itself.
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The fields of the body.
    pub(crate) fn of_body(body: Value) -> Result<Self, ApiError> {
        match body {
            Value::Object(map) => Ok(Self { path: String::new(), map }),
            other => {
                let message = format!("the body must be an object, not {}", kind_of(&other));
                Err(ApiError::new(ErrorKind::InvalidRequest, message))
            }
        }
    }

    /// The fields of the object at `path`.
    pub(crate) fn of(value: Value, path: String) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => Ok(Self { path, map }),
            other => Err(wrong_type(path, "an object", &other)),
        }
    }

    /// Where field `name` stands in the body.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Takes a field out.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// Takes out a field that has to be there.
    pub(crate) fn required(&mut self, name: &str) -> Result<Value, ApiError> {
        self.take(name).ok_or_else(|| {
            let path = self.path(name);
            ApiError::invalid(&path, format!("{path} is required"))
                .with_code("missing_required_parameter")
        })
    }

    /// Takes out a text that has to be there.
    pub(crate) fn required_string(&mut self, name: &str) -> Result<String, ApiError> {
        match self.required(name)? {
            Value::String(text) => Ok(text),
            other => Err(wrong_type(self.path(name), "a string", &other)),
        }
    }

    /// Takes out a list that has to be there.
    pub(crate) fn required_list(&mut self, name: &str) -> Result<Vec<Value>, ApiError> {
        match self.required(name)? {
            Value::Array(items) => Ok(items),
            other => Err(wrong_type(self.path(name), "a list", &other)),
        }
    }

    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(self.path(name), "a string", &other)),
        }
    }

    pub(crate) fn bool(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_type(self.path(name), "true or false", &other)),
        }
    }

    pub(crate) fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f32>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number =
            value.as_f64().ok_or_else(|| wrong_type(self.path(name), "a number", &value))?;
        if !range.contains(&number) {
            return Err(self.out_of_range(name, range.start(), range.end(), &value));
        }
        #[expect(clippy::cast_possible_truncation, reason = "sampling works in f32")]
        Ok(Some(number as f32))
    }

    pub(crate) fn integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take(name).map(whole) else { return Ok(None) };
        if !(value.is_i64() || value.is_u64()) {
            return Err(wrong_type(self.path(name), "an integer", &value));
        }
        match value.as_i64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.out_of_range(name, range.start(), range.end(), &value)),
        }
    }

    /// An amount that is clamped later: any integer from 1.
    pub(crate) fn amount(&mut self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.take(name).map(whole) else { return Ok(None) };
        match (value.as_u64(), value.is_i64()) {
            (Some(amount @ 1..), _) => Ok(Some(amount)),
            (Some(0), _) | (None, true) => {
                let path = self.path(name);
                Err(ApiError::invalid(&path, format!("{path} must be at least 1, not {value}")))
            }
            (None, false) => Err(wrong_type(self.path(name), "an integer", &value)),
        }
    }

    /// Takes out fields that change nothing about the answer.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.map.remove(*name);
        }
    }

    /// Takes out a field that only has an effect beyond `harmless`, which is what `allowed` says.
    pub(crate) fn refuse_unless(
        &mut self,
        name: &str,
        allowed: &str,
        harmless: impl FnOnce(&Value) -> bool,
    ) -> Result<(), ApiError> {
        match self.take(name) {
            Some(value) if !harmless(&value) => {
                let path = self.path(name);
                let message = format!("{path} is not supported: leave it out{allowed}");
                Err(ApiError::invalid(path, message).with_code("unsupported_parameter"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what was not read, by name.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.map.iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => {
                let path = self.path(name);
                let message = format!("unknown parameter: {path}");
                Err(ApiError::invalid(path, message).with_code("unknown_parameter"))
            }
            None => Ok(()),
        }
    }

    fn out_of_range(
        &self,
        name: &str,
        low: impl std::fmt::Display,
        high: impl std::fmt::Display,
        value: &Value,
    ) -> ApiError {
        let path = self.path(name);
        ApiError::invalid(&path, format!("{path} must be from {low} to {high}, not {value}"))
    }
}

/// A 400 that says what was expected at `path` and what stood there.
pub(crate) fn wrong_type(path: String, expected: &str, found: &Value) -> ApiError {
    let message = format!("{path} must be {expected}, not {}", kind_of(found));
    ApiError::invalid(path, message).with_code("invalid_type")
}

/// A number that is an integer for JSON Schema, and for clients whose language has one kind of number, as one: `5.0` is 5.
/// One that is too large stays so.
fn whole(value: Value) -> Value {
    match value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturating is meant"
        )]
        Some(number @ 0.0..) => Value::from(number as u64),
        #[expect(clippy::cast_possible_truncation, reason = "it is within the range")]
        Some(number @ -9_223_372_036_854_775_808.0..) => Value::from(number as i64),
        _ => value,
    }
}

/// The token ids of a list at `path`.
pub(crate) fn token_ids(items: &[Value], path: &str) -> Result<Vec<u32>, ApiError> {
    let id = |(i, item): (usize, &Value)| {
        whole(item.clone()).as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| {
            let path = format!("{path}[{i}]");
            ApiError::invalid(&path, format!("{path} must be a token id, not {item}"))
        })
    };
    items.iter().enumerate().map(id).collect()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
