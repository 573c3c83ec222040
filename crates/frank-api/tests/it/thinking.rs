//! Whether and how much a model shall think, under every name by which clients of Chat Completions say it.

use serde_json::{Value, json};

use crate::requests::{accepted, refused};

/// Whether it thinks, how much, and its budget.
fn thinking(extra: Value) -> (Option<bool>, Option<String>, Option<u64>) {
    let request = accepted(extra);
    (request.conversation.thinking, request.conversation.effort, request.thinking_budget)
}

fn kwargs(variables: Value) -> Value {
    let mut extra = json!({});
    extra["chat_template_kwargs"] = variables;
    extra
}

#[test]
fn nothing_said_leaves_it_to_the_model() {
    assert_eq!(thinking(json!({})), (None, None, None));
    for nothing in [
        json!({"thinking_budget": -1}),
        json!({"reasoning": {}}),
        json!({"thinking": {"type": "adaptive"}}),
        kwargs(json!({"enable_thinking": null})),
        json!({"reasoning_format": "auto", "include_reasoning": true}),
        json!({"reasoning_format": "deepseek", "reasoning": {"exclude": false}}),
    ] {
        assert_eq!(thinking(nothing.clone()), (None, None, None), "{nothing}");
    }
}

#[test]
fn the_switch_has_many_names() {
    for (on, value) in [(true, json!(true)), (false, json!(false))] {
        let typed = if on { "enabled" } else { "disabled" };
        for said in [
            json!({"enable_thinking": value}),
            json!({"reasoning": {"enabled": value}}),
            json!({"thinking": value}),
            json!({"thinking": {"type": typed}}),
            kwargs(json!({"enable_thinking": value})),
            kwargs(json!({"thinking": value})),
            json!({"enable_thinking": value, "reasoning": {"enabled": value}}),
        ] {
            assert_eq!(thinking(said.clone()), (Some(on), None, None), "{said}");
        }
    }
    for off in [
        json!({"reasoning_effort": "none"}),
        json!({"reasoning": {"effort": "none"}}),
        kwargs(json!({"reasoning_effort": "none"})),
    ] {
        assert_eq!(thinking(off.clone()), (Some(false), None, None), "{off}");
    }
}

#[test]
fn an_effort_asks_for_thought_in_the_words_of_templates() {
    for (word, expected) in [
        ("minimal", "low"),
        ("low", "low"),
        ("medium", "medium"),
        ("high", "high"),
        ("xhigh", "high"),
        ("max", "high"),
    ] {
        let expected = (Some(true), Some(expected.to_owned()), None);
        assert_eq!(thinking(json!({"reasoning_effort": word})), expected);
        assert_eq!(thinking(json!({"reasoning": {"effort": word}})), expected);
    }
    let own = thinking(kwargs(json!({"reasoning_effort": "max"})));
    assert_eq!(own, (Some(true), Some("max".to_owned()), None), "templates have their own words");
    refused(json!({"reasoning_effort": "huge"}), "reasoning_effort", "none, minimal, low");
    refused(json!({"reasoning": {"effort": 5}}), "reasoning.effort", "must be a string");
}

#[test]
fn a_budget_bounds_thought_and_one_of_nothing_turns_it_off() {
    for (n, on) in [(512, true), (0, false)] {
        for said in [
            json!({"thinking_budget": n}),
            json!({"thinking_budget_tokens": n}),
            json!({"reasoning_budget": n}),
            json!({"reasoning": {"max_tokens": n}}),
        ] {
            let expected = (Some(on), None, Some(n));
            assert_eq!(thinking(said.clone()), expected, "{said}");
        }
    }
    let typed = json!({"thinking": {"type": "enabled", "budget_tokens": 512}});
    assert_eq!(thinking(typed), (Some(true), None, Some(512)));
    let off = json!({"enable_thinking": false, "thinking_budget": 512});
    assert_eq!(thinking(off).0, Some(false), "a bound is none the less kept");
    refused(json!({"thinking_budget": -2}), "thinking_budget", "must be from -1");
    refused(json!({"reasoning": {"max_tokens": "x"}}), "reasoning.max_tokens", "an integer");
}

#[test]
fn names_that_disagree_are_refused() {
    let contradict = |extra: Value, param: &str| refused(extra, param, "contradict each other");
    contradict(json!({"enable_thinking": false, "reasoning_effort": "high"}), "reasoning_effort");
    contradict(json!({"enable_thinking": true, "reasoning_effort": "none"}), "enable_thinking");
    contradict(json!({"reasoning": {"enabled": false, "effort": "low"}}), "reasoning.effort");
    contradict(
        json!({"reasoning_effort": "low", "reasoning": {"effort": "high"}}),
        "reasoning.effort",
    );
    contradict(json!({"thinking_budget": 5, "reasoning_budget": 6}), "reasoning_budget");
    contradict(json!({"thinking_budget": 0, "enable_thinking": true}), "thinking_budget");
    let both = kwargs(json!({"enable_thinking": true, "thinking": false}));
    contradict(both, "chat_template_kwargs.thinking");
}

#[test]
fn what_cannot_be_honoured_about_thoughts_is_named() {
    let unsupported = |extra: Value, param: &str| refused(extra, param, "is not supported");
    unsupported(json!({"reasoning_format": "none"}), "reasoning_format");
    unsupported(json!({"include_reasoning": false}), "include_reasoning");
    unsupported(json!({"reasoning": {"exclude": true}}), "reasoning.exclude");
    refused(json!({"reasoning": {"depth": 3}}), "reasoning.depth", "unknown parameter");
    refused(
        json!({"thinking": {"type": "deep"}}),
        "thinking.type",
        "enabled, disabled or adaptive",
    );
    refused(json!({"enable_thinking": "yes"}), "enable_thinking", "true or false");
}

#[test]
fn other_template_variables_are_taken_within_bounds() {
    let variables = json!({"custom_1": "x", "_n": 2, "is_on": false});
    let request = accepted(kwargs(variables.clone()));
    assert_eq!(Value::Object(request.conversation.variables), variables);
    assert_eq!(request.conversation.thinking, None);
    let wrong = |variables: Value, name: &str, says: &str| {
        refused(kwargs(variables), &format!("chat_template_kwargs.{name}"), says);
    };
    for name in ["Custom", "1st", "a-b", "ä", ""] {
        wrong(json!({name: 1}), name, "is no name of a variable");
    }
    for name in ["messages", "tools", "bos_token", "add_generation_prompt", "raise_exception"] {
        wrong(json!({name: "x"}), name, "every template has a value of this name");
    }
    wrong(json!({"a": [1]}), "a", "a text, a number or a boolean");
    wrong(json!({"a": "x".repeat(1025)}), "a", "at most 1024 bytes");
    wrong(json!({"enable_thinking": "yes"}), "enable_thinking", "true or false");
    wrong(json!({"reasoning_effort": 5}), "reasoning_effort", "a short string");
    let many: serde_json::Map<String, Value> =
        (0..17).map(|i| (format!("v{i}"), json!(1))).collect();
    refused(kwargs(Value::Object(many)), "chat_template_kwargs", "at most 16 variables, not 17");
    refused(json!({"chat_template_kwargs": "x"}), "chat_template_kwargs", "must be an object");
}
