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
# Around KV blocks (32), windows (16 and 300), chunks (7, 64, 512) and spans (256); then the last.
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
}

# Options of the attention that the library computes and this type's configuration does not pass on.
ATTENTION = {"gemma3-caps": {"softcap": 2.0}}

# What the converter does not write.
EXTRA_KEYS = {
    "gemma3-caps": {"attn_logit_softcapping": 2.0},
    "gemma3-window": {"attention.sliding_window_pattern": 3},
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


def make(name, out):
    model_type, seed, config = MODELS[name]
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(model_type, initializer_range=0.06, **config)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)  # norms and biases away from 1 and 0
            else:
                parameter.copy_(parameter.half().float())  # matrices are stored as F16
    ids = torch.tensor([[256] + [(i * 37 + 11 + seed + i * i // 7) % 256 for i in range(N_TOKENS - 1)]])
    with torch.no_grad():
        logits = model(ids, **ATTENTION.get(name, {})).logits[0].numpy()
        exact = model.double()(ids, **ATTENTION.get(name, {})).logits[0]
        off = (exact.log_softmax(-1) - torch.tensor(logits).double().log_softmax(-1)).abs().max()
    folder = f"{out}/{name}"
    model.float().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    np.save(f"{out}/{name}.ids.npy", ids[0].numpy())
    np.save(f"{out}/{name}.rows.npy", np.array(ROWS, dtype=np.int64))
    np.save(f"{out}/{name}.logits.npy", logits[ROWS])
    print(f"{name}: f32 is off its own f64 by {off:.1e} in log probability", flush=True)
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
    set_keys = base.set_gguf_parameters

    def set_all_keys(self):
        set_keys(self)
        for key, value in EXTRA_KEYS.get(name, {}).items():
            add = self.gguf_writer.add_float32 if isinstance(value, float) else self.gguf_writer.add_uint32
            add(f"gemma3.{key}", value)

    base.set_gguf_parameters = set_all_keys
    folder = f"{out}/{name}"
    sys.argv = ["convert", folder, "--outfile", f"{out}/{name}.gguf", "--outtype", "f16"]
    convert_hf_to_gguf.main()


def main():
    root, out, names = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if names[:1] == ["--convert"]:
        return convert(names[1], root, out)
    os.makedirs(out, exist_ok=True)
    for name in names or MODELS:
        make(name, out)


main()
