//! What a vocabulary says about its tokens.

use frank_gguf::Array;
use frank_testkit::assets;
use frank_tokenizer::Specials;

use crate::{CONTROL, Keys, NORMAL, UNKNOWN, USER_DEFINED, bytes, tokenizer_of};

#[test]
fn tokens_have_text_and_bytes() {
    let more = [
        ("Ġt", NORMAL),
        ("<|x|>", CONTROL),
        ("<think>", USER_DEFINED),
        ("ä¸ĸ", NORMAL),
        ("<unk>", UNKNOWN),
    ];
    let tokenizer = Keys::new(&more, &["Ġ t"]).tokenizer();
    assert_eq!(tokenizer.n_vocab(), 261);
    let cases = [
        (32, "Ġ", " ", false),
        (256, "Ġt", " t", false),
        (257, "<|x|>", "", true),
        (258, "<think>", "<think>", false),
        (259, "ä¸ĸ", "世", false),
        (260, "<unk>", "", true),
        (261, "", "", false),
        (u32::MAX, "", "", false),
    ];
    for (id, text, bytes, is_control) in cases {
        assert_eq!(tokenizer.token_text(id), text, "token {id}");
        assert_eq!(tokenizer.token_bytes(id), bytes.as_bytes(), "token {id}");
        assert_eq!(tokenizer.is_control(id), is_control, "token {id}");
    }
}

#[test]
fn an_answer_ends_with_the_tokens_of_the_keys_and_with_well_known_ones() {
    let more = ["<|eos|>", "<|eot|>", "<|eom|>", "<|im_end|>", "<|im_start|>", "<|endoftext|>"]
        .map(|text| (text, CONTROL));
    let tokenizer = Keys::new(&more, &[])
        .with("tokenizer.ggml.eos_token_id", 256u32)
        .with("tokenizer.ggml.eot_token_id", 257u32)
        .with("tokenizer.ggml.eom_token_id", 258u64)
        .tokenizer();
    assert_eq!(tokenizer.end_tokens(), [256, 257, 258, 259, 261]);
    assert!(tokenizer.is_end(259) && !tokenizer.is_end(260) && !tokenizer.is_end(u32::MAX));
    assert_eq!(tokenizer.eos(), Some(256));
}

#[test]
fn in_the_harmony_format_the_end_of_a_message_is_not_the_end_of_the_answer() {
    let texts = ["<|end|>", "<|return|>", "<|call|>"].map(|text| (text, CONTROL));
    assert_eq!(Keys::new(&texts, &[]).tokenizer().end_tokens(), [257, 258]);
    assert_eq!(Keys::new(&texts[..1], &[]).tokenizer().end_tokens(), [256]);
}

#[test]
fn an_end_token_that_is_typed_as_text_is_a_control_token_with_a_warning() {
    for kind in [NORMAL, USER_DEFINED] {
        let tokenizer = Keys::new(&[("<|im_end|>", kind)], &[]).tokenizer();
        assert!(tokenizer.is_control(256) && tokenizer.is_end(256));
        assert_eq!(tokenizer.encode("<|im_end|>", Specials::Literal), bytes("<|im_end|>"));
        let [warning] = tokenizer.warnings() else { panic!("{:?}", tokenizer.warnings()) };
        assert!(
            warning.starts_with("token 256 \"<|im_end|>\" is not typed as a control token"),
            "{warning}"
        );
    }
}

#[test]
fn tokens_that_frame_a_hole_are_control_tokens_however_they_are_typed() {
    let tokenizer = Keys::new(&[("<|fim_prefix|>", USER_DEFINED)], &[]).tokenizer();
    assert!(tokenizer.is_control(256) && !tokenizer.is_end(256));
    assert_eq!(tokenizer.encode("<|fim_prefix|>", Specials::Literal), bytes("<|fim_prefix|>"));
    assert_eq!(tokenizer.encode("<|fim_prefix|>", Specials::Parse), [256]);
    assert_eq!(tokenizer.warnings().len(), 1);
    let ends = Keys::new(&[("<|file_sep|>", CONTROL), ("<|repo_name|>", CONTROL)], &[]).tokenizer();
    assert_eq!(ends.end_tokens(), [256, 257]);
}

#[test]
fn a_missing_or_default_pre_is_split_by_the_fallback_with_a_warning() {
    let keys = Keys::new(
        &[("12", NORMAL), ("123", NORMAL), ("!=", NORMAL), ("Ġ!", NORMAL)],
        &["Ġ !", "1 2", "12 3", "! ="],
    );
    assert!(keys.tokenizer().warnings().is_empty());
    let missing = keys.clone().without("tokenizer.ggml.pre");
    for (keys, word) in
        [(missing, "missing"), (keys.with("tokenizer.ggml.pre", "default"), "\"default\"")]
    {
        let tokenizer = keys.tokenizer();
        let [warning] = tokenizer.warnings() else { panic!("{:?}", tokenizer.warnings()) };
        assert!(warning.starts_with(&format!("tokenizer.ggml.pre is {word}: ")), "{warning}");
        // Punctuation stands apart from the space before it, and digits are cut in threes.
        assert_eq!(tokenizer.encode(" !=1231", Specials::Literal), [32, 258, 257, 49]);
    }
}

