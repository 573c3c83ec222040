//! Writes a cut grammar in the notation that llguidance reads.

use serde_json::Value;

use super::lexemes::{Cut, Lexeme, Part};
use super::syntax::{Kind, Node, Rules};
use crate::error::GrammarError;

/// Bytes of the text. Written out, rules can be far larger than the grammar that names them.
const BYTES_MAX: usize = 1 << 20;

/// The grammar as Lark text. Rules are called `r` and their index, lexemes `L` and theirs.
///
/// # Errors
/// [`GrammarError::TooLarge`] when the text is too long.
pub(super) fn write(cut: &Cut<'_>, rules: &Rules) -> Result<String, GrammarError> {
    let mut lark = format!("start: r{}\n", rules.root);
    for (index, part) in &cut.rules {
        let mut body = String::new();
        write_part(part, cut, rules, &mut body);
        append(&mut lark, &format!("r{index}: {body}\n"))?;
    }
    for (index, lexeme) in cut.lexemes.iter().enumerate() {
        if let [Node { kind: Kind::Token(_) | Kind::Json(_), .. }] = lexeme.nodes[..] {
            continue;
        }
        let mut expression = String::new();
        write_lexeme(lexeme, rules, &mut expression)?;
        // A lexeme that is nothing would be read where nothing is.
        let filled = if is_nullable(lexeme, rules) { " & /(?s:.+)/" } else { "" };
        append(&mut lark, &format!("L{index}: {expression}{filled}\n"))?;
    }
    Ok(lark)
}

fn append(text: &mut String, more: &str) -> Result<(), GrammarError> {
    text.push_str(more);
    check_length(text)
}

fn check_length(text: &str) -> Result<(), GrammarError> {
    let what = "bytes when it is written out";
    if text.len() > BYTES_MAX {
        return Err(GrammarError::TooLarge { what, got: text.len(), max: BYTES_MAX });
    }
    Ok(())
}

fn write_part(part: &Part, cut: &Cut<'_>, rules: &Rules, text: &mut String) {
    match part {
        Part::Lexeme(index) => {
            match cut.lexemes[*index].nodes[..] {
                [Node { kind: Kind::Token(token_id), .. }] => {
                    return text.push_str(&format!("<[{token_id}]>"));
                }
                [Node { kind: Kind::Json(schema), .. }] => {
                    return write_json(&rules.schemas[*schema], text);
                }
                _ => {}
            }
            let optional = if is_nullable(&cut.lexemes[*index], rules) { "?" } else { "" };
            text.push_str(&format!("L{index}{optional}"));
        }
        Part::Rule(index) => text.push_str(&format!("r{index}")),
        Part::Sequence(parts) => write_parts(parts, " ", cut, rules, text),
        Part::Choice(parts) => write_parts(parts, " | ", cut, rules, text),
        Part::Repeat(part, min, max) => {
            text.push('(');
            write_part(part, cut, rules, text);
            text.push(')');
            text.push_str(&repetition(*min, *max));
        }
    }
}

fn write_parts(parts: &[Part], between: &str, cut: &Cut<'_>, rules: &Rules, text: &mut String) {
    if parts.is_empty() {
        return text.push_str("\"\"");
    }
    text.push('(');
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            text.push_str(between);
        }
        write_part(part, cut, rules, text);
    }
    text.push(')');
}

fn repetition(min: u32, max: Option<u32>) -> String {
    match (min, max) {
        (0, None) => "*".to_owned(),
        (1, None) => "+".to_owned(),
        (0, Some(1)) => "?".to_owned(),
        (min, None) => format!("{{{min},}}"),
        (min, Some(max)) => format!("{{{min},{max}}}"),
    }
}

/// JSON as a grammar of its own.
fn write_json(schema: &Value, text: &mut String) {
    text.push_str(&format!("%json {schema}"));
}

fn write_lexeme(lexeme: &Lexeme<'_>, rules: &Rules, text: &mut String) -> Result<(), GrammarError> {
    let between = if lexeme.is_choice { "|" } else { "" };
    if lexeme.nodes.iter().any(|node| holds_text(node, rules)) {
        return write_terms(lexeme.nodes.iter().copied(), between, rules, text);
    }
    text.push('/');
    write_regexes(lexeme.nodes.iter().copied(), between, rules, text)?;
    text.push('/');
    Ok(())
}

