"""`gguf-fs ls` and `gguf-fs cat` give what the mount gives."""

import os

import gguffs
from gguffs import BINARY, SAMPLE, gguf_fs, output
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


def test_ls_l_shows_the_mounts_sizes(sample):
    for folder in ("metadata", "tensors/token_embd.weight", "npy"):
        for line in output(BINARY, "ls", "-l", SAMPLE, folder).splitlines():
            mode, size, name = line.split(maxsplit=2)
            assert mode == "-r--r--r--" and int(size) == (sample / folder / name).stat().st_size


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
