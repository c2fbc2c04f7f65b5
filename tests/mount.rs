//! The life of a mount, seen from outside: it appears, it goes, and nothing is left behind.

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::gguf_builder::GgufBuilder;
use common::mounted::*;

/// The longest that ending may take, whatever readers hold.
const SHORT: Duration = Duration::from_secs(2);

const SIGNALS: [&str; 3] = ["INT", "TERM", "HUP"];

fn base() -> Place {
    Place::new(&GgufBuilder::base().build())
}

/// Descriptors that a process has open, but for the standard ones.
fn open_files(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let numbered = entries.map(|e| (e.file_name().into_string().unwrap(), e.path()));
    let others = numbered.filter(|(number, _)| number.parse::<u32>().unwrap() > 2);
    others.map(|(_, link)| fs::read_link(link).unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_command_returns_when_the_mount_answers_and_leaves_nothing_behind() {
    let place = base();
    for _ in 0..20 {
        place.mounted(&[]);
        assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
        assert_eq!(place.daemons().len(), 1);
        assert!(place.umount().status.success());
        assert!(place.is_clean());
    }
}

#[test]
fn a_daemon_keeps_only_what_it_needs() {
    let place = base();
    let script = format!("exec 7>lock; {PROGRAM} model.gguf {}", place.point.display());
    stdout(Command::new("sh").args(["-c", &script]).current_dir(&place.dir));
    let [pid] = place.daemons()[..] else { panic!("one daemon") };
    let model = place.model.to_str().unwrap();
    let others = || -> Vec<String> {
        open_files(pid)
            .into_iter()
            .filter(|f| f != "/dev/fuse" && f != model && !f.ends_with("/mountinfo"))
            .collect()
    };
    // It says that it is ready through a pipe, which it closes only then.
    assert!(wait_until(|| others().is_empty()), "{:?}", others());
    let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).unwrap();
    assert_eq!(link("cwd"), Path::new("/"));
    for number in 0..3 {
        assert_eq!(link(&format!("fd/{number}")), Path::new("/dev/null"));
    }
    // CAP_DAC_OVERRIDE and CAP_SYS_ADMIN, of a root that has them all.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    for set in ["CapInh:", "CapPrm:", "CapEff:"] {
        let line = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
        let has = u64::from_str_radix(line.trim(), 16).unwrap();
        assert_eq!(has & !(1 << 1 | 1 << 21), 0, "{set} {has:x}");
    }
}

#[test]
fn signals_unmount_in_the_background() {
    for name in SIGNALS {
        let place = base();
        place.mounted(&[]);
        let start = Instant::now();
        place.signal(name);
        assert!(place.is_clean(), "{name}");
        assert!(start.elapsed() < SHORT, "{name}: {:?}", start.elapsed());
    }
}

#[test]
fn signals_unmount_in_the_foreground_with_success() {
    for name in SIGNALS {
        let place = base();
        let mut daemon = place.foreground(&[]);
        let start = Instant::now();
        signal(daemon.pid(), name);
        assert_eq!(daemon.wait().code(), Some(0), "{name}");
        assert!(start.elapsed() < SHORT && !place.is_mounted(), "{name}");
    }
}