/// Writes what no regular expression can say: a free text is one that is not another.
fn write_terms<'a>(
    nodes: impl Iterator<Item = &'a Node>,
    between: &str,
    rules: &Rules,
    text: &mut String,
) -> Result<(), GrammarError> {
    text.push('(');
    for (index, node) in nodes.enumerate() {
        if index > 0 {
            text.push_str(&format!(" {between} "));
        }
        write_term(node, rules, text)?;
        check_length(text)?;
    }
    text.push(')');
    Ok(())
}

fn write_term(node: &Node, rules: &Rules, text: &mut String) -> Result<(), GrammarError> {
    if !holds_text(node, rules) {
        text.push('/');
        write_regexes([node].into_iter(), "", rules, text)?;
        text.push('/');
        return Ok(());
    }
    match &node.kind {
        Kind::Rule(index) => write_term(&rules.bodies[*index], rules, text),
        Kind::Sequence(nodes) => write_terms(nodes.iter(), "", rules, text),
        Kind::Choice(nodes) => write_terms(nodes.iter(), "|", rules, text),
        Kind::Repeat(node, min, max) => {
            write_terms([&**node].into_iter(), "", rules, text)?;
            text.push_str(&repetition(*min, *max));
            Ok(())
        }
        Kind::Text(free) => {
            text.push_str(&format!("({})", free.to_lark()));
            Ok(())
        }
        Kind::Chars(_) | Kind::Token(_) | Kind::Json(_) => unreachable!("it holds no free text"),
    }
}

fn holds_text(node: &Node, rules: &Rules) -> bool {
    match &node.kind {
        Kind::Text(_) => true,
        Kind::Chars(_) | Kind::Token(_) | Kind::Json(_) => false,
        Kind::Rule(index) => holds_text(&rules.bodies[*index], rules),
        Kind::Sequence(nodes) | Kind::Choice(nodes) => {
            nodes.iter().any(|node| holds_text(node, rules))
        }
        Kind::Repeat(node, ..) => holds_text(node, rules),
    }
}

fn write_regexes<'a>(
    nodes: impl Iterator<Item = &'a Node>,
    between: &str,
    rules: &Rules,
    text: &mut String,
) -> Result<(), GrammarError> {
    text.push_str("(?:");
    for (index, node) in nodes.enumerate() {
        if index > 0 {
            text.push_str(between);
        }
        write_regex(node, rules, text)?;
        // Each of them may be a rule with a large class.
        check_length(text)?;
    }
    text.push(')');
    check_length(text)
}

fn write_regex(node: &Node, rules: &Rules, text: &mut String) -> Result<(), GrammarError> {
    match &node.kind {
        Kind::Chars(chars) => chars.write_regex(text),
        Kind::Rule(index) => write_regex(&rules.bodies[*index], rules, text)?,
        Kind::Sequence(nodes) => write_regexes(nodes.iter(), "", rules, text)?,
        Kind::Choice(nodes) => write_regexes(nodes.iter(), "|", rules, text)?,
        Kind::Repeat(node, min, max) => {
            write_regexes([&**node].into_iter(), "", rules, text)?;
            text.push_str(&repetition(*min, *max));
        }
        Kind::Text(_) | Kind::Token(_) | Kind::Json(_) => unreachable!("no regular expression"),
    }
    Ok(())
}

fn is_nullable(lexeme: &Lexeme<'_>, rules: &Rules) -> bool {
    let mut nodes = lexeme.nodes.iter();
    if lexeme.is_choice {
        nodes.any(|node| can_be_nothing(node, rules))
    } else {
        nodes.all(|node| can_be_nothing(node, rules))
    }
}

fn can_be_nothing(node: &Node, rules: &Rules) -> bool {
    match &node.kind {
        Kind::Chars(_) | Kind::Token(_) | Kind::Json(_) => false,
        Kind::Text(text) => !text.is_through,
        Kind::Rule(index) => can_be_nothing(&rules.bodies[*index], rules),
        Kind::Sequence(nodes) => nodes.iter().all(|node| can_be_nothing(node, rules)),
        Kind::Choice(nodes) => nodes.iter().any(|node| can_be_nothing(node, rules)),
        Kind::Repeat(node, min, _) => *min == 0 || can_be_nothing(node, rules),
    }
}
