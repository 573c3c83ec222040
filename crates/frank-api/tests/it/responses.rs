//! What the Responses dialect makes of a request: items, tools, thoughts, and what it refuses.

use frank_api::{
    AnswerFormat, ApiError, ApiRequest, ChatRequest, Delivery, ErrorKind, ToolChoice, deleted_body,
};
use frank_chat::{Message, Role, ToolCall};
use serde_json::{Value, json};

use crate::dialect;

fn parse(body: &Value) -> Result<ChatRequest, ApiError> {
    match (dialect("responses").parse)(body.to_string().as_bytes())? {
        ApiRequest::Chat(request) => Ok(request),
        ApiRequest::Completion(_) => panic!("a chat dialect gave a completion"),
    }
}

/// A request with `extra` fields, which may take the place of its input.
fn with(extra: Value) -> Value {
    let mut body = json!({"model": "m", "input": "Hi"});
    let Value::Object(extra) = extra else { panic!("extra fields are an object") };
    body.as_object_mut().expect("the body is an object").extend(extra);
    body
}

fn accepted(extra: Value) -> ChatRequest {
    let body = with(extra);
    parse(&body).unwrap_or_else(|error| panic!("{body}: {error}"))
}

/// Checks that a request with `extra` is a 400 that blames `param` and says `says`.
fn refused(extra: Value, param: &str, says: &str) {
    let body = with(extra);
    let error = parse(&body).expect_err(&format!("{body} is refused"));
    let blamed = (error.kind, error.param.as_deref());
    assert_eq!(blamed, (ErrorKind::InvalidRequest, Some(param)), "{body}: {error}");
    assert!(error.message.contains(says), "{body}: {error}");
}

/// The messages of an input.
fn said(input: Value) -> Vec<Message> {
    let mut body = json!({});
    body["input"] = input;
    accepted(body).conversation.messages
}

fn one(role: Role, text: &str) -> Message {
    Message::new(role, text)
}

fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: Some(id.to_owned()), name: name.to_owned(), arguments }
}

fn result(id: &str, name: Option<&str>, text: &str) -> Message {
    Message {
        name: name.map(str::to_owned),
        tool_call_id: Some(id.to_owned()),
        ..one(Role::Tool, text)
    }
}

fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object"}})
}

fn warnings(extra: Value) -> Vec<String> {
    accepted(extra).options.warnings
}

#[test]
fn input_is_a_text_or_messages_of_four_roles() {
    assert_eq!(said(json!("Hi")), [one(Role::User, "Hi")]);
    let input = json!([
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "input_text", "text": "b"}]},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "c"}, {"type": "text", "text": "d"}
        ]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "phase": "final_answer",
         "content": [{"type": "output_text", "text": "e", "annotations": [], "logprobs": []},
                     {"type": "refusal", "refusal": "f"}]},
    ]);
    let expected = [
        one(Role::System, "a"),
        one(Role::System, "b"),
        one(Role::User, "c\nd"),
        one(Role::Assistant, "e\nf"),
    ];
    assert_eq!(said(input), expected);
    refused(json!({"input": [{"role": "tool", "content": ""}]}), "input[0].role", "must be user");
    refused(json!({"input": 5}), "input", "a string or a list of items");
    refused(json!({"input": null}), "input", "required");
}

#[test]
fn what_a_library_parsed_may_come_back_beside_what_it_was_parsed_from() {
    let text = json!({"type": "output_text", "text": "{}", "annotations": [], "parsed": {}});
    let input = json!([
        {"type": "message", "role": "assistant", "content": [text]},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}", "parsed_arguments": {}},
    ]);
    let messages = said(input);
    assert_eq!((messages[0].content.as_str(), messages[0].tool_calls.len()), ("{}", 1));
}

#[test]
fn a_client_that_asks_whether_anybody_is_there_is_answered() {
    for nothing in [json!(""), json!([])] {
        let request = accepted(json!({"input": nothing, "max_output_tokens": 1}));
        assert_eq!(request.conversation.messages, [one(Role::User, "")]);
        assert_eq!(request.options.max_tokens, Some(1));
    }
}

#[test]
fn what_is_no_text_is_refused_by_its_place() {
    for kind in ["input_image", "input_file", "input_audio"] {
        let content =
            json!([{"type": "input_text", "text": "see"}, {"type": kind, "image_url": "data:,"}]);
        let input = json!([{"role": "user", "content": content}]);
        refused(json!({"input": input}), "input[0].content[1].type", "reads only text");
    }
}

