//! Reads what an answer must look like: `response_format`, and llama.cpp's `json_schema` and `grammar`.

use serde_json::Value;

use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::request::{AnswerFormat, FormatRule};

/// Longest grammar.
const GRAMMAR_BYTES_MAX: usize = 64 << 10;

/// Reads the rule, of which there may be one.
pub(super) fn read(fields: &mut Fields) -> Result<Option<FormatRule>, ApiError> {
    let rules = [response_format(fields)?, json_schema(fields)?, grammar(fields)?];
    let mut rules = rules.into_iter().flatten();
    let first = rules.next();
    if let (Some(first), Some(second)) = (&first, rules.next()) {
        let (one, other) = (field_of(first.param), field_of(second.param));
        let message = format!("{other} cannot be kept beside {one}: send one of the two");
        return Err(ApiError::invalid(other, message).with_code("unsupported_parameter"));
    }
    Ok(first)
}

fn field_of(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

fn response_format(fields: &mut Fields) -> Result<Option<FormatRule>, ApiError> {
    let Some(value) = fields.take("response_format") else { return Ok(None) };
    let mut format = Fields::of(value, "response_format".to_owned())?;
    let rule = match format.required_string("type")?.as_str() {
        "text" => None,
        "json_object" => Some(match format.take("schema") {
            None => FormatRule { format: AnswerFormat::JsonObject, param: "response_format" },
            Some(schema) => schema_rule(schema, "response_format.schema")?,
        }),
        "json_schema" => Some(named_schema(&mut format)?),
        other => {
            let path = format.path("type");
            let message = format!("{path} must be text, json_object or json_schema, not {other:?}");
            return Err(ApiError::invalid(path, message).with_code("unsupported_parameter"));
        }
    };
    format.finish()?;
    Ok(rule)
}

/// A schema in OpenAI's wrapping, or without it as llama.cpp takes it too.
fn named_schema(format: &mut Fields) -> Result<FormatRule, ApiError> {
    if let Some(schema) = format.take("schema") {
        return schema_rule(schema, "response_format.schema");
    }
    let wrapped = format.required("json_schema")?;
    let mut wrapped = Fields::of(wrapped, format.path("json_schema"))?;
    let schema = wrapped.required("schema")?;
    // Strict or not, the answer is kept to the schema; name and description are for vendors' models.
    wrapped.bool("strict")?;
    wrapped.string("name")?;
    wrapped.string("description")?;
    wrapped.finish()?;
    schema_rule(schema, "response_format.json_schema.schema")
}

fn json_schema(fields: &mut Fields) -> Result<Option<FormatRule>, ApiError> {
    fields.take("json_schema").map(|schema| schema_rule(schema, "json_schema")).transpose()
}

fn schema_rule(schema: Value, param: &'static str) -> Result<FormatRule, ApiError> {
    if !(schema.is_object() || schema.is_boolean()) {
        return Err(wrong_type(param.to_owned(), "a JSON schema", &schema));
    }
    Ok(FormatRule { format: AnswerFormat::JsonSchema(schema), param })
}

/// An empty grammar is none.
fn grammar(fields: &mut Fields) -> Result<Option<FormatRule>, ApiError> {
    let Some(text) = fields.string("grammar")?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    if text.len() > GRAMMAR_BYTES_MAX {
        let message =
            format!("grammar must have at most {GRAMMAR_BYTES_MAX} bytes, not {}", text.len());
        return Err(ApiError::invalid("grammar", message));
    }
    Ok(Some(FormatRule { format: AnswerFormat::Gbnf(text), param: "grammar" }))
}
