"""Files that are odd, broken or hostile, mounted for real: shown honestly, or refused at once."""

import os
import resource
import struct
import time

import crafted
import gguffs
import numpy as np
import pytest
import yaml
from crafted import ARRAY, F32, F64, I64, STRING, U16, U32, U64, File, base
from gguffs import Mount

Q8_BLOCK = b"\x00\x3c" + bytes(range(32))


def mount(work, file, *options, name="model.gguf"):
    """The bytes, or a crafted file, mounted."""
    (work / name).write_bytes(file if isinstance(file, bytes) else file.build())
    return Mount(work / name, work, *options)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


# --- Refused: one line that names what is wrong, within a second, in little memory


def wrap(dims, kind=0):
    return File().tensor("huge", kind, dims, bytes(64)).build()


BROKEN = {
    # What is written, and words of which the message must have one (any case).
    "empty": (b"", ["empty"]),
    "three bytes": (b"GGU", ["short", "not a gguf", "3 bytes", "ends"]),
    "lfs pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", ["lfs"]),
    "html": (b"<!DOCTYPE html>\n<html><body>404</body></html>\n", ["html"]),
    "zip": (b"PK\x03\x04" + bytes(60), ["zip", "pickle"]),
    "safetensors": (struct.pack("<Q", 2) + b"{}" + bytes(50), ["safetensors"]),
    "ggjt": (b"tjgg" + bytes(60), ["ggjt", "ggml"]),
    "version 4": (base().build().replace(b"GGUF\x03", b"GGUF\x04", 1), ["version"]),
    "alignment 0": (File(alignment=32).key("general.alignment", U32, 0).build(), ["alignment"]),
    "alignment 12": (File().key("general.alignment", U32, 12).build(), ["alignment"]),
    "alignment u64": (File().key("general.alignment", U64, 32).build(), ["alignment"]),
    "element type 99": (
        File().key("list", (ARRAY, 99), [b"????"] * 3).key("z", U32, 7).build(),
        ["list"],
    ),
    "dims 2^40 x 2^40": (wrap([1 << 40, 1 << 40]), ["huge"]),
    "dims 2^64-1 x 2": (wrap([(1 << 64) - 1, 2]), ["huge"]),
    "dims 2^63": (wrap([1 << 63]), ["huge"]),
    "dims 2^33 x 2^33": (wrap([1 << 33, 1 << 33]), ["huge"]),
    "Q4_K dims 2^40 x 2^40": (wrap([1 << 40, 1 << 40], 12), ["huge"]),
    "half a block": (wrap([33], 8), ["huge"]),
    "1000 dims": (wrap([1] * 1000), ["huge"]),
    "cut in the last tensor": (base().build()[:-70], ["tensor"]),
    "offset far away": (base().build(offsets=[0, 1 << 40]), ["tensor"]),
    "offset that wraps": (base().build(offsets=[0, (1 << 64) - 32]), ["tensor", "offset"]),
}
for count in (500_000_000, 1 << 32, 1 << 63, (1 << 64) - 1):
    BROKEN[f"{count} keys"] = struct.pack("<4sIQQ", b"GGUF", 3, 0, count), ["key", "metadata"]
    BROKEN[f"{count} tensors"] = struct.pack("<4sIQQ", b"GGUF", 3, count, 0), ["tensor"]


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_refused_at_once_and_in_little_memory(work, what):
    data, words = BROKEN[what]
    model = work / "model.gguf"
    model.write_bytes(data)

    def little_memory():
        resource.setrlimit(resource.RLIMIT_DATA, (50 << 20, 50 << 20))

    (work / "mnt").mkdir()
    start = time.perf_counter()
    message = gguffs.refusal(model, work / "mnt", preexec_fn=little_memory)
    assert time.perf_counter() - start < 1
    assert message.startswith(f"gguf-fs: {model}: ")
    said = message.removeprefix(f"gguf-fs: {model}: ").lower()
    assert any(word in said for word in words), message
    assert not gguffs.mounted(work / "mnt") and not gguffs.processes(work / "mnt")


