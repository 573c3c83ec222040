//! Grammars from strangers: each is refused, or followed within the limits on work. Nothing panics, loops, or takes more
//! than its share.

use std::iter::repeat_n;
use std::time::{Duration, Instant};

use frank_grammar::{Grammar, GrammarError, Limits};
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Map, Value, json};

use crate::walk::SMALL;

/// Steps of an answer that is followed.
const STEPS: usize = 40;

/// A schema takes a fraction of a second on a quiet machine.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Compiles a grammar and follows it for some steps; its refusals are as good as its answers.
fn follow(name: &str, grammar: &Grammar) {
    let mut matcher = match SMALL.try_compile(grammar) {
        Ok(matcher) => matcher,
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 1_000 && !text.contains("panic"), "{name}: {text}");
            return;
        }
    };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut mask = vec![0; SMALL.texts.len().div_ceil(32)];
    for _ in 0..STEPS {
        if matcher.allowed(&mut mask).is_err() {
            return;
        }
        let ids = (0u32..).take(SMALL.texts.len());
        let allowed: Vec<u32> = ids
            .filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1 && !SMALL.ends.contains(id))
            .collect();
        let Some(&token_id) = allowed.choose(&mut rng) else { return };
        if matcher.accept(token_id).is_err() {
            return;
        }
    }
}

fn nested(depth: usize, keyword: &str) -> Value {
    (0..depth).fold(json!(true), |inner, _| match keyword {
        "items" | "additionalProperties" => json!({keyword: inner}),
        "properties" => json!({"properties": {"a": inner}}),
        _ => json!({keyword: [inner]}),
    })
}

/// Definitions of which each needs the next, and the last the first.
fn chain(length: usize) -> Value {
    let definition = |n: usize| json!({"type": "object", "properties": {"a": {"$ref": format!("#/$defs/d{}", (n + 1) % length)}}});
    let all: Map<String, Value> = (0..length).map(|n| (format!("d{n}"), definition(n))).collect();
    json!({"$defs": all, "$ref": "#/$defs/d0"})
}

fn schemas() -> Vec<(&'static str, Value)> {
    let either = |n: usize| json!({"anyOf": [{"properties": {format!("p{n}"): {"type": "integer"}}}, {"minProperties": n}]});
    let many = |keyword: &str, n: usize| json!({keyword: (0..n).map(|n| json!({"const": format!("v{n}")})).collect::<Vec<_>>()});
    let patterns: Map<String, Value> =
        (0..60).map(|n| (format!("^(a|b)*a(a|b){{{n}}}$"), json!({"type": "integer"}))).collect();
    let below: Map<String, Value> = (0..4_000).map(|n| (format!("p{n}"), json!(true))).collect();
    vec![
        ("a chain of references", chain(800)),
        ("a reference to itself", json!({"$ref": "#"})),
        (
            "references in a circle",
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        ),
        (
            "references in a circle with siblings",
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}}),
        ),
        (
            "a reference to itself among alternatives",
            json!({"oneOf": [{"$ref": "#"}, {"type": "null"}]}),
        ),
        ("products of alternatives", json!({"allOf": (0..14).map(either).collect::<Vec<_>>()})),
        (
            "constants that many alternatives are",
            json!({"$defs": {"a": {"enum": vec!["a"; 40_000]}}, "oneOf": vec![json!({"$ref": "#/$defs/a"}); 2_000]}),
        ),
        (
            "a long name above many schemas",
            json!({"properties": {"n".repeat(150_000): {"properties": below}}}),
        ),
        ("many constants", many("anyOf", 1_200)),
        ("many constants to tell apart", many("oneOf", 400)),
        (
            "long strings",
            json!({"type": "string", "minLength": 100_000, "maxLength": 4_000_000_000u64}),
        ),
        (
            "long arrays",
            json!({"items": {"type": "string", "maxLength": 1_000_000}, "minItems": 100_000, "maxItems": 4_000_000_000u64}),
        ),
        ("many properties", json!({"type": "object", "minProperties": 1_000_000})),
        ("patterns of properties that overlap", json!({"patternProperties": patterns})),
        (
            "wide numbers",
            json!({"type": "number", "minimum": -1.234_567_890_123e15, "maximum": 1e-9, "multipleOf": 0.000_001}),
        ),
        ("alternatives in alternatives", json!({"type": "string", "pattern": "^((a|aa)*){1000}$"})),
        ("a far look back", json!({"type": "string", "pattern": "^(.*a.{60}){20}$"})),
        (
            "Unicode classes by the thousand",
            json!({"type": "string", "pattern": "^(\\p{L}|\\p{Greek}|\\W){1,5000}$"}),
        ),
        (
            "an expression that doubles",
            json!({"type": "string", "pattern": "((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}"}),
        ),
    ]
}

