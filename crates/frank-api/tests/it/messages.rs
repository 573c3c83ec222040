//! What the Messages dialect accepts, takes in another way, ignores and refuses.

use frank_api::{
    Answer, AnswerFormat, ApiError, ApiRequest, ChatRequest, Choice, Delivery, Delta, ErrorKind,
    Event, ReplyHead, ToolChoice, Totals,
};
use frank_chat::{Message, Role, ToolCall};
use serde_json::{Value, json};

use crate::dialect;

pub(crate) fn parse(body: &Value) -> Result<ChatRequest, ApiError> {
    chat((dialect("messages").parse)(body.to_string().as_bytes()))
}

fn parse_count(body: &Value) -> Result<ChatRequest, ApiError> {
    let route = dialect("messages").count.expect("tokens can be counted");
    chat((route.parse)(body.to_string().as_bytes()))
}

fn chat(request: Result<ApiRequest, ApiError>) -> Result<ChatRequest, ApiError> {
    match request? {
        ApiRequest::Chat(request) => Ok(request),
        ApiRequest::Completion(_) => panic!("a chat dialect gave a completion"),
    }
}

/// A request with `extra` fields.
pub(crate) fn body_with(extra: Value) -> Value {
    let mut body = json!({"model": "m", "max_tokens": 64, "messages": [said("user", "Hi")]});
    let Value::Object(extra) = extra else { panic!("extra fields are an object") };
    body.as_object_mut().expect("the body is an object").extend(extra);
    body
}

fn accepted(extra: Value) -> ChatRequest {
    let body = body_with(extra);
    parse(&body).unwrap_or_else(|error| panic!("{body}: {error}"))
}

/// Checks that a request with `extra` is a 400 that blames `param` and says `says`.
fn refused(extra: Value, param: &str, says: &str) {
    let body = body_with(extra);
    let error = parse(&body).expect_err(&format!("{body} is refused"));
    assert_eq!(
        (error.kind, error.param.as_deref()),
        (ErrorKind::InvalidRequest, Some(param)),
        "{body}: {error}"
    );
    assert!(error.message.contains(says), "{body}: {error}");
}

fn said(role: &str, content: impl Into<Value>) -> Value {
    json!({"role": role, "content": content.into()})
}

/// The messages of the conversation that `messages` become.
fn conversation(messages: &Value) -> Vec<Message> {
    accepted(json!({"messages": messages})).conversation.messages
}

fn call(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {"n": 1}})
}

fn result(id: &str, content: impl Into<Value>) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content.into()})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool_message(id: &str, name: &str, content: &str) -> Message {
    Message {
        name: Some(name.to_owned()),
        tool_call_id: Some(id.to_owned()),
        ..Message::new(Role::Tool, content)
    }
}

/// What the tool of one call gave, in a request whose result has `extra` fields.
fn result_text(extra: Value) -> String {
    let mut block = json!({"type": "tool_result", "tool_use_id": "a"});
    let Value::Object(extra) = extra else { panic!("extra fields are an object") };
    block.as_object_mut().expect("it is an object").extend(extra);
    let messages = conversation(&json!([
        said("user", "Hi"),
        said("assistant", json!([call("a", "f")])),
        said("user", json!([block])),
    ]));
    messages.last().expect("the result").content.clone()
}

#[test]
fn a_text_and_text_blocks_are_the_same() {
    let blocks = json!([text("One."), text("Two.")]);
    assert_eq!(
        conversation(&json!([said("user", blocks)])),
        conversation(&json!([said("user", "One.\nTwo.")]))
    );
}

