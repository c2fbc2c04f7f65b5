//! What befalls a mount from outside: its model changes or cannot be read, its daemon is stopped or
//! killed, mounts lie inside and on top of each other. What can still be served honestly is.

mod common;
mod faulty_fs;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

use common::gguf_builder::{GgufBuilder, I8};
use common::known::*;
use common::mounted::*;
use faulty_fs::{Fault, FaultyFs, Kind};
use nix::mount::MntFlags;

/// The kernel reads at most this far around what was asked for.
const READ_AHEAD: u64 = 1 << 20;

/// A model on a filesystem with faults, and a place to mount it.
struct OnFaulty {
    // Goes first: whoever waits for it gets an error.
    faulty: FaultyFs,
    place: Place,
}

impl OnFaulty {
    fn new(model: &[u8]) -> OnFaulty {
        let mut place = Place::new(model);
        let [store, disk] = ["store", "disk"].map(|name| place.dir.join(name));
        fs::create_dir(&store).unwrap();
        fs::create_dir(&disk).unwrap();
        fs::rename(&place.model, store.join("model.gguf")).unwrap();
        place.model = disk.join("model.gguf");
        let rules = place.dir.join("rules");
        let helper = "the_filesystem_with_faults_serves_files_as_they_are_but_for_its_faults";
        OnFaulty { faulty: FaultyFs::mount(helper, &store, &disk, &rules), place }
    }
}

#[test]
fn the_filesystem_with_faults_serves_files_as_they_are_but_for_its_faults() {
    faulty_fs::serve_if_asked();
    let model: Vec<u8> = (0..1_000_000u32).map(|i| (i % 253) as u8).collect();
    let OnFaulty { faulty, place } = OnFaulty::new(&model);
    assert!(fs::read(&place.model).unwrap() == model);
    faulty.set(&[Fault { from: 500_000, to: 500_001, kind: Kind::Broken }]);
    assert!(is_eio(pread(&place.model, 500_000, 1)));
    assert!(is_eio(fs::read(&place.model)));
    assert_eq!(pread(&place.model, 400_000, 10_000).unwrap(), model[400_000..410_000]);
    faulty.set(&[Fault { from: 0, to: 1, kind: Kind::Slow(200) }]);
    let start = Instant::now();
    assert_eq!(pread(&place.model, 0, 4096).unwrap(), model[..4096]);
    assert!(start.elapsed() >= Duration::from_millis(200));
    faulty.set(&[]);
    assert!(fs::read(&place.model).unwrap() == model);
}

#[test]
fn bytes_that_the_disk_cannot_read_are_eio_and_all_others_as_they_are() {
    let known = Known::new();
    let OnFaulty { faulty, place } = OnFaulty::new(&known.bytes);
    place.mounted(&[]);
    check_all(&place, &known);
    let middle = ELEMENTS as u64 / 2;
    // Broken: a token, a block of `early` and a float of `late`, each in the middle.
    let token_at = known.tokens + (TOKENS as u64 / 2) * (8 + 12);
    let [block_at, float_at] = [known.early + middle / 32 * 34, known.late + middle * 4];
    let broken = |from| Fault { from, to: from + 4, kind: Kind::Broken };
    faulty.set(&[broken(token_at), broken(block_at), broken(float_at)]);
    // File, where it is broken, and what it should be.
    let (text, floats, blocks) = (tokens(), early_f32(), quants());
    let cases: [(&str, u64, &[u8]); 5] = [
        ("tensors/late/raw", middle * 4, known.late_raw()),
        ("tensors/late/f32", middle * 4, known.late_raw()),
        ("tensors/early/raw", middle / 32 * 34, &blocks),
        ("tensors/early/f32", middle * 4, &floats),
        ("metadata/tokens", TOKENS as u64 / 2 * 13, &text),
    ];
    for (file, at, whole) in cases {
        let path = place.path(file);
        forget_pages(&path);
        assert!(is_eio(pread(&path, at, 1)), "{file}");
        assert!(is_eio(fs::read(&path)), "{file}");
        let end = whole.len();
        // 64 KiB on each side are beyond what one page of the disk or one step of a text takes along.
        for start in [0, at as usize / 2, at as usize - 70_000, at as usize + 70_000, end - 4096] {
            let bytes = pread(&path, start as u64, 4096);
            let bytes = bytes.unwrap_or_else(|e| panic!("{file} at {start}, broken at {at}: {e}"));
            assert!(bytes == whole[start..start + 4096], "{file} at {start}");
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), end as u64);
    }
    assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
    assert!(place.read("tensors/late/info").starts_with(b"name: late\n"));
    // A disk that has recovered serves everything, since nothing of the failure is kept.
    faulty.set(&[]);
    check_all(&place, &known);
    assert_eq!(place.daemons().len(), 1);
}