#[test]
fn instructions_come_first_and_hold_for_one_answer() {
    let request = accepted(json!({"instructions": "Be brief."}));
    let expected = [one(Role::System, "Be brief."), one(Role::User, "Hi")];
    assert_eq!(request.conversation.messages, expected);
    assert_eq!(request.said(), &expected[1..]);
    let earlier = vec![one(Role::User, "a"), one(Role::Assistant, "b")];
    let contents = request.after(earlier).conversation.messages;
    let contents: Vec<_> = contents.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(contents, ["Be brief.", "a", "b", "Hi"]);
    assert_eq!(accepted(json!({})).n_instructions, 0);
}

#[test]
fn thoughts_text_and_calls_of_a_turn_are_one_message() {
    let input = json!([
        {"role": "user", "content": "q"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": ""},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        {"role": "assistant", "content": "Both."},
    ]);
    let turn = Message {
        reasoning: Some("t".to_owned()),
        tool_calls: vec![call("c1", "f", json!({"a": 1})), call("c2", "g", json!({}))],
        ..one(Role::Assistant, "I look.")
    };
    let expected = [
        one(Role::User, "q"),
        turn,
        result("c1", Some("f"), "one"),
        result("c2", Some("g"), "two"),
        one(Role::Assistant, "Both."),
    ];
    assert_eq!(said(input), expected);
}

#[test]
fn thoughts_are_read_as_told_as_sealed_or_as_a_summary() {
    let thought = |item: Value| {
        let input = json!([item, {"role": "assistant", "content": "a"}]);
        said(input).remove(0).reasoning
    };
    let summary = json!([{"type": "summary_text", "text": "short"}]);
    let content = json!([{"type": "reasoning_text", "text": "long"}]);
    let sealed = "frank-thoughts:own";
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": summary, "content": content, "encrypted_content": sealed});
    assert_eq!(thought(item).as_deref(), Some("long"));
    let item = json!({"type": "reasoning", "summary": summary, "content": null, "encrypted_content": sealed});
    assert_eq!(thought(item).as_deref(), Some("own"));
    let item = json!({"type": "reasoning", "summary": summary, "encrypted_content": "of a vendor"});
    assert_eq!(thought(item).as_deref(), Some("short"));
    let item = json!({"type": "reasoning", "summary": [], "encrypted_content": "of a vendor"});
    assert_eq!(thought(item), None);
}

#[test]
fn a_turn_that_was_cut_off_while_thinking_is_not_said() {
    let input = json!([
        {"role": "user", "content": "a"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
        {"role": "user", "content": "b"},
    ]);
    assert_eq!(said(input), [one(Role::User, "a"), one(Role::User, "b")]);
}

#[test]
fn images_that_tools_gave_become_a_note() {
    let input = json!([
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [
            {"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:,"}
        ]},
    ]);
    let request = accepted(json!({"input": input}));
    let text = "see\n[image left out: this model reads only text]";
    assert_eq!(request.conversation.messages[1], result("c", Some("look"), text));
    assert!(request.options.warnings[0].contains("reads only text"));
}

#[test]
fn items_of_tools_that_are_not_run_here_do_not_end_the_conversation() {
    let input = json!([
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** a"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
        {"type": "local_shell_call", "id": "i", "call_id": "c2", "status": "completed",
         "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "i", "call_id": "c2", "output": "x"},
        {"type": "shell_call_output", "call_id": "c3", "output": [{"stdout": "y"}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}},
        {"type": "a_type_of_the_future", "anything": [1, 2]},
        {"type": "web_search_call", "id": "ws_2"},
        {"role": "user", "content": "go on"},
    ]);
    let request = accepted(json!({"input": input}));
    let shell = json!({"type": "exec", "command": ["ls"]});
    let turn = |call: ToolCall| Message { tool_calls: vec![call], ..one(Role::Assistant, "") };
    let expected = [
        turn(call("c1", "patch", json!({"input": "*** a"}))),
        result("c1", Some("patch"), "ok"),
        turn(call("c2", "local_shell", shell)),
        result("c2", Some("local_shell"), "x"),
        result("c3", None, r#"{"stdout":"y"}"#),
        one(Role::User, "go on"),
    ];
    assert_eq!(request.conversation.messages, expected);
    let warning =
        r#"items of type "web_search_call", "a_type_of_the_future" were left out of input"#;
    assert_eq!(request.options.warnings, [warning]);
}

#[test]
fn an_item_that_was_not_sent_is_refused_with_the_way_out() {
    refused(
        json!({"input": [{"type": "item_reference", "id": "msg_1"}]}),
        "input[0].type",
        "previous_response_id",
    );
}

#[test]
fn only_functions_are_offered_to_the_model_and_the_rest_is_told() {
    let tools = json!([
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true,
         "output_schema": null, "defer_loading": false, "allowed_callers": ["direct"]},
        {"type": "web_search", "filters": {}},
        {"type": "custom", "name": "apply_patch", "format": {}},
        {"type": "mcp", "server_label": "s"},
        {"type": "web_search"},
        {"name": "nameless type"},
        {"type": "function"},
        {"type": "\u{1}é", "x": 1},
    ]);
    let request = accepted(json!({"tools": tools}));
    assert_eq!(request.conversation.tools.len(), 1);
    let tool = &request.conversation.tools[0];
    assert_eq!((tool.name.as_str(), tool.strict), ("f", true));
    assert_eq!(
        (tool.description.as_deref(), &tool.parameters),
        (Some("d"), &Some(json!({"type": "object"})))
    );
    let [warning] = &request.options.warnings[..] else { panic!("one warning") };
    assert!(
        warning.contains("\"web_search\", \"custom\", \"mcp\"") && warning.is_ascii(),
        "{warning}"
    );
    let tools = json!([function("f"), {"type": "function", "name": "f"}]);
    refused(json!({"tools": tools}), "tools[1].name", "a tool before it");
    let tools = json!([{"type": "function", "name": "f", "parameters": 5}]);
    refused(json!({"tools": tools}), "tools[0].parameters", "JSON schema");
}

#[test]
fn tools_in_namespaces_are_joined_for_the_model_and_taken_apart_for_the_client() {
    let namespace = |name: &str, tool: &str| {
        let tools = json!([function(tool), {"type": "custom", "name": "x"}]);
        json!({"type": "namespace", "name": name, "description": "d", "tools": tools})
    };
    let tools =
        json!([function("plain"), namespace("agents", "ask"), namespace("mcp__mail__", "_find")]);
    let input = json!([
        {"type": "function_call", "call_id": "c", "namespace": "agents", "name": "ask", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "d", "namespace": "mcp__mail__", "name": "_find", "output": "x"},
    ]);
    let choice = json!({"type": "function", "namespace": "agents", "name": "ask"});
    let request = accepted(json!({"tools": tools, "input": input, "tool_choice": choice}));
    let names: Vec<_> = request.conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["plain", "agents__ask", "mcp__mail__find"]);
    assert_eq!(request.conversation.messages[0].tool_calls[0].name, "agents__ask");
    assert_eq!(request.conversation.messages[1], result("d", Some("mcp__mail__find"), "x"));
    assert_eq!(request.tool_choice, ToolChoice::Named("agents__ask".to_owned()));
    let tools = json!([function("agents__ask"), namespace("agents", "ask")]);
    refused(json!({"tools": tools}), "tools[1].tools[0].name", "agents__ask");
}

#[test]
fn tools_that_are_offered_in_the_input_can_be_called_too() {
    let more = json!({"type": "additional_tools", "role": "developer", "tools": [function("f"), function("g")]});
    let input = json!([more, more, {"role": "user", "content": "Hi"}]);
    let request = accepted(json!({"input": input, "tools": [function("f")]}));
    let names: Vec<_> = request.conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["f", "g"]);
}

