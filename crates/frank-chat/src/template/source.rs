//! Template source before it is compiled: what `transformers` adds to Jinja becomes Jinja.

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

#[cfg(test)]
mod tests {
    use super::*;

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
