//! Small files of every kind with each byte and each field made wrong in turn: opened strictly and
//! leniently, and what opens is read to the last window. Nothing panics and nothing takes memory
//! that the file did not pay for.

mod common;
#[path = "fuzz/whole.rs"]
mod whole;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::gguf_builder::{F32, GgufBuilder, I8, NVFP4, Q2_0, Q4_K, Q8_0, Val};
use common::temp::TempDir;

/// Most memory that opening and reading a file of a few hundred bytes may hold at once.
const MEMORY: usize = 8 << 20;

/// What numbers of headers are set to, cut to the width of the field.
const EDGES: [u64; 13] = [
    0,
    1,
    17,
    0xFFFF,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

/// Counts what each thread holds, and the most it ever held.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all the work is the system allocator's; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get().wrapping_add(layout.size());
        HELD.set(held);
        // What was freed for another thread makes the count wrap around, which is not the most.
        if held < usize::MAX / 2 {
            MOST.set(MOST.get().max(held));
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How the names of big-endian files end.
const BIG: &str = " big-endian";

/// What a file is built of, in every layout that there is.
fn contents() -> Vec<(&'static str, GgufBuilder)> {
    let strings = |words: &[&str]| Val::Array(8, words.iter().map(|w| (*w).into()).collect());
    let numbers = Val::Array(4, (0..3).map(Val::U32).collect());
    let nested = Val::Array(9, vec![strings(&["a", "\n"]), numbers.clone(), Val::Array(7, vec![])]);
    let deepest = Val::Array(9, vec![Val::Array(9, vec![nested.clone()])]);
    let scalars = [
        Val::U8(8),
        Val::I16(-3),
        Val::F32(0.5),
        Val::Bool(2),
        Val::I64(-1),
        Val::F64(1e300),
        Val::U64(u64::MAX),
    ];
    let keys = GgufBuilder::new()
        .key("", strings(&["", "one\\", "\u{FFFD}"]))
        .key("..", nested)
        .key("deep", deepest)
        .key(b"\xFF/%", "value");
    let keys = scalars.into_iter().fold(keys, |keys, value| keys.key("scalar", value));
    let tensors = GgufBuilder::new()
        .alignment(8)
        .key("k", numbers)
        .tensor("a", F32, &[2, 3], &[7; 24])
        .tensor("a", I8, &[], &[1])
        .tensor("empty", F32, &[0, 5], &[])
        .tensor("b.weight", NVFP4, &[64], &[0x33; 36])
        .tensor("b.scale", F32, &[1], &[0; 4])
        .tensor("odd", 99, &[4], &[5; 8])
        .tensor("c", Q2_0, &[64], &[1; 18]);
    let blocks =
        GgufBuilder::base().tensor("k", Q4_K, &[256], &[9; 144]).tensor("q", Q8_0, &[32], &[3; 34]);
    vec![("keys", keys), ("tensors", tensors), ("blocks", blocks)]
}

/// Every content in every version and byte order.
fn files() -> Vec<(String, Vec<u8>)> {
    // Version 2 is read as 3 is.
    let layouts = [(1, false), (3, false), (3, true)];
    let files = contents().into_iter().flat_map(|(name, content)| {
        layouts.map(|(version, big)| {
            let built = content.clone().version(version);
            let built = if big { built.big_endian() } else { built };
            (format!("{name} v{version}{}", if big { BIG } else { "" }), built.build())
        })
    });
    files.collect()
}

/// Opens and reads, counting memory; leniently too where that makes a difference.
fn survive(what: impl Fn() -> String, open: impl Fn(bool) -> Opened) {
    for lenient in [false, true] {
        let before = HELD.get();
        MOST.set(before);
        let survived = catch_unwind(AssertUnwindSafe(|| match open(lenient) {
            Ok(model) => {
                let mut state = 0x9E37_79B9_7F4A_7C15u64;
                let mut random = |below: u64| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                    (state >> 16) % below.max(1)
                };
                whole::check(model, lenient, &mut random);
                true
            }
            Err(e) => {
                let said = e.to_string();
                assert!(!said.chars().any(char::is_control), "{said:?}");
                false
            }
        }));
        let most = MOST.get().wrapping_sub(before);
        assert!(survived.is_ok(), "{}, lenient: {lenient}", what());
        assert!(most <= MEMORY, "{}, lenient: {lenient}: {most} bytes of memory", what());
        if survived.is_ok_and(|opened| opened) {
            return;
        }
    }
}

type Opened = Result<gguf_fs::model::Model, gguf_fs::model::OpenError>;

fn survive_bytes(bytes: &[u8], what: impl Fn() -> String) {
    survive(what, |lenient| whole::open(bytes, lenient));
}

#[test]
fn the_files_themselves_open_strictly() {
    for (name, bytes) in files() {
        let opened = whole::open(&bytes, false);
        assert!(opened.is_ok(), "{name}: {}", opened.unwrap_err());
        survive_bytes(&bytes, || name.clone());
    }
}

#[test]
fn every_prefix() {
    for (name, bytes) in files() {
        for len in 0..bytes.len() {
            survive_bytes(&bytes[..len], || format!("{name}, {len} bytes of it"));
        }
    }
}

#[test]
fn every_byte_changed() {
    for (name, mut bytes) in files() {
        for at in 0..bytes.len() {
            let right = bytes[at];
            for wrong in [0xFF, right ^ 1, right ^ 0x80] {
                bytes[at] = wrong;
                survive_bytes(&bytes, || format!("{name}, byte {at} is {wrong:#x}"));
            }
            bytes[at] = right;
        }
    }
}

#[test]
fn every_field_at_its_edges() {
    // Byte order makes no difference to what a number does; 32-bit lengths do.
    for (name, bytes) in files().into_iter().filter(|(name, _)| !name.ends_with(BIG)) {
        let widths: &[usize] = if name.ends_with("v1") { &[4] } else { &[4, 8] };
        for &width in widths {
            for at in 0..bytes.len().saturating_sub(width) {
                for edge in EDGES.into_iter().filter(|edge| width == 8 || *edge < 1 << 32) {
                    let mut changed = bytes.clone();
                    changed[at..at + width].copy_from_slice(&edge.to_le_bytes()[..width]);
                    survive_bytes(&changed, || {
                        format!("{name}, {width} bytes at {at} are {edge:#x}")
                    });
                }
            }
        }
    }
}

#[test]
fn every_byte_of_every_shard_changed() {
    let folder = TempDir::new();
    let path = |shard: u16| folder.path().join(format!("m-0000{}-of-00003.gguf", shard + 1));
    let shards = [0u16, 1, 2].map(|number| {
        GgufBuilder::new()
            .key("split.no", Val::U16(number))
            .key("split.count", Val::U16(3))
            .key("split.tensors.count", Val::I32(3))
            .tensor(format!("t{number}"), F32, &[2], &[number as u8; 8])
            .build()
    });
    for (number, shard) in (0..).zip(&shards) {
        fs::write(path(number), shard).unwrap();
    }
    assert_eq!(gguf_fs::model::Model::open(&path(1), false).unwrap().tensors.len(), 3);
    for (number, shard) in (0..).zip(&shards) {
        let mut changed = shard.clone();
        for at in 0..shard.len() {
            for wrong in [0x00, 0xFF, shard[at] ^ 1] {
                changed[at] = wrong;
                fs::write(path(number), &changed).unwrap();
                let what = || format!("shard {number}, byte {at} is {wrong:#x}");
                survive(what, |lenient| gguf_fs::model::Model::open(&path(0), lenient));
            }
            changed[at] = shard[at];
        }
        for len in 0..shard.len() {
            fs::write(path(number), &shard[..len]).unwrap();
            let what = || format!("shard {number}, {len} bytes of it");
            survive(what, |lenient| gguf_fs::model::Model::open(&path(2), lenient));
        }
        fs::write(path(number), shard).unwrap();
    }
}
