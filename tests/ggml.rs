//! The table of tensor types and its decoders, against golden blocks and against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use gguf_fs::ggml::isa::Isa;
use gguf_fs::ggml::{TABLE, Type, by_id, retired};

/// Blocks and what ggml makes of them; its head describes the columns.
const GOLDEN: &str = include_str!("data/blocks.tsv");

struct Golden {
    of: &'static Type,
    case: &'static str,
    blocks: Vec<u8>,
    first: &'static str,
    hash: u64,
}

fn golden() -> impl Iterator<Item = Golden> {
    GOLDEN.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let [name, case, blocks, first, hash] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("five columns: {line}");
        };
        Golden {
            of: named(name),
            case,
            blocks: hex(blocks),
            first,
            hash: u64::from_str_radix(hash, 16).unwrap(),
        }
    })
}

fn named(name: &str) -> &'static Type {
    TABLE.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no type {name}"))
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

/// The levels of this CPU, each once.
fn levels() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|&isa| isa <= Isa::best())
}

fn decode(of: &Type, isa: Isa, blocks: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; blocks.len() / of.block_bytes as usize * of.block_len as usize];
    of.decode_with(isa, blocks, &mut values);
    values
}

/// Bits, with one NaN for all: which one comes out is the compiler's choice.
fn canonical(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }).collect()
}

fn fnv1a(bits: &[u32]) -> u64 {
    bits.iter().flat_map(|bits| bits.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// SplitMix64: the same bytes on every run.
fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    });
    words.flat_map(u64::to_le_bytes).take(len).collect()
}

#[test]
fn every_level_decodes_the_golden_blocks_as_ggml_does() {
    for golden in golden() {
        for isa in levels() {
            let bits = canonical(&decode(golden.of, isa, &golden.blocks));
            let at = format!("{}, {}, {isa:?}", golden.of.name, golden.case);
            let first: Vec<_> = bits.iter().take(4).map(|bits| format!("{bits:08x}")).collect();
            assert_eq!(first.join(","), golden.first, "{at}");
            assert_eq!(fnv1a(&bits), golden.hash, "{at}: first four values are right");
        }
    }
}

#[test]
fn every_type_has_golden_blocks_with_the_scales_that_went_wrong_elsewhere() {
    let mut cases: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for golden in golden() {
        cases.entry(golden.of.name).or_default().insert(golden.case);
    }
    for row in &TABLE {
        let wanted: &[&str] = match row.name {
            "Q8_K" => &["random", "scale 1.0", "scale smallest", "scale nan"],
            "MXFP4" => &["random", "scale byte 0", "scale byte 1", "scale byte 255"],
            "NVFP4" => &["random", "scale bytes 00 7f ff 80"],
            _ if row.block_len == 1 => &["random", "edges"],
            _ => {
                &["random", "scale 1.0", "scale 1.5", "scale -1.0", "scale 65504", "scale smallest"]
            }
        };
        let special = match row.name {
            "Q5_0" | "Q5_1" => Some("fifth bits 0 and 16"),
            name if name.starts_with("IQ") && !name.starts_with("IQ4") => Some("whole code book"),
            _ => None,
        };
        for case in wanted.iter().copied().chain(special) {
            assert!(cases[row.name].contains(case), "{}: {case}", row.name);
        }
    }
}

/// Every sized type of ggml: id, name, elements and bytes of a block.
const SIZES: [(u32, &str, u32, u32); 35] = [
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
];

#[test]
fn ids_names_and_sizes_are_those_of_ggml() {
    let table = TABLE.iter().map(|row| (row.id, row.name, row.block_len, row.block_bytes));
    assert_eq!(table.collect::<Vec<_>>(), SIZES);
    for id in (0..1000).chain([u32::MAX]) {
        let known = SIZES.iter().find(|row| row.0 == id);
        assert_eq!(by_id(id).map(|row| row.name), known.map(|row| row.1), "id {id}");
        let gap = matches!(id, 4 | 5 | 31..=33 | 36..=38);
        assert_eq!(retired(id).is_some(), gap, "id {id}");
    }
}

