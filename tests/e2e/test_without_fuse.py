"""`gguf-fs ls` and `gguf-fs cat` give what the mount gives."""

import os
import pty
import re

import crafted
import gguffs
from gguffs import BINARY, SAMPLE, gguf_fs, output, run
from test_tools import all_files


def test_cat_gives_every_files_bytes(sample):
    for path in all_files(sample.path):
        name = os.path.relpath(path, sample.path)
        with open(path, "rb") as file:
            assert output(BINARY, "cat", SAMPLE, name, text=False) == file.read(), name


def test_cat_joins_files_and_takes_an_offset_and_a_length(sample):
    names = ["metadata/general.name", "tensors/output_norm.weight/f32"]
    whole = b"".join(sample.read(name) for name in names)
    assert output(BINARY, "cat", SAMPLE, *names, text=False) == whole
    path = "tensors/blk.0.attn_q.weight/f32"
    whole = sample.read(path)
    for offset, length in ((0, 0), (1, 1), (4095, 4098), (len(whole) - 3, 99), (len(whole) + 1, 5)):
        words = ["--offset", offset, "--length", length, SAMPLE, path]
        assert output(BINARY, "cat", *words, text=False) == whole[offset : offset + length]
    assert output(BINARY, "cat", "--offset", 7, SAMPLE, path, text=False) == whole[7:]


def test_ls_lists_the_names_in_the_mounts_order(sample):
    for folder in ("", "metadata", "tensors", "tensors/output_norm.weight", "npy", "safetensors"):
        listed = output(BINARY, "ls", SAMPLE, *([folder] if folder else [])).splitlines()
        assert listed == os.listdir(sample / folder), folder


def rows(*words):
    """The table of `ls -l`: name → (type, bytes, shape or value)."""
    lines = output(BINARY, "ls", "-l", *words).splitlines()
    found = [re.fullmatch(r"(\S+) +(\d+|-)  (\S+)(?: +(\S.*))?", line).groups() for line in lines]
    return {name: (kind, size, detail) for kind, size, name, detail in found}


def test_ls_l_shows_the_mounts_sizes(sample):
    for folder in ("", "metadata", "tensors/token_embd.weight", "npy", "safetensors"):
        table = rows(SAMPLE, *([folder] if folder else []))
        assert list(table) == os.listdir(sample / folder)
        for name, (kind, size, _) in table.items():
            path = sample / folder / name
            assert (kind, size) == ("folder", "-") if path.is_dir() else int(size) == path.stat().st_size


def test_ls_l_shows_types_shapes_and_values(sample):
    for name, (kind, size, shape) in rows(SAMPLE, "tensors").items():
        info = sample.info("tensors", name)
        assert (kind, size, shape) == (info["type"], info["raw_bytes"], info["shape"])
    metadata = rows(SAMPLE, "metadata")
    assert metadata["general.name"] == ("string", "13", "Sample Llama")
    assert metadata["llama.rope.freq_base"] == ("f32", "8", "10000.0")
    assert metadata["llama.attention.head_count_kv"] == ("i32[3]", "6", "4 4 2")
    kind, size, value = metadata["tokenizer.ggml.tokens"]
    assert kind == "string[303]" and value.startswith("<unk> <s> </s> ") and len(value) == 41
    assert rows(SAMPLE, "npy")["output.scale.npy"] == ("data", "4108", "[3]")


def test_the_columns_of_ls_l_are_aligned():
    for folder in ("metadata", "tensors"):
        lines = output(BINARY, "ls", "-l", SAMPLE, folder).splitlines()
        starts = {re.match(r"\S+ +\d+  \S+ +", line).end() for line in lines}
        assert len(starts) == 1, folder


def test_natural_order_counts_as_people_do(work):
    model = crafted.File()
    for n in (10, 9, 1, 2, 100):
        model.tensor(f"blk.{n}.w", 0, [1], bytes(4))
    (work / "model.gguf").write_bytes(model.build())
    names = [f"blk.{n}.w" for n in (1, 2, 9, 10, 100)]
    for flag in ("-n", "--natural"):
        assert output(BINARY, "ls", flag, work / "model.gguf", "tensors").splitlines() == names
    assert list(rows("-n", work / "model.gguf", "tensors")) == names


def on_a_terminal(*words, **environment):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {"TERM": "xterm"} | environment
    # Under CI=true clap takes any terminal for one with colours.
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CI")}
    result = run(*words, env=plain | environment, capture_output=False, stdout=theirs, text=False)
    os.close(theirs)
    assert result.returncode == 0
    with open(ours, "rb") as terminal:
        said = b""
        try:
            while part := terminal.read1():
                said += part
        except OSError:  # EIO is the end of a terminal.
            pass
    return said


def test_colour_is_for_terminals_that_want_it():
    words = [BINARY, "ls", "-l", SAMPLE, "tensors"]
    assert b"\x1b[" in on_a_terminal(*words)
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert b"\x1b" not in on_a_terminal(*words, **environment)
        assert b"\x1b" not in on_a_terminal(BINARY, "--help", **environment)
    assert "\x1b" not in output(*words)


def test_what_is_not_there_is_an_error_of_one_line(work):
    for words in (["cat", SAMPLE, "nothing"], ["ls", SAMPLE, "tensors/nothing"],
                  ["cat", SAMPLE, "tensors"], ["ls", work / "none.gguf"]):  # fmt: skip
        gguffs.refusal(*words)


def test_a_full_disk_is_an_error_and_a_closed_pipe_is_none():
    with open("/dev/full", "w") as full:
        result = gguf_fs("cat", SAMPLE, "tensors/token_embd.weight/f32", capture_output=False,
                         stdout=full, stderr=-1)  # fmt: skip
    assert result.returncode == 1 and result.stderr.count("\n") == 1, result
    command = '"$0" cat "$1" tensors/token_embd.weight/f32 | head -c 5 | wc -c'
    assert output("bash", "-o", "pipefail", "-c", command, BINARY, SAMPLE) == "5\n"
