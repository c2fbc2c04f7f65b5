"""What is measured: a function a section, in the order in which they run.

Where bytes a second are compared, both sides read files of the same size in the same way.
"""

import mmap
import multiprocessing
import os
import random
import subprocess
import time
from statistics import geometric_mean, median

import ggml
import gguf
import gguffs
import models
import numpy as np
from ggml import TYPES
from gguffs import elapsed
from measure import Mount, drop_caches, first, interleaved, read, spawn, warm
from safetensors import safe_open

MB = 1e6
ms = 1e3
F32_RAW = "tensors/F32/raw"
HUGE_F32 = "tensors/blk.0.part_0.weight/f32"
GEMMA_RAW, GEMMA_F32 = (f"tensors/{models.GEMMA_TENSOR}/{view}" for view in ("raw", "f32"))


def gemma():
    """Whether the real model is there; says so where it is not."""
    if not models.GEMMA.exists():
        print("left out: the Gemma model, which scripts/fetch-model gets")
    return models.GEMMA.exists()


def ratio_row(table, label, speeds, **target):
    """A row of two speeds in MB/s and their ratio."""
    ours, theirs = speeds.values()
    table.row(label, ours / MB, theirs / MB, ours / theirs, **target)


def decoders(table, work):
    """each type's decoder, one thread, 256 KiB of floats at a time, against ggml's best"""
    n, elements = 3, 65536  # of which the best, to have both sides undisturbed
    cargo = ["cargo", "bench", "--locked", "--quiet", "--bench", "decode"]
    subprocess.run([*cargo, "--no-run"], cwd=gguffs.TOP, check=True)
    blocks = {kind: models.random_blocks(kind, elements, kind.id).tobytes() for kind in TYPES}
    ours, theirs = ({kind.name: [] for kind in TYPES} for _ in range(2))
    for _ in range(n):
        for name, speed in own_decoders(*cargo, "--", "--table").items():
            ours[name].append(speed)
        for kind in TYPES:
            theirs[kind.name].append(ggml.speed(kind, blocks[kind], elements))
    table.section("decoders", f"million elements a second, best of {n}", "ours", "ggml", "ratio")
    ratios = []
    for name, speeds in ours.items():
        speed = max(speeds)
        if theirs[name][0]:
            ratios.append(speed / max(theirs[name]))
            table.row(name, speed / 1e6, max(theirs[name]) / 1e6, ratios[-1], least=1)
        else:
            table.row(name, speed / 1e6, None, None)
        if speed < 2e9:
            table.row("  in 1000 million", speed / 1e9, least=2)
    table.row("geometric mean of the ratios", None, None, geometric_mean(ratios), least=2.5)


def own_decoders(*command):
    """Elements a second of each type's decoder at the CPU's highest level, which is named last."""
    lines = gguffs.run(*command, cwd=gguffs.TOP, seconds=120).stdout.splitlines()
    return {line.split()[0]: float(line.split()[2]) * 1e6 for line in lines[1:]}


def first_read(table, work):
    """f32 of each type against raw, both read for the first time through the mount"""
    n, model = 5, models.all_types()
    warm(model)
    table.section("first read", f"MB/s, n = {n}", "f32", "raw", "ratio")
    for kind in TYPES:
        speeds = first(n, model, work, f32=f"tensors/{kind.name}/f32", raw=F32_RAW)
        ratio_row(table, kind.name, speeds, least=0.9)
    if gemma():
        warm(models.GEMMA)
        speeds = first(n, models.GEMMA, work, f32=GEMMA_F32, raw=GEMMA_RAW)
        ratio_row(table, f"Gemma {models.GEMMA_TENSOR}", speeds, least=0.9)


