//! The form in which frank itself explains tools to models whose template does not: JSON between tags.

use super::{CallRules, CallSyntax, ChatFormat, THINK_TAGS, any_call, hermes, repeated_calls};
use crate::reader::{CallWriter, FormatReader, Found, Opening, Syntax, Want};

/// With what a call begins and ends. Models that were trained on tools know these tags more than any other.
pub(crate) const TAGS: (&str, &str) = ("<tool_call>", "</tool_call>");

pub(super) const GENERIC: ChatFormat = ChatFormat {
    name: "generic",
    answer_opening: "",
    speaks: |_| true,
    controls: &["<think>", "</think>", TAGS.0, TAGS.1],
    parser: |rules| FormatReader::boxed(&SYNTAX, rules),
    calls,
    reasoning: THINK_TAGS,
};

static SYNTAX: Syntax = Syntax {
    reasoning: THINK_TAGS,
    // A small model often leaves the tags out.
    openings: &[Opening::mark(TAGS.0), Opening::start("{")],
    kept: Opening::mark(TAGS.0),
    grammar,
};

fn grammar(found: Found<'_>, calls: &mut CallWriter) -> Want {
    match found {
        Found::Opening("{") => Want::Call,
        found => hermes::grammar(found, calls),
    }
}

fn calls(rules: &CallRules) -> CallSyntax {
    CallSyntax {
        opening: TAGS.0.to_owned(),
        rest: repeated_calls(rules, any_call(rules, hermes::json_call), TAGS.0),
        only_at_start: false,
    }
}
