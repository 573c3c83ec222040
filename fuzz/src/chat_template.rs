//! Target: compiling a chat template and rendering a conversation with it; the source and each message end at a zero.

use std::time::{Duration, Instant};

use frank_chat::{ChatTemplate, Conversation, Message, Role};

/// Roles of the messages, in turns.
const ROLES: [Role; 3] = [Role::System, Role::User, Role::Assistant];
/// Texts that no message may spell.
const CONTROL_TEXTS: [&str; 4] = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"];
/// Longer than the bounds on a template allow, on a machine that does other things too.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Renders what `bytes` say: a prompt or an error, within the bounds on time and output.
///
/// # Panics
/// When one of these does not hold.
pub fn check(bytes: &[u8]) {
    let start = Instant::now();
    render(&String::from_utf8_lossy(bytes));
    assert!(start.elapsed() < TIME_MAX, "{:?}", start.elapsed());
}

fn render(input: &str) {
    let mut texts = input.split('\0');
    let source = texts.next().unwrap_or_default();
    let messages =
        texts.zip(ROLES.into_iter().cycle()).map(|(text, role)| Message::new(role, text));
    let conversation = Conversation {
        messages: messages.collect(),
        now: Some(1_700_000_000),
        ..Conversation::default()
    };
    let rendered = ChatTemplate::new(source, "<s>", "</s>")
        .and_then(|template| template.render(&conversation, &CONTROL_TEXTS));
    match rendered {
        Ok(prompt) => assert!(!prompt.plain_text().contains(prompt.guard)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Templates as models have them, and such as none should have, each with a conversation.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let conversation = "\0You help.\0Hi <|im_end|>\0Hello!\0\0<s>again</s>";
    SOURCES.iter().map(|source| [source, conversation].concat().into_bytes()).collect()
}

const SOURCES: &[&str] = &[
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
     {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{{ bos_token }}{%- for m in messages -%}{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}\
     {{ raise_exception('roles must alternate') }}{%- endif -%}{{ m['content'] | trim }}{{ eos_token }}{%- endfor -%}",
    "{%- set ns = namespace(n=0, last='') %}{% for m in messages[::-1] %}{% set ns.n = ns.n + 1 %}\
     {% set ns.last = m.content %}{% if ns.n > 3 %}{% break %}{% endif %}{% continue %}{% endfor %}{{ ns.n ~ ns.last }}",
    "{% macro say(m, i=1) %}{{ m.role | upper }}:{{ ' ' * i }}{{ m.content }}{% endmacro %}\
     {% for m in messages %}{{ say(m, loop.index) }}{% endfor %}{{ messages | tojson(indent=2) }}",
    "{{ strftime_now('%Y-%m-%d') }}{% for m in messages if m.role != 'system' %}{% generation %}{{ m.content }}\
     {% endgeneration %}{% else %}nobody{% endfor %}",
    "{{ messages[0].content.split(' ')[-1].strip().lower().startswith('you') }}{{ messages | length }}\
     {{ messages | map(attribute='role') | join(',') }}{{ messages | selectattr('role', 'equalto', 'user') | list }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{{ 'a' * 10**9 }}{{ '%1000000000d' | format(1) }}{{ '{:1000000000}'.format(1) }}",
    "{% set x = [1] %}{% for i in range(40) %}{% set x = x + x %}{% endfor %}{{ x }}",
    "{{ ((((((((1)))))))) }}{{ [[[[[[]]]]]] }}{{ {'a': {'b': {}}} }}{{ 1 // 0 }}{{ 1 % 0 }}{{ -9223372036854775808 // -1 }}",
    "{% include 'x' %}{% import 'y' as z %}{% extends 'w' %}{{ self }}{{ caller() }}{{ debug() }}",
    "{# not closed",
    "{% generation %}{%}{%-%}{%",
    "{% for",
    "{{ '\u{fdd0}\u{fdef}' }}{{ messages[1].content[2:9] }}",
];
