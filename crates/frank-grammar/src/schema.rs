//! Checks a JSON schema before it is compiled: every keyword is one that will be honoured, every reference stays inside.
//!
//! The compiler passes over keywords that it does not know, and says of others only that something is wrong. So each
//! schema is walked first, and handed on without what says nothing about an answer.

mod alternatives;
mod endless;
mod expressions;
mod formats;
mod keywords;
mod numbers;
mod rewrites;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::error::GrammarError;
use crate::limits::Limits;
use keywords::{Keyword, count};

/// What may stand between two parts of JSON: nothing, a space, or a line break with an indentation. A model that likes
/// spaces cannot go on with them for ever.
pub(crate) const WHITE_SPACE: &str = r" |\r?\n[ \t]{0,64}";
/// The same for JSON within an answer, as the arguments of a call: nobody reads its indentation, and a weak model that
/// must call would spend its tokens on it.
pub(crate) const NARROW_WHITE_SPACE: &str = r" |\r?\n[ \t]{0,16}";
/// Bytes of the pointer to a schema. All of them are kept.
const POINTER_BYTES_MAX: usize = 4096;

/// The schema as it is compiled.
///
/// # Errors
/// [`GrammarError`] with the JSON pointer of what cannot be honoured.
pub(crate) fn checked(
    schema: &Value,
    limits: &Limits,
    white_space: &str,
) -> Result<Value, GrammarError> {
    let mut walk = Walk {
        root: schema,
        limits,
        n_parts: 0,
        steps: 1,
        bytes_written_out: 0,
        written_out: Vec::new(),
        places: BTreeSet::new(),
        refs: vec![],
        aliases: BTreeMap::new(),
        aliased: Map::new(),
    };
    let mut checked = walk.schema(schema, "", 0)?;
    if endless::is_endless(schema) {
        let what = "each of its values would have to hold another one, by $ref".to_owned();
        return Err(bad("", what));
    }
    for (pointer, target) in &walk.refs {
        if !walk.places.contains(target) {
            return Err(bad(pointer, format!("#{target} is no schema of this document")));
        }
    }
    if checked == Value::Bool(true) {
        checked = json!({});
    }
    if let Value::Object(keywords) = &mut checked {
        if !walk.aliased.is_empty()
            && let Value::Object(defs) = keywords.entry("$defs").or_insert_with(|| json!({}))
        {
            defs.extend(walk.aliased);
        }
        let options = json!({"whitespace_flexible": true, "whitespace_pattern": white_space});
        keywords.insert("x-guidance".to_owned(), options);
    }
    Ok(checked)
}

