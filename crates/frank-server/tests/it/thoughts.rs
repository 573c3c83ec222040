//! What the model thinks is told apart from what it says, and bounded where a client wants that.

use serde_json::{Value, json};

use crate::script::says;
use crate::server::{Setup, TestServer, ask};

/// A template that begins the model's thoughts, and knows no switch.
const THINKING: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}\
    {% endfor %}{{ '<|im_start|>assistant\n<think>\n' }}{# </think> #}";

/// One whose model begins its thoughts itself.
const MAY_THINK: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}\
    {% endfor %}{{ '<|im_start|>assistant\n' }}{# <think> </think> #}";

async fn server(template: &str, answer: &str) -> TestServer {
    let template = Some(template.to_owned());
    Setup { answer: says(answer), template, ..Setup::default() }.with_long_context().start().await
}

#[tokio::test]
async fn thoughts_are_told_apart_whoever_began_them() {
    for (template, answer) in [
        (THINKING, "So be it.\n</think>\n\nHello."),
        (MAY_THINK, "<think>\nSo be it.\n</think>\n\nHello."),
    ] {
        let server = server(template, answer).await;
        let reply = server.chat_ok(&ask("Hi", json!({}))).await;
        let message = &reply["choices"][0]["message"];
        assert_eq!(
            message["reasoning_content"].as_str().map(str::trim),
            Some("So be it."),
            "{reply}"
        );
        assert_eq!(message["content"], "Hello.");
        let told =
            reply["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
        assert!((9..=30).contains(&told), "{told}");
    }
}

#[tokio::test]
async fn streamed_thoughts_come_before_the_answer() {
    let server = server(THINKING, "Hm.</think>Hello.").await;
    let chunks = server.chat_stream(&ask("Hi", json!({"stream": true}))).await;
    let joined = |name: &str| -> String {
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][name].as_str()).collect()
    };
    assert_eq!(
        (joined("reasoning_content").as_str(), joined("content").as_str()),
        ("Hm.", "Hello.")
    );
}

#[tokio::test]
async fn thoughts_end_with_their_budget_and_the_answer_follows() {
    let server = server(THINKING, &"a".repeat(60)).await;
    let reply = server.chat_ok(&ask("Hi", json!({"thinking_budget": 5}))).await;
    let message = &reply["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "aaaaa", "{reply}");
    assert!(message["content"].as_str().unwrap().starts_with("aaaa"), "{reply}");
}

#[tokio::test]
async fn a_model_that_shall_not_think_does_not_whatever_its_template_does() {
    for (template, answer) in
        [(THINKING, "aaaaaaaaaaaaaaaa"), (MAY_THINK, "<think>bbbbbbbbbbbbbbbbbbbbbaaaa")]
    {
        let server = server(template, answer).await;
        let reply = server.chat_ok(&ask("Hi", json!({"reasoning_effort": "none"}))).await;
        let message = &reply["choices"][0]["message"];
        assert!(message.get("reasoning_content").is_none_or(Value::is_null), "{reply}");
        assert!(message["content"].as_str().unwrap().contains('a'), "{reply}");
    }
}

#[tokio::test]
async fn an_answer_of_a_form_may_be_thought_over_first() {
    let server = server(THINKING, "I wonder.</think>no json at all").await;
    let schema = json!({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let reply = server.chat_ok(&ask("Hi", json!({"response_format": format}))).await;
    let message = &reply["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "I wonder.", "{reply}");
    let said: Value = serde_json::from_str(message["content"].as_str().unwrap()).unwrap();
    assert_eq!(said, json!({"a": 1}));
}

#[tokio::test]
async fn a_stop_text_in_the_thoughts_ends_nothing() {
    let server = server(THINKING, "one STOP two</think>Hello STOP there").await;
    let reply = server.chat_ok(&ask("Hi", json!({"stop": "STOP"}))).await;
    let message = &reply["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "one STOP two");
    assert_eq!(message["content"], "Hello ");
}

#[tokio::test]
async fn a_tool_may_be_called_after_thoughts() {
    let template = crate::tools::HERMES
        .replace("<|im_start|>assistant\n' }}", "<|im_start|>assistant\n<think>\n' }}");
    assert_ne!(template, crate::tools::HERMES);
    let call = "Hm, <tool_call> is it.</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
    let server = server(&template, call).await;
    let reply = server.chat_ok(&crate::tools::weather(json!({}))).await;
    let message = &reply["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "Hm, <tool_call> is it.", "{reply}");
    assert_eq!(message["content"], "I look.");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "weather");
    let reply = server.chat_ok(&crate::tools::weather(json!({"tool_choice": "required"}))).await;
    let message = &reply["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "Hm, <tool_call> is it.", "{reply}");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "weather");
}

#[tokio::test]
async fn an_answer_of_a_grammar_is_text_though_the_prompt_began_thoughts() {
    let server = server(THINKING, "no").await;
    let reply = server.chat_ok(&ask("Hi", json!({"grammar": "root ::= \"yes\""}))).await;
    assert_eq!(reply["choices"][0]["message"]["content"], "yes", "{reply}");
}

#[tokio::test]
async fn log_probabilities_are_those_of_the_text_and_not_of_thoughts() {
    let server = server(THINKING, "Hm.</think>\n\nHello.").await;
    let reply = server.chat_ok(&ask("Hi", json!({"logprobs": true}))).await;
    let tokens = reply["choices"][0]["logprobs"]["content"].as_array().expect("they are told");
    let joined: String = tokens.iter().filter_map(|token| token["token"].as_str()).collect();
    assert_eq!(joined, "Hello.", "{reply}");
    let chunks = server.chat_stream(&ask("Hi", json!({"logprobs": true, "stream": true}))).await;
    let with_tokens = chunks.iter().filter(|chunk| chunk["choices"][0]["logprobs"].is_object());
    let is_empty = |chunk: &&Value| chunk["choices"][0]["delta"]["content"] == "";
    assert_eq!(with_tokens.filter(is_empty).count(), 0, "no token comes before its text");
}

#[tokio::test]
async fn a_budget_cuts_no_character() {
    let server = server(THINKING, &"\u{601d}".repeat(40)).await;
    for budget in 1..9 {
        let reply = server.chat_ok(&ask("Hi", json!({"thinking_budget": budget}))).await;
        let message = &reply["choices"][0]["message"];
        let thought = message["reasoning_content"].as_str().expect("it thought");
        assert!(thought.chars().all(|c| c == '\u{601d}'), "{budget}: {thought:?}");
        assert!(thought.len() <= budget + 2, "{budget}: {thought:?}");
    }
}
