//! `tokenizer` under libFuzzer; built without it, a program that runs the target once over each file it is given.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frank_fuzz::tokenizer::check(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    frank_fuzz::replay(frank_fuzz::tokenizer::check)
}
