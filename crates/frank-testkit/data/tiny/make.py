#!/usr/bin/env python3
"""Makes the tiny models of this folder and the logits that transformers gives for them. See README.md.

    python make.py LLAMA_CPP OUT [NAME ...]

Needs torch and transformers; LLAMA_CPP is a source tree of llama.cpp, whose converter writes the GGUF files.
Writes OUT/NAME.gguf, NAME.ids.npy, NAME.rows.npy and NAME.logits.npy (one row for each position in NAME.rows.npy).
"""
import os
import subprocess
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

torch.set_num_threads(1)
N_TOKENS = 700
# Around KV blocks (32), windows (16, 40, 200 and 300), chunks (7, 64, 512) and spans (256); then the last.
ROWS = [0, 1, 6, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 299, 300, 301, 315, 316, 511, 512, 513]
ROWS += [555, 556, 557, 572, 639, 640, 698, 699]

BASE = dict(vocab_size=300, max_position_embeddings=1400, bos_token_id=256, eos_token_id=257, pad_token_id=258)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128, rope_theta=10000.0)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64, rope_theta=500000.0)
GLOBAL = dict(rope_type="linear", factor=8.0, rope_theta=1000000.0)
LOCAL = dict(rope_type="default", rope_theta=10000.0)


def size(hidden, ff, layers, heads, kv, head_dim, **rest):
    return dict(BASE, hidden_size=hidden, intermediate_size=ff, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=kv, head_dim=head_dim, **rest)


def latent(hidden, ff, layers, heads, nope, rope, value, rank, **rest):
    """DeepSeek's attention: heads of `nope + rope` and `value` from a latent of `rank`."""
    return dict(BASE, hidden_size=hidden, intermediate_size=ff, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=heads, qk_nope_head_dim=nope, qk_rope_head_dim=rope, v_head_dim=value,
                kv_lora_rank=rank, **rest)


def routed(experts, used, ff, **rest):
    return dict(num_experts=experts, num_experts_per_tok=used, moe_intermediate_size=ff, **rest)


def shared(experts, used, ff, n_shared, n_dense, **rest):
    """Experts as DeepSeek and GLM name them, in all layers but the first `n_dense`."""
    return dict(n_routed_experts=experts, num_experts_per_tok=used, moe_intermediate_size=ff, n_shared_experts=n_shared,
                first_k_dense_replace=n_dense, num_nextn_predict_layers=0, **rest)


