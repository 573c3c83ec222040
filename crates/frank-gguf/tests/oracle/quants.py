#!/usr/bin/env python3
"""Blocks of every quant type and the values that the python package `gguf` finds in them.

Writes records to stdout: a line `JOB TYPE MAKER N_BYTES N_VALUES`, then the bytes and the little-endian f32 values.
  decode  the values are what `gguf` reads from the bytes; made by libgguf, at random, or at the limits of the type
  encode  the bytes are what libgguf, or gguf where it can, makes of the values

    quants.py golden > ../it/quants_golden.txt
writes a few blocks of every type instead, one in a line: `TYPE MAKER HASH HEX`, where the hash is FNV-1a of the values.
"""
import pathlib
import sys

import gguf
import libgguf
import numpy as np

SEED = 20260401

# Where the f16 numbers of a block begin: random ones must be finite. IQ1_M spreads its one over four words.
HALVES = {
    "F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ1_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64],
    "F32": [], "BF16": [], "MXFP4": [], "NVFP4": [],
}  # fmt: skip
IQ1_M_WORDS = range(48, 56, 2)
NAMES = [*HALVES, "IQ1_M"]

# libgguf searches the neighbours of all grid points before it encodes the first block of these, for many seconds: their
# blocks are the golden ones.
SLOW = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S"]
GOLDEN = pathlib.Path(__file__).parent.parent / "it/quants_golden.txt"

# Types whose encoder here is compared with theirs.
ENCODED = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"]

# Zeros of both signs, the smallest and largest subnormals, the smallest and largest numbers.
HALF_LIMITS = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x7BFF, 0xFBFF]


def get_halves(name, blocks):
    if name == "IQ1_M":
        words = [blocks[:, at + 1].astype(np.uint16) >> 4 for at in IQ1_M_WORDS]
        return [sum(word << np.uint16(4 * place) for place, word in enumerate(words))]
    return [blocks[:, at] | blocks[:, at + 1].astype(np.uint16) << 8 for at in HALVES[name]]


def set_halves(name, blocks, halves):
    if name == "IQ1_M":
        for place, at in enumerate(IQ1_M_WORDS):
            nibble = halves[0] >> np.uint16(4 * place) & np.uint16(0xF)
            blocks[:, at + 1] = blocks[:, at + 1] & 0xF | (nibble << 4).astype(np.uint8)
        return
    for at, half in zip(HALVES[name], halves):
        blocks[:, at], blocks[:, at + 1] = half & 0xFF, half >> 8


def finite(name, blocks):
    halves = get_halves(name, blocks)
    set_halves(name, blocks, [np.where(half & 0x7C00 == 0x7C00, half & 0xBFFF, half) for half in halves])
    return blocks


def at_limits(name, n_bytes, rng):
    """Every pair of limits in the f16 numbers, with random, zero and full bytes in the rest."""
    limits = np.array(HALF_LIMITS, np.uint16)
    first, second = (grid.ravel() for grid in np.meshgrid(limits, limits))
    rest = rng.integers(0, 256, (len(first), n_bytes), np.uint8)
    blocks = np.concatenate([rest, np.zeros_like(rest), np.full_like(rest, 0xFF)])
    set_halves(name, blocks, [np.tile(first, 3), np.tile(second, 3)])
    return blocks


def source(rng, n_rows, n_columns):
    """Rows of many scales, one of them zero, some with equal values and exact halves of a step."""
    rows = rng.standard_normal((n_rows, n_columns)) * 10.0 ** rng.integers(-6, 3, (n_rows, 1))
    rows[0] = 0.0
    rows[1] = 3.0
    rows[4] = -3.0
    rows[2] = rng.integers(-8, 9, n_columns) / 2
    rows[3] = -np.abs(rows[3])
    return rows.astype(np.float32)


def write(job, name, maker, data, values):
    data, values = data.tobytes(), np.ascontiguousarray(values, "<f4")
    sys.stdout.buffer.write(f"{job} {name} {maker} {len(data)} {values.size}\n".encode())
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.write(values.tobytes())


def decode(name, maker, blocks):
    kind = gguf.GGMLQuantizationType[name]
    with np.errstate(over="ignore", invalid="ignore"):
        # As one long row: `gguf` works on groups of rows, and on many short rows for long.
        write("decode", name, maker, blocks, gguf.quants.dequantize(blocks.reshape(1, -1), kind))


def encode(kind, values):
    importance = None
    if libgguf.quantize_requires_imatrix(int(kind)):
        importance = np.linspace(0.5, 2.0, values.shape[1], dtype=np.float32)
    made = libgguf.quantize_rows_raw(int(kind), values, *values.shape, importance)
    return np.frombuffer(made, np.uint8).reshape(values.shape[0], -1)


def random_blocks(rng, name, n_blocks):
    _, n_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    return finite(name, rng.integers(0, 256, (n_blocks, n_bytes), np.uint8))


def golden_blocks(name):
    """The golden blocks that libgguf made."""
    lines = (line.split() for line in GOLDEN.read_text().splitlines())
    blocks = [bytes.fromhex(block) for kind, maker, _, block in lines if (kind, maker) == (name, "libgguf")]
    return np.array([[*block] for block in blocks], np.uint8)


def fnv1a(data):
    hashed = 0xCBF29CE484222325
    for byte in data:
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return hashed


def golden():
    for name in NAMES:
        rng = np.random.default_rng([SEED, *name.encode()])
        kind = gguf.GGMLQuantizationType[name]
        n_values, n_bytes = gguf.GGML_QUANT_SIZES[kind]
        per_line = max(1, 32 // n_values)
        made = encode(kind, source(rng, 8, 256)).reshape(-1, n_bytes * per_line)[-3:]
        drawn = random_blocks(rng, name, 3 * per_line).reshape(3, -1)
        for maker, lines in (("libgguf", made), ("random", drawn)):
            for line in lines:
                values = np.ascontiguousarray(gguf.quants.dequantize(line.reshape(1, -1), kind), "<f4")
                print(name, maker, f"{fnv1a(values.tobytes()):016x}", line.tobytes().hex())


def records():
    for name in NAMES:
        rng = np.random.default_rng([SEED, *name.encode()])
        kind = gguf.GGMLQuantizationType[name]
        n_values, n_bytes = gguf.GGML_QUANT_SIZES[kind]
        values = source(rng, 16, 512)
        made = golden_blocks(name) if name in SLOW else encode(kind, values)
        decode(name, "libgguf", made)
        # So many that every point of the largest grid is used.
        decode(name, "random", random_blocks(rng, name, 1024 * 256 // max(n_values, 4)))
        decode(name, "limits", at_limits(name, n_bytes, rng))
        if name in ENCODED:
            write("encode", name, "libgguf", made, values)
            write("encode", name, "gguf", gguf.quants.quantize(values, kind), values)


golden() if sys.argv[1:] == ["golden"] else records()
