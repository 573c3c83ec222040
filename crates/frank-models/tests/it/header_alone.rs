//! Needs from a header alone: unknown families and types, tables larger than any memory, parts that are not there.

use std::fs;
use std::path::Path;

use frank_gguf::{ModelHeader, Value, part_name, type_id};
use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_models::{KvTypes, needs};
use frank_plan::{Device, Host, Limits, Machine, ModelNeeds, Plan, Tier, plan};
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;

const KV_TYPES: KvTypes = KvTypes { k: KvType::F16, v: KvType::F16 };
const GIB: u64 = 1 << 30;

fn of(header: &ModelHeader) -> ModelNeeds {
    needs(header, KV_TYPES).expect("it names its architecture")
}

/// Needs of a file of which only the header was written.
fn of_header(file: &GgufWriter) -> ModelNeeds {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    fs::write(&path, file.header_bytes()).expect("a new file");
    of(&ModelFile::open_header(&path).expect("a header is enough").header)
}

fn has_warning(needs: &ModelNeeds, words: &str) -> bool {
    needs.warnings.iter().any(|warning| warning.contains(words))
}

/// 40 layers of 384 experts of 11.96 MiB in a type that nobody knows, 8 GiB of other weights, 189 GiB of tables.
fn enormous() -> GgufWriter {
    const UNKNOWN_TYPE: u32 = 105;
    const PART_BYTES: u64 = 4_180_224;
    let mut file = GgufWriter::new("deepseek41")
        .value("deepseek41.block_count", 40u32)
        .value("deepseek41.expert_count", 384u32)
        .value("deepseek41.expert_used_count", 6u32)
        .value("deepseek41.embedding_length", 5120u32)
        .value("deepseek41.attention.head_count", 64u32)
        .value("deepseek41.attention.head_count_kv", 1u32)
        .value("deepseek41.attention.key_length", 512u32);
    file = file
        .hole("token_embd.weight", &[5120, 104_858], type_id::F16, 5120 * 104_858 * 2)
        .hole("blk.1.engram_embd.weight", &[264, 1 << 28], UNKNOWN_TYPE, 95 * GIB)
        .hole("blk.14.engram_embd.weight", &[264, 1 << 28], UNKNOWN_TYPE, 94 * GIB);
    for layer in 0..40 {
        let dense = [5120, 18_350];
        file = file.hole(
            &format!("blk.{layer}.attn_q_b.weight"),
            &dense,
            type_id::F16,
            5120 * 18_350 * 2,
        );
        for part in ["gate", "up", "down"] {
            let name = format!("blk.{layer}.ffn_{part}_exps.weight");
            file = file.hole(&name, &[5120, 2304, 384], UNKNOWN_TYPE, 384 * PART_BYTES);
        }
    }
    file
}

fn gpu_sized(id: &str) -> Device {
    let bytes = 34_209_000_000;
    Device {
        id: id.to_owned(),
        kind: "cpu".to_owned(),
        total: bytes,
        free: bytes,
        headroom: None,
        part_of: None,
        is_declared: false,
        bandwidth: None,
        arithmetic: None,
    }
}

#[test]
fn of_a_model_of_400_gb_about_1500_experts_are_resident_on_each_of_two_devices_with_18000_mb() {
    let needs = of_header(&enormous());
    assert_eq!(needs.expert_layers.len() * 384, 15_360);
    assert!(needs.expert_layers.iter().all(|layer| layer.slot_bytes == 12_540_672));
    assert!(needs.dense_bytes.abs_diff(8 * GIB) < 4 << 20, "{}", needs.dense_bytes);
    let tables = "189.00 GiB of lookup tables stay in the file";
    assert!(has_warning(&needs, tables), "{:?}", needs.warnings);
    assert!(has_warning(&needs, "cannot be loaded"));
    let devices = vec![gpu_sized("cpu:0"), gpu_sized("cpu:1")];
    let host = Host { ram: 2 * devices[0].total, cores: 16 };
    let machine = Machine { host, devices, drives: Vec::new() };
    let budgets = ["cpu:0", "cpu:1"].map(|id| (id.to_owned(), 18_000_000_000));
    let limits = Limits { expert_budgets: budgets.to_vec(), ..Limits::default() };
    let plan = plan(&needs, &machine, &limits).expect("it fits");
    // 18,000 MB hold 1,435 of them, 18,000 MiB would hold 1,505.
    assert_eq!(on(&plan, |tier| tier == Tier::Primary), 1435);
    assert_eq!(on(&plan, |tier| matches!(tier, Tier::Secondary(_))), 1435);
    assert!(plan.experts.cache_slots >= 40 * 6, "{:?}", plan.experts);
}

fn on(plan: &Plan, is_there: impl Fn(Tier) -> bool) -> usize {
    plan.expert_tiers.tiers.iter().filter(|&&tier| is_there(tier)).count()
}

#[test]
fn the_last_tensor_of_a_cut_file_is_as_large_as_others_of_its_type_and_size() {
    let unknown = |layer: u32| format!("blk.{layer}.ffn_up_exps.weight");
    let file = GgufWriter::new("novel")
        .value("novel.expert_count", 4u32)
        .hole(&unknown(0), &[64, 64, 4], 105, 4096)
        .hole(&unknown(1), &[64, 64, 4], 105, 4096);
    let slots: Vec<u64> =
        of_header(&file).expert_layers.iter().map(|layer| layer.slot_bytes).collect();
    assert_eq!(slots, [1024, 1024]);
}