#[test]
fn a_head_that_cannot_be_read_is_a_one_line_error() {
    let known = Known::new();
    let OnFaulty { faulty, place } = OnFaulty::new(&known.bytes);
    for from in [0, known.tokens + 500_000] {
        faulty.set(&[Fault { from, to: from + 1, kind: Kind::Broken }]);
        let start = Instant::now();
        for args in [&[][..], &["--lenient"]] {
            let output = place.mount(args);
            if output.status.success() {
                // What comes before the damage is there.
                assert!(from > 0 && args == ["--lenient"], "mounted without its head");
                assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
                assert!(place.umount().status.success());
            } else {
                let said = one_line(&output);
                assert!(said.contains("model.gguf: ") && said.contains("I/O error"), "{said}");
            }
            assert!(place.is_clean());
        }
        assert!(start.elapsed() < Duration::from_secs(2));
    }
}

#[test]
fn a_slow_read_holds_up_no_other() {
    let known = Known::new();
    let OnFaulty { faulty, place } = OnFaulty::new(&known.bytes);
    place.mounted(&[]);
    let slow = known.late + READ_AHEAD;
    const DELAY: u64 = 1500;
    faulty.set(&[Fault { from: slow, to: slow + 1, kind: Kind::Slow(DELAY) }]);
    // As raw it is the kernel that waits, on our behalf; as f32 it is we.
    for file in ["tensors/late/raw", "tensors/late/f32"] {
        let path = place.path(file);
        let start = Instant::now();
        let waiting = std::thread::spawn(move || pread(&path, READ_AHEAD, 4));
        let mut longest = Duration::ZERO;
        let mut others = 0;
        while !waiting.is_finished() {
            for other in
                ["tensors/early/f32", "tensors/early/raw", "metadata/tokens", "tensors/a/f32"]
            {
                let before = Instant::now();
                forget_pages(&place.path(other));
                pread(&place.path(other), 0, 16).unwrap();
                assert_eq!(fs::read_dir(place.path("tensors")).unwrap().count(), 4);
                longest = longest.max(before.elapsed());
                others += 1;
            }
        }
        assert_eq!(waiting.join().unwrap().unwrap(), known.late_raw()[READ_AHEAD as usize..][..4]);
        assert!(start.elapsed() >= Duration::from_millis(DELAY), "{file} was not slow");
        assert!(longest < Duration::from_millis(DELAY / 2), "{file} held up others {longest:?}");
        assert!(others > 10, "{file}: {others} reads meanwhile");
        faulty.set(&[Fault { from: slow, to: slow + 1, kind: Kind::Slow(DELAY) }]);
    }
}

