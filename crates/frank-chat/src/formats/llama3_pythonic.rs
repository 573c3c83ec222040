//! `[f(a="b", n=1), g()]`: calls as Python writes them. Llama models that are asked for it, and LFM2, which puts tags around
//! them.

use serde_json::Value;

use super::{CallRules, CallSyntax, ChatFormat, THINK_TAGS, any_call};
use crate::arguments::{Argument, arguments_of, with_commas};
use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::reader::{CallWriter, FormatReader, Found, Opening, Relaxed, Syntax, Want};
use crate::template::reads_variable;

pub(super) const LLAMA3_PYTHONIC: ChatFormat = ChatFormat {
    name: "llama3_pythonic",
    answer_opening: "",
    speaks: |source| reads_variable(source, "tools") && source.contains("[func_name1("),
    controls: &["<think>", "</think>", "<|python_start|>", "<|python_end|>"],
    parser: |rules| FormatReader::boxed(&LLAMA_SYNTAX, rules),
    calls: |rules| CallSyntax {
        opening: "[".to_owned(),
        rest: Pattern::Sequence(vec![list(rules), Pattern::literal("]")]),
        only_at_start: true,
    },
    reasoning: THINK_TAGS,
};

pub(super) const LFM2: ChatFormat = ChatFormat {
    name: "lfm2",
    answer_opening: "",
    speaks: |source| {
        reads_variable(source, "tools")
            && (source.contains("<|tool_call_start|>") || source.contains("List of tools: "))
    },
    controls: &["<think>", "</think>", "<|tool_call_start|>", "<|tool_call_end|>"],
    parser: |rules| FormatReader::boxed(&LFM2_SYNTAX, rules),
    calls: |rules| CallSyntax {
        opening: "<|tool_call_start|>".to_owned(),
        rest: Pattern::Sequence(vec![
            Pattern::literal("["),
            list(rules),
            Pattern::literal("]"),
            Pattern::literal("<|tool_call_end|>"),
        ]),
        only_at_start: false,
    },
    reasoning: THINK_TAGS,
};

static LLAMA_SYNTAX: Syntax = Syntax {
    reasoning: THINK_TAGS,
    openings: &[Opening::start("["), Opening::mark("<|python_start|>")],
    kept: Opening::start("["),
    grammar,
};

static LFM2_SYNTAX: Syntax = Syntax {
    reasoning: THINK_TAGS,
    openings: &[Opening::mark("<|tool_call_start|>")],
    kept: Opening::mark("<|tool_call_start|>"),
    grammar,
};

fn grammar(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening(_) => Want::OneOf(&["["]),
        Found::Literal("[") => Want::Word(&["("]),
        Found::Word(name, "(") => {
            calls.start(None, name.to_owned());
            Want::Peek
        }
        Found::Next(')') => Want::OneOf(&[")"]),
        Found::Next(_) => Want::Word(&["="]),
        Found::Word(key, _) => {
            calls.key(key);
            Want::Value(Relaxed::Python)
        }
        Found::Value => Want::OneOf(&[",", ")"]),
        Found::Literal(",") if calls.is_open() => Want::Word(&["="]),
        Found::Literal(",") => Want::Word(&["("]),
        Found::Literal(")") => {
            calls.end_keyed();
            Want::OneOf(&[",", "]"])
        }
        Found::Literal("]") => Want::OneOf(&["<|tool_call_end|>", "<|python_end|>"]),
        Found::Literal(_) => Want::Done,
        _ => Want::Broken,
    }
}

/// Calls with commas between them.
fn list(rules: &CallRules) -> Pattern {
    let call = any_call(rules, call);
    if !rules.parallel {
        return call;
    }
    let more = Pattern::Sequence(vec![Pattern::literal(", "), call.clone()]);
    let more = Pattern::Optional(Box::new(Pattern::Repeated(Box::new(more))));
    Pattern::Sequence(vec![call, more])
}

fn call(tool: &Tool) -> Pattern {
    let arguments = arguments_of(tool).unwrap_or_default();
    Pattern::Sequence(vec![
        Pattern::literal(format!("{}(", tool.name)),
        with_commas(&arguments, ", ", argument),
        Pattern::literal(")"),
    ])
}

fn argument(argument: &Argument) -> Pattern {
    let value = match argument.schema["type"].as_str() {
        Some("boolean") if argument.schema.get("enum").is_none() => {
            Pattern::OneOf(Pattern::literals(&["True", "False"]))
        }
        _ if argument.schema["const"] == Value::Null && argument.schema.get("const").is_some() => {
            Pattern::literal("None")
        }
        _ => Pattern::Json(argument.schema.clone()),
    };
    Pattern::Sequence(vec![Pattern::literal(format!("{}=", argument.key)), value])
}