#[test]
fn instructions_come_first_whatever_their_form() {
    let cached = json!({"type": "text", "text": "B.", "cache_control": {"type": "ephemeral"}});
    for system in [json!("A.\nB."), json!([text("A."), cached])] {
        let request = accepted(json!({"system": system}));
        let expected = [Message::new(Role::System, "A.\nB."), Message::new(Role::User, "Hi")];
        assert_eq!(request.conversation.messages, expected);
    }
    assert_eq!(accepted(json!({"system": ""})).conversation.messages.len(), 1);
    refused(json!({"system": [call("a", "f")]}), "system[0].type", "only in one of the assistant");
}

#[test]
fn a_system_message_among_the_others_stays_where_it_is() {
    let messages =
        conversation(&json!([said("user", "Hi"), said("system", "Hurry."), said("user", "?")]));
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::System, Role::User]);
}

#[test]
fn a_system_message_before_all_others_joins_the_instructions() {
    let messages = json!([said("system", "B."), said("user", "Hi")]);
    let request = accepted(json!({"system": "A.", "messages": messages}));
    let expected = [Message::new(Role::System, "A.\n\nB."), Message::new(Role::User, "Hi")];
    assert_eq!(request.conversation.messages, expected);
}

#[test]
fn a_system_message_for_one_turn_is_over_when_the_user_speaks_again() {
    let once = |when: &str| json!({"role": "system", "content": "Hurry.", "clear_at": when});
    let n_messages = |messages: Value| conversation(&messages).len();
    assert_eq!(n_messages(json!([said("user", "Hi"), once("next_user_message")])), 2);
    // What the user says before and after it is one message then.
    assert_eq!(
        n_messages(json!([said("user", "Hi"), once("next_user_message"), said("user", "?")])),
        1
    );
    assert_eq!(n_messages(json!([said("user", "Hi"), once("never"), said("user", "?")])), 3);
    refused(
        json!({"messages": [once("later"), said("user", "Hi")]}),
        "messages[0].clear_at",
        "later",
    );
}

#[test]
fn the_billing_line_is_no_part_of_the_prompt() {
    let plain = accepted(json!({"system": "Be brief."}));
    let line = |n: u32| format!("x-anthropic-billing-header: cc_version=2.1; cch={n:05x};");
    let forms = |n: u32| {
        [
            json!({"system": format!("{}\nBe brief.", line(n))}),
            json!({"system": [text(&line(n)), text("Be brief.")]}),
            json!({"system": [text(&format!("{}\n\nBe brief.", line(n)))]}),
            json!({"messages": [said("system", format!("{}\nBe brief.", line(n))), said("user", "Hi")]}),
            json!({"system": "Be brief.", "messages": [said("system", json!([text(&line(n))])), said("user", "Hi")]}),
        ]
    };
    for form in forms(1).into_iter().chain(forms(2)) {
        assert_eq!(accepted(form.clone()).conversation, plain.conversation, "{form}");
        assert_eq!(parse_count(&body_with(form)).unwrap().conversation, plain.conversation);
    }
    let quoted = conversation(&json!([said("user", line(1))]));
    assert_eq!(quoted[0].content, line(1), "what the user says is not touched");
}

#[test]
fn messages_of_one_writer_in_a_row_are_one() {
    let messages = conversation(&json!([
        said("user", "One."),
        said("user", json!([text("Two.")])),
        said(
            "assistant",
            json!([{"type": "thinking", "thinking": "T", "signature": "s"}, text("A.")])
        ),
        said("assistant", json!([text("B."), call("a", "f")])),
        said("user", json!([result("a", "1")])),
        said("user", "Three."),
    ]));
    let assistant = Message {
        reasoning: Some("T".to_owned()),
        tool_calls: vec![ToolCall {
            id: Some("a".to_owned()),
            name: "f".to_owned(),
            arguments: json!({"n": 1}),
        }],
        ..Message::new(Role::Assistant, "A.\nB.")
    };
    let expected = [
        Message::new(Role::User, "One.\nTwo."),
        assistant,
        tool_message("a", "f", "1"),
        Message::new(Role::User, "Three."),
    ];
    assert_eq!(messages, expected);
}

