"""Starting, being told apart from a failure, stopping; as root, as a user, through mount(8)."""

import ctypes
import os
import pathlib
import pwd
import re
import shutil
import signal
import stat
import subprocess
import time

import crafted
import gguffs
import pytest
from gguffs import BINARY, IS_ROOT, SAMPLE, Foreground, Mount, gguf_fs, mounted, output, run

# --- The background start


def test_exit_status_0_means_that_the_mount_answers(work):
    for _ in range(10):
        with Mount(SAMPLE, work) as mount:
            assert {"info", "metadata", "tensors"} <= set(os.listdir(mount.path))


def test_the_background_process_keeps_no_terminal_pipe_or_folder(work):
    with Mount(SAMPLE, work, cwd=work) as mount:
        for fd in (0, 1, 2):
            assert os.readlink(f"/proc/{mount.pid}/fd/{fd}") == "/dev/null"
        assert os.readlink(f"/proc/{mount.pid}/cwd") == "/"
        assert os.getsid(mount.pid) != os.getsid(0)


def test_relative_paths_work(work):
    (work / "mnt").mkdir()
    (work / "model.gguf").symlink_to(SAMPLE)
    assert gguf_fs("model.gguf", "mnt", cwd=work).returncode == 0
    assert mounted(work / "mnt") == ("fuse.gguf-fs", str(work / "model.gguf")) or (
        mounted(work / "mnt") == ("fuse.gguf-fs", str(SAMPLE))
    )
    assert gguffs.unmount(work / "mnt").returncode == 0


def refused_starts(work):
    """Name → (model, mountpoint, what the message must name)."""
    (work / "dir").mkdir()
    (work / "file").write_text("a file")
    (work / "bad.gguf").write_bytes(b"GGUF\x03\0\0\0")
    (work / "zip.gguf").write_bytes(b"PK\x03\x04" + bytes(100))
    return {
        "missing mountpoint": (SAMPLE, work / "nowhere", work / "nowhere"),
        "file as mountpoint": (SAMPLE, work / "file", work / "file"),
        "missing model": (work / "none.gguf", work / "dir", work / "none.gguf"),
        "folder as model": (work, work / "dir", work),
        "cut model": (work / "bad.gguf", work / "dir", work / "bad.gguf"),
        "not a model": (work / "zip.gguf", work / "dir", work / "zip.gguf"),
    }


def test_every_failed_start_says_why_in_its_own_words(work):
    said = {}
    for what, (model, mountpoint, named) in refused_starts(work).items():
        for mode in ([], ["--foreground"]):
            message = gguffs.refusal(*mode, model, mountpoint)
            assert message.startswith(f"gguf-fs: {named}: "), (what, message)
            said[what] = message.removeprefix(f"gguf-fs: {named}: ")
        assert not gguffs.mounts_below(work) and not gguffs.processes(mountpoint)
    with Mount(SAMPLE, work) as mount:
        message = gguffs.refusal(SAMPLE, mount.path)
        assert message.startswith(f"gguf-fs: {mount.path}: "), message
        said["already mounted"] = message.removeprefix(f"gguf-fs: {mount.path}: ")
        assert mount.text("metadata/general.name") == "Sample Llama"
    assert len(set(said.values())) == len(said), said


def test_a_folder_with_files_in_it_may_be_mounted_over(work):
    (work / "mnt").mkdir()
    (work / "mnt/hidden").touch()
    with Mount(SAMPLE, work) as mount:
        assert "hidden" not in os.listdir(mount.path)
    assert os.listdir(work / "mnt") == ["hidden"]


@pytest.mark.parametrize("name", ["two words", "line\nbreak", "back\\slash", "a,b", "ünï 🦙", "-dash"])
def test_mountpoints_and_models_of_any_name_work(work, name):
    model = work / f"{name}.gguf"
    model.write_bytes(crafted.base().build())
    with Mount(model, work, name=name) as mount:
        assert mounted(mount.path) == ("fuse.gguf-fs", str(model))
        assert len(mount.read("tensors/a/f32")) == 48
        os.kill(mount.pid, signal.SIGTERM)
        assert gguffs.wait_until(lambda: not gguffs.processes(mount.path))
        assert not mounted(mount.path)


