//! What single families refuse, and what they are planned for: latent attention, sinks, positions of images.

use frank_gguf::{Array, Value, type_id};
use frank_models::needs;
use frank_plan::LayerState;

use super::{KV, check, check_header, header_of, header_with, set, text};

#[test]
fn latent_attention_that_is_not_computed_is_refused_by_key_and_value() {
    check("deepseek2.attention.kv_lora_rank", None, "attention.kv_lora_rank is missing");
    check("deepseek2.attention.kv_lora_rank", Value::U32(33), "kv_lora_rank is 33: with rope.");
    check("deepseek2.attention.kv_lora_rank", Value::U32(1024), "kv_lora_rank is 1024: with rope.");
    check(
        "deepseek2.attention.kv_lora_rank",
        Value::U32(48),
        "blk.0.attn_kv_a_mqa.weight has shape",
    );
    check("deepseek2.attention.head_count_kv", Value::U32(2), "head_count_kv is 2: 1 or as many");
    let rotary = "deepseek2.rope.dimension_count";
    check(rotary, Value::U32(32), "dimension_count is 32: keys must be longer");
    check(rotary, Value::U32(33), "dimension_count is 33: keys must be longer");
    check(rotary, None, "rope.dimension_count is missing");
    let key = "deepseek2.attention.key_length_mla";
    check(key, Value::U32(1025), "key_length_mla is 1025: at most 1024");
    check(key, Value::U32(0), "key_length_mla is 0: it must be at least 1");
    check(key, Value::U32(40), "blk.0.attn_k_b.weight has shape [16, 32, 4], [24, 32, 4] expected");
    let value = "deepseek2.attention.value_length_mla";
    check(
        value,
        Value::U32(17),
        "blk.0.attn_v_b.weight has shape [32, 16, 4], [32, 17, 4] expected",
    );
    check("deepseek2.attention.q_lora_rank", None, "blk.0.attn_q.weight is missing");
    check("deepseek2.attention.head_count", Value::U32(u32::MAX), "[16, 32, 4294967295] expected");
    let old =
        header_with("deepseek2-old", "deepseek2.attention.value_length", Some(Value::U32(18)));
    check_header(&old, "blk.0.attn_kv_b.weight has shape [32, 128], [32, 136] expected");
}

#[test]
fn what_changes_scores_of_latent_attention_is_refused_by_key_and_value() {
    check("deepseek2.attention.scale", Value::F32(0.5), "attention.scale is 0.5");
    check("deepseek2.attention.temperature_scale", Value::F32(0.1), "temperature_scale is 0.1");
    check("deepseek2.attn_logit_softcapping", Value::F32(30.0), "attn_logit_softcapping is 30");
    check("deepseek2.attention.sliding_window", Value::U32(16), "sliding_window is 16");
    let multiplier = "deepseek2.rope.scaling.yarn_log_multiplier";
    check(multiplier, Value::F32(0.1), "yarn_log_multiplier is 0.1: it belongs to YaRN");
    let mut yarn = header_of("deepseek2");
    set(&mut yarn, "deepseek2.rope.scaling.type", text("yarn"));
    set(&mut yarn, multiplier, Value::F32(f32::NAN));
    check_header(&yarn, "finite number above 0");
}

#[test]
fn what_is_cached_of_a_token_is_its_latent_and_its_rotary_key_whatever_the_layout_of_the_file() {
    for name in ["deepseek2", "deepseek2-old"] {
        let planned = needs(&header_of(name), KV).expect("planned");
        let state = LayerState::Paged { bytes_per_token: (32 + 16 + 32) * 2, window: None };
        assert_eq!(planned.state, [state; 3], "{name}");
    }
}

#[test]
fn windows_of_other_layers_than_every_second_are_refused() {
    let window = "gpt-oss.attention.sliding_window";
    check(window, None, "attention.sliding_window is missing");
    check(window, Value::U32(0), "it must be at least 1");
    let pattern = "gpt-oss.attention.sliding_window_pattern";
    let flags = |flags: [bool; 3]| Value::Array(Array::Bool(flags.to_vec()));
    check(pattern, Value::U32(3), "sliding_window_pattern is 3: every second layer");
    check(pattern, flags([false, true, false]), "is an array of 3: every second layer");
    check(pattern, Value::Array(Array::Bool(vec![true, false])), "is an array of 2: every second");
    check("gpt-oss.rope.freq_base_swa", Value::F32(10_000.0), "rope.freq_base_swa is 10000");
    for (key, value) in [
        (pattern, Value::U32(2)),
        (pattern, flags([true, false, true])),
        ("gpt-oss.rope.freq_base_swa", Value::F32(150_000.0)),
    ] {
        let planned = needs(&header_with("gpt-oss", key, Some(value)), KV).expect("planned");
        assert_eq!(planned.warnings, Vec::<String>::new(), "{key}");
        let windows = planned.state.into_iter().map(|LayerState::Paged { window, .. }| window);
        assert_eq!(windows.collect::<Vec<_>>(), [Some(16), None, Some(16)], "{key}");
    }
}

#[test]
fn positions_of_images_are_refused() {
    let sections = |n: [u32; 4]| Value::Array(Array::U32(n.to_vec()));
    let key = "glm4moe.rope.dimension_sections";
    check(key, sections([8, 12, 12, 0]), "dimension_sections is an array of 4: only positions of");
    let header = header_with("glm4moe", key, Some(sections([0; 4])));
    assert_eq!(needs(&header, KV).expect("planned").warnings, Vec::<String>::new());
}

#[test]
fn biases_and_sinks_of_another_length_are_refused() {
    let check = |name: &str, tensor: &str, expected: &str| {
        let mut header = header_of(name);
        let found = header.tensors.iter_mut().find(|t| t.name == tensor).expect("a tensor");
        found.dims[0] *= 2;
        check_header(&header, expected);
    };
    check("gpt-oss", "blk.1.attn_sinks.weight", "attn_sinks.weight has shape [8], [4] expected");
    check("gpt-oss", "blk.0.ffn_gate_inp.bias", "ffn_gate_inp.bias has shape [16], [8] expected");
    check("gpt-oss", "blk.2.ffn_up_exps.bias", "ffn_up_exps.bias has shape [128, 8], [64, 8]");
    check("deepseek2", "blk.1.exp_probs_b.bias", "exp_probs_b.bias has shape [16], [8] expected");
    check("deepseek2", "blk.0.attn_q_a_norm.weight", "attn_q_a_norm.weight has shape [64], [32]");
}

#[test]
fn what_keys_of_an_old_layout_take_when_they_are_widened_is_planned_and_said() {
    let mut header = header_of("deepseek2-old");
    let exact = needs(&header, KV).expect("planned");
    assert_eq!(exact.warnings, Vec::<String>::new(), "floats are transposed as they are");
    for tensor in header.tensors.iter_mut().filter(|t| t.name.ends_with("attn_kv_b.weight")) {
        tensor.type_id = type_id::Q8_0;
    }
    let widened = needs(&header, KV).expect("planned");
    assert!(widened.warnings[0].contains("held in F32, 1 MiB of the dense weights"), "{widened:?}");
    // In each of 3 layers 4 heads: keys of 32 × 16 values in F32 for F16, and 16 rows of one block for values.
    let n_heads = 3 * 4;
    let keys = n_heads * 32 * 16 * (4 - 2);
    let values = n_heads * (16 * 2 * 32 - (16 * 34u64).next_multiple_of(64));
    let before = exact.decode_bytes_per_token;
    assert_eq!(widened.decode_bytes_per_token, before + keys - values);
}
