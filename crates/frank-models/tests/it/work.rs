//! The arithmetic of a prompt, counted from headers of known and unknown families.

use frank_gguf::{ModelHeader, type_id};
use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_models::{KvTypes, needs};
use frank_plan::PromptWork;
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;

const KV: KvTypes = KvTypes { k: KvType::F16, v: KvType::F16 };

fn work(header: &ModelHeader) -> PromptWork {
    needs(header, KV).expect("an architecture is named").prompt
}

#[test]
fn matrices_of_layers_count_and_neither_embedding_nor_norms() {
    let header = ModelFile::open(&assets::tiny("llama.gguf")).expect("the tiny model").header;
    let matrices = header
        .tensors
        .iter()
        .filter(|tensor| tensor.name.starts_with("blk.") && !tensor.name.ends_with("norm.weight"));
    let expected: u64 = matrices.map(|tensor| tensor.dims.iter().product::<u64>()).sum();
    assert!(expected > 0 && work(&header).multiply_adds == expected, "{:?}", work(&header));
}

/// A family that nobody knows, with one matrix of 64 × 64 and one of 64 × 16 for each of `n_expert` experts.
fn moe(n_expert: u32, n_used: u32) -> ModelHeader {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("moe.gguf");
    let writer = GgufWriter::new("some")
        .value("some.block_count", 3u32)
        .value("some.embedding_length", 64u32)
        .value("some.attention.head_count", 4u32)
        .value("some.expert_count", n_expert)
        .value("some.expert_used_count", n_used)
        .tensor("blk.0.attn_q.weight", &[64, 64], type_id::F32, vec![0; 4 * 64 * 64])
        .tensor("blk.0.ffn_up_exps.weight", &[64, 16, 8], type_id::F32, vec![0; 4 * 64 * 16 * 8]);
    std::fs::write(&path, writer.to_bytes()).expect("a new file");
    ModelFile::open(&path).expect("a whole file").header
}

#[test]
fn of_experts_those_in_use_count() {
    let multiply_adds = 64 * 64 + 64 * 16 * 2;
    let expected = PromptWork { multiply_adds, attention_multiply_adds: 3 * 2 * 64 };
    assert_eq!(work(&moe(8, 2)), expected);
}

#[test]
fn experts_with_a_tensor_each_count_as_those_in_one() {
    let work_of = |name: &str| {
        let path = assets::tiny(&format!("{name}.gguf"));
        work(&ModelFile::open(&path).expect("the tiny model").header)
    };
    // Queries, output, keys and values, router, and gate, up and down of the experts that a token uses.
    let attention = 64 * (64 + 64 + 16 + 16);
    assert_eq!(work_of("llama-moe").multiply_adds, 3 * (attention + 64 * 8 + 2 * 3 * 64 * 48));
    let attention = 4 * 96 * 96;
    assert_eq!(work_of("llama-moe-old").multiply_adds, 2 * (attention + 96 * 6 + 3 * 3 * 96 * 64));
}

#[test]
fn a_header_that_claims_more_work_than_a_number_holds_is_counted_as_the_most() {
    let mut header = moe(1, u32::MAX);
    header.tensors[1].dims = vec![1 << 40, 1 << 20, 1];
    assert_eq!(work(&header).multiply_adds, u64::MAX);
}
