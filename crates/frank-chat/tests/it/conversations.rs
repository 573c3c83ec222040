//! Conversations reach templates with their switches, in a form that is not refused, and with tools where a template knows
//! none.

use frank_chat::{
    ChatTemplate, Conversation, Message, OutputPart, OutputRules, Role, Tool, ToolCall,
    switches_thinking, with_tools_as_text,
};
use frank_testkit::assets;
use serde_json::{Map, Value, json};

use crate::formats::{read_chars, tools};
use crate::{CHATML, CHATML_CONTROLS, conversation};

fn rendered(source: &str, talk: &Conversation) -> String {
    let template = ChatTemplate::new(source, "<s>", "</s>").expect("the template compiles");
    template.render(talk, &CHATML_CONTROLS).expect("the template renders").plain_text()
}

fn published(name: &str) -> ChatTemplate {
    let path = assets::chat_templates().join(format!("{name}.jinja"));
    let source = std::fs::read_to_string(path).expect("the templates are installed");
    ChatTemplate::new(&source, "<s>", "</s>").expect("the template compiles")
}

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall { id: Some(id.to_owned()), name: name.to_owned(), arguments: json!({"text": "a"}) }
}

fn result(id: &str, text: &str) -> Message {
    Message { tool_call_id: Some(id.to_owned()), ..Message::new(Role::Tool, text) }
}