#[test]
fn results_become_messages_of_their_tools_before_the_text_beside_them() {
    let messages = conversation(&json!([
        said("user", "Hi"),
        said("assistant", json!([call("a", "f"), call("b", "g")])),
        said(
            "user",
            json!([text("And now?"), result("a", "1"), result("b", json!([text("2"), text("3")]))])
        ),
    ]));
    let expected = [
        tool_message("a", "f", "1"),
        tool_message("b", "g", "2\n3"),
        Message::new(Role::User, "And now?"),
    ];
    assert_eq!(messages[2..], expected);
}

#[test]
fn whatever_a_tool_gave_can_be_told_in_words() {
    let parts = |parts: Value| result_text(json!({"content": parts}));
    let image = json!({"type": "image", "source": {"type": "base64", "data": "AA=="}});
    assert_eq!(
        parts(json!([text("Seen:"), image])),
        "Seen:\n[image left out: this model reads only text]"
    );
    let document =
        |kind: &str| json!([{"type": "document", "source": {"type": kind, "data": "Words."}}]);
    assert_eq!(parts(document("text")), "Words.");
    assert_eq!(parts(document("base64")), "[document left out: this model reads only text]");
    assert_eq!(parts(json!([{"type": "tool_reference", "tool_name": "g"}])), "[the tool g]");
    let found =
        json!({"type": "search_result", "title": "T", "source": "S", "content": [text("Words.")]});
    assert_eq!(parts(json!([found])), "T\nS\nWords.");
    assert_eq!(
        parts(json!([{"type": "of_the_future", "x": 1}])),
        "[of_the_future left out: this model reads only text]"
    );
    assert_eq!(result_text(json!({})), "");
    assert_eq!(
        result_text(json!({"content": "No such file", "is_error": true})),
        "Error: No such file"
    );
    assert_eq!(result_text(json!({"content": "Fine", "is_error": false})), "Fine");
}

#[test]
fn a_result_whose_call_was_cut_off_is_text_and_a_warning() {
    let request = accepted(
        json!({"messages": [said("user", json!([result("gone", "42"), text("Go on.")]))]}),
    );
    let expected = "[result of an earlier tool call]\n42\nGo on.";
    assert_eq!(request.conversation.messages, [Message::new(Role::User, expected)]);
    assert_eq!(
        request.options.warnings,
        ["tool results without their calls were taken as text: 1"]
    );
    assert!(accepted(json!({})).options.warnings.is_empty());
}

#[test]
fn what_only_the_vendor_can_read_is_dropped() {
    let messages = conversation(&json!([
        said("user", "Hi"),
        said("assistant", json!([{"type": "redacted_thinking", "data": "xx"}, text("Yes.")])),
        said("user", "So?"),
    ]));
    assert_eq!(messages[1], Message::new(Role::Assistant, "Yes."));
    let hidden = json!([{"type": "thinking", "thinking": "", "signature": "s"}, text("Yes.")]);
    let messages =
        conversation(&json!([said("user", "Hi"), said("assistant", hidden), said("user", "?")]));
    assert_eq!(messages[1], Message::new(Role::Assistant, "Yes."));
}

#[test]
fn a_hidden_thought_comes_back_in_its_signature() {
    let request = accepted(json!({"thinking": {"type": "adaptive", "display": "omitted"}}));
    let head = ReplyHead {
        id: "msg_0".to_owned(),
        created: 0,
        model: "m".to_owned(),
        echo: request.options.echo,
    };
    let mut choice = Choice::default();
    choice.push(Event::Reasoning { choice: 0, text: "Hm, é.".to_owned() });
    choice.push(Event::Delta(Delta { text: "Yes.".to_owned(), ..Delta::default() }));
    let answer = Answer { choices: vec![choice.clone()], totals: Totals::default() };
    let message = (dialect("messages").whole)(&head, &answer);
    assert_eq!(message["content"][0]["thinking"], "");
    let back = said("assistant", message["content"].clone());
    let messages = conversation(&json!([said("user", "Hi"), back, said("user", "?")]));
    assert_eq!(messages[1], choice.message());
}