/// Schemas that are small and would be huge when they are written out, or large and as simple as can be.
fn bombs() -> Vec<(&'static str, Value)> {
    let doubling = |keyword: &str| {
        let definition = |n: usize| json!({keyword: [{"$ref": format!("#/$defs/d{}", n + 1)}, {"$ref": format!("#/$defs/d{}", n + 1)}]});
        let mut all: Map<String, Value> =
            (0..40).map(|n| (format!("d{n}"), definition(n))).collect();
        all.insert(
            "d40".to_owned(),
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        );
        json!({"$defs": all, "$ref": "#/$defs/d0"})
    };
    let names = |n: usize| -> Vec<String> { (0..n).map(|n| format!("name{n}")).collect() };
    let optional = |n: usize| -> Map<String, Value> {
        names(n).into_iter().map(|name| (name, json!({"type": "integer"}))).collect()
    };
    let needs = |n: usize| -> Map<String, Value> {
        names(n).into_iter().map(|name| (name, json!(["other"]))).collect()
    };
    let exclusive = |n: usize| -> Vec<Value> {
        names(n).into_iter().map(|name| json!({"required": [name]})).collect()
    };
    vec![
        ("a million constants", json!({"enum": (0..1_000_000).collect::<Vec<_>>()})),
        ("many constants", json!({"enum": names(15_000)})),
        ("many numbers", json!({"enum": (0..30_000).collect::<Vec<_>>()})),
        ("a billion items", json!({"type": "array", "maxItems": 1_000_000_000})),
        ("a billion items at least", json!({"type": "array", "minItems": 1_000_000_000, "items": {"enum": ["a", 1]}})),
        ("arrays of arrays of many", (0..8).fold(json!(true), |inner, _| json!({"type": "array", "items": inner, "minItems": 90_000, "maxItems": 100_000}))),
        ("a hundred million characters", json!({"type": "string", "minLength": 100_000_000})),
        ("more characters than there are", json!({"type": "string", "maxLength": u64::MAX >> 1})),
        ("many bounded strings", json!({"type": "object", "properties": names(500).into_iter().map(|name| (name, json!({"type": "string", "minLength": 900, "maxLength": 5_000}))).collect::<Map<_, _>>()})),
        ("references that double in anyOf", doubling("anyOf")),
        ("references that double in allOf", doubling("allOf")),
        ("references that double in oneOf", doubling("oneOf")),
        ("references that double in items", doubling("prefixItems")),
        ("many optional properties", json!({"type": "object", "properties": optional(4_000)})),
        ("one of many optional properties", json!({"type": "object", "properties": optional(30), "minProperties": 1})),
        ("properties that need others", json!({"type": "object", "dependentRequired": needs(6)})),
        ("properties that need others, as many as may be", json!({"type": "object", "properties": optional(5), "dependentRequired": needs(5), "allOf": [{"dependentRequired": needs(5)}, {"dependentRequired": needs(5)}]})),
        ("exactly one of many properties", json!({"type": "object", "oneOf": exclusive(120)})),
        ("classes that are repeated", json!({"type": "string", "pattern": "^(\\w\\W?){1,900}(\\s\\S){1,900}$", "maxLength": 100_000})),
        ("patterns to tell apart", json!({"type": "object", "patternProperties": (0..40).map(|n| (format!("^(?:a|b)*a(?:a|b){{{}}}c{n}$", 9 + n % 5), json!({}))).collect::<Map<_, _>>()})),
        ("a pattern of names of a pattern", json!({"type": "object", "propertyNames": {"pattern": "^(a|aa)*b{1,999}$"}, "minProperties": 1})),
        ("long formats beside patterns", json!({"type": "string", "format": "email", "pattern": "(a.*){30}", "maxLength": 90})),
        ("wide whole numbers", json!({"type": "integer", "minimum": -9_223_372_036_854_775_807_i64, "maximum": 9_223_372_036_854_775_807_i64, "multipleOf": 19_997})),
        ("far steps", json!({"type": "integer", "multipleOf": 9_999_991})),
        ("small steps", json!({"type": "number", "multipleOf": 1e-12, "minimum": 1e-9, "maximum": 1e300})),
        ("anchors by the thousand", json!({"$defs": (0..800).map(|n| (format!("d{n}"), json!({"$anchor": format!("a{n}"), "anyOf": [{"$ref": format!("#a{}", 799 - n)}, true]}))).collect::<Map<_, _>>(), "$ref": "#a0"})),
        ("names with escapes", json!({"$defs": {"a/b": {"properties": {"x": {"$ref": "#/$defs/a~1b"}, "y": {"$ref": "#/$defs/a~1b/properties/x"}}}}, "$ref": "#/$defs/a~1b"})),
    ]
}

