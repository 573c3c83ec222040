//! What models write in each format comes out as thoughts, text and calls, however it is cut into pieces.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use frank_chat::{ChatFormat, FORMATS, OutputPart, OutputRules, Tool, format_of, knows_tools};
use frank_testkit::assets;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Tools of which some have every kind of argument and one names none.
pub(crate) fn tools() -> Vec<Tool> {
    let tool = |name: &str, parameters: Option<Value>| Tool {
        name: name.to_owned(),
        description: None,
        parameters,
        strict: false,
    };
    let weather = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "unit": {"type": "string", "enum": ["c", "f"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
            "now": {"type": "boolean"},
        },
        "required": ["city", "days"],
    });
    let note = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    vec![
        tool("weather", Some(weather)),
        tool("clock", Some(json!({"type": "object", "properties": {}}))),
        tool("note", Some(note)),
        tool("free", None),
    ]
}

/// An answer, what it is read for, and its parts.
struct Case {
    says: String,
    output: String,
    rules: OutputRules,
    parts: Vec<OutputPart>,
}

fn cases_of(format: &ChatFormat) -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(format.name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|_| panic!("{} is there", dir.display()));
    let mut cases = Vec::new();
    for entry in entries {
        let text = fs::read_to_string(entry.expect("a file").path()).expect("UTF-8");
        let list: Vec<Value> = serde_json::from_str(&text).expect("a list of cases");
        cases.extend(list.iter().map(|value| case(format, value)));
    }
    assert!(!cases.is_empty(), "{} has golden outputs", format.name);
    cases
}

fn case(format: &ChatFormat, value: &Value) -> Case {
    let is = |key: &str| value[key].as_bool().unwrap_or_default();
    let text = |key: &str| value[key].as_str().expect("a text").to_owned();
    let rules = OutputRules {
        tools: if is("has_no_tools") { Vec::new() } else { tools() }.into(),
        begins_in_reasoning: is("begins_in_reasoning"),
        is_kept: is("is_kept"),
    };
    let parts = value["parts"].as_array().expect("parts").iter().flat_map(parts_of).collect();
    Case {
        says: format!("{}: {}", format.name, text("says")),
        output: text("output"),
        rules,
        parts,
    }
}

fn parts_of(value: &Value) -> Vec<OutputPart> {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    if let Some(text) = text("text") {
        return vec![OutputPart::Text(text)];
    }
    if let Some(text) = text("reasoning") {
        return vec![OutputPart::Reasoning(text)];
    }
    let name = text("call").expect("a call");
    let arguments = text("arguments").expect("arguments");
    let mut parts =
        vec![OutputPart::CallStart { id: text("id"), name }, OutputPart::CallArguments(arguments)];
    if value["is_cut"] != json!(true) {
        parts.push(OutputPart::CallEnd);
    }
    parts
}

/// The parts of an answer that comes in these pieces, those of one kind joined.
fn read<'a>(
    format: &ChatFormat,
    rules: &OutputRules,
    pieces: impl IntoIterator<Item = &'a str>,
) -> Vec<OutputPart> {
    let mut parser = (format.parser)(rules);
    let mut parts: Vec<OutputPart> = pieces.into_iter().flat_map(|p| parser.push(p)).collect();
    parts.extend(parser.finish());
    joined(parts)
}

/// The parts of an answer that comes character by character.
pub(crate) fn read_chars(format: &ChatFormat, rules: &OutputRules, text: &str) -> Vec<OutputPart> {
    read(format, rules, chars(text))
}

fn joined(parts: Vec<OutputPart>) -> Vec<OutputPart> {
    let mut all: Vec<OutputPart> = Vec::new();
    for part in parts {
        match (all.last_mut(), &part) {
            (Some(OutputPart::Text(text)), OutputPart::Text(more))
            | (Some(OutputPart::Reasoning(text)), OutputPart::Reasoning(more))
            | (Some(OutputPart::CallArguments(text)), OutputPart::CallArguments(more)) => {
                text.push_str(more);
            }
            _ => all.push(part),
        }
    }
    all
}

fn chars(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()])
}

#[test]
fn golden_outputs_of_each_format_come_out_as_their_parts() {
    for format in FORMATS {
        for Case { says, output, rules, parts } in cases_of(format) {
            assert_eq!(read(format, &rules, [output.as_str()]), parts, "{says}\n{output}");
        }
    }
}

#[test]
fn it_makes_no_difference_where_an_output_is_cut() {
    for format in FORMATS {
        for Case { says, output, rules, parts } in cases_of(format) {
            assert_eq!(read(format, &rules, chars(&output)), parts, "{says}, by characters");
            for (at, _) in output.char_indices() {
                let pieces = [&output[..at], &output[at..]];
                assert_eq!(read(format, &rules, pieces), parts, "{says}, cut at {at}");
            }
        }
    }
}

