//! GBNF: llama.cpp's grammars accept and reject what they should, and mistakes have their place.

use frank_grammar::{Grammar, GrammarError};
use frank_testkit::assets;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::Value;

use crate::walk::{SMALL, of_model};

/// A grammar with texts that it accepts and texts that it does not.
struct Example {
    grammar: &'static str,
    good: &'static [&'static str],
    bad: &'static [&'static str],
}

/// The structure of llama.cpp's `grammars/json.gbnf`: recursion, escapes, counted repetitions, white space that may be
/// nothing at the end of every rule.
const JSON: &str = r#"
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws   # members
array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"#;

static EXAMPLES: &[Example] = &[
    Example {
        grammar: JSON,
        good: &[
            "{}",
            "{ }",
            r#"{"a": [1, -2.5e+3, {"b":null}], "c": "x\u00e9\n"}"#,
            "{\"a\":\n\ttrue}\n",
        ],
        bad: &[
            "",
            "[]",
            "{,}",
            r#"{"a":}"#,
            r#"{"a":01}"#,
            "{  }",
            r#"{"a":tru}"#,
            "{\"a\":\"\n\"}",
        ],
    },
    // The end of a rule that may go on with what comes after it.
    Example {
        grammar: "root ::= (expr \"=\" ws term \"\\n\")+\nexpr ::= term ([-+*/] term)*\n\
                  term ::= ident | num | \"(\" ws expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\n\
                  num ::= [0-9]+ ws\nws ::= [ \\t\\n]*",
        good: &["a=1\n", "a1 +(b*2)= 3 \n\nx=y\n", "a = b\n\n\n"],
        bad: &["a=1", "a=\n", "=1\n", "a+=1\n", "a b=1\n"],
    },
    Example {
        grammar: "root ::= \"a\"* \"ab\" inner | \"x\" root\ninner ::= \"(\" inner \")\" | [a-c]* \"c\"",
        good: &["abc", "aaabbac", "xxab(abcc)", "ab((c))"],
        bad: &["ab", "aac", "ab(c", "xxx", "abca"],
    },
    Example {
        grammar: "root ::= word (\"while\" word | word)* nest\nword ::= [a-z]+ \" \"\nnest ::= \"(\" nest? \")\"",
        good: &["a ()", "while a whilea (())", "whi le whilex (())"],
        bad: &["()", "a", "a (()"],
    },
    Example {
        grammar: "root ::= .{2,3} [^a-z]? | \"\\u00e9\\U0001F600\\x41\\t\\\"\\\\\\[\\]\" | [\\]\\-^a]{4}\n",
        good: &["ab", "日本é", "ab1", "é😀A\t\"\\[]", "]-^a", "a\nb"],
        bad: &["a", "abcd", "日本語日x", "]-^b"],
    },
    Example { grammar: "root ::= | root \"a\"", good: &["", "aaa"], bad: &["b", "ab"] },
    Example {
        grammar: "root ::= a a\na ::= \"x\"? \"y\"?",
        good: &["", "xy", "xyxy", "yx"],
        bad: &["xx y", "yyy"],
    },
];

#[test]
fn a_grammar_accepts_its_texts_and_no_others() {
    for Example { grammar, good, bad } in EXAMPLES {
        let compiled = Grammar::gbnf(grammar);
        for text in *good {
            assert!(SMALL.accepts(&compiled, text), "{text:?} is a text of\n{grammar}");
        }
        for text in *bad {
            assert!(!SMALL.accepts(&compiled, text), "{text:?} is no text of\n{grammar}");
        }
    }
}

#[test]
fn random_answers_of_the_json_grammar_parse() {
    let mut vocabularies = vec![of_model(&assets::smollm2())];
    vocabularies.extend(assets::gemma3().map(|path| of_model(&path)));
    for words in vocabularies {
        for seed in 0..5 {
            let text = words.wander(&Grammar::gbnf(JSON), &mut ChaCha8Rng::seed_from_u64(seed));
            match serde_json::from_str::<Value>(&text) {
                Ok(value) => assert!(value.is_object(), "{text:?}"),
                // JSON has no bound on a number, the parser has.
                Err(error) => assert!(
                    error.to_string().starts_with("number out of range"),
                    "{error}: {text:?}"
                ),
            }
        }
    }
}

#[test]
fn a_mistake_has_its_line_and_column() {
    let cases = [
        ("root ::= \"a", 1, 12, "a closing quote"),
        ("root ::= [a", 1, 12, "a closing bracket"),
        ("root ::= (\"a\"", 1, 14, "a closing parenthesis"),
        ("root ::= \"a\" )", 1, 14, "the end of the rule"),
        ("root := \"a\"", 1, 7, "::= is expected"),
        ("root ::= a\nb ::= \"b\"", 1, 10, "the rule a is not defined"),
        ("root ::= \"a\"\nroot ::= \"b\"", 2, 1, "the rule root is defined twice"),
        ("a ::= \"b\"", 1, 1, "there is no rule root"),
        ("", 1, 1, "there is no rule root"),
        ("root ::= \"\\q\"", 1, 11, "unknown escape"),
        ("root ::= \"\\ud800\"", 1, 11, "4 hex digits of a character"),
        ("root ::= [z-a]", 1, 14, "the range ends below"),
        ("root ::= \"a\"{3,2}", 1, 13, "the repetition ends below"),
        ("root ::= \"a\"{9999}", 1, 14, "more than 2000"),
        ("root ::= \"a\"{x}", 1, 14, "a number is expected"),
        ("root ::= <think>", 1, 10, "tokens are not supported"),
        ("root ::= []", 1, 10, "the class has no character"),
        ("root ::= * \"a\"", 1, 10, "the end of the rule"),
    ];
    for (text, line, column, what) in cases {
        match SMALL.try_compile(&Grammar::gbnf(text)).err() {
            Some(GrammarError::Gbnf { line: l, column: c, what: w }) => {
                assert!((l, c) == (line, column) && w.contains(what), "{l}:{c} {w}\nof {text:?}");
            }
            other => panic!("{other:?} of {text:?}"),
        }
    }
}

#[test]
fn a_clone_follows_an_answer_of_its_own() {
    let mut first = SMALL.compile(&Grammar::gbnf("root ::= \"ab\" | \"ba\""));
    let mut second = first.clone();
    first.accept(b'a'.into()).expect("an answer may begin so");
    second.accept(b'b'.into()).expect("an answer may begin so");
    assert_eq!(SMALL.allowed(&mut first), [u32::from(b'b')]);
    assert_eq!(SMALL.allowed(&mut second), [u32::from(b'a')]);
}
