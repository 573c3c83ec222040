//! Tools, their choice and the history of their calls, as Chat Completions reads them.

use frank_api::{ChatRequest, ToolChoice};
use frank_chat::{Message, Role, Tool, ToolCall};
use serde_json::{Value, json};

use crate::requests::{accepted, parse_chat, parse_completion, refused};

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

fn names(request: &ChatRequest) -> Vec<&str> {
    request.conversation.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn with_messages(messages: Value) -> Value {
    let mut body = json!({});
    body["messages"] = messages;
    body
}

fn history(messages: Value) -> Vec<Message> {
    let body = with_messages(messages);
    let request = parse_chat(&body).unwrap_or_else(|error| panic!("{body}: {error}"));
    request.conversation.messages
}

fn refused_history(messages: Value, param: &str, says: &str) {
    refused(with_messages(messages), param, says);
}

#[test]
fn a_tool_has_a_name_and_what_the_model_reads_of_it() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let request = accepted(json!({"tools": [
        {"type": "function", "function": {"name": "weather", "description": "d", "parameters": schema, "strict": true}},
        {"function": {"name": "mcp.a:b/c-d_9", "parameters": null}, "cache_control": {"type": "ephemeral"}},
    ]}));
    let full = Tool {
        name: "weather".to_owned(),
        description: Some("d".to_owned()),
        parameters: Some(schema),
        strict: true,
    };
    assert_eq!(request.conversation.tools[0], full);
    let bare = &request.conversation.tools[1];
    assert_eq!(bare.name, "mcp.a:b/c-d_9");
    assert!(bare.description.is_none() && bare.parameters.is_none() && !bare.strict);
    assert_eq!((request.tool_choice, request.parallel_tool_calls), (ToolChoice::Auto, true));
    assert!(request.options.warnings.is_empty());
}

#[test]
fn tools_that_cannot_be_called_are_left_out_with_a_warning() {
    let request = accepted(json!({"tools": [
        {"type": "web_search"}, tool("f"), {"type": "namespace", "tools": [tool("g")]}, {"type": "web_search"},
        {"type": "function", "function": {"description": "nameless"}}, {}, {"type": "ü".repeat(100)},
    ]}));
    assert_eq!(names(&request), ["f"]);
    let [warning] = request.options.warnings.as_slice() else { panic!("one sentence about all") };
    assert!(
        warning.starts_with("tools of type \"web_search\", \"namespace\", \"\\u{fc}"),
        "{warning}"
    );
    assert!(warning.contains("none or without a name"), "{warning}");
    assert!(warning.is_ascii() && warning.len() < 500, "it fits a header: {warning}");
}

#[test]
fn tools_that_are_wrong_are_named_by_their_place() {
    refused(json!({"tools": {}}), "tools", "must be a list, not an object");
    refused(json!({"tools": ["f"]}), "tools[0]", "must be an object");
    refused(json!({"tools": [tool("f"), tool("f")]}), "tools[1].function.name", "too");
    let long = "x".repeat(129);
    for name in ["a b", "ä", "a\n", long.as_str()] {
        refused(json!({"tools": [tool(name)]}), "tools[0].function.name", "1 to 128 letters");
    }
    let with = |field: &str, value: Value| {
        let mut tool = tool("f");
        tool["function"][field] = value;
        json!({"tools": [tool]})
    };
    refused(with("name", json!(5)), "tools[0].function.name", "must be a string");
    refused(with("parameters", json!("x")), "tools[0].function.parameters", "a JSON schema");
    refused(with("strict", json!(1)), "tools[0].function.strict", "true or false");
    refused(with("returns", json!({})), "tools[0].function.returns", "unknown parameter");
    let many: Vec<Value> = (0..257).map(|i| tool(&format!("f{i}"))).collect();
    refused(json!({"tools": many}), "tools", "at most 256 tools, not 257");
}

