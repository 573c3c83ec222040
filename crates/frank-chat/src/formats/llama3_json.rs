//! `{"name": …, "parameters": {…}}` and nothing else, sometimes after `<|python_tag|>`: Llama 3.1 to 3.3.

use super::{CallRules, CallSyntax, ChatFormat, THINK_TAGS, any_call};
use crate::arguments::as_object;
use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::reader::{CallWriter, FormatReader, Found, Opening, Syntax, Want};
use crate::template::reads_variable;

pub(super) const LLAMA3_JSON: ChatFormat = ChatFormat {
    name: "llama3_json",
    answer_opening: "",
    speaks: |source| {
        let asks_for_json = source.contains("respond with JSON for a function call")
            || source.contains("respond with a JSON for a function call");
        reads_variable(source, "tools") && asks_for_json && source.contains("\"parameters\"")
    },
    controls: &["<think>", "</think>", "<|python_tag|>"],
    parser: |rules| FormatReader::boxed(&SYNTAX, rules),
    calls,
    reasoning: THINK_TAGS,
};

static SYNTAX: Syntax = Syntax {
    reasoning: THINK_TAGS,
    openings: &[Opening::start("{"), Opening::mark("<|python_tag|>")],
    kept: Opening::start(OPENING),
    grammar,
};

const OPENING: &str = "{\"name\": \"";

fn grammar(found: Found<'_>, _: &mut CallWriter) -> Want {
    match found {
        Found::Call => Want::Peek,
        Found::Next(';') => Want::OneOf(&[";"]),
        Found::Opening(_) | Found::Next('{') | Found::Literal(_) => Want::Call,
        _ => Want::Broken,
    }
}

fn calls(rules: &CallRules) -> CallSyntax {
    let call = any_call(rules, call);
    let more = Pattern::Sequence(vec![
        Pattern::literal(";"),
        Pattern::Space,
        Pattern::literal(OPENING),
        call.clone(),
    ]);
    let more = Pattern::Optional(Box::new(Pattern::Repeated(Box::new(more))));
    let rest = if rules.parallel { Pattern::Sequence(vec![call, more]) } else { call };
    CallSyntax { opening: OPENING.to_owned(), rest, only_at_start: true }
}

/// A call after the quote that opens its name.
fn call(tool: &Tool) -> Pattern {
    let name = serde_json::Value::from(tool.name.as_str()).to_string();
    Pattern::Sequence(vec![
        Pattern::literal(format!("{}, \"parameters\": ", &name[1..])),
        as_object(tool),
        Pattern::literal("}"),
    ])
}