def test_an_incomplete_download_says_how_much_is_missing(work):
    data = base().build()
    end = len(base().header()) + base().offsets()[1] + 68
    (work / "model.gguf").write_bytes(data[: end - 10])
    message = gguffs.refusal(work / "model.gguf", work)
    assert str(end) in message and str(end - 10) in message and "b" in message, message


def test_names_from_the_file_are_escaped_in_messages(work):
    name = b"evil\x1b[2J\n\x07\xff"
    (work / "model.gguf").write_bytes(File().tensor(name, 0, [1 << 40], b"").build())
    message = gguffs.refusal(work / "model.gguf", work)
    assert "evil" in message and message.isprintable(), message


# --- Metadata


def test_integers_floats_and_bools_of_every_kind_have_exact_texts(work):
    scalars = {
        "a": (U64, (1 << 64) - 1, "18446744073709551615"),
        "b": (I64, -(1 << 63), "-9223372036854775808"),
        "c": (F64, 5e-324, "5e-324"),
        "d": (F32, 10000.0, "10000.0"),
        "e": (F32, 1e-5, "1e-5"),
        "f": (F32, float("nan"), "nan"),
        "g": (F64, float("-inf"), "-inf"),
        "h": (F32, float("inf"), "inf"),
        "i": (F32, -0.0, "-0.0"),
        "j": (crafted.BOOL, 2, "true"),
        "k": (crafted.BOOL, 0, "false"),
        "l": (crafted.I8, -128, "-128"),
    }
    file = File()
    for key, (kind, value, _) in scalars.items():
        file.key(key, kind, value)
    with mount(work, file.key("general.architecture", STRING, "test")) as model:
        for key, (_, _, text) in scalars.items():
            assert model.text("metadata", key) == text, key
        assert model.text("metadata/general.architecture") == "test"


def test_an_array_of_every_element_type_is_followed_by_the_right_key(work):
    file, kinds = File(), [*crafted.FORMATS, STRING]
    for kind in kinds:
        values = ["x", "y\\\n", ""] if kind == STRING else [1, 0, 1]
        file.key(f"list.{kind}", (ARRAY, kind), values).key(f"after.{kind}", U32, 1000 + kind)
    with mount(work, file) as model:
        for kind in kinds:
            one, zero = {F32: ("1.0", "0.0"), F64: ("1.0", "0.0"),
                         crafted.BOOL: ("true", "false")}.get(kind, ("1", "0"))  # fmt: skip
            lines = ["x", "y\\\\\\n", ""] if kind == STRING else [one, zero, one]
            assert model.text("metadata", f"list.{kind}").split("\n") == lines
            assert model.text("metadata", f"after.{kind}") == str(1000 + kind)


def test_nested_arrays_are_lines_of_json_and_empty_ones_empty_files(work):
    file = File().key("nested", (ARRAY, ARRAY), [(U32, [1, 2]), (STRING, ['a"b', "c\n"]), (F32, [])])
    file.key("empty", (ARRAY, STRING), []).key("numbers", (ARRAY, ARRAY), [(F64, [float("nan")])])
    with mount(work, file) as model:
        lines = model.text("metadata/nested").split("\n")
        assert [line.replace(" ", "") for line in lines] == ["[1,2]", '["a\\"b","c\\n"]', "[]"]
        assert model.read("metadata/empty") == b""
        assert model.text("metadata/numbers") == '["nan"]'


def test_strings_are_their_bytes_valid_utf_8_or_not(work):
    template = "▁ ｜ 🦙\n{{ x }}\r\n\\n".encode()
    bad = b"ok \xff\xfe \x80 \xe2\x96"
    tokens = ["first", b"\xff\xfe", b"\x80", b"\xe2\x96", "last"]
    file = File().key("tokenizer.chat_template", STRING, template).key("bad", STRING, bad)
    with mount(work, file.key("tokens", (ARRAY, STRING), tokens)) as model:
        assert model.read("metadata/tokenizer.chat_template") == template + b"\n"
        assert model.read("metadata/bad") == bad + b"\n"
        lines = model.read("metadata/tokens").split(b"\n")
        assert lines == [*map(crafted.text, tokens), b""]


# --- Names


