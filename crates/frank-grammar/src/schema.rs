//! Checks a JSON schema before it is compiled: every keyword is one that will be honoured, every reference stays inside.
//!
//! The compiler passes over keywords that it does not know, and says of others only that something is wrong. So each
//! schema is walked first, and handed on without what says nothing about an answer.

mod keywords;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::error::GrammarError;
use crate::limits::Limits;
use keywords::{FORMATS, Keyword};

/// What may stand between two parts of JSON: nothing, a space, or a line break with an indentation. A model that likes
/// spaces cannot go on with them for ever.
const WHITE_SPACE: &str = r" |\r?\n[ \t]{0,64}";
/// Bytes of the pointer to a schema. All of them are kept.
const POINTER_BYTES_MAX: usize = 4096;
/// Whole numbers beyond it are rounded by the compiler.
const INTEGER_MAX: u64 = 1 << 53;

/// The schema as it is compiled.
///
/// # Errors
/// [`GrammarError`] with the JSON pointer of what cannot be honoured.
pub(crate) fn checked(schema: &Value, limits: &Limits) -> Result<Value, GrammarError> {
    let mut walk = Walk {
        root: schema,
        limits,
        n_parts: 0,
        bytes_written_out: 0,
        places: BTreeSet::new(),
        refs: vec![],
    };
    let mut checked = walk.schema(schema, "", 0)?;
    for (pointer, target) in &walk.refs {
        if !walk.places.contains(target) {
            return Err(bad(pointer, format!("#{target} is no schema of this document")));
        }
    }
    if checked == Value::Bool(true) {
        checked = json!({});
    }
    if let Value::Object(keywords) = &mut checked {
        let options = json!({"whitespace_flexible": true, "whitespace_pattern": WHITE_SPACE});
        keywords.insert("x-guidance".to_owned(), options);
    }
    Ok(checked)
}

struct Walk<'a> {
    root: &'a Value,
    limits: &'a Limits,
    n_parts: usize,
    /// Bytes of the schemas that stand for references to them.
    bytes_written_out: usize,
    /// JSON pointers of all schemas.
    places: BTreeSet<String>,
    /// References: where they stand and what they point to.
    refs: Vec<(String, String)>,
}