#[test]
fn blocks_of_4096_bytes_of_f32_are_whole() {
    for row in &TABLE {
        assert_eq!(1024 % row.block_len, 0, "{}", row.name);
    }
}

/// Random blocks of a type, a good part of them with the scales that take the odd paths: the halves
/// wherever any type keeps one.
fn blocks_with_odd_scales(of: &Type, count: usize) -> Vec<u8> {
    const HALVES: [u16; 12] =
        [0, 0x8000, 1, 0x83ff, 0x0400, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff, 0x7bff, 0x3c00];
    let size = of.block_bytes as usize;
    let mut blocks = random_bytes(u64::from(of.id), count * size);
    for (i, block) in blocks.chunks_exact_mut(size).enumerate().filter(|(i, _)| i % 4 != 3) {
        let half = HALVES[i % HALVES.len()].to_le_bytes();
        for at in [0, 2, 52, 64, 80, 82, 108, 208].into_iter().filter(|at| at + 2 <= size) {
            block[at..at + 2].copy_from_slice(&half);
        }
    }
    blocks
}

#[test]
fn every_level_equals_the_scalar_decoder_at_every_count_and_alignment() {
    const GUARD: f32 = 1234.5;
    for row in &TABLE {
        let (bytes, len) = (row.block_bytes as usize, row.block_len as usize);
        let blocks = blocks_with_odd_scales(row, 515);
        let expected = canonical(&decode(row, Isa::Scalar, &blocks));
        for isa in levels() {
            for count in (0..=9).chain([16, 17, 31, 64, 257, 500]) {
                for offset in 0..4 {
                    let mut src = vec![0xa5; offset];
                    src.extend_from_slice(&blocks[offset * bytes..][..count * bytes]);
                    let mut dst = vec![GUARD; offset + count * len + 16];
                    row.decode_with(isa, &src[offset..], &mut dst[offset..][..count * len]);
                    let at = format!("{}, {isa:?}, {count} blocks, offset {offset}", row.name);
                    let (before, rest) = dst.split_at(offset);
                    let (values, after) = rest.split_at(count * len);
                    assert!(before.iter().chain(after).all(|&x| x == GUARD), "{at}: outside");
                    let expected = &expected[offset * len..][..count * len];
                    assert!(canonical(values) == expected, "{at}");
                }
            }
        }
    }
}

#[test]
fn f32_and_bf16_keep_the_bits_of_nans() {
    for isa in levels() {
        let values = decode(named("F32"), isa, &0xffa0_0001_u32.to_le_bytes());
        assert_eq!(values[0].to_bits(), 0xffa0_0001, "{isa:?}");
        let values = decode(named("BF16"), isa, &0xffa1_u16.to_le_bytes());
        assert_eq!(values[0].to_bits(), 0xffa1_0000, "{isa:?}");
    }
}

#[test]
fn every_half_widens_exactly() {
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let exact: Vec<f32> = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f32()).collect();
    for isa in levels() {
        let values = decode(named("F16"), isa, &halves);
        assert_eq!(canonical(&values), canonical(&exact), "{isa:?}");
    }
}

#[test]
fn every_scale_byte_of_the_4_bit_floats_has_its_value() {
    for byte in 0..=255_u8 {
        let e8m0 = 2_f64.powi(i32::from(byte) - 128);
        let exponent = i32::from(byte >> 3 & 15);
        let mantissa = f64::from(byte & 7);
        let ue4m3 = match (byte, exponent) {
            (0x7f, _) => 0.0,
            (_, 0) => mantissa / 512.0 * 0.5,
            _ => (1.0 + mantissa / 8.0) * 2_f64.powi(exponent - 7) * 0.5,
        };
        let mut mxfp4 = vec![0x11; 17];
        mxfp4[0] = byte;
        let mut nvfp4 = vec![0x11; 36];
        nvfp4[..4].fill(byte);
        for isa in levels() {
            for value in decode(named("MXFP4"), isa, &mxfp4) {
                assert_eq!(f64::from(value), e8m0, "MXFP4, {byte}, {isa:?}");
            }
            for value in decode(named("NVFP4"), isa, &nvfp4) {
                assert_eq!(f64::from(value), ue4m3, "NVFP4, {byte}, {isa:?}");
            }
        }
    }
}