#[test]
fn under_nohup_a_hangup_is_ignored_and_the_other_signals_are_not() {
    let place = base();
    let mut nohup = Command::new("nohup");
    nohup.args([PROGRAM, "-f"]).arg(&place.model).arg(&place.point);
    let mut daemon = place.foreground_of(nohup);
    signal(daemon.pid(), "HUP");
    assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
    assert!(!daemon.has_ended());
    signal(daemon.pid(), "TERM");
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn interrupts_count_though_a_shell_had_them_ignored() {
    let place = base();
    let mut shell = Command::new("sh");
    let script = r#"trap "" INT; exec "$0" -f "$1" "$2""#;
    shell.args(["-c", script, PROGRAM]).arg(&place.model).arg(&place.point);
    let mut daemon = place.foreground_of(shell);
    signal(daemon.pid(), "INT");
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn an_unmount_from_outside_ends_the_program_with_success() {
    let place = base();
    let mut daemon = place.foreground(&[]);
    assert!(place.umount().status.success());
    assert_eq!(daemon.wait().code(), Some(0));
    assert_eq!(daemon.kill_and_read(), "");
}

#[test]
fn after_a_lazy_unmount_an_open_file_is_served_to_its_close() {
    let place = base();
    let mut daemon = place.foreground(&[]);
    let mut open = File::open(place.path("tensors/a/raw")).unwrap();
    assert!(place.umount_lazily().status.success());
    assert!(!place.is_mounted());
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 48);
    assert!(!daemon.has_ended());
    drop(open);
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn a_signal_ends_a_busy_mount_within_two_seconds() {
    let holders = [
        ("an open file", "exec 3<tensors/a/raw; echo; cd /; exec sleep 60"),
        ("a working directory", "echo; exec sleep 60"),
        (
            "a mapping",
            "exec python3 -c 'import mmap, time\n\
             f = open(\"tensors/a/f32\", \"rb\"); m = mmap.mmap(f.fileno(), 0, prot=1); f.close()\n\
             print(m[0], flush=True); time.sleep(60)'",
        ),
    ];
    for (what, script) in holders {
        for args in [&[][..], &["-o", "auto_unmount"]] {
            let place = base();
            place.mounted(args);
            let mut shell = Command::new("sh");
            let shell = shell.args(["-c", script]).current_dir(&place.point);
            let mut holder = shell.stdout(Stdio::piped()).spawn().unwrap();
            holder.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            let start = Instant::now();
            place.signal("TERM");
            let clean = place.is_clean();
            let took = start.elapsed();
            holder.kill().unwrap();
            holder.wait().unwrap();
            assert!(clean && took < SHORT, "{what} {args:?}: {took:?}");
        }
    }
}

#[test]
fn what_is_mounted_on_top_survives_our_end() {
    if !root_or_left_out("a tmpfs on top of the mount") {
        return;
    }
    let place = base();
    let mut daemon = place.foreground(&[]);
    let mut tmpfs = Command::new("mount");
    stdout(tmpfs.args(["-t", "tmpfs", "tmpfs"]).arg(&place.point));
    fs::write(place.path("theirs"), "x").unwrap();
    signal(daemon.pid(), "TERM");
    assert_eq!(daemon.wait().code(), Some(0));
    assert_eq!(fs::read(place.path("theirs")).unwrap(), b"x");
    assert!(daemon.kill_and_read().contains("left in place"));
}

#[test]
fn what_is_mounted_inside_goes_with_us() {
    if !root_or_left_out("a tmpfs inside the mount") {
        return;
    }
    let place = base();
    let mut daemon = place.foreground(&[]);
    let mut tmpfs = Command::new("mount");
    stdout(tmpfs.args(["-t", "tmpfs", "tmpfs"]).arg(place.path("metadata")));
    signal(daemon.pid(), "TERM");
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(place.is_clean());
}

#[test]
fn of_two_starts_at_once_one_mounts() {
    for _ in 0..10 {
        let place = base();
        let start = || {
            let mut program = Command::new(PROGRAM);
            program.arg(&place.model).arg(&place.point).stderr(Stdio::piped()).spawn().unwrap()
        };
        let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
        let failed: Vec<_> = both.iter().filter(|o| !o.status.success()).collect();
        assert_eq!((failed.len(), place.mounts()), (1, 1));
        assert!(one_line(failed[0]).contains("already mounted"));
    }
}

#[test]
fn with_too_little_memory_nothing_is_mounted_or_fewer_threads_serve() {
    for (limit, fits) in [("-d 16000", false), ("-d 90000", true), ("-v 250000", true)] {
        let place = base();
        let script = format!("ulimit {limit}; exec \"$0\" model.gguf mnt");
        let mut shell = Command::new("sh");
        let done = output(shell.args(["-c", &script, PROGRAM]).current_dir(&place.dir));
        assert_eq!(done.status.success(), fits, "{limit} {done:?}");
        assert_eq!(place.is_mounted(), fits, "{limit}");
        if fits {
            assert_eq!(place.read("metadata/llama.block_count"), b"2\n", "{limit}");
        }
    }
}

#[test]
fn what_is_mounted_after_a_lazy_unmount_survives_our_end() {
    let (place, other) = (base(), base());
    let mut first = place.foreground(&[]);
    let open = File::open(place.path("tensors/a/raw")).unwrap();
    assert!(place.umount_lazily().status.success());
    let mut second = Command::new(PROGRAM);
    second.arg(&other.model).arg(&place.point);
    stdout(&mut second);
    signal(first.pid(), "TERM");
    assert_eq!(first.wait().code(), Some(0));
    drop(open);
    assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
}

#[test]
fn an_aborted_connection_leaves_no_dead_mount() {
    if !root_or_left_out("aborting a connection") {
        return;
    }
    let place = base();
    let mut daemon = place.foreground(&[]);
    let device = stdout(Command::new("mountpoint").arg("-d").arg(&place.point));
    let minor = String::from_utf8(device).unwrap().trim().split(':').nth(1).unwrap().to_owned();
    let control = Path::new("/sys/fs/fuse/connections").join(minor).join("abort");
    let mounted_here = !control.exists() && {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "fusectl", "none", "/sys/fs/fuse/connections"])
            .status()
            .unwrap()
            .success()
    };
    fs::write(&control, "1").unwrap();
    if mounted_here {
        Command::new("umount").arg("/sys/fs/fuse/connections").status().unwrap();
    }
    assert_eq!(daemon.wait().code(), Some(1));
    assert!(!place.is_mounted());
}