#[test]
fn hostile_schemas_are_refused_or_followed_within_the_limits() {
    for (name, schema) in schemas().into_iter().chain(bombs()) {
        let start = Instant::now();
        follow(name, &Grammar::json_schema(&schema));
        let time = start.elapsed();
        assert!(time < TIME_MAX, "{name} took {time:?}");
    }
}

#[test]
fn a_schema_over_a_limit_is_told_what_would_do() {
    let cases = [
        (
            json!({"type": "object", "properties": {"a": {"enum": (0..60_000).collect::<Vec<_>>()}}}),
            "bytes",
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}),
            "anyOf would do",
        ),
    ];
    for (schema, expected) in cases {
        let error = SMALL.try_compile(&Grammar::json_schema(&schema)).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(expected), "{text:?}");
    }
}

fn texts() -> Vec<(&'static str, String)> {
    let doubling = |n: usize| -> String {
        (0..n).map(|n| format!("r{n} ::= r{} r{}\n", n + 1, n + 1)).collect()
    };
    let chained: String = (0..1_000).map(|n| format!("r{n} ::= \"{n}\" r{}?\n", n + 1)).collect();
    let words: String = (0..900).map(|n| format!(" | \"w{n}\" root")).collect();
    let equal = ["\"a\""; 500].join(" | ");
    let depths = "(".repeat(50);
    let class = |first: u32| -> String {
        (0..15_000).filter_map(|n| char::from_u32(first + 2 * n)).chain(['~']).collect()
    };
    let (even, odd) = (class(0x4e00), class(0x4e01));
    vec![
        ("repetitions of nothing", "root ::= (((\"\"{2000}){2000}){2000}){2000}".to_owned()),
        (
            "repetitions of much nothing",
            format!("root ::= (({}\"a\"){{600}} \"b\")*\nr ::= \"\"{{1900}}", "r ".repeat(2_000)),
        ),
        ("one word many times", format!("root ::= ({equal})* root?")),
        ("repetitions in a row", format!("root ::= ({equal}){}", "*".repeat(4_000))),
        ("deep repetitions", format!("root ::= {depths}{equal}{}", ")*".repeat(50))),
        (
            "large lexemes between rules",
            format!("root ::= {}\nr ::= ({equal})*", "r root | ".repeat(400) + "r"),
        ),
        ("large classes", format!("root ::= ([{even}]{{300}} | [{odd}]{{299}})* \"x\"")),
        ("large classes written out", format!("root ::= {}\nr ::= [{even}]", "r ".repeat(2_000))),
        ("rules that double", format!("root ::= r0\n{}r60 ::= \"a\"", doubling(60))),
        ("rules that double nothing", format!("root ::= r0 \"x\"\n{}r60 ::= \"\"", doubling(60))),
        ("repetitions of repetitions", "root ::= (((\"a\"{2000}){2000}){2000}){2000}".to_owned()),
        ("repetitions of a rule", "root ::= (\"(\" root \")\"){2000} | \"x\"{1,2000}".to_owned()),
        ("a chain of rules", format!("root ::= r0\n{chained}r1000 ::= \"z\"")),
        ("a rule of itself", "root ::= root".to_owned()),
        ("rules of each other", "root ::= a\na ::= b\nb ::= a | a".to_owned()),
        (
            "every way to read it",
            "root ::= root root | \"a\" | \"aa\" | root root root |".to_owned(),
        ),
        ("any text between rules", "root ::= .* root .* | .* \"x\" .* root? .*".to_owned()),
        ("many words", format!("root ::= \"x\"{words}")),
        ("stars of stars", "root ::= ((((\"a\"*)*)*)* \"b\"*)* root?".to_owned()),
    ]
}

