"""The tools of every day on a mount: each reads what it should and none complains."""

import ctypes
import mmap
import os
import random
import subprocess

import gguffs
import numpy as np
import pytest
from gguffs import output


def all_files(top):
    return [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]


@pytest.fixture(scope="module")
def copy(sample, module_work):
    """A copy of the whole tree as `cp -r` makes it."""
    target = module_work / "copy"
    output("cp", "-r", sample.path, target)
    return target


def test_every_size_is_the_number_of_bytes_that_each_tool_reads(sample, work):
    for path in all_files(sample.path):
        size = int(output("stat", "-c", "%s", path))
        assert size == len(output("cat", path, text=False)), path
        assert size == int(output("wc", "-c", path).split()[0]), path
        assert size == len(output("busybox", "cat", path, text=False)), path
        assert size == len(output("dd", f"if={path}", "bs=1M", "status=none", text=False)), path
        output("cp", "--remove-destination", path, work / "copied")
        assert size == (work / "copied").stat().st_size, path


def test_cp_r_brings_every_byte(sample, copy):
    for path in all_files(sample.path):
        output("cmp", path, copy / os.path.relpath(path, sample.path))
    assert sorted(os.path.relpath(path, copy) for path in all_files(copy)) == sorted(
        os.path.relpath(path, sample.path) for path in all_files(sample.path)
    )


def test_cp_a_and_tar_with_xattrs_are_silent(sample, work):
    output("cp", "-a", sample.path, work / "copy")
    output("tar", "-C", sample.path, "--xattrs", "-cf", work / "tree.tar", ".")
    assert output("diff", "-r", sample.path, work / "copy") == ""


def test_tar_lists_what_find_lists(sample):
    listed = output("sh", "-c", 'tar -C "$0" -cf - . | tar -tf -', sample.path).splitlines()
    found = output("sh", "-c", 'cd "$0" && find .', sample.path).splitlines()
    assert sorted(name.rstrip("/") for name in listed) == sorted(found)


def test_tar_out_of_a_mount_unpacks_to_the_same_tree(sample, copy, work):
    output("sh", "-c", 'tar -C "$0" -cf - . | tar -C "$1" -xf - --no-same-owner', sample.path, work)
    assert output("diff", "-r", work, copy) == ""


def test_ls_lR_find_and_du_agree_on_the_tree(sample):
    files, folders = all_files(sample.path), [f for f, *_ in os.walk(sample.path)]
    long_list = output("ls", "-lR", sample.path).splitlines()
    assert len([line for line in long_list if line.startswith("-r--r--r--")]) == len(files)
    assert len(output("find", sample.path, "-type", "f").splitlines()) == len(files)
    assert len(output("find", sample.path, "-type", "d").splitlines()) == len(folders)
    total = int(output("du", "-s", "--apparent-size", "-B1", sample.path).split()[0])
    assert total == sum(os.path.getsize(each) for each in files + folders)


def test_two_mounts_of_one_file_show_no_difference(sample, module_work):
    with gguffs.Mount(gguffs.SAMPLE, module_work, name="second") as second:
        assert output("diff", "-r", sample.path, second.path) == ""