#[test]
fn tool_choice_is_a_word_a_function_or_some_of_the_tools() {
    let tools = json!([function("f"), function("g"), {"type": "web_search"}]);
    let chosen = |choice: Value| accepted(json!({"tools": tools, "tool_choice": choice}));
    assert_eq!(chosen(json!("auto")).tool_choice, ToolChoice::Auto);
    assert_eq!(chosen(json!("none")).tool_choice, ToolChoice::None);
    assert_eq!(chosen(json!("required")).tool_choice, ToolChoice::Required);
    let named = chosen(json!({"type": "function", "name": "g"}));
    assert_eq!(named.tool_choice, ToolChoice::Named("g".to_owned()));
    let allowed = json!([{"type": "function", "name": "g"}, {"type": "web_search"}]);
    let some = chosen(json!({"type": "allowed_tools", "mode": "required", "tools": allowed}));
    assert_eq!(some.tool_choice, ToolChoice::Required);
    assert_eq!(some.conversation.tools.len(), 1);
    let refused_choice = |choice: Value, param: &str, says: &str| {
        refused(json!({"tools": tools, "tool_choice": choice}), param, says);
    };
    refused_choice(json!({"type": "function", "name": "h"}), "tool_choice", "none of the tools");
    refused_choice(json!({"type": "web_search"}), "tool_choice.type", "only functions");
    refused_choice(
        json!({"type": "mcp", "server_label": "s"}),
        "tool_choice.type",
        "only functions",
    );
    refused_choice(json!("sometimes"), "tool_choice", "must be auto");
    let hosted = json!([{"type": "web_search"}]);
    refused(json!({"tools": hosted, "tool_choice": "required"}), "tool_choice", "no function");
    assert!(accepted(json!({})).parallel_tool_calls);
    assert!(!accepted(json!({"parallel_tool_calls": false})).parallel_tool_calls);
}