#[test]
fn blocks_that_cannot_be_read_are_named() {
    let block = |role: &str, block: Value, param: &str, says: &str| {
        let messages = json!([said("user", "Hi"), said(role, json!([block])), said("user", "?")]);
        refused(json!({"messages": messages}), param, says);
    };
    let kind = "messages[1].content[0].type";
    for unreadable in ["image", "document"] {
        block("user", json!({"type": unreadable}), kind, "this model reads only text");
    }
    block("assistant", result("a", "1"), kind, "only in one of the user");
    block("user", call("a", "f"), kind, "only in one of the assistant");
    block(
        "user",
        json!({"type": "thinking", "thinking": "x"}),
        kind,
        "only in one of the assistant",
    );
    block(
        "assistant",
        json!({"type": "server_tool_use"}),
        kind,
        "\"server_tool_use\" is not supported",
    );
    block("user", json!({"text": "no type"}), kind, "is required");
    block("user", json!({"type": "text"}), "messages[1].content[0].text", "is required");
    block(
        "user",
        json!({"type": "text", "text": "x", "of_the_future": 1}),
        "messages[1].content[0].of_the_future",
        "unknown",
    );
    let input = |input: Value| json!({"type": "tool_use", "id": "a", "name": "f", "input": input});
    block(
        "assistant",
        input(json!("{}")),
        "messages[1].content[0].input",
        "must be an object, not a string",
    );
    block("assistant", input(Value::Null), "messages[1].content[0].input", "is required");
    block(
        "user",
        json!({"type": "tool_result", "content": "1"}),
        "messages[1].content[0].tool_use_id",
        "is required",
    );
    block(
        "user",
        result("a", 5),
        "messages[1].content[0].content",
        "a string or a list of blocks, not a number",
    );
    block(
        "user",
        result("a", json!(["1"])),
        "messages[1].content[0].content[0]",
        "must be an object",
    );
}

#[test]
fn messages_that_are_none_are_named() {
    refused(json!({"messages": []}), "messages", "at least one message");
    refused(json!({"messages": [said("system", "")]}), "messages", "at least one message");
    refused(json!({"messages": null}), "messages", "is required");
    refused(
        json!({"messages": [said("tool", "x")]}),
        "messages[0].role",
        "user, assistant or system, not \"tool\"",
    );
    refused(json!({"messages": [{"role": "user"}]}), "messages[0].content", "is required");
    refused(
        json!({"messages": [said("user", 5)]}),
        "messages[0].content",
        "a list of blocks, not a number",
    );
    let extra = json!({"role": "user", "content": "x", "name": "n"});
    refused(json!({"messages": [extra]}), "messages[0].name", "unknown parameter");
}

#[test]
fn an_answer_cannot_be_begun_by_the_client_but_its_tokens_can_be_counted() {
    let messages = json!([said("user", "Hi"), said("assistant", "Well,")]);
    refused(json!({"messages": messages}), "messages", "let a user message be the last");
    assert_eq!(parse_count(&json!({"messages": messages})).unwrap().conversation.messages.len(), 2);
}

#[test]
fn a_count_needs_no_limit_and_is_told_as_one_number() {
    let body = json!({"model": "m", "messages": [said("user", "Hi")]});
    assert_eq!(parse(&body).unwrap_err().param.as_deref(), Some("max_tokens"));
    let counted = parse_count(&body).unwrap();
    assert_eq!(counted.conversation, accepted(json!({})).conversation);
    let route = dialect("messages").count.expect("tokens can be counted");
    assert_eq!(route.path, "/v1/messages/count_tokens");
    assert_eq!((route.body)(42), json!({"input_tokens": 42}));
}

