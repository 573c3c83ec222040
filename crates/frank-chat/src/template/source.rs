//! Template source before it is compiled: what `transformers` adds to Jinja becomes Jinja, and which variables are read.

use std::borrow::Cow;

/// `source` without the meaning of `{% generation %}` and `{% endgeneration %}`, between which `transformers` finds
/// the model's own words for training. For a prompt the text between them is like any other.
///
/// The tags become `{% if true %}` and `{% endif %}`, so that lines and whitespace control stay as they are.
pub(super) fn without_generation_tags(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return source.into();
    }
    let mut plain = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        // The `%` of `{%}` opens the tag and does not close it.
        let Some(length) = tag[2..].find("%}") else { break };
        let (tag, after) = tag.split_at(2 + length);
        plain.push_str(before);
        let word = tag[2..].trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        match word {
            "generation" => plain.push_str(&tag.replacen(word, "if true", 1)),
            "endgeneration" => plain.push_str(&tag.replacen(word, "endif", 1)),
            _ => plain.push_str(tag),
        }
        rest = after;
    }
    plain.push_str(rest);
    plain.into()
}

/// Whether a template reads the variable `name`: whether it stands in a tag as a word of its own and not as an attribute, a
/// keyword or in quotes.
pub(crate) fn reads_variable(source: &str, name: &str) -> bool {
    if !source.contains(name) {
        return false;
    }
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        let (end, tag) = match rest.as_bytes().get(start + 1) {
            Some(b'{') => ("}}", true),
            Some(b'%') => ("%}", true),
            Some(b'#') => ("#}", false),
            _ => {
                rest = &rest[start + 1..];
                continue;
            }
        };
        let inside = &rest[start + 2..];
        let length = if tag { length_of_tag(inside, end) } else { inside.find(end) };
        let length = length.unwrap_or(inside.len());
        if tag && has_word(&inside[..length], name) {
            return true;
        }
        rest = inside.get(length + 2..).unwrap_or_default();
    }
    false
}

/// Where a tag ends that `end` closes; not in quotes.
fn length_of_tag(inside: &str, end: &str) -> Option<usize> {
    let mut at = 0;
    while at < inside.len() {
        let here = &inside[at..];
        if here.starts_with(end) {
            return Some(at);
        }
        at += length_of_piece(here);
    }
    None
}

/// Bytes of the quoted text, the word or the character at the start of `text`.
fn length_of_piece(text: &str) -> usize {
    let first = text.chars().next().map_or('\0', |c| c);
    if first == '\'' || first == '"' {
        return length_of_quoted(text, first);
    }
    let word = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    word.max(first.len_utf8())
}

fn length_of_quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + c.len_utf8();
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

fn has_word(tag: &str, name: &str) -> bool {
    let mut at = 0;
    let mut before = ' ';
    while at < tag.len() {
        let piece = &tag[at..at + length_of_piece(&tag[at..])];
        at += piece.len();
        if piece == name && before != '.' {
            let after = tag[at..].trim_start();
            let is_keyword = after.starts_with('=') && !after.starts_with("==");
            if !is_keyword {
                return true;
            }
        }
        before = piece.chars().rfind(|c| !c.is_whitespace()).unwrap_or(before);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_read_where_it_stands_alone_in_a_tag() {
        let check = |source: &str, expected| {
            assert_eq!(reads_variable(source, "tools"), expected, "{source}");
        };
        check("{{ tools | tojson }}", true);
        check("a { b {%- if tools -%}x{% endif %}", true);
        check("{% for t in tools %}{% endfor %}", true);
        check("{% if tools == none %}{% endif %}", true);
        check("{{ \"}}\" ~ tools }}", true);
        check("tools", false);
        check("{# tools #}{{ a }}", false);
        check("{{ 'tools' }}{{ \"a \\\" tools\" }}", false);
        check("{{ message.tools }}{{ my_tools }}{{ tools_list }}", false);
        check("{{ f(tools=1) }}{% set tools = 1 %}", false);
        check("{{ 'tools", false);
        check("{{ é", false);
        check("{", false);
    }

    fn check(source: &str, expected: &str) {
        assert_eq!(without_generation_tags(source), expected);
    }

    #[test]
    fn generation_tags_become_an_if_that_holds() {
        check("a{% generation %}b{% endgeneration %}c", "a{% if true %}b{% endif %}c");
        check("{%- generation -%}b{%-endgeneration-%}", "{%- if true -%}b{%-endif-%}");
        check(
            "{% if add_generation_prompt %}x{% endif %}",
            "{% if add_generation_prompt %}x{% endif %}",
        );
        check("{% set generation = 1 %}", "{% set generation = 1 %}");
        check("generation {% no end", "generation {% no end");
        check("generation {%}", "generation {%}");
        check("generation {%} a %}", "generation {%} a %}");
        check("plain", "plain");
    }
}