#[test]
fn a_dead_mount_is_named_with_the_command_that_clears_it() {
    let place = base();
    place.mounted(&[]);
    place.signal("KILL");
    assert!(wait_until(|| place.daemons().is_empty()));
    let said = one_line(&place.mount(&[]));
    let (before, command) =
        said.trim_end().split_once("; run: ").unwrap_or_else(|| panic!("{said}"));
    assert!(before.contains("Transport endpoint is not connected"), "{said}");
    stdout(Command::new("sh").args(["-c", command]));
    assert!(!place.is_mounted());
    place.mounted(&[]);
}

#[test]
fn auto_unmount_clears_the_mount_of_a_killed_daemon() {
    for foreground in [false, true] {
        let place = base();
        let mut daemon = foreground.then(|| place.foreground(&["-o", "auto_unmount"]));
        let pid = match &daemon {
            Some(daemon) => daemon.pid(),
            None => {
                place.mounted(&["-o", "auto_unmount"]);
                *place.daemons().iter().min().unwrap()
            }
        };
        assert_eq!(place.daemons().len(), 2);
        signal(pid, "KILL");
        if let Some(daemon) = &mut daemon {
            daemon.wait();
        }
        assert!(place.is_clean());
    }
}

#[test]
fn auto_unmount_leaves_no_watcher_after_an_orderly_end() {
    let place = base();
    place.mounted(&["-o", "auto_unmount"]);
    assert!(place.umount().status.success());
    assert!(place.is_clean());
    place.mounted(&["-o", "auto_unmount"]);
    place.signal("TERM");
    assert!(place.is_clean());
}

#[test]
fn each_trouble_with_the_mountpoint_and_the_model_has_its_own_message() {
    let place = base();
    let run = |model: &str, point: &str| one_line(&place.run([model, point]));
    let missing = run("model.gguf", "nowhere");
    assert!(missing.contains("nowhere: no such directory"), "{missing}");
    let file = run("model.gguf", "model.gguf");
    assert!(
        file.contains("model.gguf: is not a directory; the mountpoint is named second"),
        "{file}"
    );
    let model = run("nothing.gguf", "mnt");
    assert!(model.contains("nothing.gguf: No such file"), "{model}");
    assert!(!place.is_mounted());

    fs::write(place.path("in the way"), "").unwrap();
    place.mounted(&[]);
    let twice = run("model.gguf", "mnt");
    assert!(twice.contains("already mounted (fuse.gguf-fs of "), "{twice}");
    assert_eq!(place.mounts(), 1);
    let inside = run("model.gguf", "mnt/metadata/general.architecture");
    assert!(inside.contains("not a directory"), "{inside}");
}