#[test]
fn layers_without_keys_and_values_take_none() {
    let heads = Value::Array(frank_gguf::Array::I32(vec![0, 0, 0, 2]));
    let file = (0..4).fold(GgufWriter::new("novel"), |file, layer| {
        file.f32_tensor(&format!("blk.{layer}.x.weight"), &[1], &[0.0])
    });
    let file = file
        .value("novel.block_count", 4u32)
        .value("novel.attention.head_count", 8u32)
        .value("novel.attention.key_length", 64u32)
        .value("novel.attention.head_count_kv", heads);
    assert_eq!(of_header(&file).state.len(), 1);
}

/// The first of `count` parts of a tiny model, alone in `folder`, with the tensors that `is_there` takes.
fn first_part(name: &str, folder: &Path, is_there: impl Fn(&str) -> bool) -> ModelFile {
    let file = ModelFile::open(&assets::tiny(&format!("{name}.gguf"))).expect("a tiny model");
    let mut part = GgufWriter::without_keys();
    for (key, value) in file.header.metadata.iter() {
        part = part.value(key, value.clone());
    }
    for tensor in file.header.tensors.iter().filter(|tensor| is_there(&tensor.name)) {
        let n_bytes = tensor.bytes().expect("a known type");
        part = part.hole(&tensor.name, &tensor.dims, tensor.type_id, n_bytes);
    }
    let n_tensors = i32::try_from(file.header.tensors.len()).expect("a tiny model");
    let path = folder.join(part_name(name, 0, 3));
    fs::write(&path, part.split(0, 3, n_tensors).header_bytes()).expect("a new file");
    ModelFile::open_header(&path).expect("the first part is enough")
}

fn whole(name: &str) -> ModelNeeds {
    of(&ModelFile::open(&assets::tiny(&format!("{name}.gguf"))).expect("a tiny model").header)
}

#[test]
fn of_a_split_model_the_first_part_tells_what_the_others_hold() {
    for name in ["llama", "qwen3moe", "olmoe", "glm4moe", "deepseek2"] {
        let folder = tempfile::tempdir().expect("a folder");
        let is_there = |name: &str| {
            ["token_embd.", "blk.0.", "blk.1."].iter().any(|start| name.starts_with(start))
        };
        let part = first_part(name, folder.path(), is_there);
        assert_eq!(part.missing_parts(), [part_name(name, 1, 3), part_name(name, 2, 3)]);
        let (got, expected) = (of(&part.header), whole(name));
        assert!(has_warning(&got, "are assumed from layers that are there"), "{name}: {got:?}");
        assert_eq!(got.expert_layers, expected.expert_layers, "{name}");
        assert_eq!(got.dense_bytes, expected.dense_bytes, "{name}");
        assert_eq!(got.state, expected.state, "{name}");
    }
}

#[test]
fn a_first_part_without_tensors_is_planned_from_its_metadata() {
    for name in ["llama", "qwen3moe", "olmoe", "deepseek2"] {
        let folder = tempfile::tempdir().expect("a folder");
        let part = first_part(name, folder.path(), |_| false);
        let (got, expected) = (of(&part.header), whole(name));
        assert!(has_warning(&got, "are assumed from the metadata and its file type"), "{got:?}");
        assert!(!has_warning(&got, "cannot be loaded"), "{:?}", got.warnings);
        assert_eq!(got.expert_bytes, expected.expert_bytes, "{name}");
        assert_eq!(got.state, expected.state, "{name}");
        let off = got.dense_bytes.abs_diff(expected.dense_bytes);
        assert!(off * 20 <= expected.dense_bytes, "{name}: {off} of {}", expected.dense_bytes);
    }
}

#[test]
fn a_header_that_claims_any_number_of_missing_tensors_and_layers_is_planned_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(part_name("m", 0, 9));
    let claims = GgufWriter::new("llama")
        .value("llama.block_count", u32::MAX)
        .value("llama.expert_count", u32::MAX)
        .hole("blk.0.ffn_up_exps.weight", &[32, 1 << 20, 1 << 20], type_id::F32, 64)
        .split(0, 9, i32::MAX);
    fs::write(&path, claims.header_bytes()).expect("a new file");
    let needs = of(&ModelFile::open_header(&path).expect("a header").header);
    assert!(needs.layers <= 4096, "{}", needs.layers);
    assert!(has_warning(&needs, "in parts that are not here"));
}

#[test]
fn a_layer_crowded_with_tensors_is_not_copied_for_every_layer_that_a_header_claims() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(part_name("m", 0, 9));
    let crowded = (0..2000).fold(GgufWriter::new("llama"), |file, i| {
        file.hole(&format!("blk.0.t{i}.weight"), &[32], type_id::F32, 128)
    });
    let crowded = crowded.value("llama.block_count", 4096u32).split(0, 9, i32::MAX);
    fs::write(&path, crowded.header_bytes()).expect("a new file");
    let needs = of(&ModelFile::open_header(&path).expect("a header").header);
    assert!(has_warning(&needs, "131072 are assumed"), "{:?}", needs.warnings);
}

#[test]
fn without_the_first_part_nothing_can_be_planned() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(part_name("m", 1, 2));
    let part = GgufWriter::without_keys().split(1, 2, 4).hole("t", &[1], type_id::F32, 4);
    fs::write(&path, part.header_bytes()).expect("a new file");
    let error = ModelFile::open_header(&path).expect_err("no keys").to_string();
    assert!(error.contains("lacks 1 of 2 parts: m-00001-of-00002.gguf"), "{error}");
}