def first_raw(table, work):
    """raw read for the first time against a plain file, both in the kernel's cache"""
    n, model, plain = 9, models.all_types(), models.plain("F32")
    warm(model, plain)
    table.section("first raw", f"MB/s, n = {n}", "raw", "plain file", "ratio")
    ratio_row(table, "F32, 64 MiB", first(n, model, work, raw=F32_RAW, plain=plain), least=0.35)
    if gemma():
        plain = models.plain("Gemma-raw")
        warm(models.GEMMA, plain)
        speeds = first(n, models.GEMMA, work, raw=GEMMA_RAW, plain=plain)
        ratio_row(table, f"Gemma {models.GEMMA_TENSOR}", speeds, least=0.35)


def second_read(table, work):
    """raw and f32 read again, opened anew, against a plain file; and what reaches the daemon"""
    n = 7
    table.section("second read", f"MB/s, n = {n}", "mount", "plain file", "ratio")

    def row(model, label, view, plain):
        # Each round in its own mount: the speed depends on where its pages come to lie. The second
        # read also moves each page to the kernel's list of active ones, the third does not.
        for count, name in enumerate(("second", "third"), start=1):
            again = lambda path: [read(path) for _ in range(count + 1)][count]
            speeds = first(n, model, work, again, mount=view, plain=plain)
            ratio_row(table, f"{label}, {name}", speeds, least=0.6)
        with Mount(model, work) as mount:
            read(mount / view)
            before = mount.requests()
            read(mount / view)
            table.row("  wakes of the daemon meanwhile", mount.requests() - before, most=0)

    plain = models.plain("F32")
    row(models.all_types(), "raw, 64 MiB", F32_RAW, plain)
    row(models.all_types(), "f32, 64 MiB", "tensors/Q4_K/f32", plain)
    if gemma():
        row(models.GEMMA, "Gemma raw", GEMMA_RAW, models.plain("Gemma-raw"))
        row(models.GEMMA, "Gemma f32", GEMMA_F32, models.plain("Gemma-f32"))


def cold_raw(table, work):
    """raw read with all caches dropped against the same bytes of the model file, cold too"""
    n = 7
    table.section("cold raw", f"MB/s, n = {n}", "mount", "model file", "ratio")
    if not gguffs.IS_ROOT:
        print("left out: dropping the caches needs root")
        return

    def cold(model, view):
        drop_caches()
        with Mount(model, work) as mount:
            return read(mount / view)

    def cold_file(model, start, length):
        drop_caches()
        return read(model, start, length)

    def row(model, label, tensor):
        with Mount(model, work) as mount:
            info = mount.info("tensors", tensor)
        part = int(info["file_offset"]), int(info["raw_bytes"])
        speeds = interleaved(
            n,
            raw=lambda: cold(model, f"tensors/{tensor}/raw"),
            f32=lambda: cold(model, f"tensors/{tensor}/f32"),
            file=lambda: cold_file(model, *part),
        )
        f32 = speeds.pop("f32") * part[1] / int(info["f32_bytes"])
        ratio_row(table, f"{label} raw", speeds, least=0.9)
        ratio_row(table, f"{label} f32, its stored bytes", speeds | {"raw": f32})

    row(models.all_types(), "F32", "F32")
    row(models.all_types(), "Q8_0", "Q8_0")
    if gemma():
        row(models.GEMMA, "Gemma", models.GEMMA_TENSOR)