#[test]
fn a_failure_in_the_background_is_one_line_and_leaves_no_process() {
    let place = Place::new(b"GGUF\x63\0\0\0 not really");
    let start = Instant::now();
    one_line(&place.mount(&[]));
    assert!(start.elapsed() < SHORT);
    assert!(place.is_clean());
}

#[test]
fn the_options_of_fstab_are_taken_and_an_unknown_one_is_named() {
    let place = base();
    let generic = "ro,noauto,nofail,user,nosuid,nodev,noexec,_netdev,x-systemd.automount,noatime";
    for args in [&["-o", generic][..], &["-o", "rw,dev,suid", "-o", "exec,atime,relatime,defaults"]]
    {
        place.mounted(args);
        assert!(place.umount().status.success());
        assert!(place.is_clean());
    }
    let refused = place.mount(&["-o", "ro,frobnicate=3"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("'frobnicate=3'"));
    assert!(!place.is_mounted());
}

/// What findmnt says of the mountpoint.
fn findmnt(place: &Place, column: &str) -> String {
    let mut findmnt = Command::new("findmnt");
    let shown = stdout(findmnt.args(["-n", "-r", "-o", column, "-M"]).arg(&place.point));
    String::from_utf8(shown).unwrap().trim_end().to_owned()
}

#[test]
fn findmnt_shows_the_model_and_the_type_whatever_the_name() {
    for name in ["model.gguf", "with space.gguf", "a,b\\c,allow_other.gguf", "new\nline.gguf"] {
        let place = Place::named(OsStr::new(name), &GgufBuilder::base().build());
        place.mounted(&[]);
        let mounts = fs::read(format!("/proc/{}/mountinfo", std::process::id())).unwrap();
        let point = place.point.to_str().unwrap();
        let mounts = String::from_utf8_lossy(&mounts).into_owned();
        let line = mounts.lines().find(|l| l.contains(point)).unwrap();
        let (_, after) = line.split_once(" - ").unwrap();
        let escaped = place.model.to_str().unwrap();
        let escaped = escaped.replace('\\', "\\134").replace(' ', "\\040").replace('\n', "\\012");
        assert!(after.starts_with(&format!("fuse.gguf-fs {escaped} ro,")), "{line}");
        assert!(!after.ends_with("allow_other"), "{line}");
        assert_eq!(findmnt(&place, "FSTYPE"), "fuse.gguf-fs");
    }
}

#[test]
fn fsname_and_subtype_replace_what_findmnt_shows() {
    let place = base();
    place.mounted(&["-o", r"fsname=a\,b,subtype=model"]);
    assert_eq!(findmnt(&place, "SOURCE,FSTYPE"), "a,b fuse.model");
    let options = findmnt(&place, "OPTIONS");
    for option in ["ro", "nosuid", "nodev", "default_permissions"] {
        assert!(options.split(',').any(|o| o == option), "{options}");
    }
}

#[test]
fn the_systems_mount_helper_mounts() {
    if !root_or_left_out("mount -t fuse.gguf-fs") {
        return;
    }
    let place = base();
    let mut helper = Command::new("/sbin/mount.fuse3");
    let kind = format!("fuse.{PROGRAM}");
    helper.arg(&place.model).arg(&place.point).args(["-t", &kind, "-o", "ro,allow_other,noauto"]);
    stdout(&mut helper);
    assert!(findmnt(&place, "OPTIONS").contains("allow_other"));
    assert_eq!(findmnt(&place, "FSTYPE"), "fuse.gguf-fs");
}

#[test]
fn a_mount_over_the_working_directory_works_from_there() {
    let place = base();
    let mut program = Command::new(PROGRAM);
    stdout(program.args(["../model.gguf", "."]).current_dir(&place.point));
    assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
}

/// Runs a script in a mount namespace of its own in which every user may open /dev/fuse, as on an
/// ordinary system; `as_user` there runs a command as nobody. Returns its standard output.
fn as_ordinary_user(place: &Place, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&place.dir, fs::Permissions::from_mode(0o777)).unwrap();
    let prelude = r#"
        set -e
        dev=$(mktemp -d)
        mount -t tmpfs tmpfs "$dev"
        mknod -m 666 "$dev/fuse" c 10 229
        mount --bind "$dev/fuse" /dev/fuse
        umount -l "$dev"; rmdir "$dev"
        as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"; }
        mounted() { grep -q " $PWD/user " /proc/self/mountinfo; }
        gguf_fs=$1; mkdir -p user; chown 65534:65534 user
        set +e
    "#;
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "--propagation", "private", "sh", "-c"]);
    unshare.arg(format!("{prelude}{script}")).args(["sh", PROGRAM]);
    let done = output(unshare.current_dir(&place.dir));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