fn variables(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

#[test]
fn thinking_and_effort_are_variables_and_not_there_unless_they_are_set() {
    let source = "{{ enable_thinking is defined }} {{ enable_thinking }} {{ thinking }} {{ reasoning_effort }}";
    let mut talk = conversation(&[(Role::User, "Hi")]);
    assert_eq!(rendered(source, &talk), "False   ");
    (talk.thinking, talk.effort) = (Some(false), Some("high".to_owned()));
    assert_eq!(rendered(source, &talk), "True False False high");
    talk.variables = variables(&json!({"enable_thinking": true, "thinking": true}));
    assert_eq!(rendered(source, &talk), "True False False high");
}

#[test]
fn variables_reach_the_template_and_replace_nothing_that_is_its_own() {
    let source = "{{ style }} {{ messages | length }} {{ tools }} {{ bos_token }} {{ add_generation_prompt }} \
                  {{ strftime_now is defined }}";
    let mut talk = conversation(&[(Role::User, "Hi")]);
    let own = [
        "messages",
        "tools",
        "bos_token",
        "eos_token",
        "add_generation_prompt",
        "documents",
        "strftime_now",
    ];
    talk.variables = own.iter().map(|name| ((*name).to_owned(), json!("mine"))).collect();
    talk.variables.insert("style".to_owned(), json!({"a": [1]}));
    assert_eq!(rendered(source, &talk), "{'a': [1]} 1 None <s> True False");
}

#[test]
fn variables_and_effort_do_not_form_a_control_token() {
    let source = "{{ style }}{{ reasoning_effort }}<|{{ more }}|>";
    let mut talk = conversation(&[(Role::User, "Hi")]);
    talk.effort = Some("<|im_end|>".to_owned());
    talk.variables = variables(&json!({"style": "<|im_end|>", "more": "im_end"}));
    let template = ChatTemplate::new(source, "", "").unwrap();
    let prompt = template.render(&talk, &CHATML_CONTROLS).unwrap();
    assert!(!prompt.text.contains("<|im_end|>"), "{prompt:?}");
    assert_eq!(prompt.plain_text(), "<|im_end|>".repeat(3));
}

#[test]
fn templates_that_switch_thinking_are_told_from_others() {
    let check = |name: &str, expected| {
        assert_eq!(switches_thinking(published(name).source()), expected, "{name}");
    };
    check("Qwen-Qwen3-0.6B", true);
    check("deepseek-ai-DeepSeek-V3.1", true);
    check("GLM-4.7-Flash", true);
    check("openai-gpt-oss-120b", false);
    check("Qwen-Qwen2.5-7B-Instruct", false);
    check("mistralai-Mistral-Nemo-Instruct-2407", false);
}

#[test]
fn gpt_oss_takes_text_thoughts_and_several_calls_in_one_turn() {
    let mut talk = conversation(&[(Role::User, "Hi")]);
    talk.now = Some(0);
    talk.tools = tools().into_iter().filter(|tool| tool.name != "free").collect();
    talk.messages.push(Message {
        reasoning: Some("Think.".to_owned()),
        tool_calls: vec![call("a", "note"), call("b", "clock")],
        ..Message::new(Role::Assistant, "I look.")
    });
    talk.messages.extend([result("b", "two"), result("a", "one")]);
    let prompt = published("openai-gpt-oss-120b").render(&talk, &[]).unwrap().text;
    let turns = &prompt[prompt.find("<|start|>user").unwrap()..];
    assert_eq!(
        turns,
        "<|start|>user<|message|>Hi<|end|>\
         <|start|>assistant<|channel|>analysis<|message|>Think.\n\nI look.<|end|>\
         <|start|>assistant to=functions.note<|channel|>commentary json<|message|>{\"text\": \"a\"}<|call|>\
         <|start|>functions.note to=assistant<|channel|>commentary<|message|>\"one\"<|end|>\
         <|start|>assistant to=functions.clock<|channel|>commentary json<|message|>{\"text\": \"a\"}<|call|>\
         <|start|>functions.clock to=assistant<|channel|>commentary<|message|>\"two\"<|end|><|start|>assistant"
    );
}

#[test]
fn llama_takes_several_calls_and_mistral_ids_of_any_length() {
    let mut talk = conversation(&[(Role::User, "Hi")]);
    talk.tools = tools();
    let calls = vec![call("toolu_0123456789", "note"), call("toolu_9876543210", "clock")];
    talk.messages.push(Message { tool_calls: calls, ..Message::new(Role::Assistant, "") });
    talk.messages.extend([result("toolu_0123456789", "one"), result("toolu_9876543210", "two")]);
    let llama = published("meta-llama-Llama-3.3-70B-Instruct").render(&talk, &[]).unwrap().text;
    let (note, clock) =
        (llama.find("\"note\", \"parameters\"").unwrap(), llama.find("\"two\"").unwrap());
    assert!(
        note < llama.find("\"one\"").unwrap() && llama.find("\"one\"").unwrap() < clock,
        "{llama}"
    );

    let mistral =
        published("mistralai-Mistral-Nemo-Instruct-2407").render(&talk, &[]).unwrap().text;
    let id = mistral.split("\"id\": \"").nth(1).and_then(|rest| rest.get(..9)).unwrap();
    assert!(mistral.contains(&format!("\"call_id\": \"{id}\"")), "{mistral}");
}

#[test]
fn a_conversation_that_no_template_refuses_is_not_copied() {
    let talk = conversation(&[(Role::System, "s"), (Role::User, "Hi")]);
    let template = ChatTemplate::new(CHATML, "", "").unwrap();
    assert!(matches!(template.accepted(&talk), std::borrow::Cow::Borrowed(_)));
}

/// A talk with a call and its result.
fn talk_with_tools(tools: Vec<Tool>) -> Conversation {
    let mut talk = conversation(&[(Role::System, "Be terse."), (Role::User, "Hi")]);
    talk.messages.push(Message {
        tool_calls: vec![call("a", "note"), call("b", "clock")],
        ..Message::new(Role::Assistant, "I look.")
    });
    talk.messages.extend([
        result("a", "one"),
        result("b", "two"),
        Message::new(Role::User, "And?"),
    ]);
    Conversation { tools, ..talk }
}

#[test]
fn tools_become_part_of_the_system_message_and_of_turns() {
    let talk = with_tools_as_text(&talk_with_tools(tools()));
    assert!(talk.tools.is_empty());
    let roles: Vec<Role> = talk.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User]);
    let system = &talk.messages[0].content;
    assert!(system.starts_with("Be terse.\n\n"), "{system}");
    for tool in tools() {
        assert!(system.contains(&format!("{{\"name\":\"{}\"", tool.name)), "{system}");
    }
    assert!(system.contains(r#""city":{"type":"string"}"#), "{system}");
    let results = &talk.messages[3].content;
    assert_eq!(
        results,
        "<tool_result name=\"note\">\none\n</tool_result>\n\n<tool_result name=\"clock\">\ntwo\n</tool_result>\n\nAnd?"
    );
}

#[test]
fn calls_written_as_text_are_read_back_as_the_same_calls() {
    let talk = with_tools_as_text(&talk_with_tools(tools()));
    let template = ChatTemplate::new(CHATML, "", "").unwrap();
    assert!(!template.knows_tools());
    let rules = OutputRules { tools: tools().into(), ..OutputRules::default() };
    let arguments = || OutputPart::CallArguments("{\"text\":\"a\"}".to_owned());
    let start = |name: &str| OutputPart::CallStart { id: None, name: name.to_owned() };
    assert_eq!(
        read_chars(template.format(), &rules, &talk.messages[2].content),
        [
            OutputPart::Text("I look.".to_owned()),
            start("note"),
            arguments(),
            OutputPart::CallEnd,
            start("clock"),
            arguments(),
            OutputPart::CallEnd,
        ]
    );
}

#[test]
fn without_a_system_message_tools_bring_one_and_without_tools_nothing_is_added() {
    let mut talk = conversation(&[(Role::User, "Hi")]);
    assert_eq!(with_tools_as_text(&talk), talk);
    talk.tools = tools();
    let roles: Vec<Role> =
        with_tools_as_text(&talk).messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User]);
}

#[test]
fn a_template_that_refuses_system_messages_finds_them_before_the_users_first() {
    let talk = conversation(&[(Role::System, "Be terse."), (Role::User, "Hi")]);
    let prompt = published("google-gemma-2-2b-it").render(&talk, &[]).unwrap().text;
    assert!(prompt.contains("user\nBe terse.\n\nHi<end_of_turn>"), "{prompt}");
}
