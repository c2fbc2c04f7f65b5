"""The bytes and values in the tree against gguf-py reading the same file."""

import functools
import json
import os
import re

import crafted
import gguf
import gguffs
import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFValueType
from gguf.constants import GGML_QUANT_SIZES

reader_of = functools.cache(gguf.GGUFReader)

CANONICAL_NAN = np.uint32(0x7FC00000)


def bits(values):
    """The bits of float32 values, every NaN made the same one."""
    values = np.ascontiguousarray(values, np.float32).reshape(-1)
    return np.where(np.isnan(values), CANONICAL_NAN, values.view(np.uint32))


def float_values(tensor):
    """What gguf-py makes of a tensor; it does not convert the plain number types."""
    kind = GGMLQuantizationType(tensor.tensor_type)
    if kind.name in ("F64", "I8", "I16", "I32", "I64"):
        with np.errstate(over="ignore"):
            return tensor.data.astype(np.float32)
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(tensor.data, kind)


def check_tensors(mount):
    reader = reader_of(mount.model)
    stored = np.memmap(mount.model, np.uint8, "r")
    assert [tensor.name for tensor in reader.tensors] == os.listdir(mount / "tensors")
    for tensor in reader.tensors:
        folder = mount / "tensors" / tensor.name
        info = mount.info("tensors", tensor.name)
        start, length = int(info["file_offset"]), int(info["raw_bytes"])
        assert start == tensor.data_offset and length == tensor.n_bytes, tensor.name
        raw = np.fromfile(folder / "raw", np.uint8)
        assert np.array_equal(raw, stored[start : start + length]), tensor.name
        floats = np.fromfile(folder / "f32", "<f4")
        assert np.array_equal(bits(floats), bits(float_values(tensor))), tensor.name
        shape = json.loads(info["shape"])
        assert shape == [int(n) for n in reversed(tensor.shape)], tensor.name
        assert json.loads(info["dims"]) == shape[::-1]
        assert info["type"] == GGMLQuantizationType(tensor.tensor_type).name
        assert int(info["elements"]) == tensor.n_elements == floats.size
        assert int(info["f32_bytes"]) == 4 * floats.size
        elements, size = GGML_QUANT_SIZES[tensor.tensor_type]
        assert re.fullmatch(rf"{elements} elements? in {size} bytes?", info["block"])


def test_every_tensor_of_the_sample_is_what_gguf_py_reads(sample):
    check_tensors(sample)


def test_every_tensor_of_the_real_model_is_what_gguf_py_reads(gemma):
    check_tensors(gemma)


@pytest.mark.parametrize("kind", gguf.quants._type_traits, ids=lambda kind: kind.name)
def test_random_blocks_of_every_type_decode_as_in_gguf_py(work, kind):
    rng = np.random.default_rng(kind)
    elements, size = GGML_QUANT_SIZES[kind]
    file = crafted.File()
    for blocks in (1, 2, 7):
        data = rng.integers(0, 256, 3 * blocks * size, dtype=np.uint8).tobytes()
        file.tensor(f"t{blocks}", int(kind), [blocks * elements, 3], data)
    model = work / "model.gguf"
    model.write_bytes(file.build())
    with gguffs.Mount(model, work) as mount:
        check_tensors(mount)


def float_text(value, text):
    """Whether the text is a float, reads back to the value, and has no digit too many."""
    kind = type(value)
    if not np.isfinite(value):
        return text == str(float(value))
    digits = lambda s: re.sub(r"[eE].*|[^0-9]", "", s).strip("0")  # noqa: E731
    return (
        re.search(r"[.e]", text) is not None
        and kind(text) == value
        and np.signbit(kind(text)) == np.signbit(value)
        and len(digits(text)) <= len(digits(np.format_float_scientific(value)))
    )


def element(field, index):
    """Element `index` of gguf-py's field: bytes of a string, else a numpy number."""
    part = field.parts[field.data[index]]
    return bytes(part) if field.types[-1] == GGUFValueType.STRING else part[0]


def line_matches(kind, value, line):
    match kind:
        case GGUFValueType.STRING:
            escaped = value.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
            return line == escaped
        case GGUFValueType.FLOAT32 | GGUFValueType.FLOAT64:
            return float_text(value, line.decode())
        case GGUFValueType.BOOL:
            return line == (b"true" if value else b"false")
        case _:
            return line == b"%d" % value


def check_metadata(mount):
    reader = reader_of(mount.model)
    fields = {name: f for name, f in reader.fields.items() if not name.startswith("GGUF.")}
    assert list(fields) == os.listdir(mount / "metadata")
    for name, field in fields.items():
        data = mount.read("metadata", name)
        kind = field.types[-1]
        if field.types[0] == GGUFValueType.ARRAY:
            lines = data.split(b"\n")
            assert lines.pop() == b"" and len(lines) == len(field.data), name
        elif kind == GGUFValueType.STRING:
            assert data == element(field, 0) + b"\n", name
            continue
        else:
            lines = [data.removesuffix(b"\n")]
            assert data.endswith(b"\n"), name
        wrong = [
            (name, i, line)
            for i, line in enumerate(lines)
            if not line_matches(kind, element(field, i), line)
        ]
        assert not wrong


def test_every_metadata_text_of_the_sample_is_what_gguf_py_reads(sample):
    check_metadata(sample)


def test_every_metadata_text_of_the_real_model_is_what_gguf_py_reads(gemma):
    check_metadata(gemma)


def test_root_info_of_the_sample_agrees_with_gguf_py(sample):
    reader = gguf.GGUFReader(gguffs.SAMPLE)
    kinds = sorted(GGMLQuantizationType(t.tensor_type) for t in reader.tensors)
    types = ", ".join(f"{kind.name}: {kinds.count(kind)}" for kind in dict.fromkeys(kinds))
    assert sample.text("info").split("\n") == [
        f"file: {gguffs.SAMPLE}",
        f"bytes: {gguffs.SAMPLE.stat().st_size}",
        "version: 3",
        "endianness: little",
        "alignment: 32",
        f"metadata: {len(reader.fields) - 3}",
        f"tensors: {len(reader.tensors)}",
        f"parameters: {sum(int(t.n_elements) for t in reader.tensors)}",
        f"data_offset: {reader.data_offset}",
        f"types: {{{types}}}",
    ]


def test_token_n_is_line_n_plus_one_of_the_tokens(sample):
    tokens = sample / "metadata/tokenizer.ggml.tokens"
    line = lambda n: gguffs.output("sed", "-n", f"{n + 1}p", tokens, text=False)  # noqa: E731
    reader = gguf.GGUFReader(gguffs.SAMPLE).fields["tokenizer.ggml.tokens"]
    count = len(reader.data)
    assert int(gguffs.output("wc", "-l", tokens).split()[0]) == count
    assert line(1) == b"<s>\n"
    newline = next(n for n in range(count) if element(reader, n) == b"\n")
    assert line(newline) == b"\\n\n"
    assert line(count - 1) == element(reader, count - 1) + b"\n"


def test_a_shell_variable_takes_a_value_as_it_is(sample):
    value = gguffs.output("sh", "-c", 'printf %s "$(cat "$0")"', sample / "metadata/general.name")
    assert value == "Sample Llama"