#[test]
fn the_choice_is_a_word_a_tool_or_some_of_the_tools() {
    let with =
        |choice: Value| accepted(json!({"tools": [tool("f"), tool("g")], "tool_choice": choice}));
    let choice = |value: Value| with(value).tool_choice;
    assert_eq!(choice(json!("auto")), ToolChoice::Auto);
    assert_eq!(choice(json!("none")), ToolChoice::None);
    assert_eq!(choice(json!("required")), ToolChoice::Required);
    assert_eq!(choice(tool("g")), ToolChoice::Named("g".to_owned()));
    let some = |mode: &str| {
        let allowed = json!({"mode": mode, "tools": [tool("g"), {"type": "mcp"}]});
        with(json!({"type": "allowed_tools", "allowed_tools": allowed}))
    };
    assert_eq!((names(&some("auto")), some("auto").tool_choice), (vec!["g"], ToolChoice::Auto));
    assert_eq!(some("required").tool_choice, ToolChoice::Required);
    assert!(!accepted(json!({"parallel_tool_calls": false})).parallel_tool_calls);
}

#[test]
fn a_choice_that_no_answer_can_keep_is_refused() {
    refused(json!({"tool_choice": "required"}), "tool_choice", "tools holds no function");
    refused(json!({"tool_choice": tool("f")}), "tool_choice", "\"f\", which is none of the tools");
    let only_skipped = json!({"tools": [{"type": "web_search"}], "tool_choice": "required"});
    refused(only_skipped, "tool_choice", "tools holds no function");
    let with = |choice: Value, param: &str, says: &str| {
        refused(json!({"tools": [tool("f")], "tool_choice": choice}), param, says);
    };
    with(tool("g"), "tool_choice", "\"g\", which is none of the tools");
    with(json!("any"), "tool_choice", "must be auto, none, required or name a tool");
    with(json!(5), "tool_choice", "must be a string or an object");
    with(json!({"type": "mcp"}), "tool_choice.type", "must be function or allowed_tools");
    with(json!({"type": "function", "name": "f"}), "tool_choice.function", "is required");
    let some = |allowed: Value| json!({"type": "allowed_tools", "allowed_tools": allowed});
    let at = "tool_choice.allowed_tools";
    with(some(json!({"mode": "none", "tools": []})), &format!("{at}.mode"), "auto or required");
    with(some(json!({"mode": "auto", "tools": []})), &format!("{at}.tools"), "at least one");
    let other = some(json!({"mode": "auto", "tools": [tool("g")]}));
    with(other, &format!("{at}.tools[0]"), "none of the tools");
}

#[test]
fn the_older_way_to_offer_tools_is_refused_with_the_way_out() {
    let functions = json!([{"name": "f"}]);
    refused(json!({"functions": functions}), "functions", "leave it out and send tools");
    let call = json!({"name": "f"});
    refused(json!({"function_call": call}), "function_call", "leave it out and send tool_choice");
    accepted(json!({"functions": [], "function_call": "auto"}));
}

#[test]
fn a_form_that_calls_cannot_keep_is_refused_beside_tools() {
    let with = |mut extra: Value| {
        extra["tools"] = json!([tool("f")]);
        extra
    };
    let grammar = || json!({"grammar": "root ::= \"x\""});
    refused(with(grammar()), "grammar", "cannot be kept beside tools");
    refused(with(json!({"ignore_eos": true})), "ignore_eos", "cannot be kept beside tools");
    refused(with(json!({"min_tokens": 2})), "min_tokens", "cannot be kept beside tools");
    let mut not_called = with(grammar());
    not_called["tool_choice"] = json!("none");
    assert!(accepted(not_called).options.format.is_some());
    // The answer is a call or JSON of the schema.
    let both = accepted(with(json!({"response_format": {"type": "json_object"}})));
    assert!(both.options.format.is_some() && names(&both) == ["f"]);
}

