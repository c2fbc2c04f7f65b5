//! Many mounts one after the other, and many readers of one.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::gguf_builder::GgufBuilder;
use common::known::*;
use common::mounted::*;
use common::random::Random;

#[test]
fn two_hundred_mounts_leave_no_process_mount_or_connection() {
    let place = Place::new(&GgufBuilder::base().build());
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let before = (place.mounts(), place.daemons().len());
    for cycle in 0..200 {
        place.mounted(&[]);
        assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
        match cycle % 4 {
            0 => place.signal("TERM"),
            1 => place.signal("INT"),
            2 => assert!(place.umount_lazily().status.success()),
            _ => assert!(place.umount().status.success()),
        }
        assert!(wait_until(|| !place.is_mounted()), "cycle {cycle}: {} mounts", mounts());
    }
    assert!(place.is_clean());
    assert_eq!((place.mounts(), place.daemons().len()), before);
}

/// How 64 readers go about it.
#[derive(Clone, Copy)]
enum Manner {
    Sequential,
    Random,
    Mapped,
    Direct,
    Listing,
}

#[test]
fn sixty_four_readers_read_what_is_there() {
    // A minute of it when GGUF_FS_SECONDS says so.
    let seconds = std::env::var("GGUF_FS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(5);
    let known = Known::new();
    let place = Place::new(&known.bytes);
    place.mounted(&[]);
    let files: Vec<(PathBuf, Vec<u8>)> = [
        ("tensors/late/raw", known.late_raw().to_vec()),
        ("tensors/late/f32", known.late_raw().to_vec()),
        ("tensors/early/raw", quants()),
        ("tensors/early/f32", early_f32()),
        ("metadata/tokens", tokens()),
    ]
    .map(|(file, bytes)| (place.path(file), bytes))
    .into();
    let mut seeds = Random::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    let manners =
        [Manner::Sequential, Manner::Random, Manner::Mapped, Manner::Direct, Manner::Listing];
    std::thread::scope(|scope| {
        for reader in 0..64 {
            let (files, place) = (&files, &place);
            let manner = manners[reader % manners.len()];
            let mut random = seeds.split();
            scope.spawn(move || {
                let mut rounds = 0;
                while rounds == 0 || Instant::now() < end {
                    let (path, expected) = &files[random.below(files.len() as u64) as usize];
                    read_in(manner, path, expected, &mut random, place);
                    rounds += 1;
                }
            });
        }
        // Under all of them the page cache goes away again and again.
        scope.spawn(|| {
            while Instant::now() < end {
                std::thread::sleep(Duration::from_millis(500));
                if is_root() {
                    fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
                }
                files.iter().for_each(|(path, _)| forget_pages(path));
            }
        });
    });
    assert_eq!(place.daemons().len(), 1);
}

fn read_in(manner: Manner, path: &Path, expected: &[u8], random: &mut Random, place: &Place) {
    match manner {
        Manner::Sequential => assert!(fs::read(path).unwrap() == expected, "{path:?}"),
        Manner::Random => {
            let file = File::open(path).unwrap();
            for _ in 0..200 {
                let at = random.below(expected.len() as u64) as usize;
                let mut bytes = vec![0; (random.below(8192) as usize).min(expected.len() - at)];
                file.read_exact_at(&mut bytes, at as u64).unwrap();
                assert!(bytes == expected[at..at + bytes.len()], "{path:?} at {at}");
            }
        }
        Manner::Mapped => {
            let file = File::open(path).unwrap();
            // SAFETY: nobody writes to the file, or changes its size, while it is mapped.
            let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
            for _ in 0..200 {
                let at = random.below(expected.len() as u64) as usize;
                let end = expected.len().min(at + random.below(8192) as usize);
                assert!(map[at..end] == expected[at..end], "{path:?} at {at}");
            }
        }
        Manner::Direct => {
            use std::os::unix::fs::OpenOptionsExt;
            let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
            for _ in 0..20 {
                let at = random.below(expected.len() as u64) as usize;
                let mut bytes = vec![0; random.below(300_000) as usize];
                let n = file.read_at(&mut bytes, at as u64).unwrap();
                assert_eq!(n, bytes.len().min(expected.len() - at), "{path:?} at {at}");
                assert!(bytes[..n] == expected[at..at + n], "{path:?} at {at}");
            }
        }
        Manner::Listing => {
            let names = fs::read_dir(place.path("tensors")).unwrap();
            let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, ["a", "b", "early", "late"]);
            assert_eq!(fs::metadata(path).unwrap().len(), expected.len() as u64);
        }
    }
}