def numpy(table, work):
    """np.fromfile of each type's f32, read for the first time, against a plain file and gguf-py"""
    n, model, plain = 3, models.all_types(), models.plain("F32")
    warm(model, plain)
    size = 4 * models.ELEMENTS

    def fromfile(path):
        return size / elapsed(np.fromfile, path, "<f4")

    def dequantize(kind):
        data = models.stored(kind.name).reshape(models.ROWS, -1)
        return size / elapsed(gguf.quants.dequantize, data, gguf.GGMLQuantizationType(kind.id))

    ours = {}
    table.section("numpy", f"np.fromfile, MB/s, n = {n}", "f32", "plain file", "ratio")
    for kind in TYPES:
        speeds = first(n, model, work, fromfile, f32=f"tensors/{kind.name}/f32", plain=plain)
        ratio_row(table, kind.name, speeds, least=0.4)
        ours[kind] = speeds["f32"]
    # gguf-py does not decode F32, it shows the mapped bytes.
    table.section("numpy", "the same against gguf-py's dequantize, MB/s", "f32", "gguf-py", "ratio")
    for kind in TYPES:
        try:
            theirs = kind.name != "F32" and dequantize(kind)
        except (NotImplementedError, ValueError):  # a type that gguf-py does not decode
            continue
        if theirs:
            ratio_row(table, kind.name, {"f32": ours[kind], "gguf": theirs}, least=1)


def safetensors(table, work):
    """the f32 safetensors file read for the first time against f32; one tensor of 64 GiB taken"""
    n, model, part = 9, models.huge(), 256 << 20
    places = {"safetensors": "safetensors/f32.safetensors", "f32": HUGE_F32}
    table.section("safetensors", f"MB/s, n = {n}", "safetensors", "f32", "ratio")
    beginning = lambda path: read(path, length=part)
    ratio_row(table, "Q4_K, 256 MiB", first(n, model, work, beginning, **places), least=0.85)
    if gemma():
        warm(models.GEMMA)
        speeds = first(n, models.GEMMA, work, **places | {"f32": GEMMA_F32})
        ratio_row(table, "Gemma, whole", speeds, least=0.85)

    def take(path):
        with safe_open(path, "np") as file:
            file.get_tensor("output_norm.weight")

    took = first(n, model, work, lambda path: elapsed(take, path) * ms, one=places["safetensors"])
    table.section("safetensors", f"safe_open and one small tensor, ms, n = {n}", "ms")
    table.row("64 GiB, 1,201 tensors", took["one"], most=50)


def start(table, work):
    """from the start of the program to the end of the first cat"""
    n, huge = 9, models.huge()
    mountpoint = work / "start"
    mountpoint.mkdir()
    script = '"$0" "$1" "$2" && exec cat "$2/metadata/general.architecture"'

    def answer(model):
        took = spawn("sh", "-c", script, gguffs.BINARY, model, mountpoint)
        gguffs.unmount(mountpoint)
        assert gguffs.wait_until(lambda: not gguffs.processes(mountpoint))
        return took * ms

    def reader(model):
        return elapsed(gguf.GGUFReader, model) * ms

    answer(huge)  # brings its header into the cache
    table.section("start", f"ms, n = {n}", "gguf-fs")
    if gemma():
        warm(models.GEMMA)
        calls = {"small": lambda: answer(models.GEMMA), "huge": lambda: answer(huge)}
        took = interleaved(n, **calls)
        table.row("Gemma", took["small"], most=15)
        table.row("64 GiB, 1,201 tensors", took["huge"])
        table.row("64 GiB against Gemma, ratio", took["huge"] / took["small"], most=2)
        table.row("gguf.GGUFReader, Gemma", reader(models.GEMMA))
    else:
        table.row("64 GiB, 1,201 tensors", interleaved(n, huge=lambda: answer(huge))["huge"])


def listing(table, work):
    """the whole tree of a model of 3,000 tensors, 12,000 files, listed twice"""
    n, model = 5, models.many()
    warm(model)
    table.section("listing", f"seconds, n = {n}", "seconds")

    def rows(label, *command, targets=(None, None)):
        took = {"first": [], "second": []}
        for _ in range(n):
            with Mount(model, work) as mount:
                for times in took.values():
                    times.append(spawn(*command, mount.path))
        for (which, times), target in zip(took.items(), targets):
            table.row(f"{label}, {which}", median(times), most=target)

    rows("ls -lR", "ls", "-lR", targets=(0.3, 0.1))
    rows("find", "find")
    rows("du", "du", "-s")
    rows("grep -r", "sh", "-c", '! grep -rq "no such word" "$0"')


