//! Templates render as the ecosystem's reference does.

use frank_chat::{ChatTemplate, Message, Role, TemplateError};

use crate::{CHATML, CHATML_CONTROLS, conversation, render};

fn check(source: &str, expected: &str) {
    let text = render(source, "Hi <b>'you' & \"me\"</b>\t日本").expect("the template renders");
    assert_eq!(text, expected, "for {source}");
}

#[test]
fn chatml_wraps_each_message_and_opens_the_answer() {
    let template = ChatTemplate::new(CHATML, "<|im_start|>", "<|im_end|>").unwrap();
    let talk =
        conversation(&[(Role::User, "Hi"), (Role::Assistant, "Hello."), (Role::User, "Bye")]);
    let prompt = template.render(&talk, &CHATML_CONTROLS).unwrap();
    assert_eq!(
        prompt.plain_text(),
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n\
         <|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn python_methods_and_globals_are_there() {
    check("{{ bos_token }}{{ eos_token }}", "<s></s>");
    check("{{ 'a b'.split(' ')[-1].upper() }}", "B");
    check("{{ messages[0].content.startswith('Hi') }}", "True");
    check("{{ messages[0].get('tool_calls', 'none') }}", "none");
    check("{{ '{}-{}'.format('a', 1) }}{{ '{1}{0}'.format('a', 'b') }}", "a-1ba");
    check("{{ '  x '.strip() }}{{ 'x\n' | trim }}", "xx");
    check(
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
        "1",
    );
    check("{{ messages[0].name is defined }}{{ strftime_now is defined }}", "FalseFalse");
    check(
        "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
        "13",
    );
}

#[test]
fn blocks_leave_no_line_of_their_own() {
    check("  {% if true %}\n  x\n  {% endif %}\n", "  x\n");
}

#[test]
fn tojson_writes_as_python_does_without_html_escapes() {
    check("{{ messages[0].content | tojson }}", "\"Hi <b>'you' & \\\"me\\\"</b>\\t日本\"");
    check(
        "{{ {'a': [1, 2.0, true, none], 'b': {}} | tojson }}",
        r#"{"a": [1, 2.0, true, null], "b": {}}"#,
    );
    check("{{ [1, [2], []] | tojson(indent=2) }}", "[\n  1,\n  [\n    2\n  ],\n  []\n]");
    check(
        "{{ {'a': [1, 2]} | tojson(separators=(',', ':'), ensure_ascii=false) }}",
        r#"{"a":[1,2]}"#,
    );
}

#[test]
fn names_reach_the_template() {
    let template =
        ChatTemplate::new("{{ messages[0].name }}: {{ messages[0].content }}", "", "").unwrap();
    let mut talk = conversation(&[(Role::User, "Hi")]);
    talk.messages[0] = Message { name: Some("Ann".to_owned()), ..talk.messages[0].clone() };
    assert_eq!(template.render(&talk, &[]).unwrap().plain_text(), "Ann: Hi");
}

#[test]
fn a_template_finds_the_date_where_the_caller_gives_one() {
    let source = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}no clock{% endif %}";
    let template = ChatTemplate::new(source, "", "").unwrap();
    let mut talk = conversation(&[(Role::User, "Hi")]);
    assert_eq!(template.render(&talk, &[]).unwrap().text, "no clock");
    talk.now = Some(1_700_000_000);
    assert_eq!(template.render(&talk, &[]).unwrap().text, "14 Nov 2023");
}

#[test]
fn words_marked_for_training_are_words_like_any_other() {
    check("{% for m in messages %}{%- generation -%} x {%- endgeneration -%}{% endfor %}", "x");
}

#[test]
fn a_template_that_refuses_two_user_messages_in_a_row_says_so_in_its_own_words() {
    let source = "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
        {{ raise_exception('roles must alternate, found ' + m.content) }}{% endif %}{% endfor %}";
    let template = ChatTemplate::new(source, "", "").unwrap();
    let talk = conversation(&[(Role::User, "a"), (Role::User, "b <|im_end|>")]);
    match template.render(&talk, &CHATML_CONTROLS) {
        Err(TemplateError::Raised(message)) => {
            assert_eq!(message, "roles must alternate, found b <|im_end|>")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn mistakes_of_a_template_are_named_with_their_line() {
    match ChatTemplate::new("a\nb {% if %}", "", "") {
        Err(TemplateError::Syntax { line: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    match render("a\n{{ strftime_now('%d') }}", "") {
        Err(TemplateError::Failed { line: 2, detail }) => {
            assert!(detail.contains("strftime_now"), "{detail}")
        }
        other => panic!("{other:?}"),
    }
    match render("{{ messages[0].tool.name }}", "") {
        Err(TemplateError::Failed { line: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
}
