//! Texts in which control tokens stand among other text, as families of models write their marks, taken apart.

use frank_chat::Pattern;

use crate::vocabulary::Vocabulary;

/// The same pattern, in which each control token of the vocabulary is a literal of its own.
pub(super) fn apart(pattern: &Pattern, vocabulary: &Vocabulary) -> Pattern {
    let all = |patterns: &[Pattern]| patterns.iter().map(|one| apart(one, vocabulary)).collect();
    let inner = |pattern: &Pattern| Box::new(apart(pattern, vocabulary));
    match pattern {
        Pattern::Literal(text) => literals(pieces(text, vocabulary)),
        Pattern::TextThrough { end } => through(end, vocabulary),
        Pattern::Sequence(patterns) => Pattern::Sequence(all(patterns)),
        Pattern::OneOf(patterns) => Pattern::OneOf(all(patterns)),
        Pattern::Optional(pattern) => Pattern::Optional(inner(pattern)),
        Pattern::Repeated(pattern) => Pattern::Repeated(inner(pattern)),
        Pattern::Json(_) | Pattern::TextWithout { .. } | Pattern::Space => pattern.clone(),
    }
}

fn literals(mut pieces: Vec<&str>) -> Pattern {
    match pieces.len() {
        1 => Pattern::literal(pieces.remove(0)),
        _ => Pattern::Sequence(pieces.into_iter().map(Pattern::literal).collect()),
    }
}

/// Text through an end with a control token in it. The text before that token may stand in the text too, as `</` does.
fn through(end: &str, vocabulary: &Vocabulary) -> Pattern {
    let pieces = pieces(end, vocabulary);
    let Some(place) = pieces.iter().position(|piece| vocabulary.control_token(piece).is_some())
    else {
        return Pattern::TextThrough { end: end.to_owned() };
    };
    let (before, rest) = (pieces[..place].concat(), pieces[place + 1..].to_vec());
    let control = pieces[place];
    let mut sequence = if before.is_empty() {
        vec![Pattern::TextThrough { end: control.to_owned() }]
    } else {
        let text = Pattern::Repeated(Box::new(Pattern::TextThrough { end: before }));
        vec![text, Pattern::literal(control)]
    };
    sequence.extend(rest.into_iter().map(Pattern::literal));
    if sequence.len() == 1 { sequence.remove(0) } else { Pattern::Sequence(sequence) }
}

/// `text` cut around each control token in it, the longest where several begin at one place. At least one piece.
fn pieces<'a>(text: &'a str, vocabulary: &Vocabulary) -> Vec<&'a str> {
    let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let Some(length) = control_at(&text[at..], vocabulary) else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        if start < at {
            pieces.push(&text[start..at]);
        }
        pieces.push(&text[at..at + length]);
        at += length;
        start = at;
    }
    if start < text.len() || pieces.is_empty() {
        pieces.push(&text[start..]);
    }
    pieces
}

/// Bytes of the longest control token at the start of `text`.
fn control_at(text: &str, vocabulary: &Vocabulary) -> Option<usize> {
    let longest = vocabulary.control_bytes_max().min(text.len());
    let ends = (1..=longest).rev().filter(|end| text.is_char_boundary(*end));
    ends.into_iter().find(|end| vocabulary.control_token(&text[..*end]).is_some())
}
