//! Whatever the call syntax of a format allows is read back as the same calls.

use frank_chat::{CallRules, ChatFormat, FORMATS, OutputPart, OutputRules, Pattern};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::formats::{read_chars, tools};

/// Texts that are hard on parsers.
const TEXTS: [&str; 12] =
    ["", "12", "true", "a\nb", "\n", "\"", "</param", "é", "{\"a\": 1}", "\\n", "<", "null "];

/// Writes a text that a pattern allows. Each choice is the next byte.
struct Writer<'a> {
    choices: &'a [u8],
    text: String,
    /// Values that were written as arguments, or as all of them.
    values: Vec<Value>,
    trims: bool,
}

impl Writer<'_> {
    fn choose(&mut self, n: usize) -> usize {
        let Some((first, rest)) = self.choices.split_first() else { return 0 };
        self.choices = rest;
        usize::from(*first) % n
    }

    fn write(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Literal(text) => self.text.push_str(text),
            Pattern::Json(schema) => {
                let value = self.value(schema);
                let pretty = self.choose(2) == 1;
                let json = if pretty {
                    serde_json::to_string_pretty(&value)
                } else {
                    serde_json::to_string(&value)
                };
                self.text.push_str(&json.expect("JSON"));
                self.values.push(value);
            }
            Pattern::TextWithout { .. } => self.text.push_str("words"),
            Pattern::TextThrough { end } => self.write_text(end),
            Pattern::Space => {
                let space = ["", "\n", " "][self.choose(3)];
                self.text.push_str(space);
            }
            Pattern::Sequence(parts) => parts.iter().for_each(|part| self.write(part)),
            Pattern::OneOf(others) => {
                let at = self.choose(others.len());
                self.write(&others[at]);
            }
            Pattern::Optional(part) => {
                if self.choose(2) == 1 {
                    self.write(part);
                }
            }
            Pattern::Repeated(part) => {
                for _ in 0..=self.choose(2) {
                    self.write(part);
                }
            }
        }
    }

    fn write_text(&mut self, end: &str) {
        let is_value =
            ["parameter>", "</arg_value>", "<|\"|>"].iter().any(|mark| end.ends_with(mark));
        let text = if is_value { self.string() } else { "abcdefgh1".to_owned() };
        self.text.push_str(&text);
        self.text.push_str(end);
        if is_value {
            let text = if self.trims { text.strip_suffix('\n').unwrap_or(&text) } else { &text };
            self.values.push(Value::from(text));
        }
    }

    fn string(&mut self) -> String {
        (0..self.choose(4)).map(|_| TEXTS[self.choose(TEXTS.len())]).collect()
    }

    fn value(&mut self, schema: &Value) -> Value {
        if let Some(values) = schema["enum"].as_array() {
            return values[self.choose(values.len())].clone();
        }
        if schema.get("pattern").is_some() {
            return json!("abcdefgh1");
        }
        match schema["type"].as_str() {
            Some("string") => Value::from(self.string()),
            Some("integer") => Value::from(self.choose(256)),
            Some("boolean") => Value::from(self.choose(2) == 1),
            Some("array") => (0..self.choose(3)).map(|_| self.value(&schema["items"])).collect(),
            Some("object") => self.object(schema),
            _ => [json!(1), json!("x"), json!([{"a": null}])][self.choose(3)].clone(),
        }
    }

    fn object(&mut self, schema: &Value) -> Value {
        let mut object = Map::new();
        let Some(properties) = schema["properties"].as_object() else { return json!({"any": [1]}) };
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (key, schema) in properties {
            if required.contains(&json!(key)) || self.choose(2) == 1 {
                object.insert(key.clone(), self.value(schema));
            }
        }
        Value::Object(object)
    }
}

