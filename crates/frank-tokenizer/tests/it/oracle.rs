//! The same tokens as llama.cpp, string by string. `tests/oracle/tokenize.py` asks llama.cpp.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, iter};

use frank_gguf::{Array, Header, Metadata};
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;
use frank_tokenizer::{Specials, Tokenizer};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::{CONTROL, NORMAL, UNKNOWN, USER_DEFINED, metadata_of, tokenizer_of};

const SEED: u64 = 0x005e_eded;
const N_STRINGS: usize = 2_000;

/// GGUF's id of the type.
const TYPE_F16: u32 = 1;

/// llama.cpp's tokens of each string, with control tokens parsed and literal.
fn llama_cpp(model: &Path, strings: &[String]) -> [Vec<Vec<u32>>; 2] {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let (strings_path, out_path) = (dir.path().join("strings.json"), dir.path().join("out.json"));
    fs::write(&strings_path, serde_json::to_vec(strings).expect("strings are JSON"))
        .expect("the strings can be written");
    let output = Command::new(assets::python())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/tokenize.py"))
        .args([model, &strings_path, &out_path])
        .output()
        .expect("python can be started");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let answers: Value =
        serde_json::from_slice(&fs::read(out_path).expect("python wrote its answer"))
            .expect("JSON");
    ["parse", "literal"]
        .map(|mode| serde_json::from_value(answers[mode].clone()).expect("lists of token ids"))
}

/// Compares every string, and reports the first differences and their number.
fn assert_no_differences(model: &Path, tokenizer: &Tokenizer, strings: &[String]) {
    let answers = llama_cpp(model, strings);
    let mut differences = Vec::new();
    for (specials, lists) in [Specials::Parse, Specials::Literal].into_iter().zip(answers) {
        assert_eq!(lists.len(), strings.len());
        for (string, theirs) in strings.iter().zip(lists) {
            let ours = tokenizer.encode(string, specials);
            if ours != theirs {
                differences.push(format!(
                    "{specials:?} {string:?}\n  ours:   {ours:?}\n  theirs: {theirs:?}"
                ));
            }
        }
    }
    let n = differences.len();
    differences.truncate(5);
    assert!(differences.is_empty(), "{n} differences\n{}", differences.join("\n"));
}

/// Compares the strings of a model file that llama.cpp can load.
fn check_model(model: &Path) {
    let tokenizer = tokenizer_of(model);
    assert_no_differences(model, &tokenizer, &seeded_strings(&tokenizer));
}

/// Compares the strings of one of llama.cpp's vocabularies.
fn check_vocabulary(name: &str) {
    let metadata = metadata_of(&assets::vocabularies().join(format!("ggml-vocab-{name}.gguf")));
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    check_model(&model_with_vocabulary(dir.path(), &metadata));
}

#[test]
fn smollm2_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_model(&assets::smollm2());
}

#[test]
fn gemma3_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    if let Some(model) = assets::gemma3() {
        check_model(&model);
    }
}

#[test]
fn qwen2_5_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    if let Some(model) = assets::qwen2() {
        check_model(&model);
    }
}

#[test]
fn gpt2_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_vocabulary("gpt-2");
}

#[test]
fn llama3_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_vocabulary("llama-bpe");
}

#[test]
fn llama2_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_vocabulary("llama-spm");
}

#[test]
fn baichuan_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_vocabulary("baichuan");
}

#[test]
fn qwen3_5_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_vocabulary("qwen35");
}

#[test]
fn deepseek_llm_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_vocabulary("deepseek-llm");
}

#[test]
fn deepseek_coder_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_vocabulary("deepseek-coder");
}

/// The words of DeepSeek V3, in the vocabulary of an older model: there is no file with its own.
#[test]
fn deepseek_v3_words_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    let metadata = metadata_of(&assets::vocabularies().join("ggml-vocab-deepseek-llm.gguf"));
    let key = "tokenizer.ggml.pre";
    let others = metadata.iter().filter(|&(other, _)| other != key);
    let entries = others.map(|(key, value)| (key.to_owned(), value.clone()));
    let entries = entries.chain([(key.to_owned(), "deepseek-v3".into())]).collect();
    let metadata = Metadata::new(entries).expect("every key is there once");
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    check_model(&model_with_vocabulary(dir.path(), &metadata));
}

#[test]
fn falcon_tokens_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_vocabulary("falcon");
}

#[test]
fn tokens_of_a_file_without_pre_equal_those_of_llama_cpp_on_2000_seeded_strings() {
    check_vocabulary("aquila");
}

#[test]
fn code_points_give_the_tokens_of_llama_cpp_wherever_they_stand() {
    let model = assets::smollm2();
    let tokenizer = tokenizer_of(&model);
    // At the start and inside of a word, after a space, after white space before a letter, and before a digit.
    let contexts = |c: &char| format!("{c}a{c}b {c}  {c}c \n{c}1{c}");
    let strings: Vec<String> = telling_code_points()
        .chunks(64)
        .map(|chunk| chunk.iter().map(contexts).collect())
        .collect();
    assert_no_differences(&model, &tokenizer, &strings);
}

