"""What the kernel is told: attributes, caches, refusals to write, statfs, attributes beside."""

import contextlib
import errno
import os
import signal
import stat
import time

import gguffs
import pytest
from gguffs import output
from test_tools import all_files


@contextlib.contextmanager
def stopped(pid):
    """The process does not run meanwhile: whatever works now works without it."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def walk(top):
    return [top] + [os.path.join(d, n) for d, dirs, files in os.walk(top) for n in dirs + files]


def test_files_are_0444_and_folders_0555_of_the_mounting_user_with_the_models_time(sample):
    mtime = gguffs.SAMPLE.stat().st_mtime_ns
    for path in walk(sample.path):
        status = os.stat(path)
        folder = stat.S_ISDIR(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == (0o555 if folder else 0o444), path
        assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid()), path
        assert (status.st_mtime_ns, status.st_ctime_ns) == (mtime, mtime), path
        folders = sum(entry.is_dir() for entry in os.scandir(path)) if folder else -1
        assert status.st_nlink == (2 + folders if folder else 1), path


def test_blocks_are_the_size_in_512s(sample):
    for path in all_files(sample.path):
        status = os.stat(path)
        assert status.st_blocks == -(-status.st_size // 512), path
    apparent = int(output("du", "-s", "--apparent-size", "-B512", sample.path).split()[0])
    used = int(output("du", "-s", "-B512", sample.path).split()[0])
    assert abs(apparent - used) <= len(walk(sample.path))


def test_inode_numbers_are_unique_and_the_same_in_every_mount(sample, module_work):
    with gguffs.Mount(gguffs.SAMPLE, module_work, name="again") as again:
        first = [os.stat(path).st_ino for path in walk(sample.path)]
        assert first == [os.stat(path).st_ino for path in walk(again.path)]
        assert len(set(first)) == len(first)
    for path in walk(sample.path):
        if os.path.isdir(path):
            for entry in os.scandir(path):
                assert entry.inode() == entry.stat().st_ino, entry.path


WRITES = {
    "write": lambda top: open(top / "info", "r+b"),
    "truncate": lambda top: os.truncate(top / "info", 0),
    "create": lambda top: open(top / "metadata/new", "xb"),
    "remove": lambda top: os.remove(top / "info"),
    "rename": lambda top: os.rename(top / "info", top / "other"),
    "mkdir": lambda top: os.mkdir(top / "new"),
    "rmdir": lambda top: os.rmdir(top / "metadata"),
    "symlink": lambda top: os.symlink("info", top / "link"),
    "link": lambda top: os.link(top / "info", top / "link"),
    "chmod": lambda top: os.chmod(top / "info", 0o644),
    "chown": lambda top: os.chown(top / "info", 0, 0),
    "utime": lambda top: os.utime(top / "info"),
    "setxattr": lambda top: os.setxattr(top / "info", "user.x", b"1"),
}


@pytest.mark.parametrize("what", WRITES)
def test_every_change_is_refused_as_on_a_read_only_filesystem(sample, what):
    with pytest.raises(OSError) as error:
        WRITES[what](sample.path)
    assert error.value.errno == errno.EROFS, error.value


def test_there_are_no_extended_attributes(sample):
    for path in (sample.path, sample / "info", sample / "tensors/output_norm.weight/f32"):
        assert os.listxattr(path) == []
        with pytest.raises(OSError) as error:
            os.getxattr(path, "user.anything")
        assert error.value.errno == errno.ENODATA, error.value


def test_a_name_that_is_not_there_is_enoent_and_a_file_is_no_folder(sample):
    for name in ("nothing", "metadata/nothing", "tensors/nothing/raw", "tensors/../../etc"):
        assert not os.path.exists(sample / "tensors/nothing" / name), name
    with pytest.raises(NotADirectoryError):
        os.stat(sample / "info/x")
    with pytest.raises(IsADirectoryError):
        open(sample / "tensors", "rb")


def test_statfs_shows_a_full_read_only_filesystem_of_the_models_size(sample):
    status = os.statvfs(sample.path)
    size = gguffs.SAMPLE.stat().st_size
    assert status.f_namemax == 255
    assert status.f_bfree == status.f_bavail == status.f_ffree == 0
    assert size <= status.f_blocks * status.f_frsize < size + status.f_frsize
    assert status.f_flag & os.ST_RDONLY


def test_df_and_findmnt_name_the_model_and_the_type(sample):
    source, used = output("df", "--output=source,pcent", sample.path).splitlines()[1].split()
    assert (source, used) == (str(gguffs.SAMPLE), "100%")
    found = output("findmnt", "-n", "-o", "SOURCE,FSTYPE", sample.path).split()
    assert found == [str(gguffs.SAMPLE), "fuse.gguf-fs"]


@pytest.mark.parametrize("name", ["raw", "f32", "info", "../../metadata/tokenizer.ggml.tokens"])
def test_a_second_open_and_read_does_not_wake_the_daemon(sample, name):
    path = sample / "tensors/token_embd.weight" / name
    first = output("cat", path, text=False)
    with stopped(sample.pid):
        assert output("cat", path, text=False, seconds=5) == first


def test_a_second_listing_and_stat_do_not_wake_the_daemon(sample):
    commands = [["ls", sample / "tensors"], ["ls", "-R", sample / "metadata"],
                ["stat", sample / "tensors/output_norm.weight/raw"]]  # fmt: skip
    first = [output(*command) for command in commands]
    with stopped(sample.pid):
        assert [output(*command, seconds=5) for command in commands] == first


def test_a_second_read_of_the_real_model_runs_at_2_gb_a_second(gemma, measured):
    path = gemma / "tensors/token_embd.weight/raw"
    buffer = bytearray(1 << 20)

    def rate():
        with open(path, "rb", buffering=0) as file:
            start, total = time.perf_counter(), 0
            while got := file.readinto(buffer):
                total += got
            return total / (time.perf_counter() - start)

    first, later = rate(), 0
    for _ in range(10):
        if later < 2e9:
            later = max(later, rate())
    measured(f"raw of {path.stat().st_size / 1e6:.0f} MB: first {first / 1e9:.2f} GB/s, "
             f"then {later / 1e9:.2f} GB/s")  # fmt: skip
    assert later > 2e9
