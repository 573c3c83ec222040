//! Patterns of chat formats: what they allow, which control tokens, and that free text stays open beside a call.

use frank_chat::Pattern;
use frank_grammar::{Grammar, GrammarError};
use frank_testkit::assets;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};

use crate::walk::{CONTROLS, SMALL, Words, of_model};

fn literal(text: &str) -> Pattern {
    Pattern::literal(text)
}

fn without(markers: &[&str]) -> Pattern {
    Pattern::TextWithout { markers: markers.iter().map(|&marker| marker.to_owned()).collect() }
}

fn through(end: &str) -> Pattern {
    Pattern::TextThrough { end: end.to_owned() }
}

fn arguments() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"], "additionalProperties": false})
}

/// A call as many models write it, after its opening.
fn call() -> Pattern {
    let named = |name: &str| {
        let head = format!("{{\"name\": \"{name}\", \"arguments\": ");
        Pattern::Sequence(vec![literal(&head), Pattern::Json(arguments()), literal("}")])
    };
    Pattern::Sequence(vec![
        Pattern::Space,
        Pattern::OneOf(vec![named("get"), named("get_weather")]),
        Pattern::Space,
        literal("</tool_call>"),
    ])
}

/// Free text, or text and then calls.
fn text_or_calls() -> Pattern {
    let more = Pattern::Sequence(vec![Pattern::Space, literal("<tool_call>"), call()]);
    let more = Pattern::Optional(Box::new(Pattern::Repeated(Box::new(more))));
    Pattern::OneOf(vec![
        without(&["<tool_call>"]),
        Pattern::Sequence(vec![through("<tool_call>"), call(), more]),
    ])
}

/// An answer in tokens: control tokens of the small vocabulary where `<|…|>` stands, and one token a byte.
fn tokens(pieces: &[&str]) -> Vec<u32> {
    let id_of = |piece: &str| CONTROLS.iter().find(|(text, _)| *text == piece);
    let of_piece = |piece: &&str| match id_of(piece) {
        Some((_, id)) => vec![*id],
        None => SMALL.bytewise(piece),
    };
    pieces.iter().flat_map(of_piece).collect()
}

fn check(pattern: &Pattern, pieces: &[&str], expected: bool) {
    let grammar = Grammar::pattern(pattern);
    let accepted = SMALL.accepts_tokens(&grammar, &tokens(pieces));
    assert_eq!(accepted, expected, "{pieces:?} of {pattern:?}");
}

const CALL: &str = r#"<tool_call>
{"name": "get_weather", "arguments": {"city": "Jena", "days": 2}}
</tool_call>"#;