#[test]
fn a_word_that_is_a_token_is_taken_whole_where_the_vocabulary_wants_that() {
    // No merge makes `abc`. The token of another alphabet is no word, though it has the bytes of one.
    let keys =
        Keys::new(&[("ab", NORMAL), ("abc", NORMAL), ("Ġabc", NORMAL), ("世", NORMAL)], &["a b"]);
    let encode = |pre: &str, text: &str| {
        keys.clone().with("tokenizer.ggml.pre", pre).tokenizer().encode(text, Specials::Literal)
    };
    for pre in ["llama-bpe", "llama3", "gpt-4o", "llama4"] {
        assert_eq!(encode(pre, "abc abc"), [257, 258], "{pre}");
        assert_eq!(encode(pre, "abcd世"), [&[256], &bytes("cd世")[..]].concat(), "{pre}");
    }
    assert_eq!(encode("gpt-2", "abc"), [256, 99]);
    assert_eq!(encode("qwen2", "abc"), [256, 99]);
}

#[test]
fn llama_3_begins_with_bos_where_the_file_does_not_say() {
    let keys = Keys::new(&[("<|begin_of_text|>", CONTROL)], &[])
        .with("tokenizer.ggml.bos_token_id", 256u32);
    let encode = |keys: Keys| keys.tokenizer().encode_text("a");
    assert_eq!(encode(keys.clone()), [97]);
    let keys = keys.with("tokenizer.ggml.pre", "llama-bpe");
    assert_eq!(encode(keys.clone()), [256, 97]);
    assert_eq!(encode(keys.clone().with("tokenizer.ggml.add_bos_token", false)), [97]);
    assert_eq!(encode(keys.without("tokenizer.ggml.bos_token_id")), [97]);
}

#[test]
fn merges_stay_within_the_words_of_the_pre_tokenizer() {
    let keys = Keys::new(&[("12", NORMAL), ("Ġ1", NORMAL)], &["1 2", "Ġ 1"]);
    let encode = |pre: &str, text: &str| {
        keys.clone().with("tokenizer.ggml.pre", pre).tokenizer().encode(text, Specials::Literal)
    };
    assert_eq!(encode("gpt-2", "x 12"), [120, 32, 256]);
    assert_eq!(encode("gpt-2", "x 13"), [120, 257, 51]);
    assert_eq!(encode("smollm", "x 12"), [120, 32, 49, 50]);
}

#[test]
fn a_byte_that_the_vocabulary_cannot_spell_is_left_out() {
    let texts = ["a", "b", "ab"].map(str::to_owned).to_vec();
    let keys = Keys::new(&[], &["a b"]).with("tokenizer.ggml.tokens", Array::String(texts));
    let tokenizer = keys.without("tokenizer.ggml.token_type").tokenizer();
    assert_eq!(tokenizer.encode("abc, cab!", Specials::Literal), [2, 2]);
    assert_eq!(tokenizer.encode("acb", Specials::Literal), [0, 1]);
}

#[test]
fn a_token_of_no_text_keeps_the_ids_of_the_others_and_is_never_found() {
    let tokenizer =
        Keys::new(&[("", CONTROL), ("", USER_DEFINED), ("<|x|>", CONTROL)], &[]).tokenizer();
    assert_eq!(tokenizer.encode("a<|x|>", Specials::Parse), [97, 258]);
}

#[test]
fn memory_is_counted() {
    let tokenizer = tokenizer_of(&assets::smollm2());
    // 49,152 texts and byte strings of about 7 bytes with an 8-byte end each, 48,900 merges of 12 bytes, and twice
    // as many slots of 13 bytes in the map of their ranks.
    let mebibytes = tokenizer.heap_bytes() as f64 / f64::from(1 << 20);
    assert!((2.0..6.0).contains(&mebibytes), "{mebibytes} MiB");
    // 32,000 texts and byte strings with 8-byte ends, ranks of 4 bytes and 65,536 slots of 5 bytes.
    let llama2 = assets::vocabularies().join("ggml-vocab-llama-spm.gguf");
    let mebibytes = tokenizer_of(&llama2).heap_bytes() as f64 / f64::from(1 << 20);
    assert!((1.0..3.0).contains(&mebibytes), "{mebibytes} MiB");
}
