"""Timing of reads, what a daemon did meanwhile, and the table that comes out."""

import mmap
import os
import pathlib
import platform
import re
import statistics
import time

import gguffs

MIB = 1 << 20
BUFFER = mmap.mmap(-1, MIB)
BUFFER.write(bytes(MIB))


def read(path, start=0, length=1 << 62):
    """Reads a file, or a part of it, in steps of 1 MiB into one buffer; bytes a second."""
    begin, at, end = time.perf_counter(), start, start + length
    fd = os.open(path, os.O_RDONLY)
    while at < end and (got := os.preadv(fd, [memoryview(BUFFER)[: end - at]], at)):
        at += got
    os.close(fd)
    return (at - start) / (time.perf_counter() - begin)


def warm(*paths):
    """Brings files into the kernel's page cache."""
    for path in paths:
        read(path)


def spawn(*command):
    """Seconds that a command takes, its output thrown away."""
    start = time.perf_counter()
    pid = os.posix_spawnp(
        command[0],
        [str(word) for word in command],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)],
    )
    _, status = os.waitpid(pid, 0)
    assert status == 0, (command, status)
    return time.perf_counter() - start


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    warm(gguffs.BINARY)


def interleaved(n, **calls):
    """Medians of n rounds; each call has its turn in each, every other round backwards."""
    results = {name: [] for name in calls}
    for i in range(n):
        for name in list(calls)[:: 1 - i % 2 * 2]:
            results[name].append(calls[name]())
    return {name: statistics.median(values) for name, values in results.items()}


def first(n, model, work, call=read, **places):
    """The same for places in a mount of the model, which is mounted anew in each round."""
    results = {name: [] for name in places}
    for i in range(n):
        with Mount(model, work) as mount:
            for name in list(places)[:: 1 - i % 2 * 2]:
                results[name].append(call(mount / places[name]))
    return {name: statistics.median(values) for name, values in results.items()}


class Mount(gguffs.Mount):
    """A mount; `Mount.peak` is the most anonymous memory that a daemon held at the end of one."""

    peak = 0

    def requests(self):
        """How often a thread of the daemon was woken: stands still while no request arrives."""
        threads = pathlib.Path(f"/proc/{self.pid}/task").glob("*/status")
        pattern = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)", re.M)
        return sum(int(pattern.search(thread.read_text())[1]) for thread in threads)

    def __exit__(self, *error):
        Mount.peak = max(Mount.peak, gguffs.status(self.pid, "RssAnon"))
        super().__exit__(*error)


class Table:
    """Prints a row a measurement; a row that misses its target is kept in `short`."""

    def __init__(self):
        self.short = []

    def section(self, name, about, *columns):
        self.name = name
        print(f"\n== {name}: {about}", flush=True)
        print(f"{'':32}" + "".join(f"{column:>14}" for column in (*columns, "target")))

    def row(self, label, *values, least=None, most=None):
        """The last of the values is what a target is for. None leaves a column empty."""
        verdict, target, last = "", "", values[-1]
        if last is not None and (least is not None or most is not None):
            target = f">= {least}" if most is None else f"<= {most}"
            verdict = "ok" if (last >= least if most is None else last <= most) else "SHORT"
        line = f"{label:32}" + "".join(f"{number(value):>14}" for value in values)
        print(f"{line}{target:>14}  {verdict}".rstrip(), flush=True)
        if verdict == "SHORT":
            self.short.append(f"{self.name}: {label}: {number(last)}, wanted {target}")


def number(value):
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def machine():
    """One line on where this runs."""
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE >> 30
    kernel = f"{platform.system()} {platform.release()}"
    load = f"load {os.getloadavg()[0]:.1f}"
    name = cpu[1] if cpu else platform.machine()
    return f"{name}, {os.cpu_count()} cores, {memory} GiB, {kernel}, {load}"
