//! Files that would compute wrongly are refused by the name of what is wrong, and still planned.

mod families;

use frank_gguf::{Array, Metadata, ModelHeader, TensorInfo, Value};
use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_models::{ARCHS, KvTypes, arch, needs};
use frank_plan::LayerState;
use frank_testkit::assets;

use crate::tiny;

const KV: KvTypes = KvTypes { k: KvType::F16, v: KvType::F16 };

fn header_of(name: &str) -> ModelHeader {
    let path = assets::tiny(&format!("{name}.gguf"));
    ModelFile::open(&path).expect("the file opens").header
}

/// The header of a tiny model with one key changed (or removed).
fn header_with(name: &str, key: &str, value: Option<Value>) -> ModelHeader {
    let mut header = header_of(name);
    let entries =
        header.metadata.iter().filter(|(k, _)| *k != key).map(|(k, v)| (k.to_owned(), v.clone()));
    let entries = entries.chain(value.map(|value| (key.to_owned(), value))).collect();
    header.metadata = Metadata::new(entries).expect("no key twice");
    header
}

fn refusal(header: &ModelHeader) -> String {
    let arch = match arch(header) {
        Ok(arch) => arch,
        Err(error) => return error.to_string(),
    };
    (arch.needs)(header, KV).expect_err("refused").to_string()
}

/// The header is refused with a text that has `expected`, and is planned all the same.
fn check_header(header: &ModelHeader, expected: &str) {
    let refusal = refusal(header);
    assert!(refusal.contains(expected), "{refusal}");
    let planned = needs(header, KV).expect("an architecture is named");
    let bytes = planned.dense_bytes + planned.expert_bytes;
    assert!(bytes >= 250_000, "still planned from its tensors");
    assert!(planned.warnings[0].contains(expected), "the plan says why: {:?}", planned.warnings);
}