#[test]
fn an_answer_with_its_settings_is_read() {
    let request = accepted(json!({
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END", "\n\n"], "stream": true,
    }));
    let options = &request.options;
    assert_eq!((options.model.as_deref(), options.max_tokens), (Some("m"), Some(64)));
    let sampling = &options.sampling;
    assert_eq!(
        (sampling.temperature, sampling.top_p, sampling.top_k),
        (Some(0.5), Some(0.9), Some(40))
    );
    assert_eq!(options.stop, ["END", "\n\n"]);
    assert_eq!(options.delivery, Delivery::Stream { usage: true });
    assert_eq!(accepted(json!({})).options.delivery, Delivery::Whole);
}

#[test]
fn settings_out_of_their_range_are_named() {
    refused(json!({"max_tokens": 0}), "max_tokens", "at least 1");
    refused(json!({"temperature": 1.5}), "temperature", "from 0 to 1");
    refused(json!({"top_p": -1}), "top_p", "from 0 to 1");
    refused(json!({"top_k": -1}), "top_k", "from 0 to");
    refused(json!({"stop_sequences": "END"}), "stop_sequences", "a list of strings, not a string");
    refused(json!({"stop_sequences": [""]}), "stop_sequences[0]", "from 1 to 4096 bytes");
    refused(json!({"stop_sequences": vec!["x"; 17]}), "stop_sequences", "at most 16");
    refused(json!({"stream": "yes"}), "stream", "true or false");
    refused(json!({"mcp_servers": [{"url": "http://localhost"}]}), "mcp_servers", "not supported");
    refused(json!({"seed": 1}), "seed", "unknown parameter");
    assert_eq!(accepted(json!({"mcp_servers": []})), accepted(json!({})));
}

#[test]
fn thinking_is_switched_by_one_field() {
    let thinking = |value: Value| {
        let request = accepted(json!({"thinking": value}));
        (request.conversation.thinking, request.thinking_budget)
    };
    let enabled = json!({"type": "enabled", "budget_tokens": 2048, "display": "summarized"});
    assert_eq!(thinking(enabled), (Some(true), Some(2048)));
    assert_eq!(thinking(json!({"type": "disabled"})), (Some(false), None));
    assert_eq!(thinking(json!({"type": "adaptive"})), (None, None));
    assert_eq!(thinking(Value::Null), (None, None));
    let refused =
        |value: Value, param: &str, says: &str| refused(json!({"thinking": value}), param, says);
    refused(json!({"type": "enabled"}), "thinking.budget_tokens", "is required");
    refused(json!({"type": "enabled", "budget_tokens": 0}), "thinking.budget_tokens", "at least 1");
    refused(json!({"type": "always"}), "thinking.type", "not \"always\"");
    refused(json!({"type": "disabled", "budget_tokens": 9}), "thinking.budget_tokens", "unknown");
    refused(json!({"type": "adaptive", "display": "loud"}), "thinking.display", "not \"loud\"");
    refused(json!(true), "thinking", "must be an object");
}

#[test]
fn effort_is_told_in_the_words_of_templates() {
    let effort =
        |word: &str| accepted(json!({"output_config": {"effort": word}})).conversation.effort;
    let pairs = [
        ("low", "low"),
        ("medium", "medium"),
        ("high", "high"),
        ("xhigh", "high"),
        ("max", "high"),
    ];
    for (word, expected) in pairs {
        assert_eq!(effort(word).as_deref(), Some(expected));
    }
    refused(json!({"output_config": {"effort": "some"}}), "output_config.effort", "not \"some\"");
    refused(json!({"output_config": {"verbosity": 1}}), "output_config.verbosity", "unknown");
}

