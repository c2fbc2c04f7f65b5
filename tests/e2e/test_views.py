"""The views for other tools: model.json, tensors.tsv, npy and safetensors, read by those tools."""

import csv
import json
import os
import struct

import crafted
import gguffs
import numpy as np
import pytest
import yaml
from crafted import ARRAY, F32, F64, STRING, U64, File
from gguf import GGUFValueType
from gguffs import Mount, best, elapsed
from safetensors import safe_open
from safetensors.numpy import load_file
from test_values import float_values, reader_of

PRECISIONS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def tensors(mount):
    return {name: mount.info("tensors", name) for name in os.listdir(mount / "tensors")}


def values(mount, name, info):
    floats = np.memmap(mount / "tensors" / name / "f32", "<f4", "r")
    return floats.reshape(json.loads(info["shape"]))


def same(left, right):
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def to_bf16(array):
    """The nearest bfloat16, ties to even, as 16-bit numbers; no NaN among the values."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def check_npy(mount):
    described = tensors(mount)
    assert os.listdir(mount / "npy") == [name + ".npy" for name in described]
    for name, info in described.items():
        path = mount / "npy" / f"{name}.npy"
        assert same(np.load(path, mmap_mode="r"), values(mount, name, info)), name
        assert os.path.getsize(path) == 4096 + int(info["f32_bytes"])


def test_numpy_loads_every_tensor_of_the_sample(sample):
    check_npy(sample)
    for name, info in tensors(sample).items():
        assert same(np.load(sample / "npy" / f"{name}.npy"), values(sample, name, info)), name


def test_numpy_maps_every_tensor_of_the_real_model(gemma):
    check_npy(gemma)


def test_numpy_loads_every_tensor_of_the_real_model_in_its_shape(gemma):
    for tensor in reader_of(gguffs.GEMMA).tensors:
        array = np.load(gemma / "npy" / f"{tensor.name}.npy")
        assert array.dtype == "<f4" and array.flags.c_contiguous, tensor.name
        assert array.shape == tuple(reversed(tensor.shape)), tensor.name


def header(path):
    """The header of a safetensors file and where its data starts."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), 8 + length


@pytest.mark.parametrize("precision", PRECISIONS)
def test_safetensors_headers_are_padded_contiguous_and_in_file_order(sample, precision):
    path = sample / "safetensors" / f"{precision}.safetensors"
    entries, start = header(path)
    assert start % 4096 == 0
    metadata = entries.pop("__metadata__")
    assert metadata["format"] == "pt" and metadata["llama.block_count"] == "3"
    assert metadata["general.name"] == "Sample Llama"
    assert "tokenizer.ggml.tokens" not in metadata
    end = 0
    for (name, entry), (want, info) in zip(entries.items(), tensors(sample).items(), strict=True):
        assert name == want and entry["dtype"] == PRECISIONS[precision]
        assert entry["shape"] == json.loads(info["shape"])
        assert entry["data_offsets"][0] == end
        end = entry["data_offsets"][1]
    assert os.path.getsize(path) == start + end


def test_safetensors_loads_the_sample_as_f32_and_f16(sample):
    f32 = load_file(sample / "safetensors/f32.safetensors")
    f16 = load_file(sample / "safetensors/f16.safetensors")
    for name, info in tensors(sample).items():
        want = values(sample, name, info)
        assert same(f32[name], want), name
        with np.errstate(over="ignore"):
            assert same(f16[name], want.astype("<f2")), name


def test_safetensors_bf16_is_rounded_to_nearest_even(sample):
    path = sample / "safetensors/bf16.safetensors"
    entries, start = header(path)
    data = np.memmap(path, np.uint8, "r", offset=start)
    for name, info in tensors(sample).items():
        first, last = entries[name]["data_offsets"]
        want = to_bf16(values(sample, name, info))
        assert data[first:last].tobytes() == want.tobytes(), name


