//! Files that would compute wrongly are refused by the name of what is wrong, and still planned.

use frank_gguf::{ModelHeader, Value};
use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_models::{KvTypes, arch, needs};
use frank_testkit::assets;

const KV: KvTypes = KvTypes { k: KvType::F16, v: KvType::F16 };

/// The tiny model's header with one key changed (or removed).
fn header_with(key: &str, value: Option<Value>) -> ModelHeader {
    let mut header = ModelFile::open(&assets::tiny("llama.gguf")).expect("the file opens").header;
    let entries =
        header.metadata.iter().filter(|(k, _)| *k != key).map(|(k, v)| (k.to_owned(), v.clone()));
    let entries = entries.chain(value.map(|value| (key.to_owned(), value))).collect();
    header.metadata = frank_gguf::Metadata::new(entries).expect("no key twice");
    header
}

fn refusal(header: &ModelHeader) -> String {
    let arch = match arch(header) {
        Ok(arch) => arch,
        Err(error) => return error.to_string(),
    };
    (arch.needs)(header, KV).expect_err("refused").to_string()
}

fn check(key: &str, value: Option<Value>, expected: &str) {
    let header = header_with(key, value);
    let refusal = refusal(&header);
    assert!(refusal.contains(expected), "{key}: {refusal}");
    let planned = needs(&header, KV).expect("an architecture is named");
    assert!(planned.dense_bytes >= 590_000, "{key}: still planned from its tensors");
    assert!(
        planned.warnings[0].contains(expected),
        "{key}: the plan says why: {:?}",
        planned.warnings
    );
}

#[test]
fn what_the_family_cannot_compute_is_refused_by_name_and_still_planned() {
    check(
        "general.architecture",
        Some(Value::String("rwkv9".to_owned())),
        "\"rwkv9\" is not known (known: llama)",
    );
    check("llama.embedding_length", None, "llama.embedding_length is missing");
    check("llama.embedding_length", Some(Value::U32(0)), "must be at least 1");
    check("llama.embedding_length", Some(Value::U32(65)), "token_embd.weight has shape [64, 300]");
    check("llama.attention.head_count", Some(Value::U32(3)), "3 over 2 heads");
    check(
        "llama.block_count",
        Some(Value::U32(2)),
        "blk.2.attn_norm.weight is not part of llama (8 more",
    );
    check("llama.block_count", Some(Value::U32(4)), "tensor blk.3.attn_norm.weight is missing");
    check("llama.expert_count", Some(Value::U32(8)), "mixtures of experts");
    check(
        "llama.rope.scaling.type",
        Some(Value::String("yarn".to_owned())),
        "llama.rope.scaling.type is yarn",
    );
    check("llama.rope.dimension_count", Some(Value::U32(18)), "even and fit in a head");
    check("llama.vocab_size", Some(Value::U32(299)), "another number of rows");
    check("llama.attention.value_length", Some(Value::U32(32)), "value_length is 32");
    for base in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        check("llama.rope.freq_base", Some(Value::F32(base)), "finite number above 0");
        let epsilon = "llama.attention.layer_norm_rms_epsilon";
        check(epsilon, Some(Value::F32(base)), "finite number above 0");
    }
}

#[test]
fn a_tensor_of_a_type_without_kernels_is_refused_and_still_planned() {
    const Q4_K: u32 = 12;
    let mut header = ModelFile::open(&assets::tiny("llama.gguf")).expect("the file opens").header;
    for tensor in &mut header.tensors {
        if tensor.name == "blk.1.ffn_up.weight" {
            tensor.type_id = Q4_K;
        }
    }
    // The header's index by name points into the same list.
    assert!(
        refusal(&header)
            .contains("blk.1.ffn_up.weight has type Q4_K (id 12), one of F32, F16, Q4_1, Q8_0")
    );
    assert!(needs(&header, KV).expect("planned").warnings[0].contains("Q4_K"));
}

#[test]
fn sizes_that_overflow_64_bits_are_planned_as_too_much_and_not_as_little() {
    const N_VOCAB: u64 = 1 << 60;
    let mut header = header_with("llama.embedding_length", Some(Value::U32(1)));
    let entries = header.metadata.iter().filter(|(key, _)| !key.ends_with(".vocab_size"));
    let mut entries: Vec<_> = entries.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    entries.retain(|(key, _)| key != "llama.attention.key_length");
    entries.push(("llama.attention.key_length".to_owned(), Value::U32(16)));
    header.metadata = frank_gguf::Metadata::new(entries).expect("no key twice");
    for tensor in &mut header.tensors {
        for dim in &mut tensor.dims {
            // The hidden size becomes 1; so does the width of the queries of this model, which is given back.
            *dim = match *dim {
                64 => 1,
                300 => N_VOCAB,
                dim => dim,
            };
        }
        match tensor.name.rsplit('.').nth(1) {
            Some("attn_q") => tensor.dims = vec![1, 64],
            Some("attn_output") => tensor.dims = vec![64, 1],
            _ => {}
        }
    }
    let family = arch(&header).expect("the family is known");
    let planned = (family.needs)(&header, KV).expect("the shapes agree");
    assert!(planned.dense_bytes >= N_VOCAB * 4, "{}", planned.dense_bytes);
    assert!(planned.runtime_bytes >= N_VOCAB * 8, "{}", planned.runtime_bytes);
    assert!(planned.compute.per_output_row >= N_VOCAB * 8, "{}", planned.compute.per_output_row);
}

#[test]
fn the_plan_counts_every_tensor_once() {
    let file = ModelFile::open(&assets::tiny("llama.gguf")).expect("the file opens");
    let stored: u64 = file.header.tensors.iter().filter_map(frank_gguf::TensorInfo::bytes).sum();
    let planned = needs(&file.header, KV).expect("planned");
    // F32 stays as it is in the file; each tensor may be padded to a cache line and the whole to a huge page.
    assert_eq!(planned.dense_bytes, stored.next_multiple_of(2 << 20));
    assert_eq!(planned.state.len(), 3);
    assert_eq!(planned.warnings, Vec::<String>::new());
}