/// All code points up to the CJK ideographs, above them every 61st, and wherever a class of characters begins or ends.
/// The classes are the standard library's, whose newer Unicode version adds the places where ours must not follow.
fn telling_code_points() -> Vec<char> {
    let class = |c: char| (c.is_alphabetic(), c.is_numeric(), c.is_whitespace());
    let is_edge = |c: char| {
        let code = u32::from(c);
        let neighbours = [code.wrapping_sub(1), code + 1].map(char::from_u32);
        neighbours.into_iter().flatten().any(|neighbour| class(neighbour) != class(c))
    };
    ('\0'..=char::MAX)
        .filter(|&c| c < '\u{3400}' || u32::from(c).is_multiple_of(61) || is_edge(c))
        .collect()
}

/// The tiny model with another vocabulary. Its weights become zeros where their shape depends on that.
fn model_with_vocabulary(dir: &Path, vocabulary: &Metadata) -> PathBuf {
    let file = fs::read(assets::tiny("llama.gguf")).expect("the tiny model can be read");
    let header =
        Header::read(&mut &file[..], file.len() as u64).expect("the tiny model is well-formed");
    let is_tokenizer = |key: &str| key.starts_with("tokenizer.");
    let shape =
        header.metadata.iter().filter(|&(key, _)| !is_tokenizer(key) && key != "llama.vocab_size");
    let keys = shape
        .chain(vocabulary.iter().filter(|&(key, _)| is_tokenizer(key)))
        .fold(GgufWriter::without_keys(), |writer, (key, value)| writer.value(key, value.clone()));
    let n_vocab =
        vocabulary.strings("tokenizer.ggml.tokens").expect("strings").expect("tokens").len();
    let writer = header.tensors.iter().fold(keys, |writer, tensor| {
        if tensor.name == "output.weight" {
            return writer;
        }
        if tensor.name == "token_embd.weight" {
            let dims = [tensor.dims[0], n_vocab as u64];
            let bytes = vec![0; 2 * tensor.dims[0] as usize * n_vocab];
            return writer.tensor(&tensor.name, &dims, TYPE_F16, bytes);
        }
        let start = (header.data_start + tensor.offset) as usize;
        let end = start + tensor.bytes().expect("a type with a layout") as usize;
        writer.tensor(&tensor.name, &tensor.dims, tensor.type_id, file[start..end].to_vec())
    });
    let path = dir.join("made.gguf");
    fs::write(&path, writer.to_bytes()).expect("the model can be written");
    path
}

/// The tiny model with special tokens that overlap, in place of its unused ones.
fn model_with_odd_specials(dir: &Path) -> PathBuf {
    let specials = [
        ("<|a|>", CONTROL),
        ("<|a|><|b", CONTROL),
        ("|><|", CONTROL),
        ("<|im_end|>", NORMAL),
        ("<unk>", UNKNOWN),
        ("<think>", USER_DEFINED),
        ("</think>\n\n", USER_DEFINED),
        ("  ", USER_DEFINED),
        ("\n\n\n", USER_DEFINED),
        ("abab", USER_DEFINED),
        ("bab", USER_DEFINED),
        ("世界", USER_DEFINED),
        ("Ġthe in", USER_DEFINED),
    ];
    let metadata = metadata_of(&assets::tiny("llama.gguf"));
    let tokens_key = "tokenizer.ggml.tokens";
    let kinds_key = "tokenizer.ggml.token_type";
    let mut tokens = metadata.strings(tokens_key).expect("strings").expect("tokens").to_vec();
    let mut kinds = metadata.i32s(kinds_key).expect("integers").expect("token types");
    let first_unused =
        tokens.iter().position(|token| token == "[PAD272]").expect("the model has unused tokens");
    for (id, (text, kind)) in (first_unused..).zip(specials) {
        tokens[id] = text.to_owned();
        kinds[id] = kind;
    }
    let others = metadata.iter().filter(|&(key, _)| key != tokens_key && key != kinds_key);
    let mut entries: Vec<(String, frank_gguf::Value)> =
        others.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    entries.push((tokens_key.to_owned(), Array::String(tokens).into()));
    entries.push((kinds_key.to_owned(), Array::I32(kinds).into()));
    model_with_vocabulary(dir, &Metadata::new(entries).expect("every key is there once"))
}

#[test]
fn overlapping_special_tokens_are_found_in_the_order_of_llama_cpp() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let model = model_with_odd_specials(dir.path());
    let tokenizer = tokenizer_of(&model);
    assert_eq!(tokenizer.warnings().len(), 1, "<|im_end|> is mistyped: {:?}", tokenizer.warnings());
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let parts = [
        "<|a|>",
        "<|b|>",
        "<|",
        "a",
        "|>",
        "><",
        "<|im_end|>",
        "<unk>",
        "<think>",
        "</think>",
        "\n\n",
        "\n",
        "ab",
        "b",
        "  ",
        " ",
        "世",
        "世界",
        "Ġthe",
        " the in",
        " in",
    ];
    let mut string =
        || (0..rng.random_range(1..10)).filter_map(|_| parts.choose(&mut rng).copied()).collect();
    let strings: Vec<String> = iter::repeat_with(&mut string).take(1_000).collect();
    assert_no_differences(&model, &tokenizer, &strings);
}