fn check(key: &str, value: impl Into<Option<Value>>, expected: &str) {
    let name = key.split('.').next().filter(|family| *family != "general").unwrap_or("llama");
    check_header(&header_with(name, key, value.into()), expected);
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[test]
fn what_the_family_cannot_compute_is_refused_by_name_and_still_planned() {
    let known: Vec<_> = ARCHS.iter().map(|arch| arch.name).collect();
    assert!(known.is_sorted() && known.starts_with(&["deepseek2", "gemma3"]), "{known:?}");
    let expected = format!("\"rwkv9\" is not known (known: {})", known.join(", "));
    check("general.architecture", text("rwkv9"), &expected);
    check("llama.embedding_length", None, "llama.embedding_length is missing");
    check("llama.embedding_length", Value::U32(0), "must be at least 1");
    check("llama.embedding_length", Value::U32(65), "token_embd.weight has shape [64, 300]");
    check("llama.attention.head_count", Value::U32(3), "3 over 2 heads");
    check(
        "llama.block_count",
        Value::U32(2),
        "blk.2.attn_norm.weight is not part of llama (8 more",
    );
    check("llama.block_count", Value::U32(4), "tensor blk.3.attn_q.weight is missing");
    check("gemma3.expert_count", Value::U32(8), "mixtures of experts of this family");
    check("llama.rope.dimension_count", Value::U32(18), "even and fit in a head");
    check("llama.vocab_size", Value::U32(299), "another number of rows");
    check("llama.attention.value_length", Value::U32(32), "value_length is 32");
    check("qwen3.attention.key_length", Value::U32(64), "attention.value_length is 32");
    check("gemma3.attention.causal", Value::Bool(false), "only models that look back");
    check("llama.residual_scale", Value::F32(0.22), "residual_scale is 0.22");
    check("llama.logit_scale", Value::F32(8.0), "logit_scale is 8");
}

#[test]
fn mixtures_that_cannot_be_computed_are_refused_by_name_and_still_planned() {
    check("qwen3moe.expert_count", None, "qwen3moe.expert_count is missing");
    check("olmoe.expert_used_count", None, "olmoe.expert_used_count is missing");
    check("llama.expert_count", Value::U32(8), "llama.expert_used_count is missing");
    check("olmoe.expert_used_count", Value::U32(9), "there are fewer experts");
    check("qwen3moe.expert_count", Value::U32(9), "blk.0.ffn_gate_inp.weight has shape [64, 8]");
    check("qwen3moe.expert_count", Value::U32(u32::MAX), "at most 65536");
    let width = "qwen3moe.expert_feed_forward_length";
    check(width, Value::U32(33), "blk.0.ffn_gate_exps.weight has shape [64, ");
    check("qwen3moe.expert_gating_func", Value::U32(7), "expert_gating_func is 7");
    check("qwen3moe.expert_shared_count", Value::U32(1), "blk.0.ffn_gate_shexp.weight is missing");
    check("olmoe.attention.clamp_kqv", Value::F32(8.0), "computed without a clamp");
    check("qwen2moe.expert_shared_feed_forward_length", Value::U32(81), "_shexp.weight has shape");
    check("qwen3moe.nextn_predict_layers", Value::U32(3), "no layer is left");
}

#[test]
fn experts_of_one_layer_with_unlike_tensors_are_refused_by_the_first_that_differs() {
    let check = |file: &str, tensor: &str, change: fn(&mut TensorInfo), expected: &str| {
        let mut header = header_of(file);
        change(header.tensors.iter_mut().find(|t| t.name == tensor).expect("a tensor"));
        check_header(&header, expected);
    };
    let (f32s, expert) = (|t: &mut TensorInfo| t.type_id = 0, "blk.1.ffn_up.3.weight");
    let expected = "blk.1.ffn_up.3.weight is not of the type of blk.1.ffn_up.0.weight";
    check("llama-moe-old", expert, f32s, expected);
    let short = |t: &mut TensorInfo| t.dims[1] -= 1;
    check("llama-moe-old", expert, short, "blk.1.ffn_up.3.weight has shape [96, 63]");
    let removed = |t: &mut TensorInfo| t.type_id = 4;
    check("olmoe", "blk.2.ffn_down_exps.weight", removed, "blk.2.ffn_down_exps.weight has type");
}

#[test]
fn layers_that_only_draft_are_left_out() {
    let needs_of = |n: u32| {
        let header = header_with("llama", "llama.nextn_predict_layers", Some(Value::U32(n)));
        needs(&header, KV).expect("planned")
    };
    let (all, less) = (needs_of(0), needs_of(1));
    assert_eq!(less.warnings, Vec::<String>::new());
    assert_eq!((all.layers, less.layers), (3, 2));
    assert!(less.decode_bytes_per_token < all.decode_bytes_per_token);
    assert_eq!(less.prompt.multiply_adds, all.prompt.multiply_adds / 3 * 2);
    let plain = header_with("llama", "llama.block_count", Some(Value::U32(2)));
    assert_eq!(needs(&plain, KV).expect("planned").warnings.len(), 1, "without the key they count");
}

#[test]
fn layers_that_differ_are_refused_and_arrays_of_equal_values_are_not() {
    let heads = |heads: [u32; 3]| Value::Array(Array::U32(heads.to_vec()));
    check("llama.attention.head_count", heads([4, 4, 2]), "layers differ");
    check("qwen2.feed_forward_length", heads([128, 64, 128]), "layers differ");
    check("qwen3.attention.head_count_kv", Value::Array(Array::U32(vec![])), "layers differ");
    let header = header_with("qwen2", "qwen2.attention.head_count_kv", Some(heads([2, 2, 2])));
    assert_eq!(needs(&header, KV).expect("planned").warnings, Vec::<String>::new());
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    for number in [-1.0, f32::NAN, f32::INFINITY] {
        let number = || Value::F32(number);
        check("llama.rope.freq_base", number(), "finite number above 0");
        check("qwen2.attention.layer_norm_rms_epsilon", number(), "finite number above 0");
        check("qwen3.rope.scaling.factor", number(), "finite number above 0");
        check("gemma3.final_logit_softcapping", number(), "finite number above 0");
        check("gemma3.attn_logit_softcapping", number(), "finite number above 0");
        check("gemma3.rope.freq_base_swa", number(), "finite number above 0");
        check("llama.attention.scale", number(), "finite number above 0");
    }
    check("llama.rope.freq_base", Value::F32(0.0), "finite number above 0");
    check("llama.attention.layer_norm_rms_epsilon", Value::F32(0.0), "finite number above 0");
    check("llama.rope.scaling.factor", Value::F32(0.0), "finite number above 0");
}

#[test]
fn scalings_of_positions_that_are_not_computed_are_refused_by_name() {
    for scaling in ["longrope", "dynamic", "su", ""] {
        let expected = format!("rope.scaling.type is {scaling}: only none, linear and yarn");
        for family in ["gemma3", "llama", "qwen2", "qwen3"] {
            check(&format!("{family}.rope.scaling.type"), text(scaling), &expected);
        }
    }
    check("llama.rope.scaling.alpha", Value::F32(1000.0), "rope.scaling.alpha is 1000");
    let mut yarn = header_with("llama", "llama.context_length", None);
    set(&mut yarn, "llama.rope.scaling.type", text("yarn"));
    check_header(&yarn, "llama.context_length is missing");
    set(&mut yarn, "llama.rope.scaling.original_context_length", Value::U32(0));
    check_header(&yarn, "original_context_length is 0: it must be at least 1");
    set(&mut yarn, "llama.rope.scaling.original_context_length", Value::U32(128));
    set(&mut yarn, "llama.rope.freq_base", Value::F32(1.0));
    check_header(&yarn, "rope.freq_base is 1: it must be above 1 with YaRN");
}

fn set(header: &mut ModelHeader, key: &str, value: Value) {
    let entries = header.metadata.iter().filter(|(k, _)| *k != key);
    let entries = entries.map(|(k, v)| (k.to_owned(), v.clone())).chain([(key.to_owned(), value)]);
    header.metadata = Metadata::new(entries.collect()).expect("no key twice");
}

#[test]
fn windows_that_cannot_be_or_that_a_family_does_not_have_are_refused() {
    check("gemma3.attention.sliding_window", Value::U32(0), "it must be at least 1");
    let pattern = "gemma3.attention.sliding_window_pattern";
    check(pattern, Value::U32(0), "it must be at least 1");
    check(pattern, Value::Array(Array::Bool(vec![true; 5])), "an array of 5: one for each layer");
    for family in ["llama", "qwen2", "qwen3"] {
        let key = format!("{family}.attention.sliding_window");
        check(&key, Value::U32(16), "is 16: this family is computed without a window");
        // One that no position of the training reaches hides nothing.
        let header = header_with(family, &key, Some(Value::U32(512)));
        assert_eq!(needs(&header, KV).expect("planned").warnings, Vec::<String>::new());
    }
}

#[test]
fn a_file_of_one_family_under_the_name_of_another_is_refused_by_a_tensor() {
    let check = |file: &str, name: &str, expected: &str| {
        let mut header = header_of(file);
        let renamed = |key: &str| match key.strip_prefix(file) {
            Some(rest) if rest.starts_with('.') => format!("{name}{rest}"),
            _ => key.to_owned(),
        };
        let entries = header.metadata.iter().map(|(key, value)| (renamed(key), value.clone()));
        header.metadata = Metadata::new(entries.collect()).expect("no key twice");
        set(&mut header, "general.architecture", text(name));
        check_header(&header, expected);
    };
    check("llama", "qwen2", "blk.0.attn_q.bias is missing");
    check("llama", "qwen3", "blk.0.attn_q_norm.weight is missing");
    check("qwen2", "qwen3", "blk.0.attn_q_norm.weight is missing");
    check("qwen3", "llama", "blk.0.attn_k_norm.weight is not part of llama");
    check("qwen3", "qwen2", "blk.0.attn_q.bias is missing");
    check("qwen3", "gemma3", "blk.0.post_attention_norm.weight is missing");
    check("qwen2-yarn", "gemma3", "gemma3.embedding_length is missing");
}

#[test]
fn biases_and_norms_of_another_length_are_refused() {
    let check = |name: &str, tensor: &str, expected: &str| {
        let mut header = header_of(name);
        let found = header.tensors.iter_mut().find(|t| t.name == tensor).expect("a tensor");
        found.dims = vec![found.dims[0] * 2];
        check_header(&header, expected);
    };
    check("qwen2", "blk.1.attn_k.bias", "blk.1.attn_k.bias has shape [64], [32] expected");
    check("llama-yarn", "blk.0.ffn_down.bias", "ffn_down.bias has shape [192], [96] expected");
    check("llama-factors", "rope_freqs.weight", "rope_freqs.weight has shape [64], [32] expected");
    check("qwen3", "blk.2.attn_q_norm.weight", "attn_q_norm.weight has shape [64], [32] expected");
    check("gemma3", "blk.5.post_ffw_norm.weight", "post_ffw_norm.weight has shape [128]");
}

#[test]
fn more_layers_than_the_file_has_are_refused_at_the_first_that_is_missing() {
    for (family, first) in [("gemma3", 6), ("llama", 3), ("qwen2", 3), ("qwen3", 3)] {
        let expected = format!("tensor blk.{first}.attn_");
        check(&format!("{family}.block_count"), Value::U32(u32::MAX), &expected);
    }
}

#[test]
fn a_tensor_of_a_type_that_cannot_be_loaded_is_refused_by_name_and_still_planned() {
    let check = |tensor: &str, type_id: u32, expected: &str| {
        let mut header = header_of("llama");
        // The header's index by name points into the same list.
        let found = header.tensors.iter_mut().find(|t| t.name == tensor).expect("a tensor");
        found.type_id = type_id;
        let message = refusal(&header);
        assert!(message.contains(&format!("tensor {tensor} has type {expected}")), "{message}");
        let planned = needs(&header, KV).expect("planned");
        assert!(planned.warnings[0].contains(expected), "{:?}", planned.warnings);
    };
    check("blk.1.ffn_up.weight", 4, "Q4_2, removed from the format (id 4), one of F32, F16, ");
    check("blk.1.ffn_up.weight", 77, "unknown (id 77), one of F32, F16, ");
    check("blk.1.attn_norm.weight", 12, "Q4_K (id 12), one of F32, F16, BF16 expected");
}

#[test]
fn sizes_that_overflow_64_bits_are_planned_as_too_much_and_not_as_little() {
    const N_VOCAB: u64 = 1 << 60;
    let mut header = header_with("llama", "llama.embedding_length", Some(Value::U32(1)));
    let entries = header.metadata.iter().filter(|(key, _)| !key.ends_with(".vocab_size"));
    let mut entries: Vec<_> = entries.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    entries.retain(|(key, _)| key != "llama.attention.key_length");
    entries.push(("llama.attention.key_length".to_owned(), Value::U32(16)));
    header.metadata = Metadata::new(entries).expect("no key twice");
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
    assert!(planned.compute.per_output_row >= N_VOCAB * 4, "{}", planned.compute.per_output_row);
}

/// Whether a tensor holds routed experts, and of how many each.
fn n_experts_of(tensor: &TensorInfo) -> Option<u64> {
    if tensor.name.ends_with("_exps.weight") {
        return Some(tensor.dims[2]);
    }
    let is_one = tensor.name.split('.').nth(3).is_some_and(|part| part.parse::<u32>().is_ok());
    is_one.then_some(1)
}

#[test]
fn the_plan_counts_every_tensor_once() {
    for name in tiny::names() {
        let header = header_of(&name);
        let planned = needs(&header, KV).expect("planned");
        assert_eq!(planned.warnings, Vec::<String>::new(), "{name}");
        let drafts = format!("blk.{}.", planned.layers);
        let tensors = || header.tensors.iter().filter(|tensor| !tensor.name.starts_with(&drafts));
        // F32 and F16 stay as they are in the file; each tensor and each part of an expert is padded to a cache line.
        let stored = |tensor: &TensorInfo| tensor.bytes().expect("a known type");
        let bytes = |tensor: &TensorInfo| stored(tensor).next_multiple_of(64);
        let dense: u64 = tensors().filter(|t| n_experts_of(t).is_none()).map(bytes).sum();
        let part = |tensor| Some((tensor, n_experts_of(tensor)?));
        let parts = tensors().filter_map(part);
        let experts: u64 = parts.map(|(t, n)| n * (stored(t) / n).next_multiple_of(64)).sum();
        let used = experts * u64::from(planned.experts_used) / u64::from(planned.experts.max(1));
        // An embedding that is not the head is read one row a token.
        let embedding = header.tensor("token_embd.weight").expect("every model has one");
        let unread = if header.tensor("output.weight").is_some() { bytes(embedding) } else { 0 };
        assert_eq!(planned.decode_bytes_per_token, dense - unread + used, "{name}");
        assert_eq!(planned.dense_bytes, dense.next_multiple_of(2 << 20), "{name}");
        assert_eq!(planned.expert_bytes, experts, "{name}");
        let layers = planned.expert_layers.iter();
        let sum: u64 = layers.map(|layer| u64::from(layer.n_experts) * layer.slot_bytes).sum();
        assert_eq!(sum, experts, "{name}");
    }
}

#[test]
fn the_plan_counts_what_a_row_of_a_step_takes() {
    let check = |name: &str, widths: &[u64], n_in: u64, routes: u64, n_pairs: u64| {
        let per_row = needs(&header_of(name), KV).expect("planned").compute.per_row;
        // The longest input of a job of products in blocks of 32, of 48 bytes each; expert, weight, slot and row of each
        // route, and of each that is predicted for the next layer; cosine and sine of each pair.
        let rest = n_in / 32 * 48 + 2 * 16 * routes + 2 * 4 * n_pairs;
        assert_eq!(per_row, 4 * widths.iter().sum::<u64>() + rest, "{name}");
    };
    // Hidden, normed, q, k, v, mixed, delta, gate, up.
    check("llama", &[64, 64, 64, 32, 32, 64, 64, 128, 128], 128, 0, 8);
    // One rotation for layers with a window and one for the others.
    check("gemma3", &[64, 64, 128, 64, 64, 128, 64, 128, 128], 128, 0, 16 + 16);
    // No MLP; gates, then gathered rows, gate, up and outputs of the 5 experts that a row uses.
    let experts = [20, 5 * 64, 5 * 32, 5 * 32, 5 * 64];
    let widths = [&[64, 64, 64, 16, 16, 64, 64], experts.as_slice()].concat();
    check("olmoe-gqa", &widths, 5 * 64, 5, 8);
    // An MLP that every token uses; wider than the input of the experts.
    let experts = [80, 80, 12, 3 * 64, 3 * 48, 3 * 48, 3 * 64];
    let widths = [&[64, 64, 64, 32, 32, 64, 64], experts.as_slice()].concat();
    check("qwen2moe", &widths, 3 * 64, 3, 8);
}

#[test]
fn the_plan_knows_the_window_of_each_layer() {
    let windows = |name: &str, pattern: Option<Value>| -> Vec<Option<u32>> {
        let key = "gemma3.attention.sliding_window_pattern";
        let header =
            if pattern.is_some() { header_with(name, key, pattern) } else { header_of(name) };
        let state = needs(&header, KV).expect("planned").state;
        state.into_iter().map(|LayerState::Paged { window, .. }| window).collect()
    };
    let local = Some(16);
    assert_eq!(windows("llama", None), [None; 3]);
    assert_eq!(windows("gemma3", None), [local, local, local, local, local, None]);
    let pattern = Value::Array(Array::Bool(vec![false, true, true, false, true, true]));
    assert_eq!(windows("gemma3", Some(pattern)), [None, local, local, None, local, local]);
    let pattern = Value::Array(Array::I32(vec![1, 0, 1, 0, 1, 0]));
    assert_eq!(windows("gemma3", Some(pattern)), [local, None, local, None, local, None]);
    assert_eq!(windows("gemma3", Some(Value::U32(1))), [None; 6]);
    let wide = Some(300);
    assert_eq!(windows("gemma3-window", None), [wide, wide, None, wide]);
    let without = header_with("gemma3", "gemma3.attention.sliding_window", None);
    let state = needs(&without, KV).expect("planned").state;
    let full = LayerState::Paged { bytes_per_token: 2 * 32 * 2 * 2, window: None };
    assert_eq!(state, [full; 6]);
}
