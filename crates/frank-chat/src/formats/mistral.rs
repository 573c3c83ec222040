//! `[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{…}` of newer Mistral models and `[TOOL_CALLS][{"name": …, "arguments": {…}}]` of
//! older ones; `[THINK]…[/THINK]`.

use serde_json::Value;

use super::{CallRules, CallSyntax, ChatFormat, ReasoningSyntax, any_call, repeated_calls};
use crate::arguments::as_object;
use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::reader::{CallWriter, FormatReader, Found, Opening, Syntax, Want};
use crate::template::reads_variable;

const REASONING: ReasoningSyntax = ReasoningSyntax { opening: "[THINK]", closing: "[/THINK]" };

const CONTROLS: &[&str] = &["[THINK]", "[/THINK]", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"];

pub(super) const MISTRAL: ChatFormat = ChatFormat {
    name: "mistral",
    answer_opening: "",
    speaks: |source| is_mistral(source) && source.contains("[ARGS]"),
    controls: CONTROLS,
    parser: |rules| FormatReader::boxed(&SYNTAX, rules),
    calls: |rules| CallSyntax {
        opening: "[TOOL_CALLS]".to_owned(),
        rest: repeated_calls(rules, any_call(rules, call), "[TOOL_CALLS]"),
        only_at_start: false,
    },
    reasoning: REASONING,
};

pub(super) const MISTRAL_LIST: ChatFormat = ChatFormat {
    name: "mistral_list",
    answer_opening: "",
    speaks: is_mistral,
    controls: CONTROLS,
    parser: |rules| FormatReader::boxed(&SYNTAX, rules),
    calls: list,
    reasoning: REASONING,
};

fn is_mistral(source: &str) -> bool {
    reads_variable(source, "tools") && source.contains("[TOOL_CALLS]")
}

static SYNTAX: Syntax = Syntax {
    reasoning: REASONING,
    openings: &[Opening::mark("[TOOL_CALLS]")],
    kept: Opening::mark("[TOOL_CALLS]"),
    grammar,
};

fn grammar(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening(_) => Want::Peek,
        Found::Next('[') => {
            calls.is_list = true;
            Want::OneOf(&["["])
        }
        Found::Next('{') | Found::Literal("[" | ",") => Want::Call,
        Found::Next(_) => Want::Word(&["[ARGS]", "[CALL_ID]", "{"]),
        Found::Word(name, "[CALL_ID]") => {
            calls.name = Some(name.to_owned());
            Want::Word(&["[ARGS]"])
        }
        Found::Word(word, end) => {
            match calls.name.take() {
                Some(name) => calls.start(Some(word.to_owned()), name),
                None => calls.start(None, word.to_owned()),
            }
            Want::Arguments { has_begun: end == "{" }
        }
        Found::Arguments => {
            calls.end();
            Want::Done
        }
        Found::Call if calls.is_list => Want::OneOf(&[",", "]"]),
        Found::Call | Found::Literal("]") => Want::Done,
        _ => Want::Broken,
    }
}

fn call(tool: &Tool) -> Pattern {
    // Without an id of the model's: nothing would bound its length.
    Pattern::Sequence(vec![
        Pattern::literal(&tool.name),
        Pattern::literal("[ARGS]"),
        as_object(tool),
    ])
}

fn list(rules: &CallRules) -> CallSyntax {
    let call = any_call(rules, object);
    let more = Pattern::Sequence(vec![Pattern::literal(", "), call.clone()]);
    let more = Pattern::Optional(Box::new(Pattern::Repeated(Box::new(more))));
    let mut parts = vec![Pattern::Space, Pattern::literal("["), call];
    if rules.parallel {
        parts.push(more);
    }
    parts.push(Pattern::literal("]"));
    CallSyntax {
        opening: "[TOOL_CALLS]".to_owned(),
        rest: Pattern::Sequence(parts),
        only_at_start: false,
    }
}

/// A call as an object. The model may give it an id.
fn object(tool: &Tool) -> Pattern {
    let name = Value::from(tool.name.as_str());
    let id = serde_json::json!({"type": "string", "pattern": "^[a-zA-Z0-9]{9}$"});
    let id = Pattern::Sequence(vec![Pattern::literal(", \"id\": "), Pattern::Json(id)]);
    Pattern::Sequence(vec![
        Pattern::literal(format!("{{\"name\": {name}, \"arguments\": ")),
        as_object(tool),
        Pattern::Optional(Box::new(id)),
        Pattern::literal("}"),
    ])
}