#[test]
fn hostile_gbnf_is_refused_or_followed_within_the_limits() {
    for (name, text) in texts() {
        follow(name, &Grammar::gbnf(&text));
    }
}

#[test]
fn hostile_expressions_are_refused_or_followed_within_the_limits() {
    for regex in [
        "(a|aa)*{1000}",
        "(.*a.{200}){50}",
        "(a?){1000}a{1000}",
        "(\\w+\\s*){1,1000}x",
        "(",
        "a{100000}",
        "(?=a)b",
    ] {
        follow(regex, &Grammar::regex(regex));
    }
}

#[test]
fn what_exceeds_a_limit_is_refused_by_its_name() {
    for keyword in
        ["items", "additionalProperties", "properties", "allOf", "anyOf", "oneOf", "prefixItems"]
    {
        let error = SMALL.try_compile(&Grammar::json_schema(&nested(65, keyword))).err();
        assert!(
            matches!(error, Some(GrammarError::TooDeep { max: 64, .. })),
            "{keyword}: {error:?}"
        );
    }
    let groups: String =
        repeat_n('(', 65).chain(['"', 'a', '"']).chain(repeat_n(')', 65)).collect();
    let error = SMALL.try_compile(&Grammar::gbnf(&format!("root ::= {groups}"))).err();
    assert!(matches!(error, Some(GrammarError::TooDeep { max: 64, .. })), "{error:?}");
    let limits = Limits { source_bytes: 100, parts: 3, ..Limits::default() };
    let refusal = |grammar: Grammar| grammar.compile(&SMALL.vocabulary, &limits).err();
    let many = json!({"anyOf": [true, true, true]});
    let too_large = |what, got, max| Some(GrammarError::TooLarge { what, got, max });
    assert_eq!(refusal(Grammar::json_schema(&many)), too_large("schemas", 4, 3));
    assert_eq!(refusal(Grammar::gbnf("root ::= \"abcdef\"")), too_large("elements", 4, 3));
    assert_eq!(refusal(Grammar::gbnf(&"#".repeat(101))), too_large("bytes", 101, 100));
    assert_eq!(refusal(Grammar::regex(&"a".repeat(101))), too_large("bytes", 101, 100));
}

#[test]
fn work_beyond_the_fuel_is_a_refusal_and_not_a_wait() {
    let limits = Limits { compile_fuel: 50, ..Limits::default() };
    let error = Grammar::json_object().compile(&SMALL.vocabulary, &limits).err();
    let expected = |text: &String| text.contains("simpler patterns");
    assert!(matches!(&error, Some(GrammarError::Unusable(text)) if expected(text)), "{error:?}");
    let limits = Limits { step_items: 1, step_fuel: 1, ..Limits::default() };
    let error = Grammar::json_object().compile(&SMALL.vocabulary, &limits).err();
    assert!(matches!(error, Some(GrammarError::Unusable(_))), "{error:?}");
}