/// Text of many scripts, code, white space, digits, odd code points, and the texts of control tokens in it.
pub(crate) fn seeded_strings(tokenizer: &Tokenizer) -> Vec<String> {
    let control_texts = tokenizer.control_texts(tokenizer.chat_template().unwrap_or_default());
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut strings: Vec<String> =
        (0..N_STRINGS - 1).map(|_| seeded_string(&mut rng, &control_texts)).collect();
    strings.push("a".repeat(20_000));
    strings
}

fn seeded_string(rng: &mut ChaCha8Rng, control_texts: &[&str]) -> String {
    let n_parts = rng.random_range(0..12);
    (0..n_parts).map(|_| seeded_part(rng, control_texts)).collect()
}

fn seeded_part(rng: &mut ChaCha8Rng, control_texts: &[&str]) -> String {
    match rng.random_range(0..16) {
        0..=2 => words(
            rng,
            "the of And hello WORLD token izer streaming it's we'll I'd they've can't 'S 'LL o'clock",
        ),
        3 => words(
            rng,
            "fn main() { let x=1; x+=2; } // => != <html> \\n \"s\" #include a.b->c arr[10] ::std __init__",
        ),
        4 => words(rng, "Grüße naïve Ελληνικά русский язык ǅungla ﬁn İstanbul ßtraße"),
        5 => words(rng, "世界 日本語のテキスト 한국어 漢字かな交じり文 。、「」 ㊿ Ⅷ ①"),
        6 => words(rng, "🦀 👩‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️ 🏳️‍🌈 e\u{301} n\u{303} a\u{30a}\u{327} क्षि"),
        7 => words(rng, "שלום עולם مرحبا بالعالم ١٢٣٤ \u{202e}abc\u{202c} ک\u{200c}ها"),
        8 => (0..rng.random_range(1..30)).map(|_| rng.random_range('0'..='9')).collect(),
        9 => run_of(rng, &['٣', '½', '²', '०', '㉈', '5']),
        10 => run_of(
            rng,
            &[
                ' ', ' ', '\t', '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{a0}', '\u{1680}',
                '\u{2003}', '\u{2028}', '\u{202f}', '\u{3000}', '\u{200b}', '\u{feff}', '\u{1c}',
            ],
        ),
        11 => (0..rng.random_range(1..6)).map(|_| any_code_point(rng)).collect(),
        12 => run_of(
            rng,
            &[
                '\0',
                '\u{1}',
                '\u{7f}',
                '\u{9f}',
                '\u{ad}',
                '\u{fffd}',
                '\u{fffe}',
                '\u{fdd0}',
                '\u{e000}',
                '\u{f8ff}',
                '\u{10ffff}',
                '\u{378}',
                '\u{e0041}',
            ],
        ),
        13 => words(
            rng,
            "<table> </code> <unused7> [PAD31] <0x0A> <0xE4> ▁ ▁▁the ▁<PRE> HelloWorld XMLParser ÄÖüÄ a//b /",
        ),
        14 => (*control_texts.choose(rng).expect("the vocabulary has control tokens")).to_owned(),
        _ => part_of_a_control_text(rng, control_texts),
    }
}

/// Some of the words, joined as text has them and as it does not.
fn words(rng: &mut ChaCha8Rng, list: &str) -> String {
    let list: Vec<&str> = list.split(' ').collect();
    let n = rng.random_range(1..8);
    let separator = [" ", " ", " ", "  ", "", "\n", "\n\n", ", ", " '"]
        .choose(rng)
        .copied()
        .unwrap_or_default();
    (0..n).filter_map(|_| list.choose(rng).copied()).flat_map(|word| [word, separator]).collect()
}

fn run_of(rng: &mut ChaCha8Rng, characters: &[char]) -> String {
    let n = rng.random_range(1..10);
    (0..n).filter_map(|_| characters.choose(rng)).collect()
}

/// A scalar value, most of which are unassigned; half of them from the Basic Multilingual Plane.
fn any_code_point(rng: &mut ChaCha8Rng) -> char {
    let limit = if rng.random() { 0x1_0000 } else { 0x11_0000 };
    let draw = || char::from_u32(rng.next_u32() % limit);
    iter::repeat_with(draw).flatten().next().expect("most draws are no surrogates")
}

/// A control token's text that is cut short or has something inside it.
fn part_of_a_control_text(rng: &mut ChaCha8Rng, control_texts: &[&str]) -> String {
    let text = control_texts.choose(rng).copied().unwrap_or_default();
    let place = text.floor_char_boundary(rng.random_range(1..text.len()));
    let (start, end) = text.split_at(place);
    match rng.random_range(0..4) {
        0 => start.to_owned(),
        1 => end.to_owned(),
        2 => format!("{start} {end}"),
        _ => format!("{start}{text}{end}"),
    }
}