impl Walk<'_> {
    /// The schema at `pointer` without annotations.
    fn schema(
        &mut self,
        schema: &Value,
        pointer: &str,
        depth: usize,
    ) -> Result<Value, GrammarError> {
        self.n_parts += 1;
        let (got, max) = (self.n_parts, self.limits.parts);
        if got > max {
            return Err(GrammarError::TooLarge { what: "schemas", got, max });
        }
        let (got, max) = (pointer.len(), POINTER_BYTES_MAX);
        if got > max {
            let what = "bytes of names in the path of a schema";
            return Err(GrammarError::TooLarge { what, got, max });
        }
        if depth > self.limits.depth {
            let place = pointer.chars().take(200).collect();
            return Err(GrammarError::TooDeep { place, max: self.limits.depth });
        }
        self.places.insert(pointer.to_owned());
        let keywords = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(keywords) => keywords,
            _ => return Err(bad(pointer, "a schema is an object or a boolean".to_owned())),
        };
        let mut checked = Map::new();
        for (name, value) in keywords {
            let place = child(pointer, name);
            if let Some(value) = self.keyword(name, value, pointer, &place, depth)? {
                checked.insert(name.clone(), value);
            }
        }
        Ok(Value::Object(checked))
    }

    /// The value of a keyword as it is compiled, if it is.
    fn keyword(
        &mut self,
        name: &str,
        value: &Value,
        pointer: &str,
        place: &str,
        depth: usize,
    ) -> Result<Option<Value>, GrammarError> {
        let unsupported = || GrammarError::UnsupportedKeyword {
            keyword: name.to_owned(),
            pointer: shown(pointer).to_owned(),
        };
        let keyword = Keyword::named(name).ok_or_else(unsupported)?;
        if let Some(expected) = keyword.mistake(value) {
            return Err(bad(place, format!("{expected} is expected")));
        }
        match keyword {
            Keyword::Annotation => return Ok(None),
            Keyword::RootAnnotation if depth == 0 => return Ok(None),
            Keyword::RootAnnotation => return Err(unsupported()),
            Keyword::Schema => return self.schema(value, place, depth + 1).map(Some),
            Keyword::SchemaOrList | Keyword::List | Keyword::Map => {
                return self.schemas(name, value, place, depth).map(Some);
            }
            Keyword::Ref => self.note_reference(value, place)?,
            Keyword::Format => {
                let format = value.as_str().unwrap_or_default();
                if !FORMATS.contains(&format) {
                    let known = FORMATS.join(", ");
                    return Err(bad(place, format!("the format {format} is none of {known}")));
                }
            }
            Keyword::Number | Keyword::Bound | Keyword::Count | Keyword::Values | Keyword::Any => {
                check_numbers(value, place)?;
            }
            Keyword::Text | Keyword::Types | Keyword::Names => {}
        }
        Ok(Some(value.clone()))
    }

    /// The schemas under a keyword that has one, a list or a map of them.
    fn schemas(
        &mut self,
        name: &str,
        value: &Value,
        place: &str,
        depth: usize,
    ) -> Result<Value, GrammarError> {
        match value {
            Value::Array(list) => {
                let mut checked = Vec::new();
                for (index, value) in list.iter().enumerate() {
                    let place = child(place, &index.to_string());
                    checked.push(if name == "oneOf" {
                        self.alternative(value, &place, depth)?
                    } else {
                        self.schema(value, &place, depth + 1)?
                    });
                }
                Ok(Value::Array(checked))
            }
            Value::Object(map) if name != "items" => {
                let mut checked = Map::new();
                for (key, value) in map {
                    let schema = self.schema(value, &child(place, key), depth + 1)?;
                    checked.insert(key.clone(), schema);
                }
                Ok(Value::Object(checked))
            }
            _ => self.schema(value, place, depth + 1),
        }
    }

    /// An alternative of `oneOf`. One that is a reference alone is taken by its content: the compiler can tell
    /// alternatives apart by their types and constants, and looks into no reference for them.
    fn alternative(
        &mut self,
        value: &Value,
        place: &str,
        depth: usize,
    ) -> Result<Value, GrammarError> {
        let checked = self.schema(value, place, depth + 1)?;
        let Value::Object(keywords) = &checked else { return Ok(checked) };
        match keywords.get("$ref").and_then(Value::as_str) {
            Some(reference) if keywords.len() == 1 => {
                let target = &reference[1..];
                let Some(schema) = self.root.pointer(target) else { return Ok(checked) };
                self.write_out(schema)?;
                self.schema(schema, target, depth + 1)
            }
            _ => Ok(checked),
        }
    }

    /// Counts a schema that comes in the place of a reference to it, which is far shorter.
    fn write_out(&mut self, schema: &Value) -> Result<(), GrammarError> {
        self.bytes_written_out += schema.to_string().len();
        let (got, max) = (self.bytes_written_out, self.limits.source_bytes);
        if got > max {
            let what = "bytes in alternatives that are references";
            return Err(GrammarError::TooLarge { what, got, max });
        }
        Ok(())
    }

    fn note_reference(&mut self, value: &Value, place: &str) -> Result<(), GrammarError> {
        let reference = value.as_str().unwrap_or_default();
        let target = reference.strip_prefix('#').filter(|target| {
            (target.is_empty() || target.starts_with('/')) && !target.contains(['~', '%'])
        });
        let Some(target) = target else {
            let what = "a reference is # or #/ and names of this document, without ~ and %";
            return Err(bad(place, what.to_owned()));
        };
        self.refs.push((place.to_owned(), target.to_owned()));
        Ok(())
    }
}

/// Refuses whole numbers that a double cannot hold.
fn check_numbers(value: &Value, place: &str) -> Result<(), GrammarError> {
    match value {
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            if magnitude.is_some_and(|magnitude| magnitude > INTEGER_MAX) {
                return Err(bad(place, format!("{number} is beyond 2^53")));
            }
            Ok(())
        }
        Value::Array(values) => values.iter().try_for_each(|value| check_numbers(value, place)),
        Value::Object(map) => map.values().try_for_each(|value| check_numbers(value, place)),
        _ => Ok(()),
    }
}

/// The pointer of a part of what `pointer` points to.
fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The pointer of the whole document is empty, which nobody would see in a sentence.
fn shown(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

fn bad(pointer: &str, what: String) -> GrammarError {
    GrammarError::BadKeyword { pointer: shown(pointer).to_owned(), what }
}
