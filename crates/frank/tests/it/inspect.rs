//! `frank inspect`: facts of whole, split, cut, foreign and hostile files.

use std::path::Path;

use frank_gguf::{Array, type_id};
use frank_testkit::gguf_writer::GgufWriter;
use serde_json::{Value, json};

use crate::files::{Folder, llama, llama_keys};
use crate::program::frank;

fn text(model: &Path) -> String {
    let run = frank(["inspect".as_ref(), model.as_os_str()]).ended(0);
    assert_eq!(run.stderr, "");
    run.stdout
}

fn facts(model: &Path) -> Value {
    frank(["inspect".as_ref(), "--json".as_ref(), model.as_os_str()]).ended(0).json()
}

#[test]
fn a_model_is_shown_whole() {
    let folder = Folder::new();
    let path = folder.file("llama.gguf", std::fs::read(llama()).unwrap());
    let folder = folder.path().to_str().unwrap();
    insta::assert_snapshot!(text(&path).replace(folder, "FOLDER"));
}

#[test]
fn bytes_add_up_to_the_data_of_the_file() {
    let facts = facts(&llama());
    let data =
        facts["file_bytes"].as_u64().unwrap() - facts["parts"][0]["data_start"].as_u64().unwrap();
    let sum = |list: &str| -> u64 {
        facts[list].as_array().unwrap().iter().map(|entry| entry["bytes"].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("tensors"), data);
    assert_eq!(sum("layers") + facts["totals"]["bytes_outside_layers"].as_u64().unwrap(), data);
    assert_eq!(facts["totals"]["bytes"], data);
    assert_eq!(facts["totals"]["values"].as_u64().unwrap() * 4, data);
    assert_eq!((&facts["arch"], &facts["warnings"]), (&json!("llama"), &json!([])));
}

#[test]
fn long_arrays_and_strings_are_abbreviated() {
    let folder = Folder::new();
    let template = "x".repeat(5000);
    let tokens = (0..40).map(|index| format!("t{index}")).collect();
    let writer = GgufWriter::new("llama")
        .value("tokenizer.chat_template", template.as_str())
        .value("tokenizer.ggml.tokens", Array::String(tokens))
        .value("short", Array::U32((0..16).collect()))
        .value("ratio", 1e-5f32);
    let path = folder.gguf("model.gguf", &writer);
    let text = text(&path);
    assert!(text.lines().all(|line| line.chars().count() < 200), "{text}");
    assert!(
        text.contains(r#"40 strings: ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", …]"#),
        "{text}"
    );
    assert!(text.contains("(5000 characters)"), "{text}");
    assert!(
        text.contains("16 u32: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]"),
        "{text}"
    );
    let metadata = &facts(&path)["metadata"];
    assert_eq!(metadata["tokenizer.chat_template"], template);
    let tokens = &metadata["tokenizer.ggml.tokens"];
    assert_eq!((&tokens["array_of"], &tokens["count"]), (&json!("strings"), &json!(40)));
    assert_eq!(tokens["first"].as_array().unwrap().len(), 8);
    assert_eq!(metadata["short"].as_array().unwrap().len(), 16);
    // As written, and not as the nearest f64.
    assert!(
        frank(["inspect".as_ref(), "--json".as_ref(), path.as_os_str()])
            .stdout
            .contains("\"ratio\": 0.00001")
    );
}

#[test]
fn an_unknown_architecture_is_shown_like_any_other() {
    let folder = Folder::new();
    let writer = llama_keys("martian", 1).f32_tensor("blk.0.claw.weight", &[2, 2], &[1.0; 4]);
    let facts = facts(&folder.gguf("martian.gguf", &writer));
    assert_eq!(facts["arch"], "martian");
    assert_eq!(facts["tensors"][0]["name"], "blk.0.claw.weight");
    let layer = json!({
        "layer": 0, "tensors": 1, "bytes": 16, "dense_bytes": 16, "experts": 0, "expert_bytes_each": 0,
    });
    assert_eq!(facts["layers"], json!([layer]));
}

#[test]
fn bytes_are_told_by_layer_and_by_expert_in_both_forms_of_expert_tensors() {
    let folder = Folder::new();
    let part = |layer: u32, part: &str| format!("blk.{layer}.ffn_{part}.weight");
    let writer = llama_keys("qwen3moe", 3)
        .f32_tensor("token_embd.weight", &[8], &[0.0; 8])
        .f32_tensor("blk.0.ffn_up.weight", &[8], &[0.0; 8])
        .f32_tensor("blk.1.ffn_gate_inp.weight", &[2, 4], &[0.0; 8])
        .f32_tensor(&part(1, "gate_exps"), &[4, 2, 4], &[0.0; 32])
        .f32_tensor(&part(1, "down_exps"), &[4, 2, 4], &[0.0; 32])
        .f32_tensor("blk.1.ffn_up_shexp.weight", &[6], &[0.0; 6])
        .f32_tensor(&part(2, "gate.0"), &[4, 2], &[0.0; 8])
        .f32_tensor(&part(2, "gate.1"), &[4, 2], &[0.0; 8]);
    let path = folder.gguf("moe.gguf", &writer);
    let facts = facts(&path);
    let layer = |layer, tensors, dense_bytes, experts, expert_bytes_each| {
        let bytes = dense_bytes + experts * expert_bytes_each;
        json!({
            "layer": layer, "tensors": tensors, "bytes": bytes, "dense_bytes": dense_bytes,
            "experts": experts, "expert_bytes_each": expert_bytes_each,
        })
    };
    let layers = [layer(0, 1, 32, 0, 0), layer(1, 4, 56, 4, 64), layer(2, 2, 0, 2, 32)];
    assert_eq!(facts["layers"], json!(layers));
    let totals = &facts["totals"];
    assert_eq!(
        (&totals["experts"], &totals["expert_bytes"], &totals["dense_bytes"]),
        (&json!(6), &json!(320), &json!(120))
    );
    let text = text(&path);
    let (_, layers) = text.split_once("Layers (3)\n").expect("a table of layers");
    let words: Vec<Vec<&str>> =
        layers.lines().take(5).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["layer", "tensors", "size", "dense", "experts", "each"]);
    assert_eq!(words[1], ["blk.0", "1", "32", "B", "32", "B"]);
    assert_eq!(words[2], ["blk.1", "4", "312", "B", "56", "B", "4", "64", "B"]);
    assert_eq!(words[4], ["outside", "32", "B", "32", "B"]);
}

#[test]
fn unknown_tensor_types_are_counted_from_offsets_and_said_so() {
    let folder = Folder::new();
    let writer = GgufWriter::new("llama")
        .tensor("blk.0.odd.weight", &[32, 2], 250, vec![0; 96])
        .tensor("blk.0.even.weight", &[4], type_id::F32, vec![0; 16]);
    let path = folder.gguf("odd.gguf", &writer);
    let facts = facts(&path);
    assert_eq!(
        (&facts["tensors"][0]["type"], &facts["tensors"][0]["bytes"]),
        (&Value::Null, &json!(96))
    );
    let warning =
        "tensor type 250 is not known: the bytes of its 1 tensors are counted from their offsets";
    assert_eq!(facts["warnings"], json!([warning]));
    let text = text(&path);
    assert!(text.contains("type 250") && text.contains(warning), "{text}");
}

#[test]
fn a_removed_tensor_type_is_shown_by_its_name_planned_and_refused_when_loading() {
    let folder = Folder::new();
    let writer = llama_keys("llama", 1)
        .value("llama.attention.layer_norm_rms_epsilon", 1e-5f32)
        .tensor("token_embd.weight", &[64, 2], 31, vec![0; 96]);
    let path = folder.gguf("removed.gguf", &writer);
    let facts = facts(&path);
    assert_eq!(facts["tensors"][0]["type"], "Q4_0_4_4");
    let warning = "tensor type 31 (Q4_0_4_4) was removed from the format: the bytes of its 1 tensors are counted from their offsets";
    assert_eq!(facts["warnings"], json!([warning]));
    let path = path.to_str().unwrap();
    let plan = frank(["fit", "--json", path]).ended(0).json();
    assert!(plan["warnings"][0].as_str().unwrap().contains("Q4_0_4_4"), "{plan}");
    let lines = frank(["serve", "--port", "0", path]).failed(2).join("\n");
    assert!(lines.contains("type Q4_0_4_4, removed from the format (id 31)"), "{lines}");
}

#[test]
fn a_cut_file_is_shown_and_the_cut_is_said() {
    let folder = Folder::new();
    let whole = std::fs::metadata(llama()).unwrap().len();
    let path = folder.cut_llama(8000);
    let facts = facts(&path);
    assert_eq!(facts["tensors"].as_array().unwrap().len(), 30);
    let warning =
        format!("{} is cut off: {} bytes are missing at its end", path.display(), whole - 8000);
    assert_eq!(facts["warnings"], json!([warning]));
}

#[test]
fn a_sparse_file_is_shown_at_its_full_size() {
    let folder = Folder::new();
    let bytes = 200 << 30;
    let facts = facts(&folder.sparse(&llama_keys("llama", 1), bytes));
    assert_eq!(facts["file_bytes"], bytes);
}

#[test]
fn all_parts_of_a_split_model_are_shown_whichever_is_given() {
    let folder = Folder::new();
    let first =
        GgufWriter::new("llama").split(0, 2, 2).f32_tensor("blk.0.a.weight", &[8], &[0.0; 8]);
    let second =
        GgufWriter::without_keys().split(1, 2, 2).f32_tensor("blk.1.a.weight", &[4], &[0.0; 4]);
    let first = folder.gguf("m-00001-of-00002.gguf", &first);
    let second = folder.gguf("m-00002-of-00002.gguf", &second);
    let facts = facts(&second);
    let rows = facts["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].clone(), row["part"].clone()));
    let expected = [(json!("blk.0.a.weight"), json!(1)), (json!("blk.1.a.weight"), json!(2))];
    assert!(rows.eq(expected), "{facts}");
    let text = text(&first);
    assert!(
        text.contains("m-00001-of-00002.gguf") && text.contains("m-00002-of-00002.gguf"),
        "{text}"
    );
}

#[test]
fn strings_of_a_file_never_write_to_the_terminal() {
    let folder = Folder::new();
    let writer = GgufWriter::new("lla\x1b[2Jma")
        .value("general.name", "\x1b]0;owned\x07 \u{9b}31m\r\u{202e}txt \"quoted\\\"")
        .value("evil\nkey", Array::String(vec!["\x1b[1m".to_owned()]))
        .f32_tensor("blk.0.\x1b[31m.weight", &[4], &[0.0; 4]);
    let path = folder.gguf("evil.gguf", &writer);
    let text = text(&path);
    let is_unsafe = |char: char| (char.is_control() && char != '\n') || char == '\u{202e}';
    assert!(!text.contains(is_unsafe), "{text:?}");
    assert!(
        text.contains(r#""\u{1b}]0;owned\u{7} \u{9b}31m\r\u{202e}txt \"quoted\\\"""#),
        "{text}"
    );
    assert!(text.contains(r"evil\nkey") && text.contains(r"blk.0.\u{1b}[31m.weight"), "{text}");
}
