//! Regular expressions of schemas, which are JavaScript's, in the syntax of the compiler, which is another in a few
//! points.

use super::bad;
use crate::error::GrammarError;

/// JavaScript's white space, as the inside of a class.
const SPACE: &str = "\\t-\\r \\x{a0}\\x{feff}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
/// What `.` matches: all but the ends of lines.
const ANY: &str = "[^\\n\\r\\x{2028}\\x{2029}]";

/// The expression as it is compiled.
///
/// # Errors
/// [`GrammarError::BadKeyword`] for what no expression without memory can say.
pub(super) fn translated(expression: &str, place: &str) -> Result<String, GrammarError> {
    if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| expression.contains(look)) {
        let what = "look-around in a regular expression is not supported";
        return Err(bad(place, what.to_owned()));
    }
    let mut translated = String::with_capacity(expression.len());
    let mut is_class = false;
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        match (c, is_class) {
            ('\\', _) => match chars.next() {
                Some('s') => translated.push_str(&format!("[{SPACE}]")),
                Some('S') => translated.push_str(&format!("[^{SPACE}]")),
                Some('1'..='9') => {
                    let what = "a back-reference in a regular expression is not supported";
                    return Err(bad(place, what.to_owned()));
                }
                escaped => translated.extend(['\\'].into_iter().chain(escaped)),
            },
            ('[', false) => {
                is_class = true;
                translated.push('[');
            }
            (']', true) => {
                is_class = false;
                translated.push(']');
            }
            // Within a class these would be classes in it and operations on it.
            ('[' | '&' | '~', true) => translated.extend(['\\', c]),
            ('.', false) => translated.push_str(ANY),
            (c, _) => translated.push(c),
        }
    }
    Ok(translated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_escapes_mean_what_they_mean_in_javascript() {
        let of = |expression: &str| translated(expression, "/pattern").expect("it can be said");
        assert_eq!(of("^[a-z.]+\\.x$"), "^[a-z.]+\\.x$");
        assert_eq!(of("[[&]"), "[\\[\\&]");
        assert_eq!(of("a.\\\\s"), format!("a{ANY}\\\\s"));
        assert_eq!(of("[\\s]\\S"), format!("[[{SPACE}]][^{SPACE}]"));
        for memory in ["(a)\\1", "(?=a)", "a(?<!b)"] {
            assert!(translated(memory, "/pattern").is_err(), "{memory}");
        }
    }
}
