//! `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>`: GLM 4.5 and later, Ling 3, Laguna.

use super::{CallRules, CallSyntax, ChatFormat, THINK_TAGS, any_call, repeated_calls};
use crate::arguments::{Argument, arguments_of, bare_string, in_a_row};
use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::reader::{CallWriter, FormatReader, Found, Opening, Syntax, Want};
use crate::template::reads_variable;

pub(super) const GLM: ChatFormat = ChatFormat {
    name: "glm",
    answer_opening: "",
    speaks: |source| reads_variable(source, "tools") && source.contains("<arg_key>"),
    controls: &[
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
    ],
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

fn grammar(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening(_) => Want::Peek,
        Found::Next('{') => Want::Call,
        Found::Next(_) => Want::Word(&["<arg_key>", "</tool_call>"]),
        Found::Word(name, end) => {
            calls.start(None, name.to_owned());
            after_mark(end, calls)
        }
        Found::Key(key) => {
            calls.key(key);
            Want::OneOf(&["<arg_value>"])
        }
        Found::Literal("<arg_value>") => {
            Want::Argument { end: "</arg_value>", trims: false, is_string: None }
        }
        Found::Argument => Want::OneOf(&["<arg_key>", "</tool_call>"]),
        Found::Call => Want::OneOf(&["</tool_call>"]),
        Found::Literal(mark) => after_mark(mark, calls),
        _ => Want::Broken,
    }
}

fn after_mark(mark: &str, calls: &mut CallWriter) -> Want {
    if mark == "<arg_key>" {
        return Want::Key("</arg_key>");
    }
    if calls.is_open() {
        calls.end_keyed();
    }
    Want::Done
}

fn calls(rules: &CallRules) -> CallSyntax {
    CallSyntax {
        opening: "<tool_call>".to_owned(),
        rest: repeated_calls(rules, any_call(rules, call), "<tool_call>"),
        only_at_start: false,
    }
}

fn call(tool: &Tool) -> Pattern {
    let arguments = match arguments_of(tool) {
        Some(arguments) => in_a_row(arguments, argument),
        None => any_arguments(),
    };
    Pattern::Sequence(vec![
        Pattern::literal(&tool.name),
        Pattern::Space,
        arguments,
        Pattern::literal("</tool_call>"),
    ])
}

fn argument(argument: &Argument) -> Pattern {
    let key = Pattern::literals(&["<arg_key>", &argument.key, "</arg_key>"]);
    let value = if argument.is_string {
        vec![bare_string(&argument.schema, "</arg_value>")]
    } else {
        vec![Pattern::Json(argument.schema.clone()), Pattern::literal("</arg_value>")]
    };
    let opening = [Pattern::Space, Pattern::literal("<arg_value>")];
    Pattern::Sequence(key.into_iter().chain(opening).chain(value).collect())
}

fn any_arguments() -> Pattern {
    let argument = vec![
        Pattern::literal("<arg_key>"),
        Pattern::TextThrough { end: "</arg_key>".to_owned() },
        Pattern::Space,
        Pattern::literal("<arg_value>"),
        Pattern::TextThrough { end: "</arg_value>".to_owned() },
        Pattern::Space,
    ];
    let repeated = Pattern::Repeated(Box::new(Pattern::Sequence(argument)));
    Pattern::Optional(Box::new(repeated))
}