struct Walk<'a> {
    root: &'a Value,
    limits: &'a Limits,
    n_parts: usize,
    /// The least common multiple of all steps of numbers.
    steps: u64,
    /// Bytes of the schemas that stand for references to them.
    bytes_written_out: usize,
    /// What is being written out in the place of references.
    written_out: Vec<String>,
    /// JSON pointers of all schemas.
    places: BTreeSet<String>,
    /// References: where they stand and what they point to.
    refs: Vec<(String, String)>,
    /// New names of targets that the compiler cannot find by their pointers.
    aliases: BTreeMap<String, String>,
    /// The schemas of these names.
    aliased: Map<String, Value>,
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
        rewrites::rewritten(checked, pointer).map(Value::Object)
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
        let keyword = Keyword::named(name);
        if let Some(expected) = keyword.mistake(value) {
            return Err(bad(place, format!("{expected} is expected")));
        }
        match keyword {
            Keyword::Annotation => Ok(None),
            // Under a name of its own, references would be read from another place.
            Keyword::Id if depth > 0 && is_base(value) && self.has_reference(pointer) => {
                Err(unsupported())
            }
            Keyword::Id => Ok(None),
            Keyword::Unsupported => Err(unsupported()),
            Keyword::Flag if name == "uniqueItems" && *value == Value::Bool(true) => {
                Err(unsupported())
            }
            Keyword::Flag if name == "uniqueItems" => Ok(None),
            Keyword::Schema => self.schema(value, place, depth + 1).map(Some),
            Keyword::SchemaOrList | Keyword::List | Keyword::Map => {
                self.schemas(name, value, place, depth).map(Some)
            }
            Keyword::Dependencies => self.dependencies(value, place, depth).map(Some),
            Keyword::Ref => self.reference(value, place, depth).map(Some),
            Keyword::Text => {
                let expression = value.as_str().unwrap_or_default();
                Ok(Some(expressions::translated(expression, place)?.into()))
            }
            Keyword::Number if name == "multipleOf" => {
                numbers::add_step(&mut self.steps, value, place)?;
                Ok(Some(value.clone()))
            }
            Keyword::Number | Keyword::Bound => Ok(Some(numbers::bound(name, value))),
            Keyword::Values | Keyword::Any => {
                numbers::check(value, place)?;
                Ok(Some(value.clone()))
            }
            Keyword::Count => Ok(count(value).map(Value::from)),
            Keyword::Types | Keyword::Names | Keyword::Format | Keyword::Flag | Keyword::Not => {
                Ok(Some(value.clone()))
            }
        }
    }

    /// What properties need beside them.
    fn dependencies(
        &mut self,
        value: &Value,
        place: &str,
        depth: usize,
    ) -> Result<Value, GrammarError> {
        let mut checked = Map::new();
        for (name, needed) in value.as_object().into_iter().flatten() {
            let needed = match needed {
                Value::Array(names) if names.iter().all(Value::is_string) => needed.clone(),
                Value::String(_) => needed.clone(),
                schema => self.schema(schema, &child(place, name), depth + 1)?,
            };
            checked.insert(name.clone(), needed);
        }
        Ok(Value::Object(checked))
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
                    let place = child(place, key);
                    let schema = self.schema(value, &place, depth + 1)?;
                    let key = match name {
                        "patternProperties" => expressions::translated(key, &place)?,
                        _ => key.clone(),
                    };
                    checked.insert(key, schema);
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
                let target = reference[1..].to_owned();
                let Some(schema) = self.root.pointer(&target) else { return Ok(checked) };
                if self.written_out.contains(&target) {
                    // It is within itself.
                    return Ok(checked);
                }
                self.write_out(schema)?;
                self.written_out.push(target.clone());
                let schema = self.schema(schema, &target, depth + 1);
                self.written_out.pop();
                schema
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

    /// Whether a reference stands anywhere in the schema at a pointer.
    fn has_reference(&self, pointer: &str) -> bool {
        fn has(value: &Value) -> bool {
            match value {
                Value::Object(map) => map.contains_key("$ref") || map.values().any(has),
                Value::Array(list) => list.iter().any(has),
                _ => false,
            }
        }
        self.root.pointer(pointer).is_some_and(has)
    }

    /// A reference as it is compiled.
    fn reference(
        &mut self,
        value: &Value,
        place: &str,
        depth: usize,
    ) -> Result<Value, GrammarError> {
        let reference = value.as_str().unwrap_or_default();
        let Some(target) = self.target(reference) else {
            let what = "a reference is # or #/ and names of this document";
            return Err(bad(place, what.to_owned()));
        };
        self.refs.push((place.to_owned(), target.clone()));
        // The compiler takes names in a pointer as they stand, and does not see annotations.
        let first = target.split('/').nth(1).unwrap_or("$defs");
        if !target.contains('~') && Keyword::named(first) != Keyword::Annotation {
            return Ok(json!(format!("#{target}")));
        }
        if let Some(alias) = self.aliases.get(&target) {
            return Ok(json!(format!("#/$defs/{alias}")));
        }
        let alias = format!("frank ref {}", self.aliases.len());
        self.aliases.insert(target.clone(), alias.clone());
        if let Some(schema) = self.root.pointer(&target) {
            self.write_out(schema)?;
            let schema = self.schema(schema, &target, depth + 1)?;
            self.aliased.insert(alias.clone(), schema);
        }
        Ok(json!(format!("#/$defs/{alias}")))
    }

    /// The JSON pointer of what a reference points to in this document.
    fn target(&self, reference: &str) -> Option<String> {
        let (base, fragment) = reference.split_once('#')?;
        let name = ["$id", "id"].iter().find_map(|name| self.root.get(name)?.as_str());
        if !base.is_empty() && name.map(|name| name.trim_end_matches('#')) != Some(base) {
            return None;
        }
        let target = percent_decoded(fragment)?;
        if target.is_empty() || target.starts_with('/') {
            return Some(target);
        }
        pointer_of_anchor(self.root, &target)
    }
}

/// The pointer of the schema with this anchor, or with an id that is one.
fn pointer_of_anchor(schema: &Value, anchor: &str) -> Option<String> {
    match schema {
        Value::Object(map) => {
            let text = |name: &str| map.get(name).and_then(Value::as_str);
            let ids = [text("$id"), text("id")].into_iter().flatten();
            let mut anchors = ids.filter_map(|id| id.strip_prefix('#')).chain(text("$anchor"));
            if anchors.any(|named| named == anchor) {
                return Some(String::new());
            }
            map.iter().find_map(|(name, value)| {
                pointer_of_anchor(value, anchor).map(|rest| child("", name) + &rest)
            })
        }
        Value::Array(list) => list.iter().enumerate().find_map(|(n, value)| {
            pointer_of_anchor(value, anchor).map(|rest| child("", &n.to_string()) + &rest)
        }),
        _ => None,
    }
}

/// Whether an id names another place to read references from.
fn is_base(id: &Value) -> bool {
    id.as_str().is_some_and(|id| !id.starts_with('#'))
}

/// A fragment of an address with its `%20` and the like as characters.
fn percent_decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut parts = fragment.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
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