# Name: type and configuration of transformers, and the seed.
MODELS = {
    # Biases everywhere, a head of its own, YaRN with its own ramp.
    "llama-yarn": ("llama", 3, size(96, 128, 2, 3, 1, 32, attention_bias=True, mlp_bias=True,
                                    rope_parameters=dict(YARN, beta_fast=8.0, beta_slow=2.0))),
    "llama-linear": ("llama", 4, size(64, 160, 3, 2, 2, 48, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="linear", factor=2.5, rope_theta=10000.0))),
    "llama-factors": ("llama", 5, size(64, 96, 2, 2, 1, 64, rope_parameters=LLAMA3)),
    "qwen2-yarn": ("qwen2", 6, size(128, 112, 2, 4, 1, 32, tie_word_embeddings=True, rope_parameters=YARN)),
    "qwen3-yarn": ("qwen3", 7, size(64, 128, 2, 4, 2, 64, attention_bias=True,
                                    rope_parameters=dict(YARN, attention_factor=1.25))),
    "qwen3-wide": ("qwen3", 8, size(64, 96, 2, 2, 1, 128, tie_word_embeddings=True)),
    # Five local layers, one global and one more local one; both soft caps.
    "gemma3-caps": ("gemma3_text", 9, size(
        64, 64, 7, 2, 1, 32, vocab_size=282, sliding_window=16, query_pre_attn_scalar=32, final_logit_softcapping=3.0,
        rope_parameters=dict(full_attention=GLOBAL, sliding_attention=LOCAL))),
    # A window that ends within a span, every third layer global, a head of its own.
    "gemma3-window": ("gemma3_text", 10, size(
        64, 96, 4, 2, 1, 80, vocab_size=282, sliding_window=300, sliding_window_pattern=3, query_pre_attn_scalar=80,
        tie_word_embeddings=False)),
    "llama-moe": ("mixtral", 11, size(64, 48, 3, 4, 1, 16, num_local_experts=8, num_experts_per_tok=2)),
    "llama-moe-old": ("mixtral", 27, size(96, 64, 2, 3, 3, 32, num_local_experts=6, num_experts_per_tok=3,
                                          tie_word_embeddings=True)),
    "olmoe-gqa": ("olmoe", 13, size(64, 32, 3, 4, 1, 16, num_experts=20, num_experts_per_tok=5, norm_topk_prob=True)),
    "qwen2moe": ("qwen2_moe", 14, size(64, 96, 3, 4, 2, 16, **routed(12, 3, 48), shared_expert_intermediate_size=80,
                                       norm_topk_prob=False)),
    "qwen2moe-norm": ("qwen2_moe", 15, size(128, 96, 2, 4, 1, 32, **routed(8, 4, 32), norm_topk_prob=True,
                                            shared_expert_intermediate_size=40, tie_word_embeddings=True,
                                            rope_parameters=YARN)),
    "qwen3moe-norm": ("qwen3_moe", 16, size(64, 96, 2, 4, 1, 32, **routed(32, 8, 32), norm_topk_prob=True,
                                            tie_word_embeddings=True, rope_parameters=YARN)),
    "qwen3moe-plain": ("qwen3_moe", 17, size(96, 96, 3, 2, 2, 64, **routed(10, 3, 32), norm_topk_prob=False)),
    # All of DeepSeek-V3 but a low rank of queries: four groups of which two are used, a scale, YaRN with a multiplier.
    "deepseek2-groups": ("deepseek_v3", 18, latent(
        64, 96, 3, 4, 16, 16, 24, 32, **shared(16, 4, 32, 2, 1), q_lora_rank=None, n_group=4, topk_group=2,
        norm_topk_prob=True, routed_scaling_factor=2.5,
        rope_parameters=dict(YARN, factor=8.0, mscale=0.707, mscale_all_dim=0.707))),
    # Values wider than the keys without positions, no dense layer, weights not divided by their sum.
    "deepseek2-wide": ("deepseek_v3", 19, latent(
        96, 96, 2, 6, 16, 32, 48, 80, **shared(9, 2, 48, 1, 0), q_lora_rank=40, n_group=1, topk_group=1,
        norm_topk_prob=False, routed_scaling_factor=1.5, tie_word_embeddings=True)),
    # DeepSeek-V2: softmax, the best of a group counts for it.
    "deepseek2-softmax": ("deepseek_v2", 20, latent(
        64, 96, 3, 4, 24, 16, 24, 48, **shared(12, 3, 32, 1, 1), q_lora_rank=32, n_group=4, topk_group=2,
        topk_method="group_limited_greedy", norm_topk_prob=False, routed_scaling_factor=2.0,
        rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))),
    "deepseek2-old": ("deepseek_v2", 21, latent(
        64, 80, 3, 4, 16, 16, 16, 32, **shared(8, 3, 32, 2, 1), q_lora_rank=None, n_group=1, topk_group=1,
        topk_method="greedy", norm_topk_prob=False, routed_scaling_factor=1.0, rope_parameters=LOCAL)),
    "glm4moe-norm": ("glm4_moe", 22, size(
        96, 96, 3, 4, 2, 32, **shared(8, 3, 40, 1, 2), attention_bias=True, use_qk_norm=True, norm_topk_prob=True,
        routed_scaling_factor=2.5, rope_parameters=dict(LOCAL, partial_rotary_factor=0.25))),
    "glm4moe-groups": ("glm4_moe", 23, size(
        64, 96, 3, 2, 1, 64, **shared(12, 4, 32, 2, 1), n_group=3, topk_group=2, norm_topk_prob=False,
        routed_scaling_factor=0.75, tie_word_embeddings=True, rope_parameters=dict(LOCAL, partial_rotary_factor=0.75))),
    "glm4moe-nextn": ("glm4_moe", 24, size(
        64, 96, 2, 4, 1, 16, **dict(shared(6, 2, 32, 1, 1), num_nextn_predict_layers=1), use_qk_norm=True,
        rope_parameters=dict(LOCAL, partial_rotary_factor=0.5))),
    "gpt-oss-short": ("gpt_oss", 25, size(64, 32, 4, 4, 1, 32, num_local_experts=12, num_experts_per_tok=4,
                                          sliding_window=40, rope_parameters=dict(YARN, truncate=False))),
    "gpt-oss-long": ("gpt_oss", 26, size(96, 48, 3, 2, 2, 64, num_local_experts=6, num_experts_per_tok=2,
                                         sliding_window=200, rope_parameters=dict(YARN, rope_theta=150000.0, factor=32.0,
                                                                                  truncate=False))),
}