def test_a_link_to_a_folder_is_a_mountpoint(work):
    (work / "folder").mkdir()
    (work / "link").symlink_to("folder")
    output(BINARY, SAMPLE, work / "link")
    assert (work / "folder/metadata/general.name").read_text() == "Sample Llama\n"
    output(*(["umount"] if IS_ROOT else ["fusermount3", "-u"]), work / "folder")


def test_a_start_without_standard_streams_works(work):
    (work / "mnt").mkdir()
    output("sh", "-c", '"$0" "$1" "$2" <&- >&- 2>&-', BINARY, SAMPLE, work / "mnt")
    assert (work / "mnt/metadata/general.name").read_text() == "Sample Llama\n"
    assert gguffs.unmount(work / "mnt").returncode == 0


def test_usage_errors_exit_2(work):
    for words in ([], [SAMPLE], [SAMPLE, work, "more"], ["--nonsense", SAMPLE, work]):
        result = gguf_fs(*words)
        assert (result.returncode, result.stdout) == (2, ""), result
        assert "Usage" in result.stderr


def test_help_and_version_exit_0():
    assert "MOUNTPOINT" in output(BINARY, "--help")
    for flag in ("--version", "-V"):
        assert re.fullmatch(r"gguf-fs \d+\.\d+\.\d+\n", output(BINARY, flag))
    for flags in (["-v", "--version"], ["-vV"]):
        said = output(BINARY, *flags)
        assert said.startswith(output(BINARY, "-V"))
        assert f"kernel: Linux {os.uname().release} " in said and "/dev/fuse: " in said
        assert "fusermount3: " in said


def test_help_fits_a_terminal():
    for words in (["-h"], ["--help"], ["ls", "-h"], ["ls", "--help"], ["cat", "-h"], ["cat", "--help"]):
        text = output(BINARY, *words, env=os.environ | {"COLUMNS": "200"})
        assert max(map(len, text.splitlines())) <= 80, words
        assert "-h" not in words or len(text.splitlines()) < 24, words
        assert "-h" in words or "Examples:" in text, words


# --- The log


def test_a_log_file_has_what_the_background_has_to_say(work):
    model = work / "model.gguf"
    shutil.copyfile(SAMPLE, model)
    (work / "log").write_text("kept\n")
    with Mount(model, work, "-v", "--log-file", "log", cwd=work) as mount:
        with open(model, "r+b") as file:
            file.truncate(4096)
        assert run("cat", mount / "tensors/output_norm.weight/raw").returncode != 0
        (work / "log").rename(work / "log.1")
        assert run("cat", mount / "tensors/rope_freqs.weight/f32").returncode != 0
    lines = (work / "log.1").read_text().splitlines()
    assert lines[0] == "kept"
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:]+Z gguf-fs: \w+: ", line) for line in lines[1:]), lines
    assert any("gguf-fs: debug: the kernel speaks FUSE 7." in line for line in lines)
    assert any("output_norm.weight" in line for line in lines), lines
    assert "rope_freqs.weight" in (work / "log").read_text()


def test_a_log_file_that_cannot_be_written_is_an_error(work):
    message = gguffs.refusal("--log-file", work / "none/log", SAMPLE, work)
    assert message.startswith(f"gguf-fs: {work}/none/log: ")


def test_rust_log_says_how_much_is_logged(work):
    for level, some in (("gguf_fs=debug", True), ("debug", True), ("off", False)):
        log = {"env": os.environ | {"RUST_LOG": level}}
        with Foreground(SAMPLE, work, **log) as mount:
            mount.unmount()
            assert ("gguf-fs: debug: " in mount.log()) == some


# --- Options as mount(8) and fstab pass them