#[test]
fn a_model_that_shrinks_gives_eio_for_what_has_gone() {
    let known = Known::new();
    let place = Place::new(&known.bytes);
    place.mounted(&[]);
    let model = File::options().write(true).open(&place.model).unwrap();
    // Inside a page, so that the rest of it reads as zeros through a mapping.
    let left = known.late + 1_000_001;
    model.set_len(left).unwrap();
    for view in ["tensors/late/raw", "tensors/late/f32"] {
        let path = place.path(view);
        forget_pages(&path);
        assert_eq!(pread(&path, 0, 4096).unwrap(), known.late_raw()[..4096]);
        for gone in [1_000_000, 1_000_001, 1_003_000, 1_200_000, ELEMENTS as u64 * 4 - 1] {
            assert!(is_eio(pread(&path, gone, 1)), "{view} at {gone}");
        }
    }
    assert!(place.read("tensors/early/f32") == early_f32());
    assert!(place.read("metadata/tokens") == tokens());
    // Nothing is left at all.
    model.set_len(0).unwrap();
    for file in ["tensors/early/raw", "tensors/early/f32", "tensors/late/raw", "metadata/tokens"] {
        forget_pages(&place.path(file));
        assert!(is_eio(pread(&place.path(file), 300_000, 1)), "{file}");
    }
    assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
    assert_eq!(fs::metadata(place.path("tensors/late/f32")).unwrap().len(), ELEMENTS as u64 * 4);
    // And back again.
    fs::write(&place.model, &known.bytes).unwrap();
    check_all(&place, &known);
    assert_eq!(place.daemons().len(), 1);
}

#[test]
fn a_model_written_over_never_kills_the_daemon_nor_serves_what_is_not_in_the_file() {
    let known = Known::new();
    let place = Place::new(&known.bytes);
    place.mounted(&[]);
    let size = fs::metadata(place.path("metadata/tokens")).unwrap().len();
    for junk in [0x00, 0xFF, 0x41] {
        let model = File::options().write(true).open(&place.model).unwrap();
        model.write_all_at(&vec![junk; known.bytes.len()], 0).unwrap();
        for file in ["tensors/early/raw", "tensors/late/raw", "tensors/late/f32"] {
            forget_pages(&place.path(file));
            assert!(place.read(file).iter().all(|&byte| byte == junk), "{file}");
        }
        // A text whose lengths have changed cannot be the size that was promised.
        let text = place.path("metadata/tokens");
        forget_pages(&text);
        match fs::read(&text) {
            Ok(bytes) => assert_eq!(bytes.len() as u64, size),
            Err(e) => assert!(is_eio::<()>(Err(e))),
        }
        assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
    }
    fs::write(&place.model, &known.bytes).unwrap();
    check_all(&place, &known);
    assert_eq!(place.daemons().len(), 1);
}

#[test]
fn a_model_replaced_or_removed_stays_as_it_was_mounted() {
    let known = Known::new();
    let place = Place::new(&known.bytes);
    place.mounted(&[]);
    let other = place.dir.join("other.gguf");
    fs::write(&other, GgufBuilder::base().build()).unwrap();
    fs::rename(&other, &place.model).unwrap();
    check_all(&place, &known);
    fs::remove_file(&place.model).unwrap();
    check_all(&place, &known);
    assert!(place.umount().status.success());
    assert!(place.is_clean());
}

#[test]
fn a_stopped_daemon_only_makes_readers_wait() {
    let known = Known::new();
    let place = Place::new(&known.bytes);
    place.mounted(&[]);
    let [pid] = place.daemons()[..] else { panic!("one daemon") };
    signal(pid, "STOP");
    let stopped = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    assert!(wait_until(stopped));
    let path = place.path("tensors/early/f32");
    let reader = std::thread::spawn(move || fs::read(path));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!reader.is_finished());
    signal(pid, "CONT");
    assert!(reader.join().unwrap().unwrap() == early_f32());
}

