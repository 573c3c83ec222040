//! `<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen 2.5 and 3, Granite 4 and their kin.

use super::{CallRules, CallSyntax, ChatFormat, THINK_TAGS, any_call, repeated_calls};
use crate::arguments::as_object;
use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::reader::{CallWriter, FormatReader, Found, Opening, Syntax, Want};
use crate::template::reads_variable;

pub(super) const HERMES: ChatFormat = ChatFormat {
    name: "hermes",
    answer_opening: "",
    speaks: |source| {
        reads_variable(source, "tools")
            && source.contains("<tool_call>")
            && source.contains("arguments")
            && !["<function=", "<arg_key>", "<invoke", "<tool_calls>"]
                .iter()
                .any(|other| source.contains(other))
    },
    controls: &["<think>", "</think>", "<tool_call>", "</tool_call>"],
    parser: |rules| FormatReader::boxed(&SYNTAX, rules),
    calls,
    reasoning: THINK_TAGS,
};

static SYNTAX: Syntax = Syntax {
    reasoning: THINK_TAGS,
    openings: &[Opening::mark("<tool_call>")],
    kept: Opening::mark("<tool_call>"),
    grammar,
};

/// Reads what stands in the tags: an object, or a list of them.
pub(super) fn grammar(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening(_) => Want::Peek,
        Found::Next('[') => {
            calls.is_list = true;
            Want::OneOf(&["["])
        }
        Found::Next('{') | Found::Literal("[" | ",") => Want::Call,
        Found::Call if calls.is_list => Want::OneOf(&[",", "]"]),
        Found::Call | Found::Literal("]") => Want::OneOf(&["</tool_call>"]),
        Found::Literal("</tool_call>") => Want::Done,
        _ => Want::Broken,
    }
}

fn calls(rules: &CallRules) -> CallSyntax {
    CallSyntax {
        opening: "<tool_call>".to_owned(),
        rest: repeated_calls(rules, any_call(rules, json_call), "<tool_call>"),
        only_at_start: false,
    }
}

/// A call after its opening tag.
pub(super) fn json_call(tool: &Tool) -> Pattern {
    let name = serde_json::Value::from(tool.name.as_str());
    Pattern::Sequence(vec![
        Pattern::Space,
        Pattern::literal(format!("{{\"name\": {name}, \"arguments\": ")),
        as_object(tool),
        Pattern::literal("}"),
        Pattern::Space,
        Pattern::literal("</tool_call>"),
    ])
}