def test_every_option_that_fstab_may_hold_is_taken(work):
    options = "ro,noauto,nofail,user,nosuid,nodev,noexec,_netdev,x-systemd.automount,noatime"
    with Mount(SAMPLE, work, "-o", options) as mount:
        flags = os.statvfs(mount.path).f_flag
        assert flags & os.ST_RDONLY and flags & os.ST_NOSUID and flags & os.ST_NODEV
        assert flags & os.ST_NOEXEC and flags & os.ST_NOATIME
    options = "rw,dev,suid,exec,atime,relatime,auto,users,defaults,x-gvfs-show"
    with Mount(SAMPLE, work, "-o", options if IS_ROOT else "rw,defaults,x-gvfs-show") as mount:
        assert os.statvfs(mount.path).f_flag & os.ST_RDONLY


def test_an_unknown_option_is_a_usage_error_that_names_it(work):
    result = gguf_fs("-o", "ro,frobnicate=3,noatime", SAMPLE, work)
    assert result.returncode == 2
    assert "frobnicate" in result.stderr
    assert not mounted(work)


def test_uid_and_gid_name_the_owner(work):
    with Mount(SAMPLE, work, "-o", "uid=1234", "-o", "gid=4321") as mount:
        for path in (mount.path, mount / "info", mount / "tensors/output_norm.weight/raw"):
            assert (os.stat(path).st_uid, os.stat(path).st_gid) == (1234, 4321)


def test_fsname_is_what_df_shows(work):
    with Mount(SAMPLE, work, "-o", "fsname=my-model") as mount:
        assert mounted(mount.path) == ("fuse.gguf-fs", "my-model")


def test_a_comma_or_blank_in_the_models_name_injects_no_option(work):
    for name in ("a,allow_other,uid=7.gguf", "two words.gguf", "line\nbreak.gguf", "back\\slash.gguf"):
        model = work / name
        model.write_bytes(crafted.base().build())
        with Mount(model, work) as mount:
            assert os.stat(mount.path).st_uid == os.getuid()
            assert len(mount.read("tensors/a/f32")) == 48
            with open("/proc/self/mountinfo") as table:
                line = next(line for line in table if f" {mount.path} " in line)
            assert "allow_other" not in line.rsplit(" ", 1)[1]