def random_reads(table, work):
    """4 KiB anywhere in 64 MiB (Python's own time included), against a plain file"""
    model, plain, count = models.all_types(), models.plain("F32"), 4000
    warm(model, plain)
    table.section("random", f"microseconds a read, {count} reads", "mount", "plain file", "ratio")
    ways = {
        "buffered": (0, 4096),
        "buffered, odd offsets": (0, 1),
        "O_DIRECT": (os.O_DIRECT, 4096),
        "O_DIRECT, odd offsets": (os.O_DIRECT, 1),  # which a plain file refuses
    }
    for view in (F32_RAW, "tensors/Q4_K/f32", "tensors/IQ2_XS/f32"):
        for label, (flags, step) in ways.items():
            with Mount(model, work) as mount:
                ours = anywhere(mount / view, count, flags, step)
            theirs = anywhere(plain, count, flags, step) if step == 4096 or not flags else None
            table.row(f"{view[8:]}, {label}", ours, theirs, theirs and ours / theirs)
    for readers in (2, 8, 32):
        with Mount(model, work) as mount, multiprocessing.Pool(readers) as pool:
            path, share = mount / "tensors/Q4_K/f32", count // readers
            calls = [(path, share, os.O_DIRECT, 4096, seed) for seed in range(readers)]
            took = elapsed(pool.starmap, anywhere, calls)
            table.row(f"Q4_K/f32, O_DIRECT, {readers} readers", took / count * 1e6)


def anywhere(path, count, flags, step, seed=0):
    """Microseconds that a 4 KiB read takes at offsets that are multiples of `step`."""
    rng, buffer = random.Random(seed), mmap.mmap(-1, 4096)
    last = os.path.getsize(path) - 4096
    offsets = [rng.randrange(last // step) * step for _ in range(count)]
    fd = os.open(path, os.O_RDONLY | flags)
    start = time.perf_counter()
    for offset in offsets:
        os.preadv(fd, [buffer], offset)
    took = time.perf_counter() - start
    os.close(fd)
    return took / count * 1e6


def memory(table, work):
    """the most anonymous memory that the daemon holds, under load and in all sections that ran"""
    table.section("memory", "RssAnon, MiB", "MiB")
    loads = {
        "every f32, 8 readers": (models.all_types(), "cat tensors/*/f32", 8),
        "every npy and raw, 8 readers": (models.all_types(), "cat npy/* tensors/*/raw", 8),
        "vocabulary of 262,144, 8 readers": (models.huge(), "cat metadata/*", 8),
        "ls -lR and grep -r, 12,000 files": (models.many(), "ls -lR; grep -r a metadata info", 4),
    }
    if gemma():
        loads["Gemma as safetensors, 3 readers"] = (models.GEMMA, "cat safetensors/*", 3)
    for label, (model, script, readers) in loads.items():
        with Mount(model, work) as mount:
            command = ["sh", "-c", script]
            children = [
                subprocess.Popen(command, cwd=mount.path, stdout=subprocess.DEVNULL)
                for _ in range(readers)
            ]
            peak = 0
            while any(child.poll() is None for child in children):
                peak = max(peak, gguffs.status(mount.pid, "RssAnon"))
                time.sleep(0.005)
            assert not any(child.returncode for child in children), label
            Mount.peak = max(Mount.peak, peak)
        table.row(label, peak / (1 << 20), most=32)
    table.row("all sections of this run", Mount.peak / (1 << 20), most=32)


SECTIONS = {
    "decoders": decoders,
    "first-read": first_read,
    "first-raw": first_raw,
    "second-read": second_read,
    "cold-raw": cold_raw,
    "numpy": numpy,
    "safetensors": safetensors,
    "start": start,
    "listing": listing,
    "random": random_reads,
    "memory": memory,
}