#[test]
fn a_daemon_killed_under_its_readers_leaves_errors_and_a_mount_that_can_be_cleared() {
    let known = Known::new();
    let place = Place::new(&known.bytes);
    place.mounted(&[]);
    let open = File::open(place.path("tensors/late/raw")).unwrap();
    let path = place.path("tensors/early/f32");
    let reader = std::thread::spawn(move || {
        loop {
            forget_pages(&path);
            fs::read(&path)?;
        }
    });
    place.signal("KILL");
    let ended: io::Result<()> = reader.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    assert!(ended.is_err());
    assert!(open.read_exact_at(&mut [0; 16], READ_AHEAD).is_err());
    assert!(place.umount_lazily().status.success());
    assert!(place.is_clean());
    place.mounted(&[]);
    check_all(&place, &known);
}

#[test]
fn what_is_mounted_while_the_daemon_learns_of_its_unmount_survives() {
    if !root_or_left_out("a tmpfs in place of the mount") {
        return;
    }
    let known = Known::new();
    let place = Place::new(&known.bytes);
    for flags in [MntFlags::empty(), MntFlags::MNT_DETACH] {
        place.mounted(&[]);
        let [pid] = place.daemons()[..] else { panic!("one daemon") };
        // It cannot act before the tmpfs is there.
        signal(pid, "STOP");
        nix::mount::umount2(&place.point, flags).unwrap();
        stdout(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&place.point));
        fs::write(place.path("theirs"), "x").unwrap();
        signal(pid, "TERM");
        signal(pid, "CONT");
        assert!(wait_until(|| place.daemons().is_empty()), "{flags:?}");
        assert_eq!(fs::read(place.path("theirs")).unwrap(), b"x", "{flags:?}");
        stdout(Command::new("umount").arg(&place.point));
        assert!(place.is_clean());
    }
}

#[test]
fn a_busy_mount_refuses_to_go_and_stays_whole_until_its_last_user_has_left() {
    let known = Known::new();
    let place = Place::new(&known.bytes);
    place.mounted(&[]);
    let open = File::open(place.path("tensors/late/raw")).unwrap();
    // SAFETY: nobody writes to the file, or changes its size, while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&open) }.unwrap();
    if is_root() {
        assert!(!place.umount().status.success(), "unmounted though a file is open");
        check_all(&place, &known);
    }
    drop(open);
    assert!(place.umount_lazily().status.success());
    assert!(!place.is_mounted());
    // Only the mapping is left, and it is enough.
    assert!(map[..] == *known.late_raw());
    assert_eq!(place.daemons().len(), 1);
    drop(map);
    assert!(place.is_clean());
}

#[test]
fn a_model_inside_a_mounted_model_is_mounted_too() {
    let inner = Known::new();
    let size = inner.bytes.len() as u64;
    let outer = GgufBuilder::new().tensor("model", I8, &[size], &inner.bytes).build();
    let outer = Place::new(&outer);
    outer.mounted(&[]);
    let mut place = Place::new(&[]);
    place.model = outer.path("tensors/model/raw");
    place.mounted(&[]);
    assert!(place.read("tensors/early/f32") == early_f32());
    // The outer daemon dies: what has not been read is lost, but the inner one lives.
    outer.signal("KILL");
    assert!(wait_until(|| outer.daemons().is_empty()));
    let last = pread(&place.path("tensors/late/f32"), ELEMENTS as u64 * 4 - 4, 4);
    assert!(is_eio(last));
    assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
    assert!(place.umount().status.success());
    assert!(place.is_clean());
}

#[test]
fn a_mount_on_the_directory_of_its_own_model_works_and_goes() {
    let known = Known::new();
    let mut place = Place::new(&known.bytes);
    place.point = place.dir.join("models");
    fs::create_dir(&place.point).unwrap();
    let inside = place.point.join("model.gguf");
    fs::rename(&place.model, &inside).unwrap();
    place.model = inside;
    for _ in 0..2 {
        place.mounted(&[]);
        check_all(&place, &known);
        assert!(!place.model.exists());
        place.signal("TERM");
        assert!(place.is_clean());
        assert!(place.model.exists());
    }
}