def test_odd_names_are_escaped_reversibly_and_stay_below_the_mountpoint(work):
    names = {
        "../../etc/passwd": "..%2F..%2Fetc%2Fpasswd",
        "..": "%2E%2E",
        ".": "%2E",
        "": "%empty",
        "100%": "100%25",
        "a\nb": "a%0Ab",
        "nul\0": "nul%00",
        "del\x7f": "del%7F",
        "next\u0085line": "next%C2%85line",
        "ünï 🦙": "ünï 🦙",
        b"bad\xff": os.fsdecode(b"bad\xff"),
    }
    file = File()
    for n, name in enumerate(names):
        file.key(name, U32, n).tensor(name, 0, [1], floats(n))
    with mount(work, file) as model:
        for folder in ("metadata", "tensors"):
            assert os.listdir(model / folder) == list(names.values())
        for n, shown in enumerate(names.values()):
            assert model.text("metadata", shown) == str(n)
            assert model.read("tensors", shown, "f32") == floats(n)


def test_long_names_are_reachable_and_whole_up_to_255_bytes(work):
    names = ["n" * 64, "n" * 74, "n" * 127, "n" * 255, "x" * 200 + "a" + "x" * 20,
             "x" * 200 + "b" + "x" * 20]  # fmt: skip
    file = File()
    for n, name in enumerate([*names, "y" * 300, "é" * 300]):
        file.tensor(name, 0, [1], floats(n))
    with mount(work, file) as model:
        shown = os.listdir(model / "tensors")
        assert shown[: len(names)] == names
        assert shown[6].startswith("y" * 237 + "%~") and len(shown[6]) == 255
        assert len(os.fsencode(shown[7])) <= 255 and shown[7].startswith("é" * 118 + "%~")
        for n, name in enumerate(shown):
            assert model.read("tensors", name, "f32") == floats(n)


def test_a_second_tensor_or_key_of_a_name_has_a_name_of_its_own_and_a_warning(work):
    file = File().key("k", U32, 1).key("k", U32, 2).key("k", U32, 3)
    with mount(work, file.tensor("a", 0, [1], floats(1)).tensor("a", 0, [1], floats(2))) as model:
        assert os.listdir(model / "metadata") == ["k", "k%#2", "k%#3"]
        assert [model.text("metadata", k) for k in ("k", "k%#2", "k%#3")] == ["1", "2", "3"]
        assert os.listdir(model / "tensors") == ["a", "a%#2"]
        assert model.read("tensors/a%#2/f32") == floats(2)
        assert len(model.warnings) == 3, model.warnings


YAML_NAMES = ["yes", "null", "3", "- x", "a: b", "#", "'quoted'", '"', "[1]", "~", " blank", "end ",
              "é🦙", "new\nline", "tab\t", "\x1b[0m", "back\\slash", "", "u\u0085\u2028", "@a", "1e3"]  # fmt: skip


def test_every_tensors_info_is_yaml_with_the_right_name(work):
    file = File()
    for n, name in enumerate(YAML_NAMES):
        file.tensor(name, 8, [32, n + 1], Q8_BLOCK * (n + 1))
    with mount(work, file) as model:
        for n, folder in enumerate(os.listdir(model / "tensors")):
            text = model.text("tensors", folder, "info")
            assert text.isprintable() or text.replace("\n", "").isprintable(), text
            info = yaml.safe_load(text)
            assert info["name"] == YAML_NAMES[n], text
            assert (info["type"], info["shape"], info["dims"]) == ("Q8_0", [n + 1, 32], [32, n + 1])
            assert (info["raw_bytes"], info["f32_bytes"]) == (34 * (n + 1), 128 * (n + 1))
        info = yaml.safe_load(model.text("info"))
        assert info["types"] == {"Q8_0": len(YAML_NAMES)} and info["file"] == str(model.model)


def test_at_most_ten_warnings_are_printed_and_then_a_count(work):
    file = File()
    for n in range(25):
        file.key("same", U32, n)
    with mount(work, file) as model:
        assert len(model.warnings) == 11, model.warnings
        assert "14" in model.warnings[10], model.warnings[10]
        assert len(os.listdir(model / "metadata")) == 25


# --- Layout


