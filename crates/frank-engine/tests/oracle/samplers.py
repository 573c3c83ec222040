"""What llama.cpp's samplers keep of seeded logits, and with which probabilities: writes samplers.json beside this file.

Run by hand with the folder of a built llama.cpp that has libllama.so:
    python3 samplers.py ~/.cache/frank/test/llama_cpp_native/bin
The logits are sixteenths, so that they are the same numbers in every language.
"""

import ctypes
import json
import math
import pathlib
import random
import sys


class Candidate(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float)]


class Candidates(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.POINTER(Candidate)),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    ]


def library(folder):
    ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(folder / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(folder / "libggml.so"), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(folder / "libllama.so"))


def sampler(llama, name, arguments):
    make = getattr(llama, "llama_sampler_init_" + name)
    make.restype = ctypes.c_void_p
    return ctypes.c_void_p(make(*arguments))


def kept(llama, made, logits, history):
    for token in history:
        llama.llama_sampler_accept(made, ctypes.c_int32(token))
    data = (Candidate * len(logits))(*[Candidate(i, l, 0.0) for i, l in enumerate(logits)])
    array = Candidates(data, len(logits), -1, False)
    llama.llama_sampler_apply(made, ctypes.byref(array))
    left = [(array.data[i].id, array.data[i].logit) for i in range(array.size)]
    left = sorted((i, l) for i, l in left if l > -math.inf)
    top = max(l for _, l in left)
    total = sum(math.exp(l - top) for _, l in left)
    return [[i, float(f"{math.exp(l - top) / total:.6g}")] for i, l in left]


def cases():
    f, i, n = ctypes.c_float, ctypes.c_int32, ctypes.c_size_t
    for k in [1, 3, 40, 1000]:
        yield "top_k", [i(k)], {"top_k": k}
    for p, keep in [(0.0, 0), (0.1, 0), (0.5, 0), (0.95, 0), (0.5, 30), (0.9999, 0)]:
        yield "top_p", [f(p), n(keep)], {"top_p": p, "min_keep": keep}
    for p, keep in [(0.05, 0), (0.3, 0), (1.0, 0), (0.9, 7)]:
        yield "min_p", [f(p), n(keep)], {"min_p": p, "min_keep": keep}
    for p, keep in [(0.2, 0), (0.5, 0), (0.9, 0), (0.2, 20)]:
        yield "typical", [f(p), n(keep)], {"typical_p": p, "min_keep": keep}
    for sigma in [0.5, 1.0, 2.0, 3.0]:
        yield "top_n_sigma", [f(sigma)], {"top_n_sigma": sigma}
    for threshold, keep in [(0.01, 0), (0.05, 0), (0.1, 0), (0.4, 0), (0.01, 60)]:
        arguments = [f(1.0), f(threshold), n(keep), ctypes.c_uint32(0)]
        yield "xtc", arguments, {"xtc_probability": 1.0, "xtc_threshold": threshold, "min_keep": keep}
    for temperature, spread, exponent in [(0.7, 0.0, 1.0), (1.0, 0.5, 1.0), (0.5, 0.5, 2.0), (0.0, 0.0, 1.0)]:
        arguments = [f(temperature), f(spread), f(exponent)]
        settings = {"temperature": temperature, "dynatemp_range": spread, "dynatemp_exponent": exponent}
        yield "temp_ext", arguments, settings
    for last, repeat, frequency, presence in [(64, 1.3, 0.0, 0.0), (5, 1.0, 0.4, 0.2), (7, 1.5, -0.3, 0.5)]:
        # llama.cpp is told the size of the vocabulary too.
        arguments = [i(64), i(last), f(repeat), f(frequency), f(presence)]
        settings = {"repeat_last_n": last, "repeat_penalty": repeat}
        settings |= {"frequency_penalty": frequency, "presence_penalty": presence}
        yield "penalties", arguments, settings
    for multiplier, base, allowed, last in [(0.8, 1.75, 2, 4096), (2.0, 1.1, 1, 12), (1.0, 3.0, 3, 4096)]:
        arguments = [None, f(multiplier), f(base), i(allowed), i(last), None, n(0)]
        settings = {"dry_multiplier": multiplier, "dry_base": base, "dry_allowed_length": allowed}
        yield "dry", arguments, settings | {"dry_penalty_last_n": last}
    for tau in [1.0, 2.0, 3.0]:
        arguments = [i(64), ctypes.c_uint32(0), f(tau), f(0.1), i(100)]
        yield "mirostat", arguments, {"mirostat": 1, "tau": tau}
        yield "mirostat_v2", [ctypes.c_uint32(0), f(tau), f(0.1)], {"mirostat": 2, "tau": tau}


def main():
    llama = library(pathlib.Path(sys.argv[1]).expanduser())
    rng = random.Random(1)
    rows = []
    for name, arguments, settings in cases():
        for scale in [24, 64]:
            # No two are equal: which of equals a sort puts first is not llama.cpp's to say.
            logits = []
            while len(logits) < 64:
                logit = round(rng.gauss(0, scale)) / 16
                logits += [logit] if logit not in logits else []
            history = []
            if name in ("penalties", "dry"):
                history = [rng.randrange(6) for _ in range(40)] + [7, 8, 9, 10, 7, 8, 9, 10, 7, 8, 9]
            left = kept(llama, sampler(llama, name, arguments), logits, history)
            rows.append({"sampler": name, "settings": settings, "logits": logits, "history": history, "kept": left})
    text = ",\n".join(json.dumps(row) for row in rows)
    pathlib.Path(__file__).with_name("samplers.json").write_text(f"[\n{text}\n]\n")


main()
