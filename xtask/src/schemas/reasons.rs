//! Reasons of refusals without what is of one schema alone, so that they can be counted.

use frank_grammar::GrammarError;

/// Characters of a reason.
const REASON_MAX: usize = 70;

/// The kind of a refusal.
pub(crate) fn kind(error: &GrammarError) -> String {
    match error {
        GrammarError::UnsupportedKeyword { keyword, .. } => format!("keyword {keyword}"),
        GrammarError::TooLarge { what, .. } => format!("too many {what}"),
        GrammarError::TooDeep { .. } => "too deep".to_owned(),
        GrammarError::BadKeyword { pointer, what } => {
            let keyword = pointer.rsplit('/').next().unwrap_or_default();
            match what.strip_prefix("the format ").and_then(|rest| rest.split(' ').next()) {
                Some(format) => format!("format {format}"),
                None => format!("{}: {}", name_of(keyword), plain(what)),
            }
        }
        other => plain(&other.to_string()),
    }
}

/// A name of a keyword; names of properties and places in lists are left out.
fn name_of(keyword: &str) -> &str {
    let is_number = keyword.chars().all(|c| c.is_ascii_digit());
    if is_number || keyword.len() > 20 { "…" } else { keyword }
}

/// A text without numbers and quoted names.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut is_quoted = false;
    for c in text.chars() {
        match c {
            '\'' | '"' | '/' => is_quoted = !is_quoted,
            '0'..='9' => {}
            _ if is_quoted => {}
            c => plain.push(c),
        }
    }
    plain.chars().take(REASON_MAX).collect()
}
