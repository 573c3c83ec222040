//! Encoding speed: one endless word, and ordinary text. Run with `cargo bench -p frank-tokenizer`.

use std::fs::File;

use divan::Bencher;
use divan::counter::BytesCount;
use frank_gguf::Header;
use frank_testkit::assets;
use frank_tokenizer::{Specials, Tokenizer};

const MEGABYTE: usize = 1_000_000;

fn main() {
    divan::main();
}

fn smollm2() -> Tokenizer {
    let path = assets::smollm2();
    let mut file = File::open(&path).expect("the model can be opened");
    let file_bytes = file.metadata().expect("an open file has a size").len();
    let header = Header::read(&mut file, file_bytes).expect("the model is well-formed");
    Tokenizer::from_metadata(&header.metadata).expect("the model has a tokenizer")
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn megabyte_of_one_letter(bencher: Bencher<'_, '_>) {
    let (tokenizer, text) = (smollm2(), "a".repeat(MEGABYTE));
    bencher.counter(BytesCount::of_str(&text)).bench(|| tokenizer.encode(&text, Specials::Parse));
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn megabyte_of_prose(bencher: Bencher<'_, '_>) {
    let sentence = "It was the best of times, it was the worst of times; in 1775 there wasn't much else to say. ";
    let (tokenizer, text) = (smollm2(), sentence.repeat(MEGABYTE / sentence.len()));
    bencher.counter(BytesCount::of_str(&text)).bench(|| tokenizer.encode(&text, Specials::Parse));
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn load(bencher: Bencher<'_, '_>) {
    let path = assets::smollm2();
    let mut file = File::open(&path).expect("the model can be opened");
    let file_bytes = file.metadata().expect("an open file has a size").len();
    let header = Header::read(&mut file, file_bytes).expect("the model is well-formed");
    bencher.bench(|| Tokenizer::from_metadata(&header.metadata));
}