#[test]
fn text_and_calls_are_both_open_until_the_opening_is_whole() {
    let answer = text_or_calls();
    for text in [
        "",
        "Good morning.",
        "a < b <tool_cal",
        "<tool_call",
        "{\"name\": \"get\"}",
        "é<<tool_cal>",
    ] {
        check(&answer, &[text], true);
    }
    check(&answer, &[CALL], true);
    check(&answer, &["I look. ", CALL], true);
    check(&answer, &["I look.<", CALL, "\n", CALL, CALL], true);
    check(&answer, &["<tool_call>"], false);
    check(&answer, &["I look. <tool_call>{\"name\": \"put\""], false);
    check(&answer, &[CALL, " And then"], false);
    check(&answer, &[CALL, "<tool_call>"], false);
    check(&answer, &[r#"<tool_call>{"name": "get", "arguments": {"days": 0}}</tool_call>"#], false);
}

#[test]
fn a_control_token_is_itself_and_never_its_spelling() {
    let call =
        Pattern::Sequence(vec![literal("to=a"), literal("<|call|>"), Pattern::Json(arguments())]);
    check(&call, &["to=a", "<|call|>", r#"{"city":"x"}"#], true);
    check(&call, &["to=a<|call|> {\"city\":\"x\"}"], false);
    check(&call, &["to=a", "<|end|>"], false);
    let twice = Pattern::Sequence(vec![literal("<|call|>"), literal("<|call|>")]);
    check(&twice, &["<|call|>", "<|call|>"], true);
    check(&twice, &["<|call|>"], false);
    check(&literal("<|nope|>"), &["<|nope|>"], true);
}

#[test]
fn only_a_literal_allows_a_control_token() {
    let free =
        [without(&[]), without(&["<x>"]), through("<x>"), Pattern::Json(json!({"type": "string"}))];
    for pattern in free {
        let mut matcher = SMALL.compile(&Grammar::pattern(&pattern));
        assert!(!SMALL.allowed(&mut matcher).contains(&256), "{pattern:?}");
    }
}

#[test]
fn text_goes_through_a_control_token_or_is_without_it() {
    let opening = "<|call|>";
    let answer = Pattern::OneOf(vec![
        without(&[opening]),
        Pattern::Sequence(vec![through(opening), Pattern::Json(arguments()), literal("<|stop|>")]),
    ]);
    check(&answer, &["just text"], true);
    check(&answer, &[""], true);
    check(&answer, &["see: ", "<|call|>", r#"{"city": "x"}"#, "<|stop|>"], true);
    check(&answer, &["<|call|>", r#"{"city": "x"}"#, "<|stop|>"], true);
    check(&answer, &["<|call|>", r#"{"city": "x"}"#], false);
    check(&answer, &["spelled <|call|>"], false);
    check(&answer, &["a", "<|call|>", "<|call|>"], false);
}

#[test]
fn thoughts_come_before_text_or_calls() {
    let think = Pattern::Sequence(vec![through("</think>"), text_or_calls()]);
    check(&think, &["a <tool_call> is a call</think>\n\nIt is."], true);
    check(&think, &["hm</think>", CALL], true);
    check(&think, &["hm"], false);
    check(&think, &["</think></think>"], true);
    let opened = Pattern::Sequence(vec![literal("<think>"), think]);
    check(&opened, &["<think>hm</think>yes"], true);
    check(&opened, &["hm</think>yes"], false);
}

#[test]
fn text_ends_where_one_of_its_markers_begins_something() {
    let block = |open: &str| {
        Pattern::Sequence(vec![
            literal(open),
            Pattern::Json(json!({"type": "boolean"})),
            literal(";"),
        ])
    };
    let answer = Pattern::Sequence(vec![
        without(&["<a>", "<b>"]),
        Pattern::OneOf(vec![block("<a>"), block("<b>")]),
    ]);
    check(&answer, &["x<a<b>true;"], true);
    check(&answer, &["<a>false;"], true);
    check(&answer, &["<a>"], false);
    check(&answer, &["<a><b>true;"], false);
    let one = Pattern::Sequence(vec![without(&["<a>"]), block("<a>")]);
    check(&one, &["xx<a>true;"], true);
    check(&one, &["xx<a><a>true;"], false);
}

#[test]
fn parameters_as_text_end_with_their_closing() {
    let parameter = |name: &str| {
        Pattern::Sequence(vec![
            literal(&format!("<parameter={name}>\n")),
            through("\n</parameter>"),
            literal("\n"),
        ])
    };
    let function = Pattern::Sequence(vec![
        literal("<function=run>\n"),
        parameter("command"),
        Pattern::Optional(Box::new(parameter("why"))),
        literal("</function>"),
    ]);
    check(
        &function,
        &["<function=run>\n<parameter=command>\nls <a>\n\n</parameter>\n</function>"],
        true,
    );
    check(
        &function,
        &[
            "<function=run>\n<parameter=command>\nls\n</parameter>\n<parameter=why>\n\n</parameter>\n</function>",
        ],
        true,
    );
    check(&function, &["<function=run>\n</function>"], false);
}

#[test]
fn names_that_begin_alike_and_repetitions_are_told_apart() {
    let call = |name: &str| {
        Pattern::Sequence(vec![
            literal(name),
            literal("("),
            Pattern::Json(json!({"type": "integer"})),
            literal(")"),
        ])
    };
    let one = Pattern::OneOf(vec![call("get"), call("get_all"), call("g")]);
    let list = Pattern::Sequence(vec![
        literal("["),
        one.clone(),
        Pattern::Optional(Box::new(Pattern::Repeated(Box::new(Pattern::Sequence(vec![
            literal(", "),
            one,
        ]))))),
        literal("]"),
    ]);
    check(&list, &["[get(1)]"], true);
    check(&list, &["[get(1), get_all(-20), g(3)]"], true);
    check(&list, &["[get(1), ]"], false);
    check(&list, &["[get_(1)]"], false);
}

#[test]
fn white_space_is_free_for_a_few_characters() {
    let spaced =
        Pattern::Sequence(vec![literal("a"), Pattern::Space, literal("\nb"), Pattern::Space]);
    for text in ["a\nb", "a \n\t \nb\n\n", "a\n\nb    "] {
        check(&spaced, &[text], true);
    }
    for text in ["ab", "a      \nb", "a\nb     "] {
        check(&spaced, &[text], false);
    }
}

#[test]
fn a_keyword_in_a_pattern_is_refused_as_in_a_schema() {
    let schema = json!({"type": "object", "properties": {"a": {"if": {}}}});
    let pattern = Pattern::Sequence(vec![literal("x"), Pattern::Json(schema)]);
    let error = SMALL.try_compile(&Grammar::pattern(&pattern)).err();
    let expected = GrammarError::UnsupportedKeyword {
        keyword: "if".to_owned(),
        pointer: "/properties/a".to_owned(),
    };
    assert_eq!(error, Some(expected));
}

#[test]
fn a_pattern_without_an_end_is_refused() {
    let endless = Pattern::Sequence(vec![without(&["<x>"]), Pattern::Json(json!({}))]);
    let cases = [
        (endless, "free text is followed by"),
        (Pattern::OneOf(vec![]), "nothing to choose"),
        (through(""), "is empty"),
        (without(&["a", ""]), "is empty"),
    ];
    for (pattern, expected) in cases {
        let error = SMALL.try_compile(&Grammar::pattern(&pattern)).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(expected), "{text:?} of {pattern:?}");
    }
}

/// Random tokens that the pattern allows, drawn towards calls: the text of the answer.
fn wander(words: &Words, pattern: &Pattern, seed: u64, towards: &str) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut matcher = words.compile(&Grammar::pattern(pattern));
    let mut text: Vec<u8> = Vec::new();
    for step in 0..2_000 {
        let allowed = words.allowed(&mut matcher);
        if allowed.is_empty() || (step > 40 && allowed.iter().any(|id| words.ends.contains(id))) {
            return String::from_utf8(text).expect("an answer is UTF-8");
        }
        let begun = (0..towards.len()).rev().find(|&n| text.ends_with(&towards.as_bytes()[..n]));
        let rest = &towards.as_bytes()[begun.unwrap_or(0)..];
        let is_called = String::from_utf8_lossy(&text).contains(towards);
        let leads = |id: &&u32| {
            let word = &words.texts[**id as usize][..];
            match is_called {
                true => matches!(word, b"\"" | b"}" | b"<"),
                false => !word.is_empty() && rest.starts_with(word),
            }
        };
        let leading: Vec<u32> = allowed.iter().filter(leads).copied().collect();
        let others: Vec<u32> =
            allowed.iter().copied().filter(|id| !words.ends.contains(id)).collect();
        let from = if !leading.is_empty() && rng.random_bool(0.8) { &leading } else { &others };
        let token_id = *from.choose(&mut rng).expect("an answer that has not ended goes on");
        text.extend_from_slice(&words.texts[token_id as usize]);
        matcher.accept(token_id).expect("it was allowed");
    }
    panic!("no end: {}", String::from_utf8_lossy(&text));
}

#[test]
fn random_answers_of_real_vocabularies_hold_whole_calls() {
    let models = [Some(assets::smollm2()), assets::gemma3()];
    let mut n_calls = 0;
    for path in models.into_iter().flatten() {
        let words = of_model(&path);
        for seed in 0..4 {
            let text = wander(&words, &text_or_calls(), seed, "<tool_call>");
            let Some((_, calls)) = text.split_once("<tool_call>") else { continue };
            for call in calls.split("<tool_call>") {
                let (call, _) = call.split_once("</tool_call>").expect("a call is closed");
                let call: Value = serde_json::from_str(call).expect("a call is JSON");
                assert!(call["arguments"]["city"].is_string(), "{call}");
                n_calls += 1;
            }
        }
    }
    assert!(n_calls > 0, "no answer had a call");
}

#[test]
fn control_tokens_among_other_text_are_themselves() {
    let mark = CONTROLS[1].0;
    let mixed = literal(&format!("{mark}to={mark}json"));
    check(&mixed, &[mark, "to=", mark, "json"], true);
    let spelled = SMALL.bytewise(&format!("{mark}to={mark}json"));
    assert!(!SMALL.accepts_tokens(&Grammar::pattern(&mixed), &spelled), "its spelling is text");
    // What stands before the token may stand in the text too.
    let closing = Pattern::Sequence(vec![through(&format!("</{mark}x>")), literal("!")]);
    check(&closing, &["a </b> </", mark, "x>", "!"], true);
    check(&closing, &["a", mark, "x>", "!"], false);
}
