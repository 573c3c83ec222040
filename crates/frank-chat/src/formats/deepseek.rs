//! `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{…}<｜tool▁call▁end｜><｜tool▁calls▁end｜>` of DeepSeek V3.1, and the
//! form of R1 and V3, which writes `function<｜tool▁sep｜>NAME` and the arguments between code fences.

use super::{CallRules, CallSyntax, ChatFormat, THINK_TAGS, any_call};
use crate::arguments::as_object;
use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::reader::{CallWriter, FormatReader, Found, Opening, Syntax, Want};
use crate::template::reads_variable;

const ALL_BEGIN: &str = "<｜tool▁calls▁begin｜>";
const ALL_END: &str = "<｜tool▁calls▁end｜>";
const BEGIN: &str = "<｜tool▁call▁begin｜>";
const END: &str = "<｜tool▁call▁end｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";

/// What opens the arguments in the older form, and what closes them.
const FENCES: (&str, &str) = ("```json", "```");

const CONTROLS: &[&str] = &["<think>", "</think>", ALL_BEGIN, ALL_END, BEGIN, END, SEPARATOR];

pub(super) const DEEPSEEK_R1: ChatFormat = ChatFormat {
    name: "deepseek_r1",
    answer_opening: "",
    speaks: |source| is_deepseek(source) && source.contains(FENCES.0),
    controls: CONTROLS,
    parser: |rules| FormatReader::boxed(&SYNTAX, rules),
    calls: |rules| calls(rules, fenced_call),
    reasoning: THINK_TAGS,
};

pub(super) const DEEPSEEK: ChatFormat = ChatFormat {
    name: "deepseek",
    answer_opening: "",
    speaks: is_deepseek,
    controls: CONTROLS,
    parser: |rules| FormatReader::boxed(&SYNTAX, rules),
    calls: |rules| calls(rules, call),
    reasoning: THINK_TAGS,
};

fn is_deepseek(source: &str) -> bool {
    reads_variable(source, "tools") && source.contains(ALL_BEGIN)
}

static SYNTAX: Syntax = Syntax {
    reasoning: THINK_TAGS,
    openings: &[Opening::mark(ALL_BEGIN), Opening::tag(BEGIN)],
    kept: Opening::mark(ALL_BEGIN),
    grammar,
};

fn grammar(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening(_) => Want::OneOf(&[BEGIN]),
        Found::Literal(BEGIN) => Want::Word(&[SEPARATOR]),
        Found::Word("function", SEPARATOR) if !calls.knows("function") => Want::Word(&[FENCES.0]),
        Found::Word(name, _) => {
            calls.start(None, name.to_owned());
            Want::Arguments { has_begun: false }
        }
        Found::Arguments => {
            calls.end();
            Want::OneOf(&[FENCES.1, END])
        }
        Found::Literal("```") => Want::OneOf(&[END]),
        Found::Literal(END) => Want::OneOf(&[BEGIN, ALL_END]),
        Found::Literal(ALL_END) => Want::Done,
        _ => Want::Broken,
    }
}

fn calls(rules: &CallRules, call: fn(&Tool) -> Pattern) -> CallSyntax {
    let one = Pattern::Sequence(vec![Pattern::literal(BEGIN), any_call(rules, call)]);
    let one = Pattern::Sequence(vec![one, Pattern::literal(END), Pattern::Space]);
    let all = if rules.parallel { Pattern::Repeated(Box::new(one)) } else { one };
    CallSyntax {
        opening: ALL_BEGIN.to_owned(),
        rest: Pattern::Sequence(vec![all, Pattern::literal(ALL_END)]),
        only_at_start: false,
    }
}

fn call(tool: &Tool) -> Pattern {
    let name = Pattern::literals(&[&tool.name, SEPARATOR]);
    Pattern::Sequence(name.into_iter().chain([as_object(tool)]).collect())
}

fn fenced_call(tool: &Tool) -> Pattern {
    let name = Pattern::literals(&["function", SEPARATOR]);
    let opening = Pattern::literal(format!("{}\n{}\n", tool.name, FENCES.0));
    let rest =
        [opening, as_object(tool), Pattern::Space, Pattern::literal(FENCES.1), Pattern::Space];
    Pattern::Sequence(name.into_iter().chain(rest).collect())
}
