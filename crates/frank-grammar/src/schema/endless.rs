//! Schemas of which every value would have to hold another value of the same: no answer of finite length is one.

use serde_json::{Map, Value};

/// Schemas that are looked at. A document that needs more is left to the compiler.
const VISITS_MAX: usize = 20_000;

/// Whether no value satisfies the document `root`, because each would have to hold another one.
pub(super) fn is_endless(root: &Value) -> bool {
    Search { root, open: Vec::new(), n_visits: 0 }.is_endless(root)
}

struct Search<'a> {
    root: &'a Value,
    /// Targets of the references that led here.
    open: Vec<String>,
    n_visits: usize,
}

impl Search<'_> {
    fn is_endless(&mut self, schema: &Value) -> bool {
        self.n_visits += 1;
        let Value::Object(keywords) = schema else { return false };
        if self.n_visits > VISITS_MAX {
            return false;
        }
        self.refers_to_itself(keywords)
            || self.all_of(keywords)
            || self.each_of(keywords)
            || self.requires_itself(keywords)
    }

    fn refers_to_itself(&mut self, keywords: &Map<String, Value>) -> bool {
        let Some(target) = keywords.get("$ref").and_then(Value::as_str) else { return false };
        if self.open.iter().any(|open| open == target) {
            return true;
        }
        let Some(schema) = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
        else {
            return false;
        };
        self.open.push(target.to_owned());
        let is_endless = self.is_endless(schema);
        self.open.pop();
        is_endless
    }

    fn all_of(&mut self, keywords: &Map<String, Value>) -> bool {
        list(keywords, "allOf").iter().any(|one| self.is_endless(one))
    }

    fn each_of(&mut self, keywords: &Map<String, Value>) -> bool {
        ["anyOf", "oneOf"].into_iter().any(|name| {
            let options = list(keywords, name);
            !options.is_empty() && options.iter().all(|one| self.is_endless(one))
        })
    }

    /// A value of another type than these has no parts.
    fn requires_itself(&mut self, keywords: &Map<String, Value>) -> bool {
        match keywords.get("type").and_then(Value::as_str) {
            Some("object") => list(keywords, "required").iter().any(|name| {
                let property = name.as_str().and_then(|name| keywords.get("properties")?.get(name));
                property.is_some_and(|property| self.is_endless(property))
            }),
            Some("array") => {
                let min = keywords.get("minItems").and_then(Value::as_u64).unwrap_or(0);
                min > 0 && keywords.get("items").is_some_and(|items| self.is_endless(items))
            }
            _ => false,
        }
    }
}

fn list<'a>(keywords: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    keywords.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_must_hold_itself_is_found_and_one_that_may_is_not() {
        for endless in [
            json!({"$ref": "#"}),
            json!({"anyOf": [{"$ref": "#"}]}),
            json!({"allOf": [{"$ref": "#"}, {"type": "string"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
            json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1}),
        ] {
            assert!(is_endless(&endless), "{endless}");
        }
        for finite in [
            json!(true),
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
            json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
            json!({"type": "array", "items": {"$ref": "#"}}),
            json!({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
        ] {
            assert!(!is_endless(&finite), "{finite}");
        }
    }
}