#[test]
fn an_ordinary_user_mounts_and_unmounts_through_fusermount() {
    if !root_or_left_out("acting as another user") {
        return;
    }
    let place = Place::named(OsStr::from_bytes(b"a, b\\\xff.gguf"), &GgufBuilder::base().build());
    let said = as_ordinary_user(
        &place,
        r#"
        unmounted() { for i in $(seq 200); do mounted || return 0; sleep .01; done; false; }
        as_user "$gguf_fs" *.gguf user || exit
        findmnt -n -r -o FSTYPE -M "$PWD/user"
        as_user stat -c '%u %g %A' user/info
        as_user cat user/metadata/llama.block_count
        as_user fusermount3 -u user; unmounted && echo unmounted
        as_user "$gguf_fs" -f *.gguf "$PWD/user" &
        for i in $(seq 200); do mounted && break; sleep .01; done
        kill $(pgrep -f "$PWD/user"); wait $!; echo $?
        unmounted && echo unmounted
        as_user "$gguf_fs" -o auto_unmount *.gguf "$PWD/user"; mounted && echo mounted
        kill -9 $(pgrep -o -f "$PWD/user"); unmounted && echo unmounted
        "#,
    );
    let expected =
        "fuse.gguf-fs\n65534 65534 -r--r--r--\n2\nunmounted\n0\nunmounted\nmounted\nunmounted\n";
    assert_eq!(said, expected);
}

#[test]
fn what_an_ordinary_user_lacks_is_named() {
    if !root_or_left_out("acting as another user") {
        return;
    }
    let place = base();
    let said = as_ordinary_user(
        &place,
        r#"
        chmod 644 *.gguf; try() { "$@" 2>&1; echo "$?"; }
        try as_user "$gguf_fs" -o allow_other *.gguf user
        FUSERMOUNT_PATH=/nowhere try as_user "$gguf_fs" *.gguf user
        chmod 755 mnt; try as_user "$gguf_fs" *.gguf mnt
        mkdir -m 700 closed; mkdir closed/in; try as_user "$gguf_fs" *.gguf closed/in
        "#,
    );
    let lines: Vec<&str> = said.lines().collect();
    let [other, "1", helper, "1", write, "1", closed, "1"] = lines[..] else { panic!("{said}") };
    assert!(other.contains("user_allow_other") && other.contains("/etc/fuse.conf"), "{other}");
    assert!(helper.contains("package fuse3"), "{helper}");
    assert!(write.contains("no write access to mountpoint"), "{write}");
    assert!(closed.ends_with("closed/in: Permission denied"), "{closed}");
}