# Options of the attention that the library computes and this type's configuration does not pass on.
ATTENTION = {"gemma3-caps": {"softcap": 2.0}}

# What the converter does not write.
EXTRA_KEYS = {
    "gemma3-caps": {"gemma3.attn_logit_softcapping": 2.0},
    "gemma3-window": {"gemma3.attention.sliding_window_pattern": 3},
    "olmoe-gqa": {"olmoe.expert_weights_norm": True},
    "qwen2moe-norm": {"qwen2moe.expert_weights_norm": True},
    "qwen3moe-plain": {"qwen3moe.expert_weights_norm": False},
    "deepseek2-groups": {"deepseek2.expert_gating_func": 2},
    "deepseek2-wide": {"deepseek2.expert_gating_func": 2},
    "deepseek2-softmax": {"deepseek2.expert_gating_func": 1},
}

# Parts of parameters' names, a factor and a summand, so that what they do shows: routers that choose clearly, sinks
# that take a share of long contexts, products that reach the limits of the clamped SwiGLU.
ROUTER = [("mlp.gate.weight", 4.0, 0.0), ("mlp.router.weight", 4.0, 0.0)]
CHANGED = {
    "gpt-oss-short": [("sinks", 1.0, 3.0), ("gate_up_proj", 8.0, 0.0), ("down_proj", 0.05, 0.0)],
    "gpt-oss-long": [("sinks", 1.0, -1.0)],
}


def tokenizer():
    """Bytes, some specials and a few merges."""
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    specials = ["<bos>", "<eos>", "<pad>"] + [f"<special{i}>" for i in range(7)]
    merges = [("t", "h"), ("th", "e"), ("i", "n"), ("a", "n"), ("e", "r"), ("\u0120", "the")]
    for token in specials + [a + b for a, b in merges]:
        vocab[token] = len(vocab)
    tokens = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokens.add_special_tokens(specials)
    names = dict(bos_token="<bos>", eos_token="<eos>", pad_token="<pad>")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, **names)


def change(name, model):
    with torch.no_grad():
        for label, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)  # norms and biases away from 1 and 0
            for part, factor, summand in ROUTER + CHANGED.get(name, []):
                if part in label:
                    parameter.mul_(factor).add_(summand)
            if parameter.dim() > 1:
                parameter.copy_(parameter.half().float())  # matrices are stored as F16
        for label, buffer in model.named_buffers():
            if label.endswith("e_score_correction_bias"):
                buffer.add_(torch.randn_like(buffer) * 0.1)


def distances(name, model, ids, logits):
    """How far the f32 logits are from f64, and f64 from itself after a nudge of the size of f32's rounding: large where
    a token's choice of experts is nearly tied."""
    options = ATTENTION.get(name, {})
    exact = model.double()(ids, **options).logits[0].log_softmax(-1)
    off = (exact - torch.tensor(logits).double().log_softmax(-1)).abs().max()
    embeddings = model.get_input_embeddings().weight
    embeddings.mul_(1 + 3e-7 * torch.randn_like(embeddings))
    nudged = (exact - model(ids, **options).logits[0].log_softmax(-1)).abs().max()
    print(f"{name}: f32 is off its own f64 by {off:.1e} in log probability, nudged by {nudged:.1e}", flush=True)


