//! What a mount promises, sentence by sentence, tested through the system calls of its readers.

mod common;

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::corpus;
use common::gguf_builder::{F16, F32, GgufBuilder, Q8_0, Val};
use common::mounted::*;

/// Bytes that tell their position.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Tensors of some megabytes, and a text of two.
fn large() -> GgufBuilder {
    let texts = (0..50_000).map(|i| Val::Str(format!("token {i}").into())).collect();
    GgufBuilder::new()
        .key("general.architecture", "llama")
        .key("tokenizer.ggml.tokens", Val::Array(8, texts))
        .tensor("head", F32, &[1000], &pattern(4000))
        .tensor("half", F16, &[1024, 256], &pattern(1 << 19))
        .tensor("quant", Q8_0, &[4096, 128], &pattern(4096 * 128 / 32 * 34))
        .tensor("last", F32, &[777], &pattern(777 * 4))
}

fn large_place() -> Place {
    Place::new(&large().build())
}

fn all(place: &Place) -> Vec<PathBuf> {
    let mut found = vec![place.point.clone()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        if path.is_dir() {
            found.extend(fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
        }
        next += 1;
    }
    found
}

fn sample(name: &str) -> PathBuf {
    let samples = corpus::valid();
    let found = samples.into_iter().find(|s| s.path.file_stem() == Some(OsStr::new(name)));
    found.unwrap().path
}

#[test]
fn attributes_are_exact_before_anything_is_read() {
    for model in ["all_types", "odd_names", "odd_keys", "shapes", "zero_elements"].map(sample) {
        let place = Place::of(&model);
        place.mounted(&[]);
        let modified = fs::metadata(&model).unwrap();
        let mut numbers = HashSet::new();
        for path in all(&place) {
            let meta = fs::symlink_metadata(&path).unwrap();
            assert!(numbers.insert(meta.ino()), "{}: number {}", path.display(), meta.ino());
            let times = [meta.mtime(), meta.atime(), meta.ctime(), meta.mtime_nsec()];
            let expected = modified.mtime();
            assert_eq!(times, [expected, expected, expected, modified.mtime_nsec()]);
            if meta.is_dir() {
                assert_eq!(meta.permissions().mode(), 0o40555);
                let subdirs = fs::read_dir(&path).unwrap().filter(|e| {
                    let kind = e.as_ref().unwrap().file_type().unwrap();
                    kind.is_dir()
                });
                assert_eq!(meta.nlink(), 2 + subdirs.count() as u64, "{}", path.display());
            } else {
                assert_eq!(meta.permissions().mode(), 0o100444);
                assert_eq!(meta.nlink(), 1);
                assert_eq!(meta.blocks(), meta.size().div_ceil(512));
                assert_eq!(
                    fs::read(&path).unwrap().len() as u64,
                    meta.size(),
                    "{}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn inode_numbers_are_the_same_at_every_mount() {
    let numbers = |place: &Place| -> HashMap<PathBuf, u64> {
        let inside = |path: &PathBuf| path.strip_prefix(&place.point).unwrap().to_owned();
        all(place).iter().map(|p| (inside(p), fs::metadata(p).unwrap().ino())).collect()
    };
    let (one, two) = (Place::of(&sample("all_types")), Place::of(&sample("all_types")));
    assert_eq!(numbers(one.mounted(&[])), numbers(two.mounted(&[])));
}

#[test]
fn every_attempt_to_change_something_is_erofs() {
    let place = large_place();
    place.mounted(&[]);
    let file = place.path("info");
    let attempts: [(&str, std::io::Result<()>); 8] = [
        ("open to write", OpenOptions::new().write(true).open(&file).map(drop)),
        ("truncate", OpenOptions::new().write(true).truncate(true).open(&file).map(drop)),
        ("create", File::create(place.path("new")).map(drop)),
        ("mkdir", fs::create_dir(place.path("new"))),
        ("remove", fs::remove_file(&file)),
        ("rmdir", fs::remove_dir(place.path("metadata"))),
        ("rename", fs::rename(&file, place.path("new"))),
        ("chmod", fs::set_permissions(&file, fs::Permissions::from_mode(0o644))),
    ];
    for (what, result) in attempts {
        let kind = result.map_err(|e| e.kind());
        assert_eq!(kind, Err(ErrorKind::ReadOnlyFilesystem), "{what}");
    }
}

#[test]
fn reads_at_any_place_agree_with_one_whole_read() {
    let place = large_place();
    place.mounted(&[]);
    for name in [
        "tensors/quant/f32",
        "tensors/quant/raw",
        "tensors/half/f32",
        "info",
        "metadata/tokenizer.ggml.tokens",
        "tensors/last/raw",
    ] {
        let whole = place.read(name);
        let len = whole.len() as u64;
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(place.path(name))
            .unwrap();
        for file in [File::open(place.path(name)).unwrap(), direct] {
            for at in
                [0, 1, 3, 127, 4095, 4096, 65_537, len / 2 + 1, len - 1, len, len + 1, 1 << 62]
            {
                for size in [0, 1, 2, 31, 4096, 100_003] {
                    let mut bytes = vec![0xAA; size];
                    let mut got = 0;
                    while got < size {
                        match file.read_at(&mut bytes[got..], at + got as u64).unwrap() {
                            0 => break,
                            n => got += n,
                        }
                    }
                    let start = at.min(len) as usize;
                    let expected = &whole[start..(start + size).min(whole.len())];
                    assert!(&bytes[..got] == expected, "{name}: {size} bytes at {at}");
                }
            }
        }
    }
}

#[test]
fn mappings_show_the_bytes() {
    let place = large_place();
    place.mounted(&[]);
    for name in ["tensors/quant/f32", "tensors/half/raw", "info"] {
        let whole = place.read(name);
        let file = File::open(place.path(name)).unwrap();
        let shared = Mapping::new(&file, whole.len(), libc::MAP_SHARED);
        let private = Mapping::new(&file, whole.len(), libc::MAP_PRIVATE);
        assert!(shared.bytes() == whole && private.bytes() == whole, "{name}");
    }
}

struct Mapping(*mut libc::c_void, usize);

impl Mapping {
    fn new(file: &File, len: usize, flags: i32) -> Mapping {
        // SAFETY: a new mapping, read-only, of a file whose bytes never change.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, flags, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Mapping(start, len)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `new` has mapped as many bytes there, and they stay until the drop.
        unsafe { std::slice::from_raw_parts(self.0.cast(), self.1) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`.
        unsafe { libc::munmap(self.0, self.1) };
    }
}

#[test]
fn the_tools_that_copy_see_every_byte() {
    let place = large_place();
    place.mounted(&[]);
    for name in ["info", "metadata/tokenizer.ggml.tokens", "tensors/quant/f32", "tensors/last/raw"]
    {
        let whole = place.read(name);
        let script = r#"
            cat "$0" | wc -c; wc -c <"$0"; stat -c %s "$0"; dd if="$0" bs=1M status=none | wc -c
            cp -a "$0" copy; stat -c %s copy; cmp "$0" copy; tar --xattrs -cf tar "$0"
        "#;
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).arg(place.path(name)).current_dir(&place.dir);
        let done = output(shell);
        let sizes = String::from_utf8(done.stdout).unwrap();
        assert!(sizes.lines().count() == 5 && sizes.lines().all(|l| l == whole.len().to_string()));
        let said = String::from_utf8_lossy(&done.stderr)
            .replace("tar: Removing leading `/' from member names\n", "");
        assert_eq!(said, "");
        fs::remove_file(place.dir.join("copy")).unwrap();
    }
}

/// The names of a directory by getdents64 with a buffer of this size, from where the file stands.
fn list(dir: &File, buffer: usize) -> Vec<(Vec<u8>, i64)> {
    let mut found = Vec::new();
    let mut bytes = vec![0u8; buffer];
    loop {
        // SAFETY: the kernel writes at most `buffer` bytes to `bytes`.
        let got = unsafe {
            libc::syscall(libc::SYS_getdents64, dir.as_raw_fd(), bytes.as_mut_ptr(), buffer)
        };
        assert!(got >= 0, "{}", std::io::Error::last_os_error());
        let mut rest = &bytes[..got as usize];
        if rest.is_empty() {
            return found;
        }
        while !rest.is_empty() {
            let next = i64::from_ne_bytes(rest[8..16].try_into().unwrap());
            let len = u16::from_ne_bytes(rest[16..18].try_into().unwrap());
            let name = &rest[19..usize::from(len)];
            let end = name.iter().position(|&b| b == 0).unwrap();
            found.push((name[..end].to_vec(), next));
            rest = &rest[usize::from(len)..];
        }
    }
}

#[test]
fn listings_keep_the_files_order_lose_nothing_and_go_on_from_any_entry() {
    const TENSORS: usize = 20_000;
    let model = (0..TENSORS).fold(GgufBuilder::new(), |model, i| {
        let name = format!("blk.{}.ffn.weight", (i * 7919) % TENSORS);
        model.info(name, F32, &[0], 0)
    });
    let place = Place::new(&model.build());
    place.mounted(&[]);
    let expected: Vec<Vec<u8>> = [&b"."[..], b".."]
        .iter()
        .map(|n| n.to_vec())
        .chain((0..TENSORS).map(|i| format!("blk.{}.ffn.weight", (i * 7919) % TENSORS).into()))
        .collect();
    for buffer in [512, 32768] {
        let dir = File::open(place.path("tensors")).unwrap();
        let listed = list(&dir, buffer);
        let names: Vec<&Vec<u8>> = listed.iter().map(|(name, _)| name).collect();
        assert!(names == expected.iter().collect::<Vec<_>>(), "{} entries", names.len());
        for at in [0, 1, 2, 777, TENSORS] {
            // SAFETY: moves the position of a directory that this test has open.
            let moved = unsafe { libc::lseek(dir.as_raw_fd(), listed[at].1, libc::SEEK_SET) };
            assert_eq!(moved, listed[at].1);
            let rest = list(&dir, buffer);
            assert!(rest == listed[at + 1..], "from entry {at}");
        }
    }
}

#[test]
fn statfs_shows_a_full_filesystem_of_the_models_size() {
    let place = large_place();
    place.mounted(&[]);
    let shown = stdout(Command::new("stat").args(["-f", "-c", "%S %b %f %a %l"]).arg(&place.point));
    let blocks = fs::metadata(&place.model).unwrap().len().div_ceil(4096);
    assert_eq!(String::from_utf8(shown).unwrap(), format!("4096 {blocks} 0 0 255\n"));
}

#[test]
fn there_are_no_extended_attributes() {
    let place = large_place();
    place.mounted(&[]);
    for path in [place.point.clone(), place.path("info")] {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut bytes = [0 as libc::c_char; 100];
        // SAFETY: the kernel writes at most 100 bytes to `bytes`.
        let listed = unsafe { libc::listxattr(path.as_ptr(), bytes.as_mut_ptr(), 100) };
        assert_eq!(listed, 0);
        for (name, errno) in [
            (c"user.x", libc::ENODATA),
            (c"trusted.x", libc::ENODATA),
            (c"security.capability", libc::ENODATA),
            // Not even supported, so that "ls -l" need not ask for those of every entry.
            (c"security.selinux", libc::EOPNOTSUPP),
            (c"system.posix_acl_access", libc::EOPNOTSUPP),
        ] {
            for size in [0, 100] {
                let value = bytes.as_mut_ptr().cast();
                // SAFETY: as above.
                let got = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value, size) };
                let error = std::io::Error::last_os_error();
                assert_eq!((got, error.raw_os_error()), (-1, Some(errno)), "{name:?}");
            }
        }
    }
}

#[test]
fn a_missing_name_is_enoent_and_a_file_is_no_directory() {
    let place = large_place();
    place.mounted(&[]);
    for (name, kind) in [
        ("nothing", ErrorKind::NotFound),
        ("tensors/nothing/raw", ErrorKind::NotFound),
        ("info/x", ErrorKind::NotADirectory),
    ] {
        assert_eq!(fs::metadata(place.path(name)).unwrap_err().kind(), kind, "{name}");
    }
    assert_eq!(fs::read(place.path("tensors")).unwrap_err().kind(), ErrorKind::IsADirectory);
}

#[test]
fn what_was_read_once_is_not_asked_for_again() {
    let place = large_place();
    // Logs each request that wakes the daemon.
    let log = place.dir.join("log");
    let script = format!(r#"exec "$0" -f -vv "$1" "$2" 2>{}"#, log.display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, PROGRAM]).arg(&place.model).arg(&place.point);
    let daemon = place.foreground_of(shell);
    let requests = || {
        let text = fs::read_to_string(&log).unwrap();
        text.lines().filter(|l| l.contains("FUSE(")).map(str::to_owned).collect::<Vec<_>>()
    };
    let read_all = || {
        let script = r#"ls -U "$0/metadata" "$0/tensors"/*; ls -lU --color=never "$0/tensors"; cat "$0"/tensors/*/*; stat "$0"/nothing"#;
        output(Command::new("sh").args(["-c", script]).arg(&place.point)).stdout
    };
    let first = read_all();
    let before = requests();
    assert!(before.iter().any(|r| r.contains(" READ ")), "no reads in the log: {before:?}");
    assert!(read_all() == first);
    let after = requests();
    // That labels and access control lists are not supported is what "ls -l" keeps, not the kernel.
    let (lists, again): (Vec<&String>, _) =
        after[before.len()..].iter().partition(|r| r.contains("GETXATTR"));
    assert_eq!(again, Vec::<&String>::new());
    assert!(lists.len() <= 2, "{lists:?}");
    drop(daemon);
}

#[test]
fn a_listing_with_sizes_asks_for_no_entry_alone() {
    let place = large_place();
    place.mounted(&[]);
    let listed = stdout(Command::new("ls").arg("-lU").arg(place.path("metadata")));
    let text = place.read("metadata/tokenizer.ggml.tokens");
    let listed = String::from_utf8(listed).unwrap();
    let line = listed.lines().find(|l| l.ends_with("tokenizer.ggml.tokens")).unwrap();
    assert_eq!(line.split_whitespace().nth(4), Some(text.len().to_string().as_str()), "{listed}");
    assert_eq!(text.iter().filter(|&&b| b == b'\n').count(), 50_000);
}

fn eio(path: &Path) {
    let error = match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut Vec::new()).expect_err("bytes that are not there"),
        Err(e) => e,
    };
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{}", path.display());
}

#[test]
fn when_the_model_shrinks_what_is_lost_is_eio_and_the_rest_stays_readable() {
    let place = large_place();
    let whole = large().build();
    let mut daemon = place.foreground(&[]);
    let file = OpenOptions::new().write(true).open(&place.model).unwrap();
    let last = (777usize * 4).next_multiple_of(32);
    let quant = whole.len() - 4096 * 128 / 32 * 34 - last;
    file.set_len(quant as u64).unwrap();
    for lost in ["tensors/quant/raw", "tensors/quant/f32", "tensors/last/raw", "tensors/last/f32"] {
        eio(&place.path(lost));
    }
    assert_eq!(place.read("tensors/half/raw"), pattern(1 << 19));
    place.read("tensors/half/f32");
    file.set_len(100).unwrap();
    for lost in ["metadata/tokenizer.ggml.tokens", "tensors/head/raw", "tensors/head/f32"] {
        eio(&place.path(lost));
    }
    place.read("info");
    place.read("tensors/quant/info");
    assert!(!daemon.has_ended());
    // What comes back is served again.
    drop(file);
    fs::write(&place.model, &whole).unwrap();
    assert_eq!(place.read("tensors/last/raw"), pattern(777 * 4));
    assert!(!daemon.has_ended());
}

#[test]
fn when_the_model_shrinks_a_reader_in_the_middle_gets_eio() {
    let place = large_place();
    let mut daemon = place.foreground(&[]);
    let open: Vec<File> = ["raw", "f32"]
        .map(|view| File::open(place.path(&format!("tensors/quant/{view}"))).unwrap())
        .into();
    for file in &open {
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
    }
    let half = fs::metadata(&place.model).unwrap().len() / 2;
    OpenOptions::new().write(true).open(&place.model).unwrap().set_len(half).unwrap();
    for file in &open {
        let at = file.metadata().unwrap().len() - 4096;
        let error = file.read_at(&mut [0; 4096], at).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
    assert!(!daemon.has_ended());
}

#[test]
fn a_model_that_is_overwritten_kills_nobody() {
    let place = large_place();
    let mut daemon = place.foreground(&[]);
    let garbage = vec![0xFF; large().build().len()];
    fs::write(&place.model, garbage).unwrap();
    for path in all(&place).into_iter().filter(|p| p.is_file()) {
        // Whatever it now says, it says it in the size it promised, or not at all.
        let promised = fs::metadata(&path).map(|m| m.size());
        match fs::read(&path) {
            Ok(bytes) => assert_eq!(bytes.len() as u64, promised.unwrap(), "{}", path.display()),
            Err(e) => assert_eq!(e.raw_os_error(), Some(libc::EIO), "{}", path.display()),
        }
    }
    assert!(!daemon.has_ended());
}

#[test]
fn many_readers_at_once_all_get_their_bytes() {
    let place = large_place();
    let daemon = place.foreground(&[]);
    let names = [
        "tensors/quant/f32",
        "tensors/half/f32",
        "tensors/quant/raw",
        "metadata/tokenizer.ggml.tokens",
    ];
    let whole: Vec<Vec<u8>> =
        names.iter().map(|name| place.run(["cat", "model.gguf", name]).stdout).collect();
    std::thread::scope(|scope| {
        for reader in 0..64u64 {
            let (place, whole) = (&place, &whole);
            scope.spawn(move || {
                let which = reader as usize % names.len();
                let whole = &whole[which];
                let flags = if reader % 8 < 4 { libc::O_DIRECT } else { 0 };
                let mut options = OpenOptions::new();
                let file =
                    options.read(true).custom_flags(flags).open(place.path(names[which])).unwrap();
                let mut seed = reader + 1;
                for _ in 0..50 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (seed >> 20) as usize % (whole.len() - 5000);
                    let mut bytes = [0; 4999];
                    file.read_exact_at(&mut bytes, at as u64).unwrap();
                    assert!(bytes == whole[at..at + 4999], "reader {reader} at {at}");
                }
            });
        }
    });
    drop(daemon);
}