#[test]
fn calls_and_results_come_back_as_clients_send_them() {
    let arguments = r#"{"city": "Oslo", "days": 2}"#;
    let messages = history(json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
            {"id": "1", "index": 0, "type": "function", "function": {"name": "weather", "arguments": arguments}},
            {"id": "2", "function": {"name": "clock", "arguments": ""}},
        ]},
        {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "tool", "tool_call_id": "1", "content": "rain", "name": "own"},
        {"role": "tool", "tool_call_id": "lost", "content": null},
    ]));
    let call = |id: &str, name: &str, arguments: Value| ToolCall {
        id: Some(id.to_owned()),
        name: name.to_owned(),
        arguments,
    };
    let calls =
        [call("1", "weather", json!({"city": "Oslo", "days": 2})), call("2", "clock", json!({}))];
    assert_eq!(messages[1].tool_calls, calls);
    assert_eq!((messages[1].content.as_str(), messages[1].reasoning.as_deref()), ("", Some("hm")));
    let result = |message: &Message| {
        assert_eq!(message.role, Role::Tool);
        (message.content.clone(), message.name.clone(), message.tool_call_id.clone())
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(result(&messages[2]), ("a\nb".to_owned(), some("clock"), some("2")));
    assert_eq!(result(&messages[3]), ("rain".to_owned(), some("own"), some("1")));
    assert_eq!(result(&messages[4]), (String::new(), None, some("lost")));
}

#[test]
fn history_of_the_older_way_is_read() {
    let messages = history(json!([
        {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"a\": 1}"}},
        {"role": "function", "name": "f", "content": "r"},
    ]));
    let call = ToolCall { id: None, name: "f".to_owned(), arguments: json!({"a": 1}) };
    assert_eq!(messages[0].tool_calls, [call]);
    assert_eq!((messages[1].role, messages[1].name.as_deref()), (Role::Tool, Some("f")));
}

#[test]
fn arguments_that_are_no_json_stay_a_text() {
    let arguments = |arguments: Value| {
        let call = json!({"id": "1", "function": {"name": "f", "arguments": arguments}});
        let mut messages = history(json!([{"role": "assistant", "tool_calls": [call]}]));
        messages.remove(0).tool_calls.remove(0).arguments
    };
    assert_eq!(arguments(json!("{\"a\": ")), json!("{\"a\": "));
    assert_eq!(arguments(json!({"a": 1})), json!({"a": 1}));
    assert_eq!(arguments(Value::Null), json!({}));
}

#[test]
fn history_that_cannot_be_read_is_named_by_its_place() {
    let calls = |calls: Value| json!([{"role": "assistant", "content": "", "tool_calls": calls}]);
    let at = "messages[0].tool_calls[0]";
    refused_history(calls(json!([{"id": "1"}])), &format!("{at}.function"), "is required");
    let custom = json!([{"id": "1", "type": "custom", "custom": {"name": "f", "input": "x"}}]);
    refused_history(calls(custom), &format!("{at}.type"), "must be function");
    let nameless = json!([{"function": {"arguments": "{}"}}]);
    refused_history(calls(nameless), &format!("{at}.function.name"), "is required");
    let wrong = json!([{"function": {"name": "f", "arguments": 5}}]);
    refused_history(calls(wrong), &format!("{at}.function.arguments"), "a string of JSON");
    let many = format!("[{}0]", "0,".repeat(1 << 18));
    let many = json!([{"function": {"name": "f", "arguments": many}}]);
    refused_history(calls(many), &format!("{at}.function.arguments"), "more JSON values");
    let user = json!([{"role": "user", "content": "x", "tool_calls": [tool("f")]}]);
    refused_history(user, "messages[0].tool_calls", "only an assistant calls tools");
}

#[test]
fn a_text_that_is_continued_has_no_tools() {
    let refused = |extra: Value, param: &str| {
        let mut body = json!({"prompt": "x"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let error = parse_completion(&body).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{body}: {error}");
    };
    refused(json!({"tools": [tool("f")]}), "tools");
    refused(json!({"tool_choice": "required"}), "tool_choice");
    refused(json!({"functions": [{"name": "f"}]}), "functions");
    let harmless =
        json!({"prompt": "x", "tools": [], "tool_choice": "auto", "parallel_tool_calls": true});
    assert!(parse_completion(&harmless).is_ok());
}
