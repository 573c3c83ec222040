//! DeepSeek's markup for calls, which keeps strings free of escapes: V3.2, whose calls stand in `function_calls`, and V4,
//! whose calls stand in `tool_calls`.

use super::{CallRules, CallSyntax, ChatFormat, THINK_TAGS, any_call};
use crate::arguments::{Argument, arguments_of, bare_string, in_a_row};
use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::reader::{CallWriter, FormatReader, Found, Opening, Syntax, Want};
use crate::template::reads_variable;

/// The token that makes markup of a tag.
const DSML: &str = "｜DSML｜";

const CONTROLS: &[&str] = &["<think>", "</think>", DSML];

pub(super) const DEEPSEEK_DSML: ChatFormat = ChatFormat {
    name: "deepseek_dsml",
    answer_opening: "",
    speaks: |source| is_dsml(source) && source.contains("function_calls>"),
    controls: CONTROLS,
    parser: |rules| FormatReader::boxed(&FUNCTIONS, rules),
    calls: |rules| calls(rules, "function_calls>"),
    reasoning: THINK_TAGS,
};

pub(super) const DEEPSEEK_V4: ChatFormat = ChatFormat {
    name: "deepseek_v4",
    answer_opening: "",
    speaks: is_dsml,
    controls: CONTROLS,
    parser: |rules| FormatReader::boxed(&TOOLS, rules),
    calls: |rules| calls(rules, "tool_calls>"),
    reasoning: THINK_TAGS,
};

fn is_dsml(source: &str) -> bool {
    reads_variable(source, "tools") && source.contains(DSML)
}

const OPENINGS: &[Opening] =
    &[Opening::mark("<｜DSML｜function_calls>"), Opening::mark("<｜DSML｜tool_calls>")];

static FUNCTIONS: Syntax =
    Syntax { reasoning: THINK_TAGS, openings: OPENINGS, kept: OPENINGS[0], grammar };

static TOOLS: Syntax =
    Syntax { reasoning: THINK_TAGS, openings: OPENINGS, kept: OPENINGS[1], grammar };

const INVOKE: &str = "<｜DSML｜invoke name=\"";
const INVOKE_END: &str = "</｜DSML｜invoke>";
const PARAMETER: &str = "<｜DSML｜parameter name=\"";
const PARAMETER_END: &str = "</｜DSML｜parameter>";

const NEXT_PARAMETER: Want = Want::OneOf(&[PARAMETER, INVOKE_END]);

fn grammar(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening(_) => Want::OneOf(&[INVOKE]),
        Found::Literal(INVOKE) => Want::Word(&["\">"]),
        Found::Word(name, _) => {
            calls.start(None, name.to_owned());
            NEXT_PARAMETER
        }
        Found::Literal(PARAMETER) => Want::Key("\" string=\""),
        Found::Key(key) => {
            calls.key(key);
            Want::OneOf(&["true\">", "false\">"])
        }
        Found::Literal(kind @ ("true\">" | "false\">")) => {
            Want::Argument { end: PARAMETER_END, trims: false, is_string: Some(kind == "true\">") }
        }
        Found::Argument => NEXT_PARAMETER,
        Found::Literal(INVOKE_END) => {
            calls.end_keyed();
            Want::OneOf(&[INVOKE, "</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"])
        }
        Found::Literal(_) => Want::Done,
        _ => Want::Broken,
    }
}

fn calls(rules: &CallRules, block: &str) -> CallSyntax {
    let mut one = tag("<", "invoke name=\"");
    one.extend([any_call(rules, call), Pattern::Space]);
    let one = Pattern::Sequence(one);
    let all = if rules.parallel { Pattern::Repeated(Box::new(one)) } else { one };
    let mut rest = vec![Pattern::Space, all];
    rest.extend(tag("</", block));
    CallSyntax {
        opening: format!("<{DSML}{block}"),
        rest: Pattern::Sequence(rest),
        only_at_start: false,
    }
}

/// A tag in pieces, so that its token stands alone.
fn tag(before: &str, after: &str) -> Vec<Pattern> {
    Pattern::literals(&[before, DSML, after])
}

/// A call after `invoke name="`.
fn call(tool: &Tool) -> Pattern {
    let arguments = match arguments_of(tool) {
        Some(arguments) => in_a_row(arguments, parameter),
        None => any_parameters(),
    };
    let mut parts = vec![Pattern::literal(format!("{}\">", tool.name)), Pattern::Space, arguments];
    parts.extend(tag("</", "invoke>"));
    Pattern::Sequence(parts)
}

fn parameter(argument: &Argument) -> Pattern {
    let Argument { key, is_string, schema, .. } = argument;
    let mut parts = tag("<", &format!("parameter name=\"{key}\" string=\"{is_string}\">"));
    if *is_string {
        parts.push(bare_string(schema, PARAMETER_END));
    } else {
        parts.push(Pattern::Json(schema.clone()));
        parts.extend(tag("</", "parameter>"));
    }
    Pattern::Sequence(parts)
}

fn any_parameters() -> Pattern {
    let value = Pattern::TextThrough { end: PARAMETER_END.to_owned() };
    let mut json = vec![Pattern::literal("false\">"), Pattern::Json(serde_json::json!({}))];
    json.extend(tag("</", "parameter>"));
    let kinds =
        vec![Pattern::Sequence(vec![Pattern::literal("true\">"), value]), Pattern::Sequence(json)];
    let mut parts = tag("<", "parameter name=\"");
    parts.push(Pattern::TextThrough { end: "\" string=\"".to_owned() });
    parts.extend([Pattern::OneOf(kinds), Pattern::Space]);
    let repeated = Pattern::Repeated(Box::new(Pattern::Sequence(parts)));
    Pattern::Optional(Box::new(repeated))
}