def load_bf16(path):
    """What load_file is for the types that numpy has: of bfloat16, the 16-bit numbers."""
    entries, start = header(path)
    del entries["__metadata__"]
    data = np.memmap(path, "<u2", "r", offset=start)
    return {
        name: data[slice(*(at // 2 for at in entry["data_offsets"]))].reshape(entry["shape"])
        for name, entry in entries.items()
    }


def test_every_safetensors_file_of_the_real_model_holds_what_gguf_py_decodes(gemma):
    files = gemma / "safetensors"
    f32, f16 = (load_file(files / f"{precision}.safetensors") for precision in ("f32", "f16"))
    bf16 = load_bf16(files / "bf16.safetensors")
    known = reader_of(gguffs.GEMMA).tensors
    assert sorted(f32) == sorted(f16) == sorted(bf16) == sorted(tensor.name for tensor in known)
    for tensor in known:
        want = float_values(tensor).reshape(tensor.shape[::-1])
        assert same(f32.pop(tensor.name), want), tensor.name
        assert same(f16.pop(tensor.name), want.astype("<f2")), tensor.name
        assert same(bf16.pop(tensor.name), to_bf16(want)), tensor.name


def test_one_tensor_of_a_64_gib_model_is_there_in_50_ms(work, measured):
    with open(work / "model.gguf", "wb") as file:
        crafted.holes(file)

    def take(path):
        with safe_open(path, "np") as file:
            assert not file.get_tensor("output_norm.weight").any()

    def first_time():
        with Mount(work / "model.gguf", work) as mount:
            return elapsed(take, mount / "safetensors/f32.safetensors")

    seconds = best(0.05, first_time)
    measured(f"safe_open and a tensor of a 64 GiB model: {seconds * 1e3:.1f} ms")
    assert seconds < 0.05


def test_tensors_tsv_has_a_line_for_each_tensor(sample):
    with open(sample / "tensors.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    described = tensors(sample)
    assert [row["name"] for row in rows] == list(described)
    for row, info in zip(rows, described.values()):
        assert list(row) == ["name", "type", "shape", "elements", "raw_bytes", "shard", "file_offset"]
        for key in ("type", "elements", "raw_bytes", "file_offset"):
            assert row[key] == info[key], row


def strict(data):
    """JSON by the letter: UTF-8, no NaN or Infinity, no key twice."""

    def constant(text):
        raise ValueError(f"{text} is not JSON")

    def once(pairs):
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    return json.loads(data.decode("utf-8", "strict"), parse_constant=constant, object_pairs_hook=once)


def test_model_json_holds_the_infos_and_every_value(sample):
    model = strict(sample.read("model.json"))
    assert model["info"] == yaml.safe_load(sample.text("info"))
    assert list(model["metadata"]) == os.listdir(sample / "metadata")
    assert list(model["tensors"]) == os.listdir(sample / "tensors")
    for name, tensor in model["tensors"].items():
        assert tensor == yaml.safe_load(sample.text("tensors", name, "info")), name
    values = {key: (entry["type"], entry["value"]) for key, entry in model["metadata"].items()}
    assert values["llama.training.tokens"] == ("u64", 2**53 + 1)
    assert values["llama.training.loss"] == ("f64", 2.718281828459045)
    assert values["tokenizer.ggml.add_bos_token"] == ("bool", True)
    assert values["general.languages"] == ("array", ["en", "de", "ja"])
    template = sample.text("metadata/tokenizer.chat_template")
    assert values["tokenizer.chat_template"] == ("string", template)
    scores = [np.float32(line) for line in sample.text("metadata/tokenizer.ggml.scores").split("\n")]
    assert [np.float32(score) for score in values["tokenizer.ggml.scores"][1]] == scores


def check_value(entry, field):
    """One value of model.json against gguf-py's: the same type, the same to the bit."""
    outer, last = field.types[0], field.types[-1]
    name = last.name.lower().replace("float", "f").replace("uint", "u").replace("int", "i")
    if outer == GGUFValueType.ARRAY:
        assert (entry["type"], entry["element_type"]) == ("array", name)
    else:
        assert entry["type"] == name
    value, want = entry["value"], field.contents()
    if name in ("f32", "f64"):
        value, want = (np.array(each, f"<{name[0]}{int(name[1:]) // 8}") for each in (value, want))
        assert same(value, want)
    else:
        assert value == want and type(value) is type(want)


def test_model_json_gives_back_every_value_of_the_real_model(gemma):
    model = strict(gemma.read("model.json"))
    fields = {k: f for k, f in reader_of(gguffs.GEMMA).fields.items() if not k.startswith("GGUF.")}
    assert list(model["metadata"]) == list(fields)
    for key, field in fields.items():
        check_value(model["metadata"][key], field)


def test_model_json_is_json_whatever_the_file_holds(work):
    file = File().key("nan", F32, float("nan")).key("inf", F64, float("-inf"))
    file.key("bad\xff", STRING, b"\xff\x00\x1f\"\\").key("big", U64, (1 << 64) - 1)
    file.key("list", (ARRAY, STRING), [b"\x80", "two\n"]).tensor(b"t\xff\n", 0, [1], bytes(4))
    (work / "model.gguf").write_bytes(file.build())
    with Mount(work / "model.gguf", work) as mount:
        text = mount.read("model.json")
        assert "18446744073709551615" in json.dumps(strict(text))
        assert len(text) == os.path.getsize(mount / "model.json")


def test_views_read_at_odd_places_as_in_one_piece(sample):
    for name in ("model.json", "tensors.tsv", "npy/blk.0.attn_q.weight.npy",
                 *(f"safetensors/{precision}.safetensors" for precision in PRECISIONS)):  # fmt: skip
        whole = sample.read(name)
        for at in (0, 1, 4095, 4097, 5003, len(whole) // 3, len(whole) - 5, len(whole)):
            part = gguffs.output("dd", f"if={sample / name}", "bs=1M", "iflag=skip_bytes,count_bytes",
                                 f"skip={at}", "count=7001", "status=none", text=False)  # fmt: skip
            assert part == whole[at : at + 7001], (name, at)
