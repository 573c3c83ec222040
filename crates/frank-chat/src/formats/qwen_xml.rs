//! `<tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>`: Qwen3-Coder, Qwen 3.5, Nemotron 3,
//! Step 3.5.

use super::{CallRules, CallSyntax, ChatFormat, THINK_TAGS, any_call, repeated_calls};
use crate::arguments::{Argument, arguments_of, bare_string, in_a_row};
use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::reader::{CallWriter, FormatReader, Found, Opening, Syntax, Want};
use crate::template::reads_variable;

pub(super) const QWEN_XML: ChatFormat = ChatFormat {
    name: "qwen_xml",
    answer_opening: "",
    speaks: |source| {
        let has_marks = source.contains("<tool_call>") && source.contains("<function=");
        reads_variable(source, "tools") && has_marks && source.contains("<parameter=")
    },
    controls: &["<think>", "</think>", "<tool_call>", "</tool_call>"],
    parser: |rules| FormatReader::boxed(&SYNTAX, rules),
    calls,
    reasoning: THINK_TAGS,
};

static SYNTAX: Syntax = Syntax {
    reasoning: THINK_TAGS,
    // The outer tag is sometimes forgotten.
    openings: &[Opening::mark("<tool_call>"), Opening::tag("<function=")],
    kept: Opening::mark("<tool_call>"),
    grammar,
};

const NEXT_PARAMETER: Want = Want::OneOf(&["<parameter=", "</function>"]);

fn grammar(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening("<function=") => Want::OneOf(&["<function="]),
        Found::Opening(_) => Want::Peek,
        Found::Next('{') => Want::Call,
        Found::Next('<') => Want::OneOf(&["<function="]),
        Found::Literal("<function=") => Want::Word(&[">"]),
        Found::Word(name, _) => {
            calls.start(None, name.to_owned());
            NEXT_PARAMETER
        }
        Found::Literal("<parameter=") => Want::Key(">"),
        Found::Key(key) => {
            calls.key(key);
            Want::Argument { end: "</parameter>", trims: true, is_string: None }
        }
        Found::Argument => NEXT_PARAMETER,
        Found::Literal("</function>") => {
            calls.end_keyed();
            Want::OneOf(&["</tool_call>"])
        }
        Found::Call => Want::OneOf(&["</tool_call>"]),
        Found::Literal("</tool_call>") => Want::Done,
        _ => Want::Broken,
    }
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
        Some(arguments) => in_a_row(arguments, parameter),
        None => any_parameters(),
    };
    Pattern::Sequence(vec![
        Pattern::Space,
        Pattern::literal(format!("<function={}>", tool.name)),
        Pattern::Space,
        arguments,
        Pattern::literal("</function>"),
        Pattern::Space,
        Pattern::literal("</tool_call>"),
    ])
}

fn parameter(argument: &Argument) -> Pattern {
    let mut parts = vec![Pattern::literal(format!("<parameter={}>\n", argument.key))];
    if !argument.is_string {
        let value = Pattern::Json(argument.schema.clone());
        parts.extend([value, Pattern::Space, Pattern::literal("</parameter>")]);
        return Pattern::Sequence(parts);
    }
    match bare_string(&argument.schema, "</parameter>") {
        Pattern::Sequence(mut listed) => {
            listed.insert(1, Pattern::literal("\n"));
            parts.extend(listed);
        }
        any => parts.push(any),
    }
    Pattern::Sequence(parts)
}

fn any_parameters() -> Pattern {
    let parameter = vec![
        Pattern::literal("<parameter="),
        Pattern::TextThrough { end: ">".to_owned() },
        Pattern::TextThrough { end: "</parameter>".to_owned() },
        Pattern::Space,
    ];
    let repeated = Pattern::Repeated(Box::new(Pattern::Sequence(parameter)));
    Pattern::Optional(Box::new(repeated))
}
