"""Drives the gguf-fs program as a user does, and leaves nothing behind whatever happens."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("GGUF_FS_BIN") or str(TOP / "target/release/gguf-fs")
SAMPLE = TOP / "tests/data/sample.gguf"
GEMMA = TOP / "target/models/gemma-3-270m-q4_k_m.gguf"
PREFIX = "gguf-fs-test-"
IS_ROOT = os.geteuid() == 0


def run(*command, seconds=20, **options):
    """Runs a command to its end; the result has returncode, stdout and stderr (text)."""
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True} | options
    return subprocess.run([str(word) for word in command], timeout=seconds, **options)


def output(*command, **options):
    """The standard output of a command that must succeed without a word of complaint."""
    result = run(*command, **options)
    assert result.returncode == 0 and not result.stderr, (command, result)
    return result.stdout


def gguf_fs(*words, **options):
    return run(BINARY, *words, **options)


def refusal(*words, seconds=2, **options):
    """The one line that gguf-fs says when it refuses to start; nothing may stay behind."""
    result = gguf_fs(*words, seconds=seconds, **options)
    assert result.returncode == 1, result
    assert result.stdout == "", result
    assert re.fullmatch(r"gguf-fs: [^\n]+\n", result.stderr), result
    return result.stderr.rstrip("\n")


def wait_until(condition, seconds=5):
    """Polls until the condition holds; its last value."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return value


def elapsed(call, *arguments):
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def best(limit, measure):
    """The least of what it measures, up to ten times, until it is below the limit: a machine that
    does something else meanwhile does not make the program slow."""
    least = measure()
    for _ in range(9):
        if least >= limit:
            least = min(least, measure())
    return least


def mounted(path):
    """(type, source) of the topmost mount at this path (a resolved one), or None."""
    found = None
    for place, kind, source in mount_table():
        if place == str(path):
            found = kind, source
    return found


def mounts_below(path):
    return [place for place, *_ in mount_table() if place.startswith(f"{path}/")]


def mount_table():
    """(place, type, source) of each mount, in the order they were made."""
    with open("/proc/self/mountinfo", "rb") as table:
        for line in table:
            fields = [os.fsdecode(unescape(field)) for field in line.rstrip(b"\n").split(b" ")]
            yield fields[4], *fields[fields.index("-") + 1 :][:2]


def unescape(field):
    return re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), field)


def processes(path):
    """The ids of running gguf-fs processes that have this path, or one below, as an argument."""
    found, path = [], os.fsencode(str(path))
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if os.path.basename(words[0]) == b"gguf-fs" and any(
                word == path or word.startswith(path + b"/") for word in words
            ):
                found.append(int(entry))
    return found


def status(pid, name):
    """A number from /proc/PID/status; of a size, the bytes."""
    with open(f"/proc/{pid}/status") as file:
        number, unit = re.search(rf"^{name}:\s+(\d+)( kB)?$", file.read(), re.M).groups()
    return int(number) * (1024 if unit else 1)


def unmount(path):
    command = ["umount", path] if IS_ROOT else ["fusermount3", "-u", path]
    return run(*command)


class WorkDir:
    """A temporary folder anyone may enter; at its end no mount, process or file is left of it."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        self.path.chmod(0o755)
        return self.path

    def __exit__(self, *_):
        for pid in processes(self.path):
            os.kill(pid, signal.SIGKILL)
        for place in reversed(mounts_below(self.path)):
            run(*(["umount", "-l"] if IS_ROOT else ["fusermount3", "-uz"]), place)
        run("chmod", "-R", "u+w", self.path)  # copies of a mount are read-only as it is
        shutil.rmtree(self.path)


class Mount:
    """A model mounted in the background: `with Mount(model, work, "--opt") as mount: mount / "info"`."""

    def __init__(self, model, work, *options, name="mnt", **process):
        self.model, self.options, self.process = model, options, process
        self.path = pathlib.Path(work) / name
        self.path.mkdir(exist_ok=True)

    def __truediv__(self, name):
        return self.path / name

    def __enter__(self):
        result = gguf_fs(*self.options, self.model, self.path, **self.process)
        assert result.returncode == 0, result
        self.warnings = result.stderr.splitlines()
        assert mounted(self.path), f"exit status 0, but nothing is mounted at {self.path}"
        # With auto_unmount there is a second process, which watches the first, its parent.
        found = processes(self.path)
        [self.pid] = [pid for pid in found if status(pid, "PPid") not in found]
        return self

    def read(self, *names):
        return self.path.joinpath(*names).read_bytes()

    def text(self, *names):
        """A text file less the newline that ends it."""
        data = self.read(*names)
        assert data.endswith(b"\n"), data
        return data[:-1].decode()

    def info(self, *names):
        """An `info` file as a dictionary of its lines' texts."""
        return dict(line.split(": ", 1) for line in self.text(*names, "info").split("\n"))

    def unmount(self):
        result = unmount(self.path)
        assert result.returncode == 0, result
        assert wait_until(lambda: not processes(self.path)), f"process {self.pid} is still there"

    def __exit__(self, kind, *_):
        if kind is None and mounted(self.path):
            self.unmount()
            assert not mounted(self.path)


class Foreground(Mount):
    """The same with --foreground: the process is the test's own child, `child`; `log()` its stderr."""

    def __enter__(self):
        self.log_file = tempfile.TemporaryFile()
        self.child = subprocess.Popen(
            [BINARY, "--foreground", *map(str, self.options), str(self.model), str(self.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.log_file,
            **self.process,
        )
        self.pid = self.child.pid
        wait_until(lambda: self.child.poll() is not None or mounted(self.path))
        assert self.child.poll() is None and mounted(self.path), self.log()
        return self

    def log(self):
        self.log_file.seek(0)
        return self.log_file.read().decode()

    def unmount(self):
        result = unmount(self.path)
        assert result.returncode == 0, result
        assert self.child.wait(5) == 0, self.log()

    def __exit__(self, kind, *_):
        try:
            super().__exit__(kind)
        finally:
            if self.child.poll() is None:
                self.child.kill()
            self.child.wait()
            self.log_file.close()
