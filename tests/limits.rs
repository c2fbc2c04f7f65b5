//! The largest of everything: memory stays bounded, refusals are quick, and what is accepted is
//! whole, through a real mount. Big files are sparse, so they cost no disk.

mod common;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::gguf_builder::{Encoding, F32, GgufBuilder, I8, Val};
use common::listing::getdents;
use common::mounted::*;

/// What the daemon may hold besides the mapping.
const MEMORY: u64 = 64 << 20;

/// The most time of a processor that a refusal may take, and a mount.
const QUICKLY: Duration = Duration::from_secs(if cfg!(debug_assertions) { 15 } else { 1 });

/// A refusal's limit of memory.
const MEMORY_OF_REFUSAL: u64 = 50 << 20;

const LITTLE: Encoding = Encoding { version: 3, big: false };

/// Type ids of values.
const U8: u32 = 0;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// A size in bytes of a process, from /proc/PID/status.
fn status(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The time that a process has had a processor, from /proc/PID/stat. Unlike the time that passes it
/// does not depend on what else the machine does.
fn processor_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse().unwrap_or(0)).sum();
    Some(Duration::from_millis(ticks * 10))
}

/// Mounts, which must be as quick for a huge file as for a small one.
fn mounted_quickly(place: &Place) {
    place.mounted(&[]);
    let took = processor_time(place.daemons()[0]).unwrap();
    assert!(took < QUICKLY, "mounting takes {took:?}");
}

/// The daemon's anonymous memory, watched while something is done.
fn memory_while<T>(place: &Place, what: impl FnOnce() -> T) -> T {
    let [pid] = place.daemons()[..] else { panic!("one daemon") };
    let done = AtomicBool::new(false);
    let (result, most) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(status(pid, "RssAnon:").unwrap());
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what));
        done.store(true, Ordering::Relaxed);
        (result, watcher.join().unwrap())
    });
    let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert!(most < MEMORY, "the daemon took {most} bytes of memory");
    result
}

/// A sparse file: these pieces at these offsets, and nothing but zeros up to the size.
fn sparse(size: u64, pieces: &[(u64, &[u8])]) -> Place {
    let place = Place::new(&[]);
    let file = File::options().write(true).open(&place.model).unwrap();
    for (offset, bytes) in pieces {
        file.write_all_at(bytes, *offset).unwrap();
    }
    file.set_len(size).unwrap();
    place
}

/// The head of a file with one key, whose value begins with these bytes.
fn one_key(key: &str, value_type: u32, begin: &[u8]) -> Vec<u8> {
    GgufBuilder::new().key(key, Val::Raw(value_type, begin.to_vec())).head()
}

