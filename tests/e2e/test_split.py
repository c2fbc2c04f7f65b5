"""Split models: the whole one from any shard, and what is refused because it does not fit."""

import hashlib
import json
import os
import struct

import crafted
import gguffs
import pytest
from crafted import I32, STRING, U16, File
from gguffs import Mount, best, elapsed
from test_values import reader_of

CORPUS = gguffs.TOP / "tests/data/valid"


def name(number, count, stem="m"):
    return f"{stem}-{number:05}-of-{count:05}.gguf"


def shard(number, count, total):
    """A shard less its tensors; number from 1."""
    file = File().key("general.name", STRING, "whole") if number == 1 else File()
    file.key("split.no", U16, number - 1).key("split.count", U16, count)
    return file.key("split.tensors.count", I32, total)


def write(folder, shards):
    """The shards' files, under the names of a set."""
    paths = [folder / name(number, len(shards)) for number in range(1, len(shards) + 1)]
    for path, file in zip(paths, shards):
        path.write_bytes(file.build())
    return paths


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def small(count=3):
    """A set of shards of two tensors each, `t1a` and `t1b` in the first."""
    shards = [shard(number, count, 2 * count) for number in range(1, count + 1)]
    for number, file in enumerate(shards, 1):
        for half in "ab":
            file.tensor(f"t{number}{half}", 0, [2], floats(number, ord(half)))
    return shards


def tensors_of(*numbers):
    return [f"t{number}{half}" for number in numbers for half in "ab"]


# --- The real model