#[test]
fn the_form_of_an_answer_is_read_under_both_names() {
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    let rule = |extra: Value| {
        let rule = accepted(extra).options.format.expect("a rule");
        (rule.format, rule.param)
    };
    let schema = AnswerFormat::JsonSchema(json!({"type": "object"}));
    let newer = json!({"output_config": {"format": format}});
    assert_eq!(rule(newer), (schema.clone(), "output_config.format.schema"));
    assert_eq!(rule(json!({"output_format": format})), (schema, "output_format.schema"));
    let both = json!({"output_format": format, "output_config": {"format": format}});
    refused(both, "output_format", "send one of the two");
    refused(
        json!({"output_config": {"format": {"type": "text"}}}),
        "output_config.format.type",
        "json_schema",
    );
    let no_schema = json!({"output_config": {"format": {"type": "json_schema"}}});
    refused(no_schema, "output_config.format.schema", "is required");
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "D", "input_schema": {"type": "object"}})
}

#[test]
fn tools_of_clients_are_read() {
    let full = json!({
        "type": "custom", "name": "f", "description": "D", "input_schema": {"type": "object"}, "strict": true,
        "cache_control": {"type": "ephemeral"}, "eager_input_streaming": true, "defer_loading": false,
        "allowed_callers": ["direct"], "input_examples": [{}],
    });
    let request = accepted(json!({"tools": [full, tool("g")]}));
    let tools = &request.conversation.tools;
    assert_eq!(tools.len(), 2);
    assert_eq!((tools[0].name.as_str(), tools[0].strict), ("f", true));
    assert_eq!((tools[1].name.as_str(), tools[1].strict), ("g", false));
    assert_eq!(tools[0].description.as_deref(), Some("D"));
    assert_eq!(tools[0].parameters, Some(json!({"type": "object"})));
    assert_eq!((request.tool_choice, request.parallel_tool_calls), (ToolChoice::Auto, true));
    assert!(request.options.warnings.is_empty());
}

#[test]
fn tools_of_the_vendor_and_nameless_ones_are_left_out_with_a_warning() {
    let kinds = [
        "web_search_20250305",
        "bash_20250124",
        "text_editor_20250728",
        "computer_20251124",
        "memory_20250818",
        "tool_search_tool_regex_20251119",
        "mcp_toolset",
        "of_the_future",
    ];
    for kind in kinds {
        let request = accepted(json!({"tools": [{"type": kind, "name": "n", "x": 1}, tool("f")]}));
        assert_eq!(request.conversation.tools.len(), 1);
        let expected = format!(
            "left out, for only tools of type custom with a name are known here: tools[0] ({kind})"
        );
        assert_eq!(request.options.warnings, [expected]);
    }
    let request =
        accepted(json!({"tools": [{"input_schema": {}}, {"type": "custom", "name": ""}]}));
    assert!(request.conversation.tools.is_empty());
    assert!(
        request.options.warnings[0]
            .ends_with("tools[0] (without a name), tools[1] (without a name)")
    );
}

#[test]
fn a_warning_is_short_enough_for_a_header_and_holds_no_line_break() {
    let odd = json!({"type": "a\r\nset-cookie: é".repeat(1000)});
    let request = accepted(json!({"tools": vec![odd; 500]}));
    let warning = &request.options.warnings[0];
    assert!(warning.len() < 800 && warning.chars().all(|c| c == ' ' || c.is_ascii_graphic()));
    assert!(warning.ends_with(" and 492 more"), "{warning}");
}

#[test]
fn tools_that_are_none_are_named() {
    refused(json!({"tools": [{"name": "f"}]}), "tools[0].input_schema", "is required");
    refused(
        json!({"tools": [{"name": "f", "input_schema": 5}]}),
        "tools[0].input_schema",
        "a JSON schema",
    );
    refused(json!({"tools": [tool("f"), tool("f")]}), "tools[1].name", "the name of another tool");
    refused(json!({"tools": ["f"]}), "tools[0]", "must be an object");
    let mut odd = tool("f");
    odd["of_the_future"] = json!(1);
    refused(json!({"tools": [odd]}), "tools[0].of_the_future", "unknown parameter");
}