/// `gguf-fs` refuses the model in one line, quickly and without much memory.
fn refused(place: &Place) -> String {
    let mut command = Command::new(PROGRAM);
    command.arg("-f").arg(&place.model).arg(&place.point);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut memory, mut time) = (0, Duration::ZERO);
    while child.try_wait().unwrap().is_none() {
        memory = memory.max(status(child.id(), "RssAnon:").unwrap_or(0));
        time = time.max(processor_time(child.id()).unwrap_or_default());
        if time > QUICKLY {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    assert!(time < QUICKLY, "not refused after {time:?}");
    let said = one_line(&output);
    assert!(memory < MEMORY_OF_REFUSAL, "{memory} bytes of memory: {said}");
    assert!(!place.is_mounted());
    said
}

#[test]
fn a_gigabyte_of_numbers_and_of_string_is_text_in_little_memory() {
    const LEN: u64 = 1 << 30;
    const STRING_LEN: u64 = 500_000_000;
    let mut head = GgufBuilder::new().announce_keys(2).head();
    head.extend(&one_key("numbers", ARRAY, &[LITTLE.u32(U8), LITTLE.u64(LEN)].concat())[24..]);
    let numbers_at = head.len() as u64;
    let second = &one_key("string", STRING, &LITTLE.u64(STRING_LEN))[24..];
    let string_at = numbers_at + LEN + second.len() as u64;
    let place = sparse(
        string_at + STRING_LEN,
        &[
            (0, &head),
            (numbers_at + LEN / 2, &[255]),
            (numbers_at + LEN, second),
            (string_at, b"begin"),
            (string_at + STRING_LEN - 3, b"end"),
        ],
    );
    mounted_quickly(&place);
    memory_while(&place, || {
        let string = File::open(place.path("metadata/string")).unwrap();
        assert_eq!(string.metadata().unwrap().len(), STRING_LEN + 1);
        let mut ends = [0; 9];
        string.read_exact_at(&mut ends[..5], 0).unwrap();
        string.read_exact_at(&mut ends[5..], STRING_LEN - 3).unwrap();
        assert_eq!(&ends, b"beginend\n");
        // Debug builds take a minute to count a gigabyte of numbers.
        if !cfg!(debug_assertions) {
            let numbers = File::open(place.path("metadata/numbers")).unwrap();
            // "0\n" each, but for one "255\n".
            assert_eq!(numbers.metadata().unwrap().len(), 2 * LEN + 2);
            let mut around = [0; 8];
            numbers.read_exact_at(&mut around, LEN - 2).unwrap();
            assert_eq!(&around, b"0\n255\n0\n");
            numbers.read_exact_at(&mut around[..2], 2 * LEN).unwrap();
            assert_eq!(&around[..2], b"0\n");
        }
    });
}

#[test]
fn long_arrays_of_small_and_large_elements_are_text_in_little_memory() {
    const BOOLS: u64 = if cfg!(debug_assertions) { 20_000_000 } else { 1_000_000_000 };
    const STRING_LEN: u64 = if cfg!(debug_assertions) { 30_000_000 } else { 500_000_000 };
    let mut head = GgufBuilder::new().announce_keys(2).head();
    head.extend(&one_key("bools", ARRAY, &[LITTLE.u32(BOOL), LITTLE.u64(BOOLS)].concat())[24..]);
    let bools_at = head.len() as u64;
    let begin = [LITTLE.u32(STRING), LITTLE.u64(1), LITTLE.u64(STRING_LEN)].concat();
    let second = &one_key("strings", ARRAY, &begin)[24..];
    let string_at = bools_at + BOOLS + second.len() as u64;
    let place = sparse(
        string_at + STRING_LEN,
        &[
            (0, &head),
            (bools_at + BOOLS - 1, &[1]),
            (bools_at + BOOLS, second),
            (string_at + STRING_LEN - 2, b"\\\n"),
        ],
    );
    place.mounted(&[]);
    memory_while(&place, || {
        let bools = File::open(place.path("metadata/bools")).unwrap();
        let size = bools.metadata().unwrap().len();
        assert_eq!(size, 6 * BOOLS - 1);
        let mut end = [0; 11];
        bools.read_exact_at(&mut end, size - 11).unwrap();
        assert_eq!(&end, b"false\ntrue\n");
        let strings = File::open(place.path("metadata/strings")).unwrap();
        let size = strings.metadata().unwrap().len();
        // Two escapes and the end of the line.
        assert_eq!(size, STRING_LEN + 3);
        strings.read_exact_at(&mut end[..6], size - 6).unwrap();
        assert_eq!(&end[..6], b"\0\\\\\\n\n");
    });
}

#[test]
fn many_tensors_and_keys_are_listed_and_found_in_little_memory() {
    const TENSORS: usize = 200_000;
    const KEYS: usize = 100_000;
    let mut builder = GgufBuilder::new();
    for i in 0..KEYS {
        builder = builder.key(format!("general.some.key.{i:06}"), i as u32);
    }
    for i in 0..TENSORS {
        builder = builder.info(format!("blk.{i:06}.attn_output.weight"), I8, &[1], i as u64 * 32);
    }
    let head = builder.head();
    let data = (head.len() as u64).next_multiple_of(32);
    let place = sparse(data + TENSORS as u64 * 32, &[(0, &head), (data + 32 * 123_456, &[7])]);
    mounted_quickly(&place);
    memory_while(&place, || {
        let list = |folder: &str| {
            let entries = fs::read_dir(place.path(folder)).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
        };
        let tensors = (0..TENSORS).map(|i| format!("blk.{i:06}.attn_output.weight"));
        assert!(list("tensors").eq(tensors));
        assert!(list("metadata").eq((0..KEYS).map(|i| format!("general.some.key.{i:06}"))));
        assert_eq!(place.read("tensors/blk.123456.attn_output.weight/raw"), [7]);
        assert_eq!(place.read("metadata/general.some.key.099999"), b"99999\n");
        for missing in ["tensors/blk.200000.attn_output.weight", "metadata/general.some.key"] {
            assert!(!place.path(missing).exists());
        }
        for text in ["model.json", "tensors.tsv", "info"] {
            let size = fs::metadata(place.path(text)).unwrap().len();
            let mut file = File::open(place.path(text)).unwrap();
            assert_eq!(std::io::copy(&mut file, &mut std::io::sink()).unwrap(), size, "{text}");
        }
    });
}

#[test]
fn names_beyond_the_longest_file_name_are_cut_and_reach_their_own_entries() {
    let lengths = [1, 237, 238, 254, 255, 256, 257, 1_000, 10_000, 65_535];
    let mut builder = GgufBuilder::new();
    for (number, length) in (0..).zip(lengths) {
        // Two of each length that differ in the last byte alone.
        for end in ["x", "y"] {
            let name = "n".repeat(length - 1) + end;
            builder = builder.key(&name, Val::Str(format!("{length}{end}").into())).tensor(
                &name,
                F32,
                &[1],
                &[number; 4],
            );
        }
    }
    let place = Place::new(&builder.build());
    place.mounted(&[]);
    for (number, length) in lengths.into_iter().enumerate() {
        for (at, end) in ["x", "y"].into_iter().enumerate() {
            let keys = fs::read_dir(place.path("metadata")).unwrap();
            let name = keys.map(|key| key.unwrap().file_name()).nth(2 * number + at).unwrap();
            assert!(name.len() <= 255 && (length > 255 || name.len() == length), "{length}{end}");
            let key = fs::read_to_string(place.path("metadata").join(&name)).unwrap();
            assert_eq!(key, format!("{length}{end}\n"));
            let tensor = place.path("tensors").join(&name);
            assert_eq!(fs::read(tensor.join("raw")).unwrap(), [number as u8; 4]);
            let info = fs::read(tensor.join("info")).unwrap();
            assert!(info.len() >= length && info.starts_with(b"name: n") | (length == 1));
        }
    }
}

#[test]
fn twenty_thousand_entries_are_whole_through_small_buffers_and_from_any_place() {
    const ENTRIES: usize = 20_000;
    let name = |i: usize| format!("tensor.{i:05}");
    let builder = (0..ENTRIES).fold(GgufBuilder::new(), |b, i| b.info(name(i), F32, &[0], 0));
    let place = Place::new(&builder.build());
    place.mounted(&[]);
    let expected = || {
        let dots = [".", ".."].map(|dot| dot.as_bytes().to_vec());
        dots.into_iter().chain((0..ENTRIES).map(|i| name(i).into_bytes()))
    };
    let list = |buffer: usize| {
        let mut directory = File::open(place.path("tensors")).unwrap();
        let mut all = Vec::new();
        loop {
            let some = getdents(&directory, buffer).unwrap();
            if some.is_empty() {
                break;
            }
            all.extend(some);
        }
        assert!(all.iter().map(|(_, name)| name.clone()).eq(expected()), "{buffer}");
        // From every 97th place, forwards and backwards.
        for at in (0..all.len() - 1).step_by(97).chain((0..all.len() - 1).rev().step_by(977)) {
            directory.seek(SeekFrom::Start(all[at].0 as u64)).unwrap();
            let next = getdents(&directory, buffer).unwrap();
            assert_eq!(next[0], all[at + 1], "{buffer} from {at}");
        }
        directory.seek(SeekFrom::Start(all[all.len() - 1].0 as u64)).unwrap();
        assert!(getdents(&directory, buffer).unwrap().is_empty());
    };
    list(64);
    std::thread::scope(|scope| {
        for buffer in [64, 200, 512, 4096, 32768, 1 << 20] {
            scope.spawn(move || list(buffer));
        }
    });
}

#[test]
fn announced_counts_of_billions_in_a_file_of_zeros_are_refused() {
    for size in [1 << 20, 100 << 30] {
        for count in [10_000_000_000, 500_000_000, 1 << 32, 1 << 63, u64::MAX] {
            for builder in [
                GgufBuilder::new().announce_keys(count),
                GgufBuilder::new().announce_tensors(count),
                GgufBuilder::new().announce_keys(count).announce_tensors(count),
            ] {
                let place = sparse(size, &[(0, &builder.head())]);
                let said = refused(&place);
                assert!(said.chars().any(|c| c.is_ascii_digit()), "{said}");
            }
        }
    }
}

#[test]
fn hostile_arrays_are_refused_or_shown_in_little_memory_and_time() {
    const SIZE: u64 = 100 << 30;
    let nest = |levels: usize, len: u64| {
        let level = [LITTLE.u32(ARRAY), LITTLE.u64(len)].concat();
        one_key("k", ARRAY, &level.repeat(levels))
    };
    let many = |element: u32, len: u64| {
        one_key("k", ARRAY, &[LITTLE.u32(element), LITTLE.u64(len)].concat())
    };
    let mut cases = vec![nest(1000, 1), nest(1000, 1_000_000_000), nest(5, 1 << 30)];
    if cfg!(debug_assertions) {
        eprintln!("LEFT OUT: billions of empty arrays and strings, which take a release build");
    } else {
        cases.extend([many(ARRAY, 5_000_000_000), many(STRING, 10_000_000_000)]);
    }
    // More than there are bytes.
    cases.extend([many(ARRAY, SIZE / 12 + 1), many(STRING, SIZE / 8 + 1), many(U8, SIZE)]);
    for head in cases {
        refused(&sparse(SIZE, &[(0, &head)]));
    }
}

#[test]
fn a_reader_of_a_huge_file_waits_only_for_what_it_reads() {
    // 1 TiB of tensor, of which nothing but the head and the ends is on the disk.
    const BYTES: u64 = 1 << 40;
    let head = GgufBuilder::new().info("huge", F32, &[1 << 20, BYTES >> 22], 0).head();
    let data = (head.len() as u64).next_multiple_of(32);
    let place = sparse(data + BYTES, &[(0, &head), (data + BYTES - 4, &1.5f32.to_le_bytes())]);
    mounted_quickly(&place);
    memory_while(&place, || {
        for view in ["raw", "f32"] {
            let path = place.path("tensors/huge").join(view);
            assert_eq!(fs::metadata(&path).unwrap().len(), BYTES);
            let mut last = [0; 4];
            File::open(&path).unwrap().read_exact_at(&mut last, BYTES - 4).unwrap();
            assert_eq!(f32::from_le_bytes(last), 1.5);
        }
    });
    assert!(processor_time(place.daemons()[0]).unwrap() < QUICKLY);
}

#[test]
fn five_hundred_open_files_and_many_tensors_read_at_once_take_little_memory() {
    const TENSORS: usize = 500;
    const ELEMENTS: u64 = 64 << 10;
    let builder = (0..TENSORS).fold(GgufBuilder::new(), |builder, i| {
        builder.info(format!("t{i}"), F32, &[ELEMENTS], i as u64 * ELEMENTS * 4)
    });
    let head = builder.head();
    let data = (head.len() as u64).next_multiple_of(32);
    let place = sparse(data + TENSORS as u64 * ELEMENTS * 4, &[(0, &head)]);
    place.mounted(&[]);
    memory_while(&place, || {
        let open = |i: usize| File::open(place.path(&format!("tensors/t{i}/f32"))).unwrap();
        let files: Vec<File> = (0..TENSORS).map(open).collect();
        std::thread::scope(|scope| {
            for files in files.chunks(TENSORS / 16) {
                scope.spawn(move || {
                    for mut file in files {
                        let n = std::io::copy(&mut file, &mut std::io::sink()).unwrap();
                        assert_eq!(n, ELEMENTS * 4);
                    }
                });
            }
        });
    });
}

#[test]
fn the_command_line_reads_the_same_and_in_little_memory() {
    // Counting a long array and writing it is the longest that `cat` can take.
    const LEN: u64 = 2_000_000;
    let head = one_key("numbers", ARRAY, &[LITTLE.u32(U8), LITTLE.u64(LEN)].concat());
    let place = sparse(head.len() as u64 + LEN, &[(0, &head)]);
    let mut command = Command::new(PROGRAM);
    command.arg("cat").arg(&place.model).arg("metadata/numbers");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut read, mut most) = (0, 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = out.read(&mut buffer).unwrap();
        most = most.max(status(child.id(), "RssAnon:").unwrap_or(0));
        if n == 0 {
            break;
        }
        read += n as u64;
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(read, 2 * LEN);
    assert!(most < MEMORY, "{most}");
}
