"""The models that are measured: made once under target/bench, but for Gemma, which is real."""

import os
import struct

import crafted
import gguf
import gguffs
import numpy as np
from crafted import STRING, U32, File
from ggml import TYPES
from gguf.quants import dequantize

FOLDER = gguffs.TOP / "target/bench"
GEMMA = gguffs.GEMMA
GEMMA_TENSOR = "token_embd.weight"
ROWS = COLUMNS = 4096
ELEMENTS = ROWS * COLUMNS
TENSORS_LISTED = 3000

# Byte offsets of the f16 scales in a block. Types without an entry are treated one by one below.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q8_1": [0, 2],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ1_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64], "Q1_0": [0], "Q2_0": [0],
}  # fmt: skip


def once(make):
    """Makes a file of FOLDER where it is absent; it gets its name only when it is whole."""

    def path(*arguments):
        FOLDER.mkdir(parents=True, exist_ok=True)
        name = make.__name__.replace("_", "-") + "".join(f"-{each}" for each in arguments)
        whole, part = FOLDER / name, FOLDER / f"{name}.part"
        if not whole.exists():
            print(f"making {whole.relative_to(gguffs.TOP)}", flush=True)
            with open(part, "wb") as file:
                make(file, *arguments)
            os.sync()
            part.rename(whole)
        return whole

    return path


def random_blocks(kind, elements, seed):
    """Blocks of random bits whose scales give finite values of the usual size."""
    rng, count = np.random.default_rng(seed), elements // kind.block_len
    if kind.name in ("F32", "F64"):
        return rng.standard_normal(count, np.dtype(f"f{kind.block_bytes}"))
    blocks = np.frombuffer(rng.bytes(count * kind.block_bytes), np.uint8).reshape(count, -1).copy()
    scale = (0.01 * rng.uniform(0.5, 1.5, count)).astype("<f2").view("<u2")
    for at in SCALES.get(kind.name, []):
        blocks[:, at : at + 2] = scale.view(np.uint8).reshape(-1, 2)
    match kind.name:
        case "F16":
            blocks[:, 1] &= 0xBF  # below 2
        case "BF16":
            blocks[:, 1] &= 0xBF
        case "Q8_K":
            blocks[:, :4] = scale.view("<f2").astype("<f4").view(np.uint8).reshape(-1, 4)
        case "MXFP4":
            blocks[:, 0] = 120 + blocks[:, 0] % 8
        case "NVFP4":
            blocks[:, :4] %= 0x7F
        case "IQ1_M":  # a nibble of the scale on top of each of the last four words
            words = blocks[:, 48:].view("<u2")
            words[:] = words & 0x0FFF | (scale[:, None] >> np.arange(0, 16, 4) & 15) << 12
    return blocks


def named(name):
    return File().key("general.architecture", STRING, "llama").key("general.name", STRING, name)


@once
def all_types(file):
    """64 MiB of f32 in each type; a tensor is called as its type."""
    model = named("All types")
    for kind in TYPES:
        model.tensor(kind.name, kind.id, [COLUMNS, ROWS], range(kind.bytes(ELEMENTS)))
    start = model.write(file)
    for kind, offset in zip(TYPES, model.offsets()):
        file.seek(start + offset)
        file.write(random_blocks(kind, ELEMENTS, kind.id))


huge = once(crafted.holes)


@once
def many(file):
    """Tiny tensors, to be listed: 3,000 of them are 12,000 files."""
    model = named("Many").key("llama.block_count", U32, TENSORS_LISTED // 10)
    for i in range(TENSORS_LISTED):
        name = f"blk.{i // 10}.part_{i % 10}.weight"
        model.tensor(name, 0, [8], struct.pack("<8f", *range(i, i + 8)))
    file.write(model.build())


@once
def plain(file, name):
    """What a tensor shows, as a plain file: F32, or raw or f32 of Gemma's largest."""
    if name == "F32":
        file.write(stored(name))
        return
    [tensor] = [t for t in gguf.GGUFReader(GEMMA).tensors if t.name == GEMMA_TENSOR]
    for rows in np.array_split(tensor.data, 64):
        file.write(rows if name == "Gemma-raw" else dequantize(rows, tensor.tensor_type))


def stored(name):
    """The stored bytes of a tensor of the all-types model, mapped."""
    sizes = [kind.bytes(ELEMENTS) for kind in TYPES]
    at = [kind.name for kind in TYPES].index(name)
    path = all_types()
    start = os.path.getsize(path) - sum(sizes[at:])
    return np.memmap(path, np.uint8, "r", start, sizes[at])
