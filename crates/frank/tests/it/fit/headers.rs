//! Plans from headers alone: of files that are cut, sparse, unknown or absurd.

use frank_gguf::type_id;
use frank_testkit::gguf_writer::GgufWriter;
use serde_json::json;

use super::{GIB, desktop, fit, number, plan};
use crate::files::{Folder, llama, llama_keys};

#[test]
fn a_header_alone_is_enough_to_plan() {
    let folder = Folder::new();
    let whole = plan(&llama(), &[]);
    let cut = plan(&folder.cut_llama(8000), &[]);
    assert_eq!(cut["devices"][0]["use"], whole["devices"][0]["use"]);
    assert!(cut["warnings"][0].as_str().unwrap().contains("is cut off: "), "{cut}");
}

#[test]
fn a_sparse_file_of_many_gigabytes_is_planned_at_its_full_size() {
    let folder = Folder::new();
    let row: u64 = 1 << 20;
    // A tensor of 160 GiB is only told of: the writer lays out no bytes for it.
    let writer = llama_keys("llama", 1).tensor(
        "blk.0.big.weight",
        &[row, 40 << 10],
        type_id::F32,
        Vec::new(),
    );
    let path = folder.sparse(&writer, 161 * GIB);
    let desktop = desktop(&folder);
    let run = fit(&path, &["--json", "--machine", desktop.to_str().unwrap()]).ended(3);
    assert!(number(&run.json()["devices"][0]["use"]["dense"]) >= 160 * GIB, "{run:?}");
}

#[test]
fn an_unknown_architecture_is_planned_from_its_tensors_and_said_so() {
    let folder = Folder::new();
    let writer = llama_keys("martian", 1)
        .tensor("blk.0.claw.weight", &[32, 32], 250, vec![0; 64 << 10])
        .f32_tensor("output.weight", &[4], &[0.0; 4]);
    let plan = plan(&folder.gguf("martian.gguf", &writer), &[]);
    assert_eq!(plan["model"]["arch"], "martian");
    assert!(number(&plan["devices"][0]["use"]["dense"]) >= 64 << 10, "{plan}");
    assert!(number(&plan["devices"][0]["use"]["kv_cache"]) > 0, "{plan}");
    assert!(plan["warnings"][0].as_str().unwrap().contains("cannot be loaded"), "{plan}");
}

#[test]
fn experts_are_told_apart_and_resident() {
    let folder = Folder::new();
    let expert = |part: &str| format!("blk.0.ffn_{part}_exps.weight");
    let writer = llama_keys("qwen3moe", 1)
        .value("qwen3moe.expert_count", 4u32)
        .value("qwen3moe.expert_used_count", 2u32)
        .f32_tensor(&expert("gate"), &[8, 2, 4], &[0.0; 64])
        .f32_tensor(&expert("up"), &[8, 2, 4], &[0.0; 64])
        .f32_tensor(&expert("down"), &[2, 8, 4], &[0.0; 64]);
    let path = folder.gguf("moe.gguf", &writer);
    let plan = plan(&path, &[]);
    assert_eq!(plan["model"]["experts"], 4);
    // They lie in whole huge pages.
    assert_eq!(number(&plan["devices"][0]["use"]["experts"]), 2 << 20);
    let experts = &plan["experts"];
    assert_eq!(
        (&experts["count"], &experts["primary"], &experts["floor_slots"]),
        (&json!(4), &json!(4), &json!(2))
    );
}

#[test]
fn absurd_metadata_is_planned_or_refused_and_never_a_panic() {
    let folder = Folder::new();
    for arch in ["llama", "martian"] {
        for key in [
            "block_count",
            "context_length",
            "embedding_length",
            "feed_forward_length",
            "attention.head_count",
            "attention.head_count_kv",
            "attention.key_length",
            "attention.value_length",
            "expert_count",
            "expert_used_count",
            "vocab_size",
        ] {
            for value in [0, 1, u32::MAX] {
                let writer = llama_keys(arch, 1).value(&format!("{arch}.{key}"), value).f32_tensor(
                    "blk.0.attn_q.weight",
                    &[64, 64],
                    &[0.0; 4096],
                );
                let run = fit(&folder.gguf("absurd.gguf", &writer), &["--no-measure"]);
                assert!(
                    [0, 2, 3].contains(&run.code) && !run.stderr.contains("panicked"),
                    "{key} {value}: {run:?}"
                );
            }
        }
        let writer = llama_keys(arch, 1)
            .value(&format!("{arch}.attention.head_count_kv"), u32::MAX)
            .value(&format!("{arch}.attention.key_length"), u32::MAX)
            .value(&format!("{arch}.attention.value_length"), u32::MAX);
        let run = fit(&folder.gguf("absurd.gguf", &writer), &["--no-measure"]);
        assert!([0, 2, 3].contains(&run.code) && !run.stderr.contains("panicked"), "{run:?}");
    }
}

#[test]
fn names_of_a_file_never_write_to_the_terminal() {
    let folder = Folder::new();
    let writer = GgufWriter::new("evil\x1b[2J").f32_tensor("output.weight", &[4], &[0.0; 4]);
    let run = fit(&folder.gguf("evil.gguf", &writer), &[]).ended(0);
    assert!(!run.stdout.contains('\x1b') && run.stdout.contains(r"evil\u{1b}[2J"), "{run:?}");
}