#[test]
fn without_the_device_the_error_says_what_to_do() {
    if !root_or_left_out("hiding /dev/fuse") {
        return;
    }
    let place = base();
    let said = as_ordinary_user(
        &place,
        r#"
        mount -t tmpfs tmpfs /dev
        "$gguf_fs" *.gguf mnt 2>&1; echo "$?"
        "#,
    );
    let lines: Vec<&str> = said.lines().collect();
    let [missing, "1"] = lines[..] else { panic!("{said}") };
    for hint in
        ["gguf-fs: /dev/fuse: No such file", "--device /dev/fuse", "modprobe", "gguf-fs cat"]
    {
        assert!(missing.contains(hint), "{missing}");
    }
}

#[test]
fn a_killed_child_or_parent_leaves_no_mount() {
    if !root_or_left_out("acting as another user") {
        return;
    }
    let place = base();
    // The helper is run by the child while the parent waits: the moment to kill either.
    let said = as_ordinary_user(
        &place,
        r#"
        chmod 644 *.gguf
        printf '#!/bin/sh\nkill -9 $PPID\n' >kill_child
        printf '#!/bin/sh\nkill -9 $(cut -d" " -f4 /proc/$PPID/stat)\nexec fusermount3 "$@"\n' >kill_parent
        chmod 755 kill_*
        FUSERMOUNT_PATH=$PWD/kill_child as_user "$gguf_fs" *.gguf user 2>&1; echo $?
        mounted || echo nothing
        (FUSERMOUNT_PATH=$PWD/kill_parent as_user "$gguf_fs" *.gguf "$PWD/user") >/dev/null 2>&1; echo $?
        for i in $(seq 200); do pgrep -f "$PWD/user" || break; sleep .01; done >/dev/null
        mounted || echo nothing
        "#,
    );
    let lines: Vec<&str> = said.lines().collect();
    let [killed, "1", "nothing", "137", "nothing"] = lines[..] else { panic!("{said}") };
    assert!(killed.contains("killed by SIGKILL"), "{killed}");
}

#[test]
fn root_mounts_and_unmounts_without_fusermount() {
    if !root_or_left_out("mounting by system call") {
        return;
    }
    let place = base();
    let mut program = Command::new(PROGRAM);
    program.arg(&place.model).arg(&place.point).env("FUSERMOUNT_PATH", "/nowhere");
    stdout(program.env("PATH", ""));
    assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
    place.signal("TERM");
    assert!(place.is_clean());
}

#[test]
fn uid_and_gid_change_the_owner_shown() {
    let place = base();
    place.mounted(&["-o", "uid=12,gid=34"]);
    let owner = |path: &str| {
        let shown = stdout(Command::new("stat").args(["-c", "%u %g"]).arg(place.path(path)));
        String::from_utf8(shown).unwrap()
    };
    assert_eq!(owner(""), "12 34\n");
    assert_eq!(owner("tensors/a/raw"), "12 34\n");
}

#[test]
fn other_users_see_what_the_options_allow() {
    if !root_or_left_out("acting as another user") {
        return;
    }
    for (options, allowed) in [("ro", false), ("allow_root", false), ("allow_other", true)] {
        let place = base();
        place.mounted(&["-o", options]);
        place.read("metadata/llama.block_count");
        let mut other = Command::new("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat"]);
        let read = output(other.arg(place.path("metadata/llama.block_count")));
        assert_eq!(read.status.success(), allowed, "{options}");
    }
}

#[test]
fn a_read_only_model_behind_a_link_is_mounted_and_not_changed() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let place = base();
    fs::set_permissions(&place.model, fs::Permissions::from_mode(0o444)).unwrap();
    let before = (fs::read(&place.model).unwrap(), fs::metadata(&place.model).unwrap());
    symlink("model.gguf", place.dir.join("link.gguf")).unwrap();
    let mounted = place.run(["link.gguf", "mnt"]);
    assert!(mounted.status.success());
    place.read("tensors/b/f32");
    let after = fs::metadata(&place.model).unwrap();
    assert_eq!(fs::read(&place.model).unwrap(), before.0);
    assert_eq!((after.mtime(), after.mtime_nsec()), (before.1.mtime(), before.1.mtime_nsec()));
}