# --- Stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unmounts_in_the_background(work, number):
    with Mount(SAMPLE, work) as mount:
        os.kill(mount.pid, number)
        assert gguffs.wait_until(lambda: not gguffs.processes(mount.path), seconds=2)
        assert not mounted(mount.path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unmounts_in_the_foreground_with_exit_status_0(work, number):
    with Foreground(SAMPLE, work) as mount:
        assert mount.text("metadata/general.name") == "Sample Llama"
        os.kill(mount.pid, number)
        assert mount.child.wait(2) == 0
        assert not mounted(mount.path)


@pytest.mark.parametrize("kind", [Mount, Foreground])
def test_a_busy_mount_is_detached_and_still_serves_for_a_moment(work, kind):
    with kind(SAMPLE, work) as mount:
        whole = mount.read("tensors/token_embd.weight/f32")
        reader = subprocess.Popen(
            ["sh", "-c", 'read _ && cat <&3', "sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=lambda: os.dup2(
                os.open(mount / "tensors/blk.0.attn_q.weight/f32", os.O_RDONLY), 3
            ),
            pass_fds=[3],
        )
        assert gguffs.wait_until(lambda: os.path.exists(f"/proc/{reader.pid}/fd/3"))
        os.kill(mount.pid, signal.SIGTERM)
        assert gguffs.wait_until(lambda: not mounted(mount.path), seconds=2)
        out, _ = reader.communicate(b"go\n", timeout=5)
        assert len(out) == 4 * 256 * 256 and whole
        assert gguffs.wait_until(lambda: not gguffs.processes(mount.path), seconds=2)


def test_umount_ends_the_process_with_exit_status_0(work):
    with Foreground(SAMPLE, work) as mount:
        mount.unmount()
        assert not mounted(mount.path)


def test_the_foreground_log_is_quiet_when_nothing_is_wrong(work):
    with Foreground(SAMPLE, work) as mount:
        output("cp", "-r", mount.path, work / "copy")
        output("ls", "-lR", mount.path)
        output("find", mount.path, "-name", "f32")
        mount.unmount()
        assert not re.search("WARN|ERROR|panic", mount.log()), mount.log()


# --- The model file


def test_a_read_only_model_mounts_and_is_left_as_it_was(work):
    model = work / "model.gguf"
    shutil.copyfile(SAMPLE, model)
    model.chmod(0o444)
    os.utime(model, ns=(10**18, 10**18))
    (work / "link.gguf").symlink_to("model.gguf")
    for each in (model, work / "link.gguf"):
        with Mount(each, work) as mount:
            output("sh", "-c", 'cat "$0"/tensors/*/f32 >/dev/null', mount.path)
    assert model.stat().st_mtime_ns == 10**18
    output("cmp", model, SAMPLE)


def test_a_model_on_a_read_only_medium_mounts(work, as_root):
    (work / "medium").mkdir()
    shutil.copyfile(SAMPLE, work / "medium/model.gguf")
    output("mount", "--bind", work / "medium", work / "medium")
    output("mount", "-o", "remount,bind,ro", work / "medium")
    with Mount(work / "medium/model.gguf", work) as mount:
        assert mount.text("metadata/general.name") == "Sample Llama"
    output("umount", work / "medium")


def test_a_model_called_ls_is_named_with_its_folder(work):
    shutil.copyfile(SAMPLE, work / "ls")
    (work / "mnt").mkdir()
    assert gguf_fs("./ls", "mnt", cwd=work).returncode == 0
    assert gguffs.unmount(work / "mnt").returncode == 0


# --- mount(8) and fstab


def in_a_system_where(*mounts):
    """A preexec_fn: the program sees mounts of its own, each (source, target, type, flags)."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(code):
        if code:
            raise OSError(ctypes.get_errno(), "in the private mounts")

    def prepare():
        check(libc.unshare(0x20000))  # CLONE_NEWNS
        check(libc.mount(None, b"/", None, 0x44000, None))  # MS_REC | MS_PRIVATE
        for mount in mounts:
            check(libc.mount(*mount, None))

    return prepare


def with_the_program_installed(work, script):
    """Runs a shell script in a system that has gguf-fs in /usr/local/bin: mount(8) drops PATH."""
    bin = work / "bin"
    bin.mkdir()
    (work / "mnt").mkdir()
    shutil.copy2(BINARY, bin / "gguf-fs")
    installed = in_a_system_where((bytes(bin), b"/usr/local/bin", None, 0x1000))  # MS_BIND
    return run("sh", "-ec", script, cwd=work, preexec_fn=installed)


@pytest.mark.parametrize("options", ["ro,allow_other", "rw", "nosuid,nodev,noexec,noatime"])
def test_mount_t_fuse_gguf_fs_works_through_the_systems_helper(work, as_root, options):
    script = f"""
        mount -t fuse.gguf-fs {SAMPLE} {work}/mnt -o {options}
        findmnt -n -o FSTYPE,SOURCE {work}/mnt
        cat mnt/metadata/general.name
        umount mnt
    """
    result = with_the_program_installed(work, script)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == ["fuse.gguf-fs", str(SAMPLE), "Sample", "Llama"]
    assert gguffs.wait_until(lambda: not gguffs.processes(work))


def test_an_fstab_line_works(work, as_root):
    options = "ro,noauto,nofail,nosuid,_netdev,x-systemd.automount"
    (work / "fstab").write_text(f"{SAMPLE} {work}/mnt fuse.gguf-fs {options} 0 0\n")
    script = f"mount -T fstab {work}/mnt; cat mnt/metadata/general.name; umount mnt"
    result = with_the_program_installed(work, script)
    assert (result.returncode, result.stdout, result.stderr) == (0, "Sample Llama\n", "")


def test_mount_a_mounts_what_fstab_lists(work, as_root):
    (work / "two words.gguf").symlink_to(SAMPLE)
    (work / "other").mkdir()
    (work / "fstab").write_text(
        f"{SAMPLE} {work}/mnt fuse.gguf-fs ro,allow_other,nofail 0 0\n"
        f"{work}/two\\040words.gguf {work}/other fuse.gguf-fs defaults,uid=7 0 0\n"
        f"{SAMPLE} {work}/never fuse.gguf-fs noauto 0 0\n"
    )
    script = """
        mount -a -T fstab
        mount -a -T fstab
        stat -c %u mnt other
        cat mnt/metadata/general.name other/metadata/general.name
        umount mnt other
    """
    result = with_the_program_installed(work, script)
    assert (result.returncode, result.stderr) == (0, ""), result
    assert result.stdout == "0\n7\nSample Llama\nSample Llama\n"


def test_a_user_mounts_and_unmounts_what_fstab_lets_users_mount(work, user, as_root):
    (work / "fstab").write_text(f"{work}/model.gguf {work}/mnt fuse.gguf-fs noauto,user 0 0\n")
    (work / "bin").mkdir()
    shutil.move(work / "gguf-fs", work / "bin/gguf-fs")
    installed = in_a_system_where(
        (bytes(work / "bin"), b"/usr/local/bin", None, 0x1000),
        (bytes(work / "fstab"), b"/etc/fstab", None, 0x1000),
    )

    def prepare():
        installed()
        become(user)

    script = "mount $PWD/mnt; cat mnt/metadata/general.name; umount $PWD/mnt; ls mnt"
    result = run("sh", "-ec", script, cwd=work, preexec_fn=prepare)
    assert (result.returncode, result.stdout, result.stderr) == (0, "Sample Llama\n", "")


def test_the_systemd_unit_in_the_readme_is_a_valid_one(work):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    readme = (gguffs.TOP / "README.md").read_text()
    [unit] = re.findall(r"^    \[Unit\]\n(?:(?:    .*)?\n)+", readme, re.M)
    [place] = re.findall(r"^    Where=/(.*)$", unit, re.M)
    (work / f"{place.replace('/', '-')}.mount").write_text(re.sub("^    ", "", unit, flags=re.M))
    checked = run("systemd-analyze", "verify", work / f"{place.replace('/', '-')}.mount")
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_mount_8_passes_on_why_it_failed(work, as_root):
    result = with_the_program_installed(work, "mount -t fuse.gguf-fs $PWD/none $PWD/mnt")
    assert result.returncode != 0
    assert f"gguf-fs: {work}/none: " in result.stderr


# --- As an ordinary user, and where parts are missing


@pytest.fixture
def user(work):
    """How to run a program as an ordinary user on a stock system, in a folder of theirs."""
    fuse_conf = pathlib.Path("/etc/fuse.conf")
    if re.search(r"^\s*user_allow_other", fuse_conf.read_text(), re.M):
        pytest.skip("/etc/fuse.conf allows allow_other to users: not a stock system")
    shutil.copy2(BINARY, work / "gguf-fs")
    (work / "model.gguf").write_bytes(SAMPLE.read_bytes())
    (work / "mnt").mkdir()
    if not IS_ROOT:
        yield {}
        return
    name = f"gguffs{os.getpid()}"
    output("useradd", "--no-create-home", "--shell", "/usr/sbin/nologin", name)
    mode = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
    try:
        entry = pwd.getpwnam(name)
        os.chown(work / "mnt", entry.pw_uid, entry.pw_gid)
        os.chmod("/dev/fuse", 0o666)
        yield {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    finally:
        os.chmod("/dev/fuse", mode)
        for place in gguffs.mounts_below(work):
            run("umount", "-l", place)
        gguffs.wait_until(lambda: not gguffs.processes(work / "mnt"))
        output("userdel", name)


def test_an_ordinary_user_mounts_reads_and_unmounts_on_a_stock_system(work, user):
    mount = work / "mnt"
    assert output(work / "gguf-fs", work / "model.gguf", mount, **user) == ""
    assert mounted(mount) == ("fuse.gguf-fs", str(work / "model.gguf"))
    assert output("cat", mount / "metadata/general.name", **user) == "Sample Llama\n"
    assert output("stat", "-c", "%u", mount / "info", **user) == f"{user.get('user', os.getuid())}\n"
    if IS_ROOT:
        assert run("ls", mount).returncode != 0, "another user can enter without allow_other"
    output("fusermount3", "-u", mount, **user)
    assert gguffs.wait_until(lambda: not gguffs.processes(mount))


def test_umount_works_for_the_user_who_mounted(work, user):
    output(work / "gguf-fs", work / "model.gguf", work / "mnt", **user)
    output("umount", work / "mnt", **user)
    assert not mounted(work / "mnt")
    assert gguffs.wait_until(lambda: not gguffs.processes(work / "mnt"))


def test_a_users_signal_unmounts(work, user):
    mount = work / "mnt"
    output(work / "gguf-fs", work / "model.gguf", mount, **user)
    [pid] = gguffs.processes(mount)
    output("sh", "-c", f"kill -TERM {pid}", **user)
    assert gguffs.wait_until(lambda: not gguffs.processes(mount), seconds=2)
    assert not mounted(mount)


def test_a_user_is_told_how_to_clear_a_dead_mount(work, user):
    mount = work / "mnt"
    output(work / "gguf-fs", work / "model.gguf", mount, **user)
    [pid] = gguffs.processes(mount)
    os.kill(pid, signal.SIGKILL)
    assert gguffs.wait_until(lambda: not gguffs.processes(mount))
    result = run(work / "gguf-fs", work / "model.gguf", mount, **user)
    assert result.returncode == 1 and f"fusermount3 -u {mount}" in result.stderr, result
    output("fusermount3", "-u", mount, **user)
    assert not mounted(mount)


def test_another_user_may_enter_with_allow_other_alone(work, user, as_root):
    name = "mnt/metadata/general.name"
    for options, allowed in (("ro", False), ("allow_other", True), ("allow_root", False)):
        with Mount(SAMPLE, work, "-o", options):
            result = run("cat", work / name, **user)
            assert (result.returncode == 0) == allowed, (options, result)
            assert result.stdout == ("Sample Llama\n" if allowed else "")


def test_auto_unmount_leaves_no_dead_mount(work, as_root):
    with Mount(SAMPLE, work, "-o", "auto_unmount,allow_other") as mount:
        assert mount.text("metadata/general.name") == "Sample Llama"
        os.kill(mount.pid, signal.SIGKILL)
        assert gguffs.wait_until(lambda: not mounted(mount.path))
    with Mount(SAMPLE, work, "-o", "auto_unmount,allow_other") as mount:
        os.kill(mount.pid, signal.SIGTERM)
        assert gguffs.wait_until(lambda: not mounted(mount.path))
        assert gguffs.wait_until(lambda: not gguffs.processes(mount.path))


@pytest.mark.parametrize("option", ["allow_other", "allow_root"])
def test_allow_other_for_a_user_of_a_stock_system_names_fuse_conf(work, user, option):
    words = [work / "gguf-fs", "-o", option, work / "model.gguf", work / "mnt"]
    result = run(*words, **user)
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(r"gguf-fs: [^\n]+\n", result.stderr), result.stderr
    assert "/etc/fuse.conf" in result.stderr and "user_allow_other" in result.stderr
    assert not mounted(work / "mnt") and not gguffs.processes(work / "mnt")


def test_a_mountpoint_that_a_user_may_not_write_is_refused(work, user):
    if not IS_ROOT:
        pytest.skip("needs root to make a folder of another user")
    (work / "roots").mkdir()
    result = run(work / "gguf-fs", work / "model.gguf", work / "roots", **user)
    assert result.returncode == 1
    assert re.match(rf"gguf-fs: {work}/roots: [^\n]+\n\Z", result.stderr), result.stderr


def become(user):
    os.setgroups([])
    os.setgid(user["group"])
    os.setuid(user["user"])


def test_a_system_without_dev_fuse_is_told_so(work, as_root):
    prepare = in_a_system_where((b"none", b"/dev", b"tmpfs", 0))
    (work / "mnt").mkdir()
    message = gguffs.refusal(SAMPLE, work / "mnt", preexec_fn=prepare)
    assert "/dev/fuse" in message


def test_root_mounts_without_fusermount(work, as_root):
    (work / "mnt").mkdir()
    hide = in_a_system_where((b"none", b"/usr/bin", b"tmpfs", 0))

    def prepare():
        hide()
        os.environ["PATH"] = "/usr/bin"

    child = subprocess.Popen([BINARY, "-f", SAMPLE, work / "mnt"], preexec_fn=prepare)
    try:
        def answers():
            root = f"/proc/{child.pid}/root{work}/mnt"
            return os.path.exists(f"{root}/info")

        assert gguffs.wait_until(answers)
        child.send_signal(signal.SIGTERM)
        assert child.wait(2) == 0
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def test_a_user_without_fusermount_is_told_what_to_install(work, user, as_root):
    hide = in_a_system_where((b"none", b"/usr/bin", b"tmpfs", 0))

    def prepare():
        hide()
        become(user)

    result = run(work / "gguf-fs", work / "model.gguf", work / "mnt", preexec_fn=prepare)
    assert result.returncode == 1, result
    assert re.fullmatch(r"gguf-fs: [^\n]+\n", result.stderr), result.stderr
    assert "fuse3" in result.stderr


def test_a_user_who_may_not_open_dev_fuse_is_told_so(work, user, as_root):
    os.chmod("/dev/fuse", 0o600)
    result = run(work / "gguf-fs", work / "model.gguf", work / "mnt", **user)
    assert result.returncode == 0 or "/dev/fuse" in result.stderr, result
    if result.returncode == 0:
        assert output("cat", work / "mnt/metadata/general.name", **user) == "Sample Llama\n"


def test_root_without_the_right_to_mount_is_told_how_to_start_its_container(work, as_root):
    (work / "mnt").mkdir()
    powerless = ["setpriv", "--bounding-set", "-sys_admin", BINARY, SAMPLE, work / "mnt"]
    for helper in ({}, {"FUSERMOUNT_PATH": "/nowhere"}):
        result = run(*powerless, env=os.environ | helper)
        assert (result.returncode, result.stdout) == (1, ""), result
        assert re.fullmatch(r"gguf-fs: [^\n]+\n", result.stderr), result.stderr
        assert "SYS_ADMIN" in result.stderr and "gguf-fs cat" in result.stderr
    assert output(*powerless[:3], BINARY, "cat", SAMPLE, "metadata/general.name") == "Sample Llama\n"


def test_a_user_namespace_can_mount(work, user):
    if run("unshare", "-Urm", "true", **user).returncode != 0:
        pytest.skip("this system gives users no namespaces")
    script = "./gguf-fs model.gguf mnt; cat mnt/metadata/general.name; umount mnt; ls mnt"
    result = run("unshare", "-Urm", "sh", "-ec", script, cwd=work, **user)
    assert (result.returncode, result.stdout, result.stderr) == (0, "Sample Llama\n", "")
    assert gguffs.wait_until(lambda: not gguffs.processes(work))


def test_a_fifo_as_model_does_not_hang(work):
    os.mkfifo(work / "fifo")
    start = time.monotonic()
    gguffs.refusal(work / "fifo", work)
    assert time.monotonic() - start < 1