/// Whether a value is what the simple schemas of these tests allow.
fn fits(value: &Value, schema: &Value) -> bool {
    if let Some(values) = schema["enum"].as_array() {
        return values.contains(value);
    }
    match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("array") => {
            value.as_array().is_some_and(|items| items.iter().all(|i| fits(i, &schema["items"])))
        }
        Some("object") => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            value.as_object().is_some_and(|object| {
                required.iter().all(|key| object.contains_key(key.as_str().expect("a key")))
                    && object.iter().all(|(key, value)| fits(value, &schema["properties"][key]))
            })
        }
        _ => true,
    }
}

/// Names and arguments of the calls in an answer.
fn calls_in(parts: &[OutputPart]) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    for part in parts {
        match part {
            OutputPart::CallStart { name, .. } => calls.push((name.clone(), Value::Null)),
            OutputPart::CallArguments(json) => {
                let last = calls.last_mut().expect("a call began");
                last.1 = serde_json::from_str(json).unwrap_or_else(|_| panic!("{json} is JSON"));
            }
            OutputPart::CallEnd => {}
            OutputPart::Text(text) | OutputPart::Reasoning(text) => assert_eq!(text, "Hm."),
        }
    }
    assert_eq!(parts.iter().filter(|part| **part == OutputPart::CallEnd).count(), calls.len());
    calls
}

fn check(format: &ChatFormat, choices: &[u8], parallel: bool, thinks: bool) {
    let rules = CallRules { tools: tools().into(), parallel };
    let syntax = (format.calls)(&rules);
    let mut writer = Writer {
        choices,
        text: syntax.opening.clone(),
        values: Vec::new(),
        trims: format.name == "qwen_xml",
    };
    writer.write(&syntax.rest);
    let reasoning = format.reasoning;
    let thought = format!("{}Hm.{}", reasoning.opening, reasoning.closing);
    let output = format!("{}{}", if thinks { &thought } else { "" }, writer.text);
    for is_kept in [true, false] {
        let rules = OutputRules { tools: tools().into(), is_kept, ..OutputRules::default() };
        let calls = calls_in(&read_chars(format, &rules, &output));
        assert!(!calls.is_empty() && (parallel || calls.len() == 1), "{} {output}", format.name);
        for (name, arguments) in &calls {
            let tool = tools().into_iter().find(|tool| tool.name == *name).expect("a known tool");
            let schema = tool.parameters.unwrap_or(json!({"type": "object"}));
            assert!(fits(arguments, &schema), "{}: {arguments} of {output}", format.name);
        }
        if calls.iter().all(|(name, _)| name != "free") {
            assert_in_order(&writer.values, &calls, &output);
        }
    }
}

/// Every value that was written is one of the arguments, or all of them, in the same order.
fn assert_in_order(written: &[Value], calls: &[(String, Value)], output: &str) {
    let ids = json!("abcdefgh1");
    let whole = written.iter().filter(|value| **value != ids);
    if whole.eq(calls.iter().map(|(_, arguments)| arguments)) {
        return;
    }
    let objects = calls.iter().filter_map(|(_, arguments)| arguments.as_object());
    let mut each = objects.flat_map(Map::values);
    let are_all_read = written.iter().all(|value| each.any(|read| read == value));
    assert!(are_all_read, "{written:?} of {output}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_the_syntax_of_a_format_allows_is_read_back_as_the_same_calls(
        choices in prop::collection::vec(any::<u8>(), 0..96),
        parallel: bool,
        thinks: bool,
    ) {
        for format in FORMATS {
            check(format, &choices, parallel, thinks);
        }
    }
}

#[test]
fn a_tool_that_names_no_arguments_takes_any_object() {
    let free: Vec<_> = tools().into_iter().filter(|tool| tool.name == "free").collect();
    let rules = CallRules { tools: free.into(), parallel: false };
    let hermes = FORMATS.iter().find(|format| format.name == "hermes").expect("it is there");
    let rest = format!("{:?}", (hermes.calls)(&rules).rest);
    assert!(rest.contains(r#"Json(Object {"type": String("object")})"#), "{rest}");
}
