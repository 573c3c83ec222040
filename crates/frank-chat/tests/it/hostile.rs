//! A template is a stranger's program: it ends, in bounded memory, with a reason.

use frank_chat::{ChatTemplate, Role, TemplateError};

use crate::{conversation, render};

/// The kind of error that `source` ends with.
fn refusal(source: &str) -> TemplateError {
    match render(source, "Hi") {
        Err(error) => error,
        Ok(text) => panic!("{source} rendered {} bytes", text.len()),
    }
}

#[test]
fn a_range_of_a_billion_is_refused() {
    assert!(matches!(
        refusal("{% for i in range(10**9) %}x{% endfor %}"),
        TemplateError::Failed { .. }
    ));
}

#[test]
fn nested_loops_run_out_of_fuel() {
    let source = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}\
        {% endfor %}{% endfor %}{% endfor %}";
    assert!(matches!(refusal(source), TemplateError::TooMuchWork));
}

#[test]
fn endless_recursion_is_too_deep() {
    assert!(matches!(
        refusal("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}"),
        TemplateError::TooDeep
    ));
    assert!(matches!(
        refusal("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
        TemplateError::TooDeep
    ));
}

#[test]
fn a_string_of_a_gigabyte_is_never_made() {
    assert!(matches!(refusal("{{ 'a' * 10**9 }}"), TemplateError::TooMuchWork));
    assert!(matches!(refusal("{{ '%1000000000d' | format(1) }}"), TemplateError::TooMuchWork));
    assert!(matches!(refusal("{{ '{:1000000000}'.format(1) }}"), TemplateError::Failed { .. }));
    assert!(matches!(refusal("{{ 'a'.ljust(10**9) }}"), TemplateError::TooMuchWork));
    assert!(matches!(refusal("{{ 'a'.zfill(10**9) }}"), TemplateError::TooMuchWork));
    assert!(matches!(refusal("{{ 'a\\nb' | indent(10**9) }}"), TemplateError::TooMuchWork));
    let lines = "{{ ('\\n' * 90000) | indent('x' * 90000, true, true) | length }}";
    assert!(matches!(refusal(lines), TemplateError::TooMuchWork));
    assert!(matches!(refusal("{{ [1] | tojson(indent=10**9) }}"), TemplateError::Failed { .. }));
    for (piece, call) in
        [("a ", "split(' ')"), ("a ", "split()"), ("a ", "rsplit(' ')"), ("a\\n", "splitlines()")]
    {
        let source = format!("{{{{ ('{piece}' * 1000000).{call} | length }}}}");
        assert!(matches!(refusal(&source), TemplateError::TooMuchWork), "{source}");
    }
    let formats = "{{ ('{:999}' * 90000).format(1) | length }}";
    assert!(matches!(refusal(formats), TemplateError::TooMuchWork));
    let repeated = "{{ '{0}'.replace('{0}', '{0}{0}{0}{0}{0}{0}{0}{0}').format('a' * 1000000) }}";
    assert!(matches!(refusal(repeated), TemplateError::TooMuchWork));
    // One text many times: each is paid for before it is copied, or the references would become 100 gigabytes.
    let joined = "{% set texts = ['a' * 1000000] * 100000 %}{{ ''.join(texts) | length }}";
    assert!(matches!(refusal(joined), TemplateError::TooMuchWork));
    let doubling = "{% set ns = namespace(s='aaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}";
    assert!(matches!(refusal(doubling), TemplateError::TooMuchWork));
}

#[test]
fn output_is_capped() {
    let source = "{% for i in range(99999) %}{{ 'a' * 4000 }}{% endfor %}";
    assert!(matches!(
        refusal(source),
        TemplateError::OutputTooLong { .. } | TemplateError::TooMuchWork
    ));
    let source = "{% for i in range(300) %}aaaaaaaaaaaaaaaa{{ 'a' * 4000 }}{% endfor %}";
    assert!(matches!(refusal(source), TemplateError::OutputTooLong { .. }));
}

#[test]
fn json_of_a_list_that_holds_itself_many_times_is_refused() {
    let source = "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}\
        {{ ns.s | tojson }}";
    assert!(matches!(refusal(source), TemplateError::TooMuchWork));
}

#[test]
fn json_with_long_separators_is_refused_before_it_fills_the_memory() {
    for source in [
        "{{ (range(50000) | list) | tojson(separators=('x' * 100000, ':')) | length }}",
        "{{ ([{'a': 1}] * 50000) | tojson(separators=(',', 'x' * 100000)) | length }}",
    ] {
        assert!(matches!(refusal(source), TemplateError::TooMuchWork), "{source}");
    }
}

#[test]
fn values_nested_as_deep_as_fuel_allows_do_not_overflow_the_stack() {
    let nest = |level: &str, then: &str| {
        format!(
            "{{% set ns = namespace(s=[], n=0) %}}{{% for a in range(99999) %}}\
             {{% set ns.s = {level} %}}{{% set ns.n = ns.n + 1 %}}{{% if ns.n == 2000 %}}{{% break %}}{{% endif %}}\
             {{% endfor %}}{then}"
        )
    };
    let deep = "[[[[[[[[[[ns.s]]]]]]]]]]";
    // Dropping them, printing them, and running out of fuel while they grow.
    assert!(render(&nest(deep, "done"), "").is_ok());
    assert!(render(&nest(deep, "{{ ns.s }}"), "").is_ok());
    assert!(render(&nest("{'a': {'a': ns.s}}", "{{ ns.s == ns.s }}"), "").is_ok());
    assert!(render(&nest("ns.s[0:]", "{{ ns.s | list }}"), "").is_ok());
    let forever = "{% set ns = namespace(s=[]) %}{% for a in range(99999) %}\
        {% set ns.s = [[[[[[[[[[ns.s]]]]]]]]]] %}{% endfor %}";
    assert!(matches!(refusal(forever), TemplateError::TooMuchWork));
}

#[test]
fn a_source_nested_as_deep_as_its_length_allows_does_not_overflow_the_stack() {
    for (open, inner, close) in
        [("(", "1", ")"), ("[", "1", "]"), ("{% if a %}", "", "{% endif %}")]
    {
        let source = format!("{{{{ 1 }}}}{}{inner}{}", open.repeat(5000), close.repeat(5000));
        let source = if inner.is_empty() { source } else { format!("{{{{ {source} }}}}") };
        assert!(
            matches!(ChatTemplate::new(&source, "", ""), Err(TemplateError::Syntax { .. })),
            "{open}"
        );
    }
    for chain in ["-", "not ", "+a", "|e", ".b", "()", "~a", "**a"] {
        let n = 8_000 / chain.len();
        let source = match chain {
            "-" | "not " => format!("{{{{ {}a }}}}", chain.repeat(n)),
            _ => format!("{{{{ a{} }}}}", chain.repeat(n)),
        };
        assert!(ChatTemplate::new(&source, "", "").is_ok(), "{chain}");
    }
    let elifs = format!("{{% if a %}}{}{{% endif %}}", "{%elif b%}".repeat(12_000));
    assert!(ChatTemplate::new(&elifs, "", "").is_ok());
}

#[test]
fn a_template_of_a_megabyte_is_not_taken() {
    let source = "a".repeat(1 << 20);
    assert!(matches!(ChatTemplate::new(&source, "", ""), Err(TemplateError::SourceTooLong { .. })));
}

#[test]
fn an_ordinary_template_has_fuel_for_a_long_conversation() {
    let template = ChatTemplate::new(crate::CHATML, "", "").unwrap();
    let text = "word ".repeat(400);
    let turns: Vec<_> = (0..2000)
        .map(|i| (if i % 2 == 0 { Role::User } else { Role::Assistant }, &*text))
        .collect();
    let prompt = template.render(&conversation(&turns), &crate::CHATML_CONTROLS).unwrap();
    assert!(prompt.text.len() > 2000 * text.len());
}

#[test]
fn messages_that_hold_every_noncharacter_are_refused() {
    let all: String = ('\u{FDD0}'..='\u{FDEF}').collect();
    assert!(matches!(render(crate::CHATML, &all), Err(TemplateError::NoGuard)));
    assert_eq!(render("{{ messages[0].content }}", "a\u{FDD0}b").unwrap(), "a\u{FDD0}b");
}
