"""The model file changes or the daemon dies while someone reads."""

import errno
import os
import re
import signal
import subprocess
import sys

import gguffs
import pytest
from crafted import File
from gguffs import Mount, output, run

READ = """
import os, sys
path, at, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    print(len(os.pread(os.open(path, os.O_RDONLY), length, at)))
except OSError as error:
    sys.exit(error.errno)
"""


def errno_of_reading(path, at=0, length=4096):
    return run(sys.executable, "-c", READ, path, at, length).returncode


def two_tensors(work):
    """A model of tensors `early` and `late` (Q8_0, 1 MiB of values each) and where `late` starts."""
    block = b"\x00\x3c" + bytes(range(32))
    file = File().key("general.name", 8, "two")
    for name in ("early", "late"):
        file.tensor(name, 8, [1024, 256], block * 8192)
    data = file.build()
    model = work / "model.gguf"
    model.write_bytes(data)
    return model, len(file.header()) + file.offsets()[1]


@pytest.mark.parametrize("view", ["raw", "f32"])
@pytest.mark.parametrize("read_before", [False, True], ids=["cold", "warm"])
def test_a_shrunk_model_gives_eio_for_lost_bytes_and_all_others(work, view, read_before):
    model, late = two_tensors(work)
    with Mount(model, work) as mount:
        early = mount.read("tensors/early", view)
        if read_before:
            # Some bytes of the other view, so that the mapping has been touched there.
            mount.read("tensors/late", "raw" if view == "f32" else "f32")
        os.truncate(model, late + 64 * 1024)
        last = os.stat(mount / "tensors/late" / view).st_size - 4096
        for _ in range(3):
            assert errno_of_reading(mount / "tensors/late" / view, last) == errno.EIO
        assert run("cat", mount / "tensors/late" / view, text=False).returncode == 1
        assert os.path.exists(f"/proc/{mount.pid}")
        assert errno_of_reading(mount / "tensors/late" / view, 0) == 0
        output("cat", mount / "metadata/general.name", mount / "info", mount / "tensors/late/info")
        assert mount.read("tensors/early", view) == early


def test_a_model_emptied_and_written_again_never_kills_the_daemon(work):
    model, _ = two_tensors(work)
    data = model.read_bytes()
    with Mount(model, work) as mount:
        early = mount.read("tensors/early/raw")
        os.truncate(model, 0)
        for path in ("tensors/late/raw", "tensors/late/f32", "metadata/general.name"):
            code = errno_of_reading(mount / path)
            assert code == errno.EIO or (code == 0 and path.startswith("metadata")), path
        os.listdir(mount / "tensors")
        with open(model, "r+b") as file:
            file.write(data)
        assert mount.read("tensors/late/raw") == early
        assert mount.read("tensors/late/f32") == mount.read("tensors/early/f32")


def test_a_deleted_model_stays_readable(work):
    model, _ = two_tensors(work)
    with Mount(model, work) as mount:
        data = model.read_bytes()
        model.unlink()
        assert mount.read("tensors/late/raw") in data
        assert len(mount.read("tensors/late/f32")) == 1 << 20


def test_lenient_gives_eio_for_bytes_that_never_were_there(work):
    model, late = two_tensors(work)
    os.truncate(model, late + 100_000)
    gguffs.refusal(model, work)
    with Mount(model, work, "--lenient") as mount:
        assert any("late" in line for line in mount.warnings), mount.warnings
        assert len(mount.read("tensors/early/f32")) == 1 << 20
        for view in ("raw", "f32"):
            last = os.stat(mount / "tensors/late" / view).st_size - 4096
            assert errno_of_reading(mount / "tensors/late" / view, last) == errno.EIO
        assert "note" in mount.info("tensors/late")


@pytest.mark.parametrize("touched", [False, True], ids=["untouched", "stat still cached"])
def test_a_killed_daemon_leaves_a_dead_mount_that_the_next_start_explains(work, touched):
    with Mount(gguffs.SAMPLE, work) as mount:
        if touched:
            os.stat(mount.path)
        os.kill(mount.pid, signal.SIGKILL)
        assert gguffs.wait_until(lambda: not gguffs.processes(mount.path))
        message = gguffs.refusal(gguffs.SAMPLE, mount.path)
        # The command that the message names clears it, and then the place is good again.
        command = re.search(rf"(umount|fusermount3 -u) {re.escape(str(mount.path))}", message)
        assert command, message
        assert run("cat", mount / "metadata/general.name").returncode == 1
        output(*command[0].split())
        assert not gguffs.mounted(mount.path)
        with Mount(gguffs.SAMPLE, work) as again:
            assert again.text("metadata/general.name") == "Sample Llama"


def test_reads_in_flight_end_when_the_daemon_is_killed(work):
    with Mount(gguffs.SAMPLE, work) as mount:
        os.kill(mount.pid, signal.SIGSTOP)
        reader = subprocess.Popen(
            ["cat", mount / "tensors/token_embd.weight/f32"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        os.kill(mount.pid, signal.SIGKILL)
        _, complaint = reader.communicate(timeout=5)
        assert reader.returncode == 1 and complaint
        gguffs.unmount(mount.path)
