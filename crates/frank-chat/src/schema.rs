//! What a JSON schema says of a value's type. Never validates.

use serde_json::Value;

/// How deep unions and references are followed.
const DEPTH_MAX: usize = 8;

/// Types that a value may have, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    const NUMBER: Self = Self(4);
    pub(crate) const STRING: Self = Self(8);
    const ARRAY: Self = Self(16);
    const OBJECT: Self = Self(32);
    const NONE: Self = Self(0);
    pub(crate) const ANY: Self = Self(63);

    /// What the property `key` of an object may be.
    pub(crate) fn of_property(schema: &Value, key: &str) -> Self {
        match property(schema, key) {
            Some(property) => Self::of(property, schema, 0),
            None => Self::ANY,
        }
    }

    /// What `schema` allows; its references are to parts of `root`.
    pub(crate) fn of(schema: &Value, root: &Value, depth: usize) -> Self {
        if depth > DEPTH_MAX {
            return Self::ANY;
        }
        if let Some(target) = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
            return root
                .pointer(target)
                .map_or(Self::ANY, |target| Self::of(target, root, depth + 1));
        }
        if let Some(value) = schema.get("const") {
            return Self::of_value(value);
        }
        let union = |items: &Vec<Value>, of: &dyn Fn(&Value) -> Self| {
            items.iter().fold(Self::NONE, |all, item| Self(all.0 | of(item).0))
        };
        if let Some(values) = schema["enum"].as_array() {
            return union(values, &Self::of_value);
        }
        match &schema["type"] {
            Value::String(name) => return Self::named(name),
            Value::Array(names) => {
                return union(names, &|name| Self::named(name.as_str().unwrap_or_default()));
            }
            _ => {}
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            if let Some(items) = schema[key].as_array() {
                return union(items, &|item| Self::of(item, root, depth + 1));
            }
        }
        Self::ANY
    }

    fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" | "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::ANY,
        }
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// Whether a value can only be a string.
    pub(crate) fn is_string(self) -> bool {
        self == Self::STRING
    }

    pub(crate) fn allows(self, value: &Value) -> bool {
        self.0 & Self::of_value(value).0 != 0
    }

    /// The JSON of a value that was written without quotes around strings.
    pub(crate) fn json_of(self, text: &str) -> String {
        let trimmed = text.trim();
        let may_be_string = self.0 & Self::STRING.0 != 0;
        if let Ok(value) = serde_json::from_str::<Value>(trimmed)
            && (self.allows(&value) || !may_be_string)
        {
            return trimmed.to_owned();
        }
        let word = match trimmed {
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "None" => Value::Null,
            _ => return Value::from(text).to_string(),
        };
        if may_be_string { Value::from(text).to_string() } else { word.to_string() }
    }
}

/// The schema of a property: its own, or the one of all further properties.
fn property<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let own = schema.get("properties").and_then(|properties| properties.get(key));
    own.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: &Value, text: &str, expected: &str) {
        assert_eq!(Kinds::of(schema, schema, 0).json_of(text), expected, "{schema} {text}");
    }

    #[test]
    fn a_bare_value_becomes_what_its_schema_allows() {
        check(&json!({"type": "integer"}), " 12\n", "12");
        check(&json!({"type": "integer"}), "a dozen", "\"a dozen\"");
        check(&json!({"type": ["string", "null"]}), "12", "\"12\"");
        check(&json!({"type": ["string", "null"]}), "null", "null");
        check(&json!({"type": "boolean"}), "True", "true");
        check(&json!({"type": "array"}), "[1,  2]", "[1,  2]");
        check(&json!({"type": "object"}), "[1]", "[1]");
        check(&json!({"enum": ["1", "2"]}), "1", "\"1\"");
        check(&json!({"enum": ["1", 1]}), "1", "1");
        check(&json!({"anyOf": [{"type": "string"}, {"type": "boolean"}]}), "7", "\"7\"");
        check(&json!({"anyOf": [{"type": "string"}, {"type": "boolean"}]}), "true", "true");
        check(&json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}), "7", "\"7\"");
        check(&json!({"$ref": "#"}), "7", "7");
        check(&json!({}), "7", "7");
        check(&json!({}), "seven", "\"seven\"");
    }
}