@pytest.mark.parametrize("view", ["raw", "f32"])
def test_dd_at_odd_offsets_and_block_sizes_gives_slices_of_the_whole(sample, view):
    for name in ("blk.0.attn_q.weight", "blk.1.attn_k.weight", "token_embd.weight", "output.scale"):
        path = sample / "tensors" / name / view
        whole = path.read_bytes()
        for block in (1, 3, 13, 17, 4095, 4097, 131071):
            for skip in {0, 1, 7, len(whole) // block // 2, len(whole) // block}:
                count = min(7, 200000 // block + 1)
                part = output("dd", f"if={path}", f"bs={block}", f"skip={skip}", f"count={count}",
                              "status=none", text=False)  # fmt: skip
                assert part == whole[skip * block :][: count * block], (name, block, skip)


@pytest.mark.parametrize("view", ["raw", "f32"])
def test_direct_reads_agree_with_buffered_ones(sample, view):
    for name in ("blk.0.attn_q.weight", "blk.1.attn_k.weight"):
        path = sample / "tensors" / name / view
        for block in (512, 4096, 5 * 512, 1 << 20):
            part = output("dd", f"if={path}", f"bs={block}", "iflag=direct", "status=none",
                          text=False)  # fmt: skip
            assert part == path.read_bytes(), (name, block)


def test_reads_at_random_places_agree_with_one_big_read(sample):
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    rng = random.Random(seed)
    for path in all_files(sample.path):
        with open(path, "rb", buffering=0) as file:
            whole = file.readall()
            for _ in range(50):
                at, length = rng.randrange(len(whole) + 9), rng.choice([0, 1, 5, 4096, 70001])
                assert os.pread(file.fileno(), length, at) == whole[at : at + length], path


def test_reads_at_and_after_the_end_are_empty(sample):
    for path in all_files(sample.path):
        size = os.path.getsize(path)
        with open(path, "rb", buffering=0) as file:
            assert os.pread(file.fileno(), 4096, size) == b""
            assert len(os.pread(file.fileno(), 4096, max(size - 1, 0))) == min(size, 1)
            assert os.pread(file.fileno(), 4096, size + 4097) == b""
            assert os.pread(file.fileno(), 4096, 1 << 62) == b""


def test_numpy_reads_and_maps_raw_and_f32(sample):
    for folder in (sample / "tensors").iterdir():
        raw = np.memmap(folder / "raw", np.uint8, "r")
        assert np.array_equal(raw, np.fromfile(folder / "raw", np.uint8))
        floats = np.memmap(folder / "f32", "<f4", "r")
        assert floats.tobytes() == np.fromfile(folder / "f32", "<f4").tobytes()
        shape = [int(n) for n in sample.info("tensors", folder.name)["shape"][1:-1].split(",")]
        assert floats.reshape(shape).shape == tuple(shape)


@pytest.mark.parametrize("flags", [mmap.MAP_SHARED, mmap.MAP_PRIVATE], ids=["shared", "private"])
def test_mmap_shows_the_bytes_of_every_file(sample, flags):
    for path in all_files(sample.path):
        with open(path, "rb") as file:
            if data := file.read():
                with mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ) as mapping:
                    assert mapping[:] == data, path


def test_sendfile_and_splice_bring_every_byte(sample, work):
    path = sample / "tensors/token_embd.weight/f32"
    with open(path, "rb") as source, open(work / "sent", "wb") as target:
        while os.sendfile(target.fileno(), source.fileno(), None, 1 << 16):
            pass
    assert (work / "sent").read_bytes() == path.read_bytes()
    piped = subprocess.run(["sh", "-c", 'cat "$0" | cat', path], stdout=subprocess.PIPE, check=True)
    assert piped.stdout == path.read_bytes()


def listing(path, size):
    """The names in a folder, read with getdents64 in buffers of this size."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer, names = ctypes.create_string_buffer(size), []
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while (got := libc.getdents64(fd, buffer, size)) > 0:
            at = 0
            while at < got:
                length = int.from_bytes(buffer[at + 16 : at + 18], "little")
                names.append(buffer[at + 19 : at + length].split(b"\0")[0])
                at += length
        assert got == 0, os.strerror(ctypes.get_errno())
    finally:
        os.close(fd)
    return [name for name in names if name not in (b".", b"..")]


@pytest.mark.parametrize("size", [512, 4096, 1 << 20])
def test_a_listing_is_the_same_in_buffers_of_any_size(sample, size):
    for folder in ("", "metadata", "tensors", "tensors/output_norm.weight"):
        names = listing(sample / folder, size)
        assert names == [os.fsencode(name) for name in os.listdir(sample / folder)]
        assert len(set(names)) == len(names)


def test_listing_20000_tensors_loses_and_repeats_none(work):
    from crafted import File

    file = File()
    for n in range(20_000):
        file.tensor(f"t.{n}", 24, [1], b"\x01")
    (work / "many.gguf").write_bytes(file.build())
    with gguffs.Mount(work / "many.gguf", work) as mount:
        assert int(output("sh", "-c", 'ls -U "$0" | wc -l', mount / "tensors")) == 20_000
        small = listing(mount / "tensors", 512)
        assert small == [b"t.%d" % n for n in range(20_000)]
        # A reader that remembers where it was, and comes back.
        fd = os.open(mount / "tensors", os.O_RDONLY | os.O_DIRECTORY)
        assert len(os.listdir(fd)) == 20_000
        os.close(fd)


def test_ls_U_keeps_the_order_of_the_file(sample):
    names = output("ls", "-U", sample / "tensors").splitlines()
    assert names[:3] == ["token_embd.weight", "rope_freqs.weight", "blk.0.attn_norm.weight"]
    assert output("ls", "-U", sample / "tensors" / names[0]).split() == ["info", "raw", "f32"]