#[test]
fn effort_is_the_switch_and_the_amount_of_thought() {
    let thought = |effort: &str| {
        let request = accepted(json!({"reasoning": {"effort": effort}}));
        (request.conversation.thinking, request.conversation.effort)
    };
    let with = |word: &str| (Some(true), Some(word.to_owned()));
    assert_eq!(thought("none"), (Some(false), None));
    assert_eq!(thought("minimal"), with("low"));
    assert_eq!(thought("medium"), with("medium"));
    assert_eq!(thought("xhigh"), with("high"));
    assert_eq!(accepted(json!({"reasoning": {"summary": "auto"}})).conversation.thinking, None);
    assert_eq!(accepted(json!({"thinking_budget": 64})).thinking_budget, Some(64));
    refused(json!({"reasoning": {"effort": "much"}}), "reasoning.effort", "xhigh");
    refused(json!({"reasoning": {"summary": "long"}}), "reasoning.summary", "concise");
    refused(json!({"reasoning": {"more": 1}}), "reasoning.more", "unknown parameter");
    let both = json!({"reasoning": {"effort": "none"}, "enable_thinking": true});
    refused(both, "reasoning.effort", "contradict");
}

#[test]
fn text_format_keeps_the_answer_to_a_form() {
    let form = |format: Value| {
        accepted(json!({"text": {"format": format}}))
            .options
            .format
            .map(|rule| (rule.format, rule.param))
    };
    assert_eq!(form(json!({"type": "text"})), None);
    let object = Some((AnswerFormat::JsonObject, "text.format"));
    assert_eq!(form(json!({"type": "json_object"})), object);
    let schema = json!({"type": "object"});
    let named = json!({"type": "json_schema", "name": "n", "description": "d", "strict": true, "schema": schema});
    assert_eq!(form(named), Some((AnswerFormat::JsonSchema(schema), "text.format.schema")));
    let form = json!({"format": {"type": "json_schema", "name": "n"}});
    refused(json!({"text": form}), "text.format.schema", "required");
    refused(json!({"text": {"format": {"type": "xml"}}}), "text.format.type", "json_schema");
    refused(json!({"response_format": {"type": "json_object"}}), "response_format", "text.format");
    let json_form = json!({"format": {"type": "json_object"}});
    refused(json!({"text": json_form, "grammar": "root ::= \"a\""}), "grammar", "text.format");
    refused(json!({"text": json_form, "ignore_eos": true}), "ignore_eos", "text.format");
}

#[test]
fn log_probabilities_are_told_when_included_or_counted() {
    let n = |extra: Value| accepted(extra).options.n_logprobs;
    assert_eq!(n(json!({})), None);
    assert_eq!(n(json!({"include": ["message.output_text.logprobs"]})), Some(0));
    assert_eq!(n(json!({"top_logprobs": 3})), Some(3));
    assert_eq!(n(json!({"top_logprobs": 0})), None);
    refused(json!({"top_logprobs": 21}), "top_logprobs", "from 0 to 20");
}