@pytest.fixture(scope="module")
def gemma_shards(gemma, module_work):
    """The real model in three files of as many tensors, the first with all metadata."""
    whole = crafted.read_by(reader_of(gguffs.GEMMA))
    count = len(whole.tensors)
    shards = [shard(number, 3, count) for number in (1, 2, 3)]
    shards[0].keys = whole.keys + shards[0].keys[1:]
    for at, tensor in enumerate(whole.tensors):
        shards[3 * at // count].tensor(*tensor)
    return write(module_work, shards)


def hashes(mount):
    """Every tensor's name, in order, with the hashes of its two views."""
    found = []
    for tensor in os.listdir(mount / "tensors"):
        for view in ("raw", "f32"):
            with open(mount / "tensors" / tensor / view, "rb") as file:
                found.append((tensor, view, hashlib.file_digest(file, "sha256").hexdigest()))
    return found


@pytest.fixture(scope="module")
def unsplit(gemma):
    return hashes(gemma)


@pytest.mark.parametrize("named", [0, 1, 2])
def test_the_real_model_in_three_shards_is_the_unsplit_one(gemma, unsplit, gemma_shards, work, named):
    with Mount(gemma_shards[named], work) as mount:
        assert not mount.warnings
        assert hashes(mount) == unsplit
        keys = os.listdir(gemma / "metadata")
        assert os.listdir(mount / "metadata") == [
            *keys, "split.no", "split.count", "split.tensors.count"]  # fmt: skip
        for key in keys:
            assert mount.read("metadata", key) == gemma.read("metadata", key), key


def test_the_real_model_as_a_download_cache_links_it_is_the_unsplit_one(unsplit, gemma_shards, work):
    blobs, snapshot = work / "blobs", work / "snapshots/0123abcd"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, path in enumerate(gemma_shards, 1):
        blob = blobs / hashlib.sha256(path.name.encode()).hexdigest()
        path.rename(blob)  # And back, for the other tests.
        (snapshot / name(number, 3, "gemma")).symlink_to(f"../../blobs/{blob.name}")
    (work / "latest").symlink_to("snapshots/0123abcd")
    try:
        with Mount(work / "latest" / name(2, 3, "gemma"), work) as mount:
            assert not mount.warnings
            assert hashes(mount) == unsplit
            first = work / "latest" / name(1, 3, "gemma")
            assert mount.info()["file"] == str(first)
    finally:
        for path in gemma_shards:
            (blobs / hashlib.sha256(path.name.encode()).hexdigest()).rename(path)


# --- What is shown


def test_infos_are_of_the_shard_and_of_the_set(work):
    paths = write(work, small())
    for path in paths:
        with Mount(path, work) as mount:
            assert os.listdir(mount / "tensors") == tensors_of(1, 2, 3)
            assert mount.text("metadata/general.name") == "whole"
            lines = mount.text("info").split("\n")
            assert lines[:2] == [f"file: {paths[0]}", "shards: 3"]
            assert f"bytes: {sum(each.stat().st_size for each in paths)}" in lines
            for number, stored in enumerate(paths, 1):
                info = mount.info(f"tensors/t{number}b")
                assert info["shard"] == str(number)
                bytes_there = stored.read_bytes()[int(info["file_offset"]) :][:8]
                assert mount.read(f"tensors/t{number}b/raw") == bytes_there == floats(number, ord("b"))


def test_every_view_of_a_set_reads_across_its_shards(work):
    [path, *_] = write(work, small())
    with Mount(path, work) as mount:
        values = b"".join(floats(n, ord(half)) for n in (1, 2, 3) for half in "ab")
        assert mount.read("safetensors/f32.safetensors").endswith(values)
        model = json.loads(mount.read("model.json"))
        assert [tensor["shard"] for tensor in model["tensors"].values()] == [1, 1, 2, 2, 3, 3]
        assert len(os.listdir(mount / "npy")) == 6


@pytest.mark.parametrize("named", [1, 2, 3])
def test_a_set_with_known_values_has_them(work, named):
    known = []
    for number in (1, 2, 3):
        text = (CORPUS / f"{name(number, 3, 'split')}.expected.json").read_text()
        known += [(number, tensor) for tensor in json.loads(text)["tensors"]]
    with Mount(CORPUS / name(named, 3, "split"), work) as mount:
        assert not mount.warnings
        assert os.listdir(mount / "tensors") == [tensor["name"] for _, tensor in known]
        digest = lambda *names: hashlib.sha256(mount.read("tensors", *names)).hexdigest()  # noqa: E731
        for number, tensor in known:
            assert mount.info("tensors", tensor["name"])["shard"] == str(number)
            assert digest(tensor["name"], "raw") == tensor["raw_sha256"]
            assert digest(tensor["name"], "f32") == tensor["f32"]["sha256"]


# --- Sets that do not fit


def with_key(number, key, value):
    """The small set with another value of a key in one shard."""
    shards = small()
    keys = shards[number - 1].keys
    [at] = [at for at, (each, *_) in enumerate(keys) if each == key]
    keys[at] = (key, keys[at][1], value)
    return shards


def with_tensor(number, tensor, total):
    """The small set with a tensor more in one shard, which all of them count."""
    shards = small()
    shards[number - 1].tensor(tensor, 0, [2], floats(8, 9))
    for file in shards:
        file.keys = [(k, kind, total if k == "split.tensors.count" else v) for k, kind, v in file.keys]
    return shards


def of_two_models(number, *tensors):
    """The small set, one shard of which is another model's, of nine tensors."""
    shards = small()
    shards[number - 1] = shard(number, 3, 9)
    for tensor in tensors:
        shards[number - 1].tensor(tensor, 0, [2], floats(7, 7))
    return shards


MISFITS = {
    # The shards, which one the message names and what it says, the tensors that --lenient shows.
    "split.no": (with_key(2, "split.no", 0), 2, "split.no is 0", tensors_of(1, 2, 3)),
    "split.count": (with_key(3, "split.count", 4), 3, "split.count is 4", tensors_of(1, 2, 3)),
    "total": (with_key(2, "split.tensors.count", 7), 2, "count is 7", tensors_of(1, 2, 3)),
    "name twice": (with_tensor(3, "t1b", 7), 3, "t1b", [*tensors_of(1, 2, 3), "t1b%#2"]),
    "too many tensors": (with_tensor(2, "new", 6), 1, "count is 6",
                         ["t1a", "t1b", "t2a", "t2b", "new", "t3a", "t3b"]),
    "two models": (of_two_models(2, "x", "y"), 2, "count is 9", ["t1a", "t1b", "x", "y", "t3a", "t3b"]),
    "two models, same names": (of_two_models(2, "t2a", "t3a"), 3, "t3a",
                               ["t1a", "t1b", "t2a", "t3a", "t3a%#2", "t3b"]),
}  # fmt: skip


@pytest.mark.parametrize("named", [1, 2, 3])
@pytest.mark.parametrize("what", MISFITS)
def test_a_set_that_does_not_fit_is_refused_naming_the_file(work, what, named):
    shards, wrong, says, shown = MISFITS[what]
    paths = write(work, shards)
    message = gguffs.refusal(paths[named - 1], work)
    assert message.startswith(f"gguf-fs: {paths[wrong - 1]}: ") and says in message, message
    assert "--lenient" in message
    with Mount(paths[named - 1], work, "--lenient") as mount:
        assert mount.warnings
        assert os.listdir(mount / "tensors") == shown


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_missing_shard_is_refused_by_name_and_left_out_if_lenient(work, gone):
    paths = write(work, small())
    paths.pop(gone - 1).unlink()
    for path in paths:
        message = gguffs.refusal(path, work)
        assert message.startswith(f"gguf-fs: {work / name(gone, 3)}: ") and "missing" in message
    with Mount(paths[0], work, "--lenient") as mount:
        [warning] = mount.warnings
        assert name(gone, 3) in warning
        there = [number for number in (1, 2, 3) if number != gone]
        assert os.listdir(mount / "tensors") == tensors_of(*there)
        for number in there:
            assert mount.read(f"tensors/t{number}a/f32") == floats(number, ord("a"))


def test_a_cut_shard_is_refused_by_name_and_gives_eio_if_lenient(work):
    paths = write(work, small())
    os.truncate(paths[1], paths[1].stat().st_size - 28)
    assert gguffs.refusal(paths[0], work).startswith(f"gguf-fs: {paths[1]}: tensor t2b needs bytes")
    with Mount(paths[0], work, "--lenient") as mount:
        with pytest.raises(OSError, match="Input/output error"):
            mount.read("tensors/t2b/f32")
        assert mount.read("tensors/t2a/f32") == floats(2, ord("a"))
        assert mount.read("tensors/t3b/f32") == floats(3, ord("b"))


# --- Many


def test_a_hundred_shards_mount_in_milliseconds(work, measured):
    paths = write(work, small(100))
    (work / "mnt").mkdir()

    def start():
        seconds = elapsed(gguffs.output, gguffs.BINARY, paths[50], work / "mnt")
        assert len(os.listdir(work / "mnt/tensors")) == 200
        assert gguffs.unmount(work / "mnt").returncode == 0
        return seconds

    seconds = best(0.05, start)
    measured(f"100 shards mounted in {seconds * 1e3:.1f} ms")
    assert seconds < 0.05