#[test]
fn whether_tools_are_called_is_chosen() {
    let choice = |choice: Value| {
        let request = accepted(json!({"tools": [tool("f")], "tool_choice": choice}));
        (request.tool_choice, request.parallel_tool_calls)
    };
    assert_eq!(choice(json!({"type": "auto"})), (ToolChoice::Auto, true));
    assert_eq!(choice(json!({"type": "none"})), (ToolChoice::None, true));
    assert_eq!(
        choice(json!({"type": "any", "disable_parallel_tool_use": true})),
        (ToolChoice::Required, false)
    );
    let named = json!({"type": "tool", "name": "f", "disable_parallel_tool_use": false});
    assert_eq!(choice(named), (ToolChoice::Named("f".to_owned()), true));
    let refused = |choice: Value, param: &str, says: &str| {
        refused(json!({"tools": [tool("f")], "tool_choice": choice}), param, says);
    };
    refused(json!({"type": "tool", "name": "g"}), "tool_choice.name", "none of the tools");
    refused(json!({"type": "tool"}), "tool_choice.name", "is required");
    refused(json!({"type": "required"}), "tool_choice.type", "auto, any, tool or none");
    refused(json!("auto"), "tool_choice", "must be an object");
}

#[test]
fn a_call_cannot_be_required_where_there_is_no_tool() {
    let choice = json!({"type": "any"});
    refused(json!({"tool_choice": choice}), "tool_choice.type", "tools holds none");
    let search = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    refused(
        json!({"tools": search, "tool_choice": choice}),
        "tool_choice.type",
        "tools holds none",
    );
    let choice = json!({"type": "tool", "name": "web_search"});
    refused(
        json!({"tools": search, "tool_choice": choice}),
        "tool_choice.name",
        "none of the tools",
    );
}

#[test]
fn each_kind_of_failure_has_the_word_that_clients_branch_on() {
    let word = |kind: ErrorKind| {
        let body = (dialect("messages").error)(&ApiError::new(kind, "why"));
        assert_eq!((&body["type"], &body["error"]["message"]), (&json!("error"), &json!("why")));
        body["error"]["type"].as_str().expect("a word").to_owned()
    };
    let expected = [
        (ErrorKind::InvalidRequest, "invalid_request_error"),
        (ErrorKind::Authentication, "authentication_error"),
        (ErrorKind::Forbidden, "permission_error"),
        (ErrorKind::NotFound, "not_found_error"),
        (ErrorKind::MethodNotAllowed, "invalid_request_error"),
        (ErrorKind::RequestTimeout, "timeout_error"),
        (ErrorKind::PayloadTooLarge, "request_too_large"),
        (ErrorKind::UnsupportedMediaType, "invalid_request_error"),
        (ErrorKind::RateLimited, "rate_limit_error"),
        (ErrorKind::Internal, "api_error"),
        (ErrorKind::Unavailable, "overloaded_error"),
    ];
    for (kind, expected) in expected {
        assert_eq!(word(kind), expected);
    }
}

#[test]
fn an_agent_can_tell_from_the_words_that_it_must_shorten_the_conversation() {
    let error = ApiError::new(ErrorKind::InvalidRequest, "9 tokens are too many");
    let body = (dialect("messages").error)(&error.with_code("context_length_exceeded"));
    assert_eq!(body["error"]["message"], "prompt is too long: 9 tokens are too many");
}

#[test]
fn a_library_can_tell_from_a_word_that_conversations_are_not_kept_here() {
    let body = body_with(json!({"thread": {"type": "create"}}));
    let error = parse(&body).expect_err("nothing is kept");
    let body = (dialect("messages").error)(&error);
    assert_eq!(body["error"]["type"], "invalid_request_error");
    assert_eq!(body["error"]["details"]["error_code"], "thread_unsupported_request", "{body}");
}