#[test]
fn the_start_of_a_marker_is_held_back_and_text_is_not() {
    for format in FORMATS {
        let rules = OutputRules { tools: tools().into(), ..OutputRules::default() };
        let mut parser = (format.parser)(&rules);
        assert_eq!(parser.push("It is"), [OutputPart::Text("It is".to_owned())], "{}", format.name);
        let opening = opening_of(format);
        let start: String = opening.chars().take(3).collect();
        assert!(parser.push(&start).is_empty() || opening.len() < 3, "{} {start}", format.name);
    }
}

/// With what a call or, where that means nothing behind a text, a tag of this format begins.
fn opening_of(format: &ChatFormat) -> String {
    let rules = frank_chat::CallRules { tools: tools().into(), parallel: true };
    let syntax = (format.calls)(&rules);
    if syntax.only_at_start { format.controls[2].to_owned() } else { syntax.opening }
}

#[test]
fn arguments_stream_while_an_answer_is_kept_to_its_calls() {
    let hermes = FORMATS.iter().find(|format| format.name == "hermes").expect("it is there");
    let rules = OutputRules { tools: tools().into(), is_kept: true, ..OutputRules::default() };
    let mut parser = (hermes.parser)(&rules);
    let told = parser.push("<tool_call>\n{\"name\": \"note\", \"arguments\": {\"te");
    let start = OutputPart::CallStart { id: None, name: "note".to_owned() };
    assert_eq!(told, [start, OutputPart::CallArguments("{\"te".to_owned())]);
    assert_eq!(parser.push("xt\""), [OutputPart::CallArguments("xt\"".to_owned())]);
}

#[test]
fn the_templates_of_many_models_have_the_formats_that_they_ask_for() {
    let known = [
        ("Bielik-11B-v3.0-Instruct", "hermes"),
        ("GLM-4.6", "glm"),
        ("GLM-4.7-Flash", "glm"),
        ("LFM2-8B-A1B", "lfm2"),
        ("LFM2.5-8B-A1B", "lfm2"),
        ("LFM2.5-Instruct", "lfm2"),
        ("MiMo-VL", "hermes"),
        ("Mistral-Small-3.2-24B-Instruct-2506", "mistral"),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen_xml"),
        ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"),
        ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"),
        ("Qwen-QwQ-32B", "hermes"),
        ("Qwen-Qwen2.5-7B-Instruct", "hermes"),
        ("Qwen-Qwen3-0.6B", "hermes"),
        ("Qwen3-Coder", "qwen_xml"),
        ("Qwen3.5-4B", "qwen_xml"),
        ("Reka-Edge", "hermes"),
        ("Spark2.5", "glm"),
        ("StepFun3.5-Flash", "qwen_xml"),
        ("deepseek-ai-DeepSeek-V3.2", "deepseek_dsml"),
        ("deepseek-ai-DeepSeek-V4", "deepseek_v4"),
        ("deepseek-ai-DeepSeek-V4-Flash-0731", "deepseek_v4"),
        ("google-gemma-4-31B-it", "gemma"),
        ("google-gemma-4-31B-it-interleaved", "gemma"),
        ("ibm-granite-granite-4.0", "hermes"),
        ("ibm-granite-granite-4.1", "hermes"),
        ("inclusionai-ling-3.0-flash", "glm"),
        ("llama-cpp-deepseek-r1", "deepseek_r1"),
        ("meta-llama-Llama-3.1-8B-Instruct", "llama3_json"),
        ("meta-llama-Llama-3.2-3B-Instruct", "llama3_json"),
        ("meta-llama-Llama-3.3-70B-Instruct", "llama3_json"),
        ("mistralai-Ministral-3-14B-Reasoning-2512", "mistral"),
        ("mistralai-Mistral-Nemo-Instruct-2407", "mistral_list"),
        ("openai-gpt-oss-120b", "harmony"),
        ("poolside-Laguna-S-2.1", "glm"),
        ("poolside-Laguna-XS-2.1", "glm"),
        ("poolside-Laguna-XS.2", "glm"),
        ("unsloth-mistral-Devstral-Small-2507", "mistral"),
    ];
    let mut found = Vec::new();
    for entry in fs::read_dir(assets::chat_templates()).expect("the templates are installed") {
        let path = entry.expect("a file").path();
        let source = fs::read_to_string(&path).expect("UTF-8");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let format = format_of(&source).name;
        assert_eq!(knows_tools(&source), format != "generic");
        if format != "generic" {
            found.push((name, format));
        }
    }
    found.sort_unstable();
    let found: Vec<(&str, &str)> = found.iter().map(|(name, format)| (&**name, *format)).collect();
    assert_eq!(found, known);
}

