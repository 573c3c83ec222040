//! Encoding speed: one endless word, and ordinary text, with byte-level vocabularies and one of SentencePiece.
//! Run with `cargo bench -p frank-tokenizer`.

use std::fs::File;
use std::path::PathBuf;

use divan::Bencher;
use divan::counter::BytesCount;
use frank_gguf::{Header, Metadata};
use frank_testkit::assets;
use frank_tokenizer::{Specials, Tokenizer};

const MEGABYTE: usize = 1_000_000;

/// Names of llama.cpp's vocabularies: GPT-2's words, Llama 3's, DeepSeek LLM's six stages, and SentencePiece.
const VOCABULARIES: &[&str] = &["gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "llama-spm"];

fn main() {
    divan::main();
}

fn metadata(name: &str) -> Metadata {
    let path: PathBuf = assets::vocabularies().join(format!("ggml-vocab-{name}.gguf"));
    let mut file = File::open(&path).expect("the vocabulary can be opened");
    let file_bytes = file.metadata().expect("an open file has a size").len();
    Header::read(&mut file, file_bytes).expect("the vocabulary is well-formed").metadata
}

fn tokenizer(name: &str) -> Tokenizer {
    Tokenizer::from_metadata(&metadata(name)).expect("the vocabulary has a tokenizer")
}

fn encode(bencher: Bencher<'_, '_>, name: &str, text: &str) {
    let tokenizer = tokenizer(name);
    bencher.counter(BytesCount::of_str(text)).bench(|| tokenizer.encode(text, Specials::Parse));
}

#[divan::bench(args = VOCABULARIES, sample_count = 10, sample_size = 1)]
fn megabyte_of_one_letter(bencher: Bencher<'_, '_>, name: &str) {
    encode(bencher, name, &"a".repeat(MEGABYTE));
}

#[divan::bench(args = VOCABULARIES, sample_count = 10, sample_size = 1)]
fn megabyte_of_prose(bencher: Bencher<'_, '_>, name: &str) {
    let sentence = "It was the best of times, it was the worst of times; in 1775 there wasn't much else to say. ";
    encode(bencher, name, &sentence.repeat(MEGABYTE / sentence.len()));
}

#[divan::bench(args = VOCABULARIES, sample_count = 10, sample_size = 1)]
fn megabyte_of_chinese(bencher: Bencher<'_, '_>, name: &str) {
    let sentence = "那是最美好的时代，那是最糟糕的时代；1775年还没有别的话要说。";
    encode(bencher, name, &sentence.repeat(MEGABYTE / sentence.len()));
}

#[divan::bench(args = VOCABULARIES, sample_count = 10, sample_size = 1)]
fn load(bencher: Bencher<'_, '_>, name: &str) {
    let metadata = metadata(name);
    bencher.bench(|| Tokenizer::from_metadata(&metadata));
}
