//! `<|tool_call>call:NAME{key:<|"|>text<|"|>,n:1}<tool_call|>` and `<|channel>thought … <channel|>`: Gemma 4.

use super::{CallSyntax, ChatFormat, ReasoningSyntax, any_call, repeated_calls};
use crate::arguments::{Argument, arguments_of, bare_string, with_commas};
use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::reader::{CallWriter, FormatReader, Found, Opening, Relaxed, Syntax, Want};
use crate::template::reads_variable;

const REASONING: ReasoningSyntax =
    ReasoningSyntax { opening: "<|channel>thought\n", closing: "<channel|>" };

const QUOTE: &str = "<|\"|>";

pub(super) const GEMMA: ChatFormat = ChatFormat {
    name: "gemma",
    answer_opening: "",
    speaks: |source| reads_variable(source, "tools") && source.contains("<|tool_call>call:"),
    controls: &["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", QUOTE],
    parser: |rules| FormatReader::boxed(&SYNTAX, rules),
    calls: |rules| CallSyntax {
        opening: "<|tool_call>".to_owned(),
        rest: repeated_calls(rules, any_call(rules, call), "<|tool_call>"),
        only_at_start: false,
    },
    reasoning: REASONING,
};

static SYNTAX: Syntax = Syntax {
    reasoning: REASONING,
    openings: &[Opening::mark("<|tool_call>")],
    kept: Opening::mark("<|tool_call>"),
    grammar,
};

fn grammar(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening(_) => Want::OneOf(&["call:"]),
        Found::Literal("call:") => Want::Word(&["{"]),
        Found::Word(name, _) => {
            calls.start(None, name.to_owned());
            Want::Peek
        }
        Found::Next('}') => Want::OneOf(&["}"]),
        Found::Next(_) | Found::Literal(",") => Want::Key(":"),
        Found::Key(key) => {
            calls.key(key);
            Want::Value(Relaxed::Gemma)
        }
        Found::Value => Want::OneOf(&[",", "}"]),
        Found::Literal("}") => {
            calls.end_keyed();
            Want::OneOf(&["<tool_call|>"])
        }
        Found::Literal(_) => Want::Done,
        _ => Want::Broken,
    }
}

fn call(tool: &Tool) -> Pattern {
    let arguments = arguments_of(tool).unwrap_or_default();
    Pattern::Sequence(vec![
        Pattern::literal(format!("call:{}{{", tool.name)),
        with_commas(&arguments, ",", argument),
        Pattern::literal("}"),
        Pattern::literal("<tool_call|>"),
    ])
}

fn argument(argument: &Argument) -> Pattern {
    let mut parts = vec![Pattern::literal(format!("{}:", argument.key))];
    if argument.is_string {
        parts.extend([Pattern::literal(QUOTE), bare_string(&argument.schema, QUOTE)]);
    } else {
        parts.push(Pattern::Json(argument.schema.clone()));
    }
    Pattern::Sequence(parts)
}