@pytest.mark.parametrize("alignment", [8, 16, 64, 4096])
def test_raw_is_what_was_written_at_any_alignment_and_header_length(work, alignment):
    for length in range(32):
        file = File(alignment=alignment).key("pad", STRING, "x" * length)
        file.tensor("a", 24, [7], b"tensorA").tensor("b", 24, [33], b"B" * 33)
        with mount(work, file.tensor("c", 24, [1], b"c")) as model:
            written = [model.read("tensors", name, "raw") for name in "abc"]
            assert written == [b"tensorA", b"B" * 33, b"c"], length


def test_a_missing_last_padding_and_junk_at_the_end_are_accepted(work):
    data = base().build()
    for each in (data.rstrip(b"\0"), data + b"junk" * 250_000):
        with mount(work, each) as model:
            assert len(model.read("tensors/b/raw")) == 68
            assert model.read("tensors/a/f32") == floats(*(n / 4 - 1 for n in range(12)))


def test_a_file_without_tensors_mounts(work):
    data = File().key("general.name", STRING, "vocabulary only").build().rstrip(b"\0")
    with mount(work, data) as model:
        assert os.listdir(model / "tensors") == []
        assert model.text("metadata/general.name") == "vocabulary only"


@pytest.mark.parametrize("at", [0, 1, 2])
def test_empty_tensors_are_empty_files_and_their_neighbours_right(work, at):
    tensors = [("one", [4], floats(1, 2, 3, 4)), ("two", [2], floats(5, 6))]
    tensors.insert(at, ("none", [0], b""))
    tensors.insert(at, ("nothing", [4, 0], b""))
    file = File()
    for name, dims, data in tensors:
        file.tensor(name, 0, dims, data)
    with mount(work, file) as model:
        for name, _, data in tensors:
            for view in ("raw", "f32"):
                assert gguffs.output("cat", model / "tensors" / name / view, text=False) == data
        assert np.fromfile(model / "tensors/none/f32", "<f4").size == 0


def test_a_scalar_and_six_dimensions_mount(work):
    file = File().tensor("scalar", 0, [], floats(7)).tensor("six", 0, [1, 2, 1, 1, 1, 1], floats(1, 2))
    with mount(work, file) as model:
        assert model.read("tensors/scalar/f32") == floats(7)
        assert model.info("tensors/scalar")["shape"] == "[]"
        assert model.info("tensors/six")["shape"] == "[1, 1, 1, 1, 2, 1]"


def test_offsets_out_of_order_with_gaps_or_overlaps_are_shown_with_a_warning(work):
    file = base()
    for offsets in ([96, 0], [0, 128], [0, 32]):
        data = file.header(offsets) + bytes(range(256)) * 2
        with mount(work, data) as model:
            assert model.warnings
            for name, size, at in (("a", 48, offsets[0]), ("b", 68, offsets[1])):
                want = data[len(file.header()) + at :][:size]
                assert model.read("tensors", name, "raw") == want, offsets


@pytest.mark.parametrize("kind", [4, 31, 99, 142, 153, 0xFFFFFFFF])
def test_an_unknown_type_degrades_its_tensor_alone(work, kind):
    file = File().tensor("first", 0, [2], floats(1, 2)).tensor("odd", kind, [32], bytes(range(64)))
    with mount(work, file.tensor("last", 8, [32], Q8_BLOCK)) as model:
        assert len(model.warnings) == 1 and str(kind) in model.warnings[0], model.warnings
        assert sorted(os.listdir(model / "tensors/odd")) == ["info", "raw"]
        info = model.info("tensors/odd")
        assert info["type"] == f"unknown ({kind})" and info["block"] == "unknown"
        assert "f32_bytes" not in info and "note" in info
        assert model.read("tensors/odd/raw") == bytes(range(64))
        assert model.read("tensors/first/f32") == floats(1, 2)
        assert np.fromfile(model / "tensors/last/f32", "<f4").tolist() == list(range(32))


def test_nvfp4_says_that_its_companion_scale_is_not_applied(work):
    blocks = bytes([0x38] * 4) + bytes(range(32))
    file = File().tensor("w.weight", 40, [64], blocks).tensor("w.scale", 0, [1], floats(2))
    with mount(work, file) as model:
        assert "scale" in model.info("tensors/w.weight")["note"]
        assert np.fromfile(model / "tensors/w.weight/f32", "<f4")[:2].tolist() == [0.0, 0.5]


