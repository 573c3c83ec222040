//! Reads JSON objects as they grow: arguments, and calls that are objects themselves. Finds where an object ends; whether
//! it is valid JSON is for others to say.

use super::argument::in_json_string;
use super::call_writer::CallWriter;

/// Keys of an object that is a call, and what they mean.
const KEYS: [(&str, Field); 7] = [
    ("name", Field::Name),
    ("arguments", Field::Arguments),
    ("parameters", Field::Arguments),
    ("id", Field::Id),
    ("call_id", Field::Id),
    ("type", Field::Ignored),
    ("index", Field::Ignored),
];

/// Bytes of a name or an id at most.
const SCALAR_BYTES_MAX: usize = 512;

/// What a character did.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    More,
    End,
    Broken,
}

/// Reads one object.
#[derive(Default)]
pub(super) struct JsonObject {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl JsonObject {
    /// An object whose opening brace was read.
    pub(super) fn begun() -> Self {
        Self { depth: 1, ..Self::default() }
    }

    /// Reads a character and adds it to `json`. A character that no JSON string may hold as it is becomes its escape.
    pub(super) fn feed(&mut self, c: char, json: &mut String) -> Fed {
        if self.depth == 0 {
            return match c {
                '{' => {
                    json.push(c);
                    self.depth = 1;
                    Fed::More
                }
                _ if c.is_whitespace() => Fed::More,
                _ => Fed::Broken,
            };
        }
        if self.in_string {
            self.feed_string(c, json);
            return Fed::More;
        }
        json.push(c);
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth -= 1,
            _ => {}
        }
        if self.depth == 0 { Fed::End } else { Fed::More }
    }

    fn feed_string(&mut self, c: char, json: &mut String) {
        if c < ' ' {
            json.push_str(&in_json_string(c));
        } else {
            json.push(c);
        }
        self.in_string = self.is_escaped || c != '"';
        self.is_escaped = !self.is_escaped && c == '\\';
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Arguments,
    Id,
    Ignored,
}

/// Where in the object the next character stands.
enum Slot {
    Before,
    Key,
    InKey,
    Colon,
    Value,
    Arguments(JsonObject),
    Scalar,
    After,
}

/// Reads an object that is a call: `{"name": …, "arguments": {…}}`, its keys in any order.
pub(super) struct CallObject {
    slot: Slot,
    key: String,
    field: Field,
    scalar: String,
    name: Option<String>,
    id: Option<String>,
    /// Arguments that came before the name.
    early: String,
    has_arguments: bool,
}

impl CallObject {
    pub(super) fn new() -> Self {
        Self {
            slot: Slot::Before,
            key: String::new(),
            field: Field::Ignored,
            scalar: String::new(),
            name: None,
            id: None,
            early: String::new(),
            has_arguments: false,
        }
    }

    /// Reads a character and tells what it makes certain.
    pub(super) fn feed(&mut self, c: char, calls: &mut CallWriter) -> Fed {
        match &mut self.slot {
            Slot::Arguments(object) => {
                let mut json = String::new();
                let fed = object.feed(c, &mut json);
                self.add_arguments(&json, calls);
                if fed == Fed::End {
                    self.slot = Slot::After;
                }
                return Fed::More;
            }
            Slot::Scalar => return self.feed_scalar(c, calls),
            Slot::InKey => return self.feed_key(c),
            _ if c.is_whitespace() => return Fed::More,
            _ => {}
        }
        match (&self.slot, c) {
            (Slot::Before, '{') | (Slot::After, ',') => self.slot = Slot::Key,
            (Slot::Key, '"') => {
                self.key.clear();
                self.slot = Slot::InKey;
            }
            (Slot::Key | Slot::After, '}') => return self.end(calls),
            (Slot::Colon, ':') => self.slot = Slot::Value,
            (Slot::Value, '{') if self.field == Field::Arguments && !self.has_arguments => {
                self.has_arguments = true;
                self.slot = Slot::Arguments(JsonObject::begun());
                self.add_arguments("{", calls);
            }
            (Slot::Value, '{' | '[' | ',' | '}') => return Fed::Broken,
            (Slot::Value, _) => {
                self.scalar.clear();
                self.slot = Slot::Scalar;
                return self.feed_scalar(c, calls);
            }
            _ => return Fed::Broken,
        }
        Fed::More
    }

    fn feed_key(&mut self, c: char) -> Fed {
        if c == '"' {
            let Some((_, field)) = KEYS.iter().find(|(key, _)| *key == self.key) else {
                return Fed::Broken;
            };
            self.field = *field;
            self.slot = Slot::Colon;
            return Fed::More;
        }
        self.key.push(c);
        let is_start = KEYS.iter().any(|(key, _)| key.starts_with(&self.key));
        if is_start { Fed::More } else { Fed::Broken }
    }

    fn feed_scalar(&mut self, c: char, calls: &mut CallWriter) -> Fed {
        let is_string = self.scalar.starts_with('"');
        if !is_string && (c == ',' || c == '}' || c.is_whitespace()) {
            self.slot = Slot::After;
            return match self.take_scalar(calls) {
                Fed::More => self.feed(c, calls),
                other => other,
            };
        }
        self.scalar.push(c);
        if is_string && c == '"' && !ends_in_escape(&self.scalar) {
            self.slot = Slot::After;
            return self.take_scalar(calls);
        }
        let is_long = self.scalar.len() > SCALAR_BYTES_MAX && self.field != Field::Arguments;
        if is_long { Fed::Broken } else { Fed::More }
    }

    fn take_scalar(&mut self, calls: &mut CallWriter) -> Fed {
        let text = serde_json::from_str::<String>(&self.scalar);
        match (self.field, text) {
            (Field::Ignored, _) => {}
            (Field::Name, Ok(name)) if self.name.is_none() && !name.is_empty() => {
                self.name = Some(name);
                if self.has_arguments {
                    let early = std::mem::take(&mut self.early);
                    self.add_arguments(&early, calls);
                }
            }
            (Field::Id, Ok(id)) => {
                if self.id.is_none() && calls.is_open() {
                    calls.set_id(id.clone());
                }
                self.id = Some(id);
            }
            // Some models put their arguments into a string once more.
            (Field::Arguments, Ok(json)) if !self.has_arguments && json.trim().starts_with('{') => {
                self.has_arguments = true;
                self.add_arguments(json.trim(), calls);
            }
            (Field::Arguments, Err(_)) if self.scalar == "null" => {}
            (Field::Id, Err(_)) => {}
            _ => return Fed::Broken,
        }
        Fed::More
    }

    fn add_arguments(&mut self, json: &str, calls: &mut CallWriter) {
        let Some(name) = &self.name else {
            self.early.push_str(json);
            return;
        };
        if !calls.is_open() {
            calls.start(self.id.clone(), name.clone());
        }
        calls.add(json);
    }

    fn end(&mut self, calls: &mut CallWriter) -> Fed {
        if self.name.is_none() {
            return Fed::Broken;
        }
        if !self.has_arguments {
            self.add_arguments("{}", calls);
        }
        calls.end();
        Fed::End
    }
}

/// Whether the quote at the end of `text` is an escaped one.
fn ends_in_escape(text: &str) -> bool {
    let before = &text[..text.len() - 1];
    (before.len() - before.trim_end_matches('\\').len()) % 2 == 1
}