def make(name, out):
    model_type, seed, config = MODELS[name]
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(model_type, initializer_range=0.06, **config)
    config._attn_implementation = config._experts_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    change(name, model)
    ids = torch.tensor([[256] + [(i * 37 + 11 + seed + i * i // 7) % 256 for i in range(N_TOKENS - 1)]])
    folder = f"{out}/{name}"
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    with torch.no_grad():
        logits = model(ids, **ATTENTION.get(name, {})).logits[0].numpy()
        distances(name, model, ids, logits)
    np.save(f"{out}/{name}.ids.npy", ids[0].numpy())
    np.save(f"{out}/{name}.rows.npy", np.array(ROWS, dtype=np.int64))
    np.save(f"{out}/{name}.logits.npy", logits[ROWS])
    subprocess.run([sys.executable, __file__, sys.argv[1], out, "--convert", name], check=True)


def convert(name, root, out):
    """llama.cpp's converter, with the pre-tokenizer of gpt-2 and its byte-level vocabulary for every family."""
    sys.path[:0] = [root, root + "/gguf-py"]
    import conversion.base
    import conversion.gemma
    import convert_hf_to_gguf
    base = conversion.base.TextModel
    base.get_vocab_base_pre = lambda self, tokens: "gpt-2"
    conversion.gemma.Gemma3Model.set_vocab = base._set_vocab_gpt2
    base._set_vocab_glm = base._set_vocab_gpt2
    set_keys, force_type = base.prepare_metadata, base.tensor_force_quant

    def set_all_keys(self, **options):
        set_keys(self, **options)
        for key, value in EXTRA_KEYS.get(name, {}).items():
            add = {float: self.gguf_writer.add_float32, bool: self.gguf_writer.add_bool, int: self.gguf_writer.add_uint32}
            add[type(value)](key, value)

    def float_biases(self, old, new, *rest):
        """Biases of experts have two dimensions and are F32 in published files."""
        return conversion.base.gguf.GGMLQuantizationType.F32 if new.endswith("_exps.bias") else force_type(self, old, new, *rest)

    base.prepare_metadata, base.tensor_force_quant = set_all_keys, float_biases
    sys.argv = ["convert", f"{out}/{name}", "--outfile", f"{out}/{name}.gguf", "--outtype", "f16"]
    convert_hf_to_gguf.main()
    if name in REWRITTEN:
        rewrite(f"{out}/{name}.gguf", REWRITTEN[name])


def rewrite(path, change_all):
    """Passes keys `{name: (value, type, element type)}` and tensors `{name: array}` through `change_all`."""
    import gguf
    reader = gguf.GGUFReader(path)
    keys = {key: (field.contents(), field.types[0], field.types[-1]) for key, field in reader.fields.items()
            if not key.startswith("GGUF.") and key != "general.architecture"}
    tensors = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
    architecture = reader.fields["general.architecture"].contents()
    keys, tensors = change_all(keys, tensors)
    writer = gguf.GGUFWriter(path, architecture)
    for key, (value, kind, element) in keys.items():
        writer.add_key_value(key, value, kind, sub_type=element if kind == gguf.GGUFValueType.ARRAY else None)
    for label, array in tensors.items():
        writer.add_tensor(label, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def each_expert_alone(keys, tensors):
    """As the first converters of Mixtral wrote them."""
    out = {}
    for label, array in tensors.items():
        if "_exps.weight" in label:
            for expert, matrix in enumerate(array):
                out[label.replace("_exps.weight", f".{expert}.weight")] = matrix
        else:
            out[label] = array
    return keys, out


def one_latent_product(keys, tensors):
    """DeepSeek-V2 as it was written before keys and values were read from the latent itself."""
    def value(key, new):
        keys[f"deepseek2.{key}"] = (new,) + keys[f"deepseek2.{key}"][1:]

    heads = keys["deepseek2.attention.head_count"][0]
    value("attention.head_count_kv", heads)
    value("attention.key_length", keys.pop("deepseek2.attention.key_length_mla")[0])
    value("attention.value_length", keys.pop("deepseek2.attention.value_length_mla")[0])
    out = {}
    for label, array in tensors.items():
        if "attn_k_b" in label:  # [head, latent, key]
            both = [array.transpose(0, 2, 1), tensors[label.replace("attn_k_b", "attn_v_b")]]
            both = np.concatenate(both, axis=1)
            out[label.replace("attn_k_b", "attn_kv_b")] = both.reshape(-1, both.shape[-1])
        elif "attn_v_b" not in label:
            out[label] = array
    return keys, out


def one_layer_more(keys, tensors):
    """A layer that predicts the token after the next, as published files of GLM have it: of random values."""
    random = np.random.default_rng(0)
    last = keys["glm4moe.block_count"][0] - 1
    pattern = {label: array for label, array in tensors.items() if label.startswith(f"blk.{last - 1}.")}
    for label, array in pattern.items():
        tensors[label.replace(f"blk.{last - 1}.", f"blk.{last}.")] = random.standard_normal(array.shape).astype(array.dtype)
    hidden = keys["glm4moe.embedding_length"][0]
    tensors[f"blk.{last}.nextn.eh_proj.weight"] = random.standard_normal((hidden, 2 * hidden)).astype(np.float16)
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        tensors[f"blk.{last}.nextn.{norm}.weight"] = np.ones(hidden, np.float32)
    return keys, tensors


REWRITTEN = {
    "llama-moe-old": each_expert_alone,
    "deepseek2-old": one_latent_product,
    "glm4moe-nextn": one_layer_more,
}


def main():
    root, out, names = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if names[:1] == ["--convert"]:
        return convert(names[1], root, out)
    os.makedirs(out, exist_ok=True)
    for name in names or MODELS:
        make(name, out)


main()