/// The multi-byte fields of a block, for the types that have a big-endian form.
const BIG_ENDIAN: [(&str, &[(usize, usize)]); 16] = [
    ("F32", &[(0, 4)]),
    ("F16", &[(0, 2)]),
    ("Q4_0", &[(0, 2)]),
    ("Q8_0", &[(0, 2)]),
    ("Q4_K", &[(0, 2), (2, 4)]),
    ("Q6_K", &[(208, 210)]),
    ("I8", &[]),
    ("I16", &[(0, 2)]),
    ("I32", &[(0, 4)]),
    ("I64", &[(0, 8)]),
    ("F64", &[(0, 8)]),
    ("BF16", &[(0, 2)]),
    ("TQ2_0", &[(64, 66)]),
    ("MXFP4", &[]),
    ("NVFP4", &[]),
    ("Q1_0", &[(0, 2)]),
];

#[test]
fn big_endian_blocks_swap_their_fields_and_nothing_else() {
    let with: Vec<_> =
        TABLE.iter().filter(|row| row.has_big_endian()).map(|row| row.name).collect();
    assert_eq!(with, BIG_ENDIAN.map(|(name, _)| name));
    for (name, fields) in BIG_ENDIAN {
        let row = named(name);
        let size = row.block_bytes as usize;
        let blocks = random_bytes(7, 5 * size);
        let mut expected = blocks.clone();
        for block in expected.chunks_exact_mut(size) {
            for &(start, end) in fields {
                block[start..end].reverse();
            }
        }
        let mut swapped = blocks.clone();
        row.swap_bytes(&mut swapped);
        assert_eq!(swapped, expected, "{name}");
        row.swap_bytes(&mut swapped);
        assert_eq!(swapped, blocks, "{name}: twice is none");
    }
}

#[test]
fn a_type_without_a_big_endian_form_is_left_alone() {
    for row in TABLE.iter().filter(|row| !row.has_big_endian()) {
        let blocks = random_bytes(8, 3 * row.block_bytes as usize);
        let mut swapped = blocks.clone();
        row.swap_bytes(&mut swapped);
        assert_eq!(swapped, blocks, "{}", row.name);
    }
}

/// Prints the level in use; the next test runs it under several environments.
#[test]
fn level_in_use() {
    println!("level {}", Isa::current().name());
    assert!(Isa::current() <= Isa::best());
}

#[test]
fn the_environment_lowers_the_level_and_cannot_raise_it() {
    let best = Isa::best().name();
    for asked in Isa::ALL.map(Isa::name).into_iter().chain(["", "nonsense"]) {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "level_in_use", "--nocapture"])
            .env("GGUF_FS_ISA", asked)
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let had = levels().any(|isa| isa.name() == asked);
        let mut line = String::new();
        writeln!(line, "level {}", if had { asked } else { best }).unwrap();
        assert!(stdout.contains(&line), "asked for {asked:?}: {stdout}");
    }
}

/// A release build must outlive a caller's mistake; a debug build points it out.
#[test]
fn lengths_that_disagree_decode_what_is_whole_on_both_sides() {
    let row = named("Q4_0");
    let blocks = random_bytes(9, 40);
    let mut dst = [7.0; 100];
    let result = std::panic::catch_unwind(move || {
        row.decode(&blocks, &mut dst);
        (dst, decode(row, Isa::Scalar, &blocks[..36]))
    });
    assert_eq!(result.is_err(), cfg!(debug_assertions));
    if let Ok((dst, expected)) = result {
        assert_eq!(canonical(&dst[..64]), canonical(&expected));
        assert!(dst[64..].iter().all(|&x| x == 7.0));
    }
}
