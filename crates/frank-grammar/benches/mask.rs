//! What a mask costs: over the vocabularies of real models, while an answer is free text that may become a call, and
//! inside JSON. Run with `cargo bench -p frank-grammar`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use divan::Bencher;
use frank_chat::Pattern;
use frank_gguf::Header;
use frank_grammar::{Grammar, Limits, Matcher, Vocabulary};
use frank_testkit::assets;
use frank_tokenizer::{Specials, Tokenizer};
use serde_json::json;

/// Vocabularies of 49,152, 151,936 and 262,144 tokens.
const MODELS: &[&str] = &["SmolLM2", "Qwen2.5-Coder", "Gemma 3"];

/// Text that a model writes before it calls.
const PROSE: &str = "To find out, I will look at the file first: a < b, and \"c\" {d}.\n\n1. Read it.\n2. Say what is in it.\n";
const ARGUMENTS: &str =
    "{\"name\": \"read\", \"arguments\": {\"path\": \"src/main.rs and more\", \"lines\": 12";

fn main() {
    divan::main();
}

/// A model's vocabulary, and texts as it spells them.
struct Words {
    vocabulary: Arc<Vocabulary>,
    tokenizer: Tokenizer,
}

fn words(name: &str) -> Option<Words> {
    let path: Option<PathBuf> = match name {
        "SmolLM2" => Some(assets::smollm2()),
        "Gemma 3" => assets::gemma3(),
        _ => assets::qwen2(),
    };
    let mut file = File::open(path?).expect("the model can be opened");
    let file_bytes = file.metadata().expect("an open file has a size").len();
    let header = Header::read(&mut file, file_bytes).expect("a real model is well-formed");
    let tokenizer = Tokenizer::from_metadata(&header.metadata).expect("it has a tokenizer");
    let vocabulary = Vocabulary::new(&tokenizer).expect("a real vocabulary fits");
    Some(Words { vocabulary, tokenizer })
}

/// Free text, or a call of one of `n_tools` tools.
fn pattern(n_tools: usize) -> Pattern {
    let opening = "<tool_call>";
    let call = |n: usize| {
        let name = if n == 0 { "read".to_owned() } else { format!("tool_{n}") };
        let arguments = json!({"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}, "required": ["path"]});
        Pattern::Sequence(vec![
            Pattern::Literal(format!("{{\"name\": \"{name}\", \"arguments\": ")),
            Pattern::Json(arguments),
            Pattern::literal("}\n</tool_call>"),
        ])
    };
    let calls = Pattern::OneOf((0..n_tools).map(call).collect());
    Pattern::OneOf(vec![
        Pattern::TextWithout { markers: vec![opening.to_owned()] },
        Pattern::Sequence(vec![
            Pattern::TextThrough { end: opening.to_owned() },
            Pattern::literal("\n"),
            calls,
        ]),
    ])
}

fn compiled(words: &Words, grammar: &Grammar) -> Matcher {
    grammar.compile(&words.vocabulary, &Limits::default()).expect("the grammar can be used")
}

/// All masks of a text, one for each token of it.
fn follow(matcher: &Matcher, tokens: &[u32], mask: &mut [u32]) {
    let mut matcher = matcher.clone();
    for &token_id in tokens {
        matcher.allowed(mask).expect("the limits suffice");
        matcher.accept(token_id).expect("the text is allowed");
    }
}

fn bench_text(bencher: Bencher<'_, '_>, name: &str, text: &str, grammar: &Grammar) {
    let Some(words) = words(name) else { return };
    let matcher = compiled(&words, grammar);
    let tokens = words.tokenizer.encode(text, Specials::Literal);
    let mut mask = vec![0; words.vocabulary.n_vocab().div_ceil(32)];
    bencher
        .counter(divan::counter::ItemsCount::new(tokens.len()))
        .bench_local(|| follow(&matcher, &tokens, &mut mask));
}

/// Free text that may become a call.
#[divan::bench(args = MODELS, sample_count = 20, sample_size = 1)]
fn free_text(bencher: Bencher<'_, '_>, name: &str) {
    bench_text(bencher, name, PROSE, &Grammar::pattern(&pattern(20)));
}

/// A call.
#[divan::bench(args = MODELS, sample_count = 20, sample_size = 1)]
fn call(bencher: Bencher<'_, '_>, name: &str) {
    let text = format!("<tool_call>\n{ARGUMENTS}");
    bench_text(bencher, name, &text, &Grammar::pattern(&pattern(20)));
}

/// JSON with a string of bounded length.
#[divan::bench(args = MODELS, sample_count = 20, sample_size = 1)]
fn bounded_string(bencher: Bencher<'_, '_>, name: &str) {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 400}}, "required": ["text"]});
    let text = format!("{{\"text\": \"{}", PROSE.replace(['"', '\n'], " "));
    bench_text(bencher, name, &text, &Grammar::json_schema(&schema));
}

/// Compilation, and the first mask.
#[divan::bench(args = [1, 20, 100], sample_count = 10, sample_size = 1)]
fn compile_tools(bencher: Bencher<'_, '_>, n_tools: usize) {
    let Some(words) = words("Qwen2.5-Coder") else { return };
    let grammar = Grammar::pattern(&pattern(n_tools));
    bencher.bench_local(|| compiled(&words, &grammar));
}

/// The trie of a vocabulary.
#[divan::bench(args = MODELS, sample_count = 5, sample_size = 1)]
fn vocabulary(bencher: Bencher<'_, '_>, name: &str) {
    let Some(words) = words(name) else { return };
    bencher.bench_local(|| Vocabulary::new(&words.tokenizer));
}