def test_offsets_beyond_4_gib_are_not_cut(work):
    marks = {(1 << 31) - 32: floats(1), 1 << 32: floats(2), 9 << 29: floats(3)}
    file = File()
    for n in range(len(marks)):
        file.tensor(f"t{n}", 0, [1], floats(0))
    head = file.header(list(marks))
    with open(work / "model.gguf", "wb") as sparse:
        sparse.write(head)
        sparse.truncate(5 << 30)
        for at, data in marks.items():
            os.pwrite(sparse.fileno(), data, len(head) + at)
    with Mount(work / "model.gguf", work) as model:
        for n, (at, data) in enumerate(marks.items()):
            assert model.read(f"tensors/t{n}/raw") == model.read(f"tensors/t{n}/f32") == data
            assert int(model.info(f"tensors/t{n}")["file_offset"]) == len(head) + at
        assert "bytes: 5368709120" in model.text("info")


# --- Versions and byte orders


def test_versions_1_2_and_3_show_the_same_tree(work):
    trees = []
    for version in (1, 2, 3):
        file = base()
        file.version = version
        with mount(work, file) as model:
            assert f"version: {version}" in model.text("info")
            trees.append([model.read("metadata/test.block_count"), model.read("tensors/b/f32"),
                          model.info("tensors/b")["shape"], os.listdir(model / "tensors")])  # fmt: skip
    assert trees[0] == trees[1] == trees[2]


def test_a_big_endian_file_has_the_same_values_little_endian(work):
    file = File(order=">").key("u", U32, 7).key("d", F64, 0.1).key("s", STRING, "text")
    file.key("list", (ARRAY, U16), [1, 65535])
    file.tensor("f32", 0, [2], struct.pack(">2f", 1.5, -2)).tensor("f16", 1, [2], b"\x3c\0\xc0\0")
    with mount(work, file.tensor("q8", 8, [32], b"\x3c\x00" + bytes(range(32)))) as model:
        assert "endianness: big" in model.text("info")
        assert [model.text("metadata", k) for k in "uds"] == ["7", "0.1", "text"]
        assert model.text("metadata/list") == "1\n65535"
        assert model.read("tensors/f32/f32") == floats(1.5, -2)
        assert model.read("tensors/f16/f32") == floats(1, -2)
        assert model.read("tensors/q8/f32") == floats(*range(32))


# --- Values


def test_f32_reshapes_to_the_array_that_gguf_py_wrote(work):
    import gguf

    array = np.arange(40, dtype=np.float32).reshape(4, 10)
    writer = gguf.GGUFWriter(work / "model.gguf", "test")
    writer.add_tensor("a", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with Mount(work / "model.gguf", work) as model:
        assert model.info("tensors/a")["shape"] == "[4, 10]"
        assert model.info("tensors/a")["dims"] == "[10, 4]"
        read = np.fromfile(model / "tensors/a/f32", "<f4").reshape(4, 10)
        assert np.array_equal(read, array)


def test_bf16_is_widened_exactly(work):
    halves = [0x3F80, 0x7F80, 0x7FC1, 0x8000, 0x0001]
    file = File().tensor("t", 30, [5], struct.pack("<5H", *halves))
    with mount(work, file) as model:
        assert model.read("tensors/t/f32") == struct.pack("<5I", *(half << 16 for half in halves))


def test_integers_and_f64_convert_to_the_nearest_f32(work):
    tensors = {
        "I8": (24, np.array([-128, 127], np.int8)),
        "I16": (25, np.array([-32768, 32767], np.int16)),
        "I32": (26, np.array([-(2**31), 2**24 + 1], np.int32)),
        "I64": (27, np.array([2**53 + 1, -(2**63)], np.int64)),
        "F64": (28, np.array([1e300, 0.1], np.float64)),
    }
    file = File()
    for name, (kind, values) in tensors.items():
        file.tensor(name, kind, [2], values.tobytes())
    with mount(work, file) as model, np.errstate(over="ignore"):
        for name, (_, values) in tensors.items():
            assert model.read("tensors", name, "raw") == values.tobytes()
            assert model.read("tensors", name, "f32") == values.astype("<f4").tobytes(), name