#[test]
fn a_response_is_stored_and_gone_on_from_unless_the_client_says_otherwise() {
    let request = accepted(json!({}));
    assert!(request.store && request.previous.is_none());
    assert!(!accepted(json!({"store": false})).store);
    let request = parse(&json!({"previous_response_id": "resp_1"})).expect("no input is needed");
    assert_eq!(request.previous.as_deref(), Some("resp_1"));
    assert!(request.conversation.messages.is_empty());
    assert_eq!(
        deleted_body("resp_1"),
        json!({"id": "resp_1", "object": "response", "deleted": true})
    );
}

#[test]
fn what_has_no_effect_is_told_in_a_warning() {
    for (extra, says) in [
        (json!({"truncation": "auto"}), "truncation"),
        (json!({"text": {"verbosity": "low"}}), "text.verbosity"),
        (json!({"include": ["web_search_call.results"]}), "include"),
        (json!({"reasoning": {"context": "all_turns"}}), "reasoning.context"),
        (json!({"context_management": [{"type": "compaction"}]}), "context_management"),
    ] {
        let warnings = warnings(extra);
        assert!(warnings.len() == 1 && warnings[0].starts_with(says), "{warnings:?}");
    }
    let hints = json!({
        "user": "u", "safety_identifier": "s", "service_tier": "flex", "prompt_cache_key": "k",
        "prompt_cache_retention": "24h", "metadata": {"a": "b"}, "client_metadata": {"c": {}}, "max_tool_calls": 3,
        "prompt_cache_options": {}, "truncation": "disabled", "background": false, "text": {"verbosity": "medium"},
    });
    assert_eq!(warnings(hints), Vec::<String>::new());
}

#[test]
fn what_only_the_vendor_can_do_is_refused_by_name() {
    refused(json!({"background": true}), "background", "send false");
    refused(json!({"conversation": "conv_1"}), "conversation", "previous_response_id");
    refused(json!({"prompt": {"id": "p"}}), "prompt", "instructions");
    refused(json!({"moderation": {"model": "m"}}), "moderation", "not supported");
    refused(json!({"n": 2}), "n", "send 1");
    refused(json!({"metadata": {"a": 1}}), "metadata.a", "a string");
    refused(json!({"truncation": "middle"}), "truncation", "disabled");
    refused(json!({"max_output_tokens": 0}), "max_output_tokens", "at least 1");
    refused(json!({"messages": []}), "messages", "unknown parameter");
    refused(json!({"input": [{"role": "user", "content": "a", "b": 1}]}), "input[0].b", "unknown");
}

#[test]
fn sampling_settings_of_the_other_dialects_are_read_too() {
    let request =
        accepted(json!({"temperature": 0.5, "top_k": 4, "seed": 7, "stop": "x", "stream": true}));
    let options = request.options;
    assert_eq!((options.sampling.temperature, options.sampling.top_k), (Some(0.5), Some(4)));
    assert_eq!((options.sampling.seed, options.stop), (Some(7), vec!["x".to_owned()]));
    assert_eq!(options.delivery, Delivery::Stream { usage: false });
    let tools = json!([function("f")]);
    refused(json!({"tools": tools, "grammar": "root ::= \"a\""}), "grammar", "beside tools");
}

/// A turn in the shape that a coding agent sends it, after its tool has run.
#[test]
fn a_turn_of_a_coding_agent_is_read_whole() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/transcripts/responses/stream_to_a_coding_agent.json"
    );
    let text = std::fs::read_to_string(path).expect("the transcript is there");
    let transcript: Value = serde_json::from_str(&text).expect("it is JSON");
    let request = parse(&transcript["request"]).expect("it is taken");
    let turn = Message {
        reasoning: Some("A command will do.".to_owned()),
        tool_calls: vec![call("call_1", "run", json!({"command": ["echo", "hello"]}))],
        ..one(Role::Assistant, "")
    };
    let expected = [
        one(Role::System, "Work in small steps.\nAsk before you write."),
        one(Role::User, "The folder is /tmp/x."),
        one(Role::User, "Say hello."),
        turn,
        result("call_1", Some("run"), "hello\n"),
    ];
    assert_eq!(request.conversation.messages, expected);
    let names: Vec<_> = request.conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["run", "agents__ask"]);
    assert!(!request.store && !request.parallel_tool_calls);
    let [warning] = &request.options.warnings[..] else { panic!("one warning") };
    assert!(warning.contains("web_search"), "{warning}");
}