#[test]
fn a_template_without_tools_has_the_generic_format() {
    for source in [crate::CHATML, "", "{{ messages }}<tool_call>[TOOL_CALLS]<arg_key>"] {
        assert_eq!(format_of(source).name, "generic");
        assert!(!knows_tools(source));
    }
}

#[test]
fn a_prompt_that_ends_with_the_opening_of_thoughts_is_seen() {
    let generic = format_of("");
    assert!(generic.is_thinking_after("<|im_start|>assistant\n<think>\n"));
    assert!(!generic.is_thinking_after("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
    assert!(!generic.is_thinking_after(""));
}

/// Pieces of all markers, of JSON and of markup.
fn hostile_pieces() -> Vec<String> {
    let mut pieces: Vec<String> = FORMATS
        .iter()
        .flat_map(|format| format.controls.iter().copied())
        .chain(
            FORMATS.iter().flat_map(|format| [format.reasoning.opening, format.reasoning.closing]),
        )
        .map(str::to_owned)
        .collect();
    let halves: Vec<String> =
        pieces.iter().map(|text| text.chars().take(text.chars().count() / 2).collect()).collect();
    pieces.extend(halves);
    let others = [
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        "'",
        "\\",
        ",",
        ":",
        "=",
        ">",
        "<",
        ";",
        "\n",
        " ",
        "é",
        "name",
        "\"name\": \"note\"",
        "\"arguments\": {",
        "weather",
        "note",
        "clock",
        "1",
        "-",
        "\u{1}",
        "{\"name\": \"note\", \"arguments\": {}}",
        "<function=",
        "<function=note>",
        "</function>",
        "<parameter=",
        "<parameter=text>",
        "</parameter>",
        "invoke name=\"",
        "parameter name=\"",
        "string=\"true\">",
        "function_calls>",
        "call:",
        "```json",
        "```",
        "to=functions.",
        "json",
        "<｜DSML｜function_calls>",
        "<｜DSML｜invoke name=\"note\">",
        "</｜DSML｜invoke>",
        "note(",
        "text=",
    ];
    pieces.extend(others.iter().map(|text| (*text).to_owned()));
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn hostile_output_cut_anywhere_is_the_same_and_calls_are_whole(
        pieces in prop::collection::vec(prop::sample::select(hostile_pieces()), 0..24),
        at in 0..FORMATS.len(),
        is_kept: bool,
        begins_in_reasoning: bool,
    ) {
        let format = &FORMATS[at];
        let text = pieces.concat();
        let rules = OutputRules { tools: tools().into(), begins_in_reasoning, is_kept };
        let whole = read(format, &rules, [text.as_str()]);
        prop_assert_eq!(&whole, &read(format, &rules, pieces.iter().map(String::as_str)));
        prop_assert_eq!(&whole, &read(format, &rules, chars(&text)));
        if !is_kept {
            assert_calls_are_whole(&whole);
        }
    }
}

/// Every call names a tool, holds a JSON object and ends.
fn assert_calls_are_whole(parts: &[OutputPart]) {
    let mut rest = parts.iter();
    while let Some(part) = rest.next() {
        let OutputPart::CallStart { name, .. } = part else {
            assert!(matches!(part, OutputPart::Text(_) | OutputPart::Reasoning(_)), "{parts:?}");
            continue;
        };
        assert!(tools().iter().any(|tool| tool.name == *name), "{parts:?}");
        let Some(OutputPart::CallArguments(json)) = rest.next() else { panic!("{parts:?}") };
        assert!(serde_json::from_str::<Map<String, Value>>(json).is_ok(), "{json}");
        assert_eq!(rest.next(), Some(&OutputPart::CallEnd), "{parts:?}");
    }
}

#[test]
fn an_output_of_nothing_but_markers_is_read_in_time() {
    for format in FORMATS {
        let rules = OutputRules { tools: tools().into(), ..OutputRules::default() };
        let opening = opening_of(format);
        let half: String = opening.chars().take(opening.chars().count() - 1).collect();
        let (full, half) = (opening.as_str(), if half.is_empty() { "-" } else { &half });
        for piece in
            [full, half, "[", "{", "{\"name\": \"note\", \"arguments\": {\"a\": \"", " ", "<"]
        {
            let text = piece.repeat((1 << 15) / piece.len());
            for start in ["", full] {
                let output = format!("{start}{text}");
                let begun = Instant::now();
                read(format, &rules, [output.as_str()]);
                // A thousand times what it takes, and a tenth of what looking at every pair of characters would.
                assert!(begun.elapsed() < Duration::from_secs(5), "{} {piece:?}", format.name);
            }
        }
    }
}
