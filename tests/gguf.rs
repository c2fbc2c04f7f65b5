//! The rules of the format, one file of bytes each.

mod common;

use std::io;
use std::time::{Duration, Instant};

use common::gguf_builder::{F32, GgufBuilder, I8, NVFP4, Q2_0, Q4_0, Q4_K, Q8_0, Val};
use gguf_fs::gguf::{
    self, Array, Endian, Error, Header, INDEX_BUDGET, Oddity, Rule, Span, Tensor, TensorType, Value,
};
use gguf_fs::source::ReadAt;

fn parse(bytes: &[u8]) -> Result<Header, Error> {
    gguf::parse(bytes, false)
}

/// Parses what must be accepted without a warning.
fn accept(bytes: &[u8]) -> Header {
    let header = parse(bytes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(header.index.warnings, [""; 0]);
    header
}

/// Parses what must be accepted with warnings; returns these.
fn warnings(bytes: &[u8]) -> (Header, String) {
    let header = parse(bytes).unwrap_or_else(|e| panic!("{e}"));
    assert!(!header.index.warnings.is_empty(), "no warning");
    let warnings = header.index.warnings.join("\n");
    (header, warnings)
}

/// The error of what must be refused; lenient parsing must agree with what the error says of it.
fn refuse(bytes: &[u8]) -> Error {
    let error = parse(bytes).expect_err("must be refused");
    assert!(!error.to_string().contains('\n'));
    let lenient = gguf::parse(bytes, true);
    assert_eq!(lenient.is_ok(), error.lenient_helps(), "{error}");
    if let Ok(header) = lenient {
        assert!(!header.index.warnings.is_empty(), "{error}: no warning");
        check(&header, bytes);
    }
    error
}

fn names(header: &Header) -> Vec<String> {
    let name = |t: &Tensor| String::from_utf8_lossy(header.index.name(t.name)).into_owned();
    header.index.tensors.iter().map(name).collect()
}

fn keys(header: &Header) -> Vec<String> {
    let key = |kv: &gguf::KeyValue| String::from_utf8_lossy(header.index.name(kv.key)).into_owned();
    header.index.metadata.iter().map(key).collect()
}

fn value(header: &Header, key: &str) -> Value {
    let at = keys(header).iter().position(|k| k == key).unwrap_or_else(|| panic!("no {key}"));
    header.index.metadata[at].value
}

fn raw<'b>(header: &Header, tensor: usize, bytes: &'b [u8]) -> &'b [u8] {
    let tensor = &header.index.tensors[tensor];
    let start = (header.shard.data_offset + tensor.offset) as usize;
    &bytes[start..start + tensor.raw_bytes as usize]
}

fn span(bytes: &[u8], span: Span) -> &[u8] {
    &bytes[span.offset as usize..(span.offset + span.len) as usize]
}

fn is_unknown(tensor: &Tensor) -> bool {
    matches!(tensor.ty, TensorType::Unknown(_))
}

/// What holds of every header whatever the bytes: nothing points outside the file but what is marked
/// as missing, and no sum of an offset and a size overflows.
fn check(header: &Header, bytes: &[u8]) {
    let size = bytes.len() as u64;
    for entry in &header.index.metadata {
        if let Value::String(span) | Value::Array(Array { span, .. }) = entry.value {
            assert!(span.offset.checked_add(span.len).unwrap() <= size);
        }
    }
    for tensor in &header.index.tensors {
        assert!(header.index.dims(tensor).len() <= 16);
        if tensor.elements == 0 {
            assert_eq!(tensor.raw_bytes, 0);
            continue;
        }
        let start = header.shard.data_offset.checked_add(tensor.offset).unwrap();
        let end = start.checked_add(tensor.raw_bytes).unwrap();
        assert!((end <= size && start < size) || tensor.oddity.has(Oddity::MISSING));
        if !is_unknown(tensor) {
            assert!(tensor.elements <= i64::MAX as u64 / 4);
        }
    }
}

#[test]
fn versions_1_2_and_3_are_read_in_both_byte_orders() {
    for version in 1..=3 {
        for big in [false, true] {
            let builder = GgufBuilder::base().version(version);
            let builder = if big { builder.big_endian() } else { builder };
            let builder = builder.key("f", Val::F64(0.1)).key("h", Val::U16(0x1234));
            let list = Val::Array(8, vec!["x".into(), "".into(), "yyy".into()]);
            let bytes = builder.key("list", list).build();
            let header = accept(&bytes);
            assert_eq!(header.shard.layout.version, version);
            assert_eq!(header.shard.layout.endian == Endian::Big, big);
            assert_eq!(value(&header, "llama.block_count"), Value::U32(2));
            assert_eq!(value(&header, "f"), Value::F64(0.1));
            assert_eq!(value(&header, "h"), Value::U16(0x1234));
            let Value::String(text) = value(&header, "general.architecture") else { panic!() };
            assert_eq!(span(&bytes, text), b"llama");
            let Value::Array(list) = value(&header, "list") else { panic!() };
            assert_eq!(list.len, 3);
            assert_eq!(list.span.len, 4 + 3 * header.shard.layout.length_bytes() as u64);
            assert_eq!(names(&header), ["a", "b"]);
            assert_eq!(header.index.dims(&header.index.tensors[0]), [4, 3]);
            assert_eq!(raw(&header, 1, &bytes), (0..68).collect::<Vec<u8>>());
        }
    }
}

#[test]
fn other_versions_are_refused() {
    for version in [0, 4, 99, 0x10003] {
        let error = refuse(&GgufBuilder::base().version(version).build());
        assert!(matches!(error.rule, Rule::Version { version: v } if v == version), "{error}");
    }
    let error = refuse(&GgufBuilder::base().version(4).big_endian().build());
    assert!(matches!(error.rule, Rule::Version { version: 4 }), "{error}");
}

#[test]
fn every_value_type_is_read_and_its_length_too() {
    let scalars: [(Val, Value); 12] = [
        (Val::U8(255), Value::U8(255)),
        (Val::I8(-128), Value::I8(-128)),
        (Val::U16(65535), Value::U16(65535)),
        (Val::I16(-32768), Value::I16(-32768)),
        (Val::U32(u32::MAX), Value::U32(u32::MAX)),
        (Val::I32(i32::MIN), Value::I32(i32::MIN)),
        (Val::F32(1.5), Value::F32(1.5)),
        (Val::Bool(0), Value::Bool(false)),
        (Val::Bool(2), Value::Bool(true)),
        (Val::U64(u64::MAX), Value::U64(u64::MAX)),
        (Val::I64(i64::MIN), Value::I64(i64::MIN)),
        (Val::F64(5e-324), Value::F64(5e-324)),
    ];
    let mut builder = GgufBuilder::new();
    for (at, (written, _)) in scalars.iter().enumerate() {
        let array = Val::Array(written.id(), vec![written.clone(); 3]);
        builder = builder.key(format!("s{at}"), written.clone()).key(format!("a{at}"), array);
        builder = builder.key(format!("after{at}"), 7 + at as u32);
    }
    let header = accept(&builder.build());
    for (at, (_, read)) in scalars.iter().enumerate() {
        assert_eq!(value(&header, &format!("s{at}")), *read);
        let Value::Array(array) = value(&header, &format!("a{at}")) else { panic!() };
        assert_eq!((array.element, array.len), (read.value_type(), 3));
        assert_eq!(array.span.len, 3 * read.value_type().size().unwrap());
        assert_eq!(value(&header, &format!("after{at}")), Value::U32(7 + at as u32));
    }
}

#[test]
fn arrays_are_read_up_to_four_levels_deep() {
    let nested = |levels: u32| {
        (1..levels).fold(Val::Array(4, vec![1.into(), 2.into()]), |inner, _| {
            Val::Array(9, vec![inner.clone(), inner])
        })
    };
    for levels in 1..=4 {
        let bytes = GgufBuilder::new().key("n", nested(levels)).key("after", 7).build();
        let header = accept(&bytes);
        assert_eq!(value(&header, "after"), Value::U32(7));
    }
    let error = refuse(&GgufBuilder::new().key("n", nested(5)).build());
    assert!(matches!(error.rule, Rule::Nesting { .. }), "{error}");
    let empty = Val::Array(9, vec![Val::Array(9, vec![]), Val::Array(8, vec!["x".into()])]);
    let header = accept(&GgufBuilder::new().key("n", empty).key("after", 7).build());
    assert_eq!(value(&header, "after"), Value::U32(7));
}

#[test]
fn strings_longer_than_the_window_are_stepped_over() {
    let long = vec![b'x'; 300_000];
    let list = Val::Array(8, vec![Val::Str(long.clone()), "y".into(), Val::Str(long.clone())]);
    let builder = GgufBuilder::base().key("l", list).key("s", Val::Str(long.clone()));
    let bytes = builder.key("after", 7).build();
    let header = accept(&bytes);
    let Value::String(text) = value(&header, "s") else { panic!() };
    assert_eq!(span(&bytes, text), long);
    assert_eq!(value(&header, "after"), Value::U32(7));
    assert_eq!(names(&header), ["a", "b"]);
}

#[test]
fn odd_names_are_kept_as_they_are() {
    let long = [b'n'; 300];
    let mut other = long;
    other[200] = b'm';
    for name in [&b""[..], b"\xff\xfe", b"a\0b", b"../x", &[b'n'; 64], &long, &other] {
        let builder = GgufBuilder::new().key(name, 7).tensor(name, F32, &[1], &[0; 4]);
        let header = accept(&builder.build());
        assert_eq!(header.index.name(header.index.metadata[0].key), name);
        assert_eq!(header.index.name(header.index.tensors[0].name), name);
    }
    let both =
        GgufBuilder::new().tensor(long, F32, &[1], &[0; 4]).tensor(other, F32, &[1], &[0; 4]);
    accept(&both.build());
}

#[test]
fn a_name_has_a_longest_length() {
    let name = |len| GgufBuilder::new().key(vec![b'k'; len], 7).build();
    accept(&name(65535));
    let error = refuse(&name(65536));
    assert!(matches!(error.rule, Rule::NameLength { .. }), "{error}");
}

#[test]
fn duplicate_keys_and_tensors_stay_and_are_warned_of() {
    let builder = GgufBuilder::new().key("k", 1).key("k", 2).key("k", 3);
    let builder = builder.tensor("t", F32, &[1], &[1; 4]).tensor("t", F32, &[1], &[2; 4]);
    let bytes = builder.build();
    let (header, warnings) = warnings(&bytes);
    assert_eq!(warnings, "duplicate key k\nduplicate key k\nduplicate tensor t");
    assert_eq!(keys(&header), ["k", "k", "k"]);
    assert_eq!(names(&header), ["t", "t"]);
    assert_eq!(raw(&header, 0, &bytes), [1; 4]);
    assert_eq!(raw(&header, 1, &bytes), [2; 4]);
}

#[test]
fn data_follow_the_alignment_whatever_the_length_of_the_header() {
    for alignment in [1, 2, 4, 8, 16, 24, 32, 40, 64, 4096] {
        for pad in 0..32 {
            let builder = GgufBuilder::new().alignment(alignment).key("p", &*"x".repeat(pad));
            let builder = builder.tensor("a", I8, &[5], &[1; 5]).tensor("b", I8, &[7], &[2; 7]);
            let bytes = builder.build();
            let header = accept(&bytes);
            assert_eq!(header.shard.alignment, u64::from(alignment));
            assert_eq!(raw(&header, 0, &bytes), [1; 5]);
            assert_eq!(raw(&header, 1, &bytes), [2; 7]);
        }
    }
}

#[test]
fn an_alignment_must_be_a_u32_and_a_power_of_two_or_a_multiple_of_8() {
    for bad in [0, 3, 6, 12, 100, u32::MAX] {
        let error = refuse(&GgufBuilder::new().key("general.alignment", bad).build());
        assert!(matches!(error.rule, Rule::Alignment { found } if found == bad), "{error}");
    }
    for bad in [Val::U64(32), Val::I32(32), "32".into(), Val::Array(4, vec![32.into()])] {
        let error = refuse(&GgufBuilder::base().key("general.alignment", bad).build());
        assert!(matches!(error.rule, Rule::AlignmentType { .. }), "{error}");
    }
    let twice =
        |second: u32| GgufBuilder::new().alignment(64).key("general.alignment", second).build();
    assert_eq!(warnings(&twice(64)).1, "duplicate key general.alignment");
    let error = refuse(&twice(32));
    assert!(matches!(error.rule, Rule::AlignmentTwice { first: 64, second: 32 }), "{error}");
}

#[test]
fn without_tensors_the_file_may_end_after_the_metadata() {
    for pad in 0..40 {
        let bytes = GgufBuilder::new().key("p", &*"x".repeat(pad)).build();
        let header = accept(&bytes);
        assert_eq!(header.shard.data_offset, (bytes.len() as u64).next_multiple_of(32));
    }
}

#[test]
fn padding_after_the_last_tensor_may_be_missing_and_junk_may_follow() {
    let whole = GgufBuilder::base().build();
    let mut bytes = GgufBuilder::base().no_last_padding().build();
    assert!(bytes.len() < whole.len());
    assert_eq!(raw(&accept(&bytes), 1, &bytes).len(), 68);
    bytes.resize(bytes.len() + (1 << 20), 0xAA);
    assert_eq!(raw(&accept(&bytes), 1, &bytes), (0..68).collect::<Vec<u8>>());
}

#[test]
fn tensors_without_elements_are_accepted_anywhere() {
    for dims in [&[0u64][..], &[4, 0], &[0, 1 << 62, 1 << 62], &[1 << 62, 1 << 62, 0], &[33, 0]] {
        for offset in [0, 5, 1 << 40, u64::MAX] {
            for id in [F32, Q4_0] {
                for place in 0..3 {
                    let mut builder = GgufBuilder::new();
                    for at in 0..3 {
                        builder = if at == place {
                            builder.info("none", id, dims, offset)
                        } else {
                            builder.tensor(format!("t{at}"), I8, &[33], &[at; 33])
                        };
                    }
                    let bytes = builder.build();
                    let header = accept(&bytes);
                    for at in (0..3).filter(|at| *at != place) {
                        assert_eq!(raw(&header, at.into(), &bytes), [at; 33]);
                    }
                    let none = &header.index.tensors[usize::from(place)];
                    assert_eq!((none.elements, none.raw_bytes), (0, 0));
                }
            }
        }
    }
}

#[test]
fn shapes_have_0_to_16_dims() {
    for n in 0..=16 {
        let header = accept(&GgufBuilder::new().tensor("t", F32, &vec![1; n], &[0; 4]).build());
        let tensor = &header.index.tensors[0];
        assert_eq!(header.index.dims(tensor).len(), n);
        assert_eq!((tensor.elements, tensor.raw_bytes), (1, 4));
    }
    for n in [17, 1000, u32::MAX] {
        let error = refuse(&GgufBuilder::base().n_dims(n).build());
        assert!(matches!(error.rule, Rule::Dimensions { found, .. } if found == n), "{error}");
    }
    let scalar = refuse(&GgufBuilder::new().tensor("t", Q4_0, &[], &[0; 18]).build());
    assert!(matches!(scalar.rule, Rule::Row { row: 1, block: 32, .. }), "{scalar}");
}

#[test]
fn sizes_that_overflow_are_refused() {
    for id in [F32, Q4_K, 19] {
        for dims in [
            &[1u64 << 40, 1 << 40][..],
            &[u64::MAX, 2],
            &[1 << 63],
            &[1 << 33, 1 << 33],
            &[1 << 32, 1 << 32],
            &[1 << 62],
            &[1 << 61],
        ] {
            let error = refuse(&GgufBuilder::base().info("big", id, dims, 128).build());
            assert!(
                matches!(
                    error.rule,
                    Rule::Dimension { .. } | Rule::Elements | Rule::FloatSize { .. }
                ),
                "{error}"
            );
            assert!(error.to_string().contains("tensor big"), "{error}");
        }
        let error = refuse(&GgufBuilder::base().info("big", id, &[1 << 60], 128).build());
        assert!(matches!(error.rule, Rule::Incomplete { .. }) || id == F32, "{error}");
    }
}

#[test]
fn rows_must_be_whole_blocks() {
    for (id, row) in [(Q4_0, 33), (Q8_0, 16), (Q4_K, 128), (NVFP4, 32)] {
        let error = refuse(&GgufBuilder::new().info("t", id, &[row, 256], 0).build());
        assert!(matches!(error.rule, Rule::Row { row: r, .. } if r == row), "{error}");
    }
}

#[test]
fn a_tensor_that_is_not_all_there_is_refused_with_the_numbers() {
    let whole = GgufBuilder::base().no_last_padding().build();
    let cut = &whole[..whole.len() - 10];
    let error = refuse(cut);
    let (needs, has) = (whole.len(), cut.len());
    assert_eq!(
        error.to_string(),
        format!(
            "tensor b needs bytes up to {needs}, file has {has}: truncated, 10 bytes are missing \
             (an incomplete download?)"
        )
    );
    for offset in [1 << 20, 1 << 40, 1 << 62, u64::MAX - 31] {
        let error = refuse(&GgufBuilder::base().info("far", F32, &[8], offset).build());
        assert!(error.to_string().contains("tensor far"), "{error}");
    }
}

#[test]
fn oddly_placed_tensors_are_warned_of() {
    let place = |offsets: &[u64]| {
        offsets.iter().enumerate().fold(GgufBuilder::new(), |builder, (at, offset)| {
            builder.tensor_at(format!("t{at}"), I8, &[40], *offset, &[at as u8; 40])
        })
    };
    for (offsets, expected, oddities) in [
        (&[0u64, 128][..], "tensor t1: offset 128 leaves a gap of 64 bytes", &[0u8, 0][..]),
        (&[32], "tensor t0: offset 32 leaves a gap of 32 bytes", &[0]),
        (&[64, 0], "tensor t1: offset 0 is out of order, after 64", &[0, 0]),
        (&[0, 0], "tensor t1: offset 0 overlaps tensor t0", &[1, 1]),
        (&[0, 32], "tensor t1: offset 32 overlaps tensor t0", &[1, 1]),
        (&[0, 41], "tensor t1: offset 41 is not aligned to 32", &[0, 2]),
        (&[0, 64, 128, 64], "tensor t3: offset 64 overlaps tensor t1", &[0, 1, 0, 1]),
    ] {
        let bytes = place(offsets).build();
        let (header, warnings) = warnings(&bytes);
        assert!(warnings.contains(expected), "{offsets:?}: {warnings}");
        let found: Vec<u8> = header.index.tensors.iter().map(|t| t.oddity.0).collect();
        assert_eq!(found, oddities, "{offsets:?}");
        assert_eq!(raw(&header, offsets.len() - 1, &bytes), [offsets.len() as u8 - 1; 40]);
    }
}

#[test]
fn an_unknown_type_degrades_that_tensor_alone() {
    for id in [4, 31, 36, 43, 99, 142, 153, u32::MAX] {
        let builder = GgufBuilder::base().tensor("odd", id, &[7, 3], &[9; 50]);
        let bytes = builder.clone().tensor("c", F32, &[2], &[1; 8]).build();
        let (header, warnings) = warnings(&bytes);
        assert!(warnings.contains(&format!("tensor odd: type {id}, ")), "{warnings}");
        assert_eq!(header.index.warnings.len(), 1);
        assert!(is_unknown(&header.index.tensors[2]));
        assert_eq!(header.index.tensors[2].elements, 21);
        assert_eq!(raw(&header, 2, &bytes), [&[9; 50][..], &[0; 14]].concat());
        assert_eq!(raw(&header, 3, &bytes), [1; 8]);
        let last = [&builder.build()[..], &[5; 9]].concat();
        let header = parse(&last).unwrap();
        assert_eq!(raw(&header, 2, &last), [&[9; 50][..], &[0; 14], &[5; 9]].concat());
    }
    let nowhere = GgufBuilder::base().info("odd", 99, &[7], 1 << 20).build();
    let error = refuse(&nowhere);
    assert!(matches!(error.rule, Rule::Incomplete { .. }), "{error}");
    let none = GgufBuilder::base().info("odd", 99, &[0], 1 << 20).build();
    assert_eq!(warnings(&none).0.index.tensors[2].raw_bytes, 0);
}

#[test]
fn many_tensors_of_one_unknown_type_are_one_warning() {
    let builder = (0..450).fold(GgufBuilder::base(), |builder, at| {
        builder.tensor(format!("t{at}"), 142, &[128], &[0; 34])
    });
    let (header, warnings) = warnings(&builder.build());
    assert_eq!(
        warnings,
        "tensor t0 and 449 more: type 142, unknown to this version; only raw bytes are shown"
    );
    assert_eq!(header.index.tensors.len(), 452);
}

#[test]
fn type_42_is_q2_0_only_where_its_size_fits() {
    // 576 bytes as Q2_0, 544 in the older layout: they differ when padded, too.
    const N: u64 = 2048;
    let q2_0 = |b: GgufBuilder, name: &str| b.tensor(name, Q2_0, &[N], &[1; 576]);
    let old = |b: GgufBuilder, name: &str| b.tensor(name, Q2_0, &[N], &[1; 544]);
    let unknown = |bytes: &[u8]| -> Vec<bool> {
        parse(bytes).unwrap().index.tensors.iter().map(is_unknown).collect()
    };
    let new = GgufBuilder::new;
    let after = |b: GgufBuilder| b.tensor("z", F32, &[1], &[0; 4]);
    assert_eq!(unknown(&after(q2_0(new(), "a")).build()), [false, false]);
    assert_eq!(unknown(&after(old(old(new(), "a"), "b")).build()), [true, true, false]);
    assert_eq!(unknown(&q2_0(q2_0(new(), "a"), "b").no_last_padding().build()), [false, false]);
    assert_eq!(unknown(&old(old(new(), "a"), "b").build()), [true, true]);
    assert_eq!(unknown(&old(new(), "a").build()), [true]);
    assert_eq!(unknown(&old(new(), "a").no_last_padding().build()), [true]);
    let junk = [&q2_0(new(), "a").build()[..], &[0; 999]].concat();
    assert_eq!(unknown(&junk), [false]);
    let cut = q2_0(q2_0(new(), "a"), "b").build();
    let error = refuse(&cut[..cut.len() - 100]);
    assert!(matches!(error.rule, Rule::Incomplete { .. }), "{error}");
    let rows = after(new().tensor("a", Q2_0, &[32, 4], &[0; 24])).build();
    assert_eq!(unknown(&rows), [true, false]);
}

#[test]
fn an_nvfp4_tensor_with_a_scale_beside_it_is_marked() {
    for (name, scale, marked) in [
        ("w.weight", "w.scale", true),
        ("w", "w.scale", true),
        ("w.weight", "w.weight.scale", false),
        ("w.weight", "v.scale", false),
    ] {
        let builder = GgufBuilder::new().tensor(name, NVFP4, &[64], &[0; 36]);
        let header = accept(&builder.tensor(scale, F32, &[1], &[0; 4]).build());
        assert_eq!(header.index.tensors[0].oddity.has(Oddity::COMPANION), marked, "{name} {scale}");
        assert_eq!(header.index.tensors[1].oddity, Oddity::default());
    }
}

#[test]
fn unknown_value_types_are_refused_naming_the_key() {
    for id in [13, 99, u32::MAX] {
        let error = refuse(&GgufBuilder::new().key("odd", Val::Raw(id, vec![0; 8])).build());
        assert!(matches!(error.rule, Rule::ValueType { id: i } if i == id), "{error}");
        assert!(error.to_string().contains("key odd"), "{error}");
        let error = refuse(&GgufBuilder::new().key("odd", Val::Array(id, vec![])).build());
        assert!(matches!(error.rule, Rule::ElementType { id: i } if i == id), "{error}");
    }
}

#[test]
fn counts_and_lengths_past_the_end_are_refused_at_once() {
    let started = Instant::now();
    for count in [500_000_000, 1 << 32, 1 << 63, u64::MAX] {
        let error = refuse(&GgufBuilder::new().announce_keys(count).build());
        assert!(matches!(error.rule, Rule::Counts { .. }), "{error}");
        let error = refuse(&GgufBuilder::new().announce_tensors(count).build());
        assert!(matches!(error.rule, Rule::Counts { .. }), "{error}");
        for element in [0, 8, 9, 10] {
            let array = [&element_type(element)[..], &count.to_le_bytes()].concat();
            let error = refuse(&GgufBuilder::new().key("k", Val::Raw(9, array)).build());
            assert!(matches!(error.rule, Rule::Length { .. }), "{error}");
        }
        let string = Val::Raw(8, count.to_le_bytes().into());
        let error = refuse(&GgufBuilder::new().key("k", string).build());
        assert!(matches!(error.rule, Rule::Length { .. }), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(1));
}

fn element_type(id: u32) -> [u8; 4] {
    id.to_le_bytes()
}

#[test]
fn what_is_not_gguf_is_recognised() {
    let mut tar = vec![b'n'; 512];
    tar[257..262].copy_from_slice(b"ustar");
    let safetensors = [&200u64.to_le_bytes()[..], br#"{"__metadata__":{}}"#].concat();
    for (head, guess) in [
        (&b"version https://git-lfs.github.com/spec/v1\noid sha256:00"[..], "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"\n  <html>", "HTML"),
        (b"PK\x03\x04....", "zip"),
        (b"\x80\x02}q\x00", "pickle"),
        (b"tjgg\x03\0\0\0", "GGJT"),
        (b"fmgg\x01\0\0\0", "GGMF"),
        (b"lmgg\x00\0\0\0", "GGML"),
        (b"algg\x01\0\0\0", "GGLA"),
        (&safetensors, "safetensors"),
        (b"\x1f\x8b\x08", "gzip"),
        (&tar, "tar"),
        (b"{\"error\": \"not found\"}", "JSON"),
        (b"Entry not found", "Entry not found"),
        (&[0; 100], "zeros"),
    ] {
        let message = refuse(head).to_string();
        assert!(message.contains("not a GGUF file") && message.contains(guess), "{message}");
    }
    assert!(refuse(b"").to_string().contains("empty"));
    assert!(refuse(b"xyz").to_string().contains("not a GGUF file"));
    assert!(refuse(b"\x01\x02\x03\x04\x05\x06").to_string().contains("not a GGUF file"));
    for len in 1..24 {
        let message = refuse(&GgufBuilder::base().build()[..len]).to_string();
        assert!(message.contains("ends inside the"), "{message}");
    }
}

#[test]
fn messages_show_names_escaped_and_cut() {
    let name = [&b"evil\x1b[31m\nname"[..], &[b'x'; 500]].concat();
    let error = refuse(&GgufBuilder::new().tensor(name, Q4_0, &[33], &[0; 36]).build()).to_string();
    assert!(error.starts_with("tensor \"evil\\u{1b}[31m\\nnamexxx"), "{error}");
    assert!(error.len() < 300 && !error.contains(|c: char| c.is_control()), "{error}");
}

#[test]
fn leniently_keys_before_the_damage_are_kept() {
    let builder = GgufBuilder::new().key("a", 1).key("b", Val::Raw(77, vec![])).key("c", 3);
    let header = gguf::parse(&builder.tensor("t", I8, &[1], &[0]).build()[..], true).unwrap();
    assert_eq!(keys(&header), ["a"]);
    assert!(header.index.tensors.is_empty());
    assert_eq!(header.index.warnings.len(), 2);
}

#[test]
fn leniently_tensors_beside_a_broken_one_are_kept() {
    let builder = GgufBuilder::new().tensor("a", I8, &[40], &[1; 40]);
    let builder = builder.tensor("rows", Q4_0, &[33], &[2; 36]).tensor("b", I8, &[40], &[3; 40]);
    let bytes = builder.info("far", F32, &[8], u64::MAX - 31).build();
    let header = gguf::parse(&bytes[..], true).unwrap();
    assert_eq!(names(&header), ["a", "b"]);
    assert_eq!(raw(&header, 0, &bytes), [1; 40]);
    assert_eq!(raw(&header, 1, &bytes), [3; 40]);
}

#[test]
fn leniently_tensors_cut_off_are_marked_and_the_rest_is_intact() {
    let whole = GgufBuilder::base().no_last_padding().build();
    let header = gguf::parse(&whole[..whole.len() - 10], true).unwrap();
    let marks: Vec<bool> =
        header.index.tensors.iter().map(|t| t.oddity.has(Oddity::MISSING)).collect();
    assert_eq!(marks, [false, true]);
    assert_eq!(header.index.tensors[1].raw_bytes, 68);
    assert_eq!(raw(&header, 0, &whole).len(), 48);
}

#[test]
fn leniently_no_tensor_has_bytes_when_the_infos_are_damaged() {
    let bytes = GgufBuilder::base().tensor("c", I8, &[1], &[0]).n_dims(99).build();
    let header = gguf::parse(&bytes[..], true).unwrap();
    assert_eq!(names(&header), ["a", "b"]);
    assert!(header.index.tensors.iter().all(|t| t.oddity.has(Oddity::MISSING)));
    check(&header, &bytes);
}

/// A file on a disk that fails from some offset on.
struct Failing<'b>(&'b [u8], u64);

impl ReadAt for Failing<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset + buf.len() as u64 > self.1 {
            return Err(io::Error::other("the disk is broken"));
        }
        self.0.read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.0.len() as u64
    }
}

#[test]
fn a_failing_disk_is_an_error_and_leniently_the_end_of_the_keys() {
    let filler = Val::Str(vec![b'x'; 200_000]);
    let bytes = GgufBuilder::new().key("a", 1).key("b", filler).key("c", 3).build();
    let error = gguf::parse(&Failing(&bytes, 150_000), false).unwrap_err();
    assert!(error.to_string().contains("the disk is broken"), "{error}");
    assert_eq!(keys(&gguf::parse(&Failing(&bytes, 150_000), true).unwrap()), ["a", "b"]);
    let error = gguf::parse(&Failing(&bytes, 100), true).unwrap_err();
    assert_eq!(error.to_string(), "cannot be read: the disk is broken");
}

/// A file of zeros after its head, of any size.
struct Sparse {
    head: Vec<u8>,
    size: u64,
}

impl ReadAt for Sparse {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let n = buf.len().min(self.size.saturating_sub(offset) as usize);
        buf[..n].fill(0);
        let head = self.head[..].read_at(offset, &mut buf[..n])?;
        Ok(n.max(head))
    }

    fn size(&self) -> u64 {
        self.size
    }
}

#[test]
fn billions_of_keys_tensors_or_strings_in_a_sparse_file_are_refused_soon() {
    const MANY: u64 = 10_000_000_000;
    let strings = Val::Raw(9, [&element_type(8)[..], &MANY.to_le_bytes()].concat());
    for (what, head) in [
        ("keys", GgufBuilder::new().announce_keys(MANY).head()),
        ("tensors", GgufBuilder::new().announce_tensors(MANY).head()),
        ("strings", GgufBuilder::new().key("k", strings).head()),
    ] {
        let file = Sparse { head, size: 1 << 50 };
        let started = Instant::now();
        let error = gguf::parse(&file, false).unwrap_err();
        println!("{what}: {error} after {:?}", started.elapsed());
        assert!(matches!(error.rule, Rule::Budget { .. } | Rule::Walk { .. }), "{what}: {error}");
        if matches!(error.rule, Rule::Walk { .. }) {
            continue;
        }
        let lenient = gguf::parse(&file, true).unwrap().index;
        let kept = (lenient.metadata.len() + lenient.tensors.len()) * size_of::<Tensor>();
        assert!(kept < 2 * INDEX_BUDGET, "{what}: {kept}");
        assert!(lenient.warnings.len() <= 100);
    }
}

#[test]
fn offsets_beyond_4_gib_are_kept_whole() {
    let places = [0, (1 << 31) - 32, 1 << 32, (9 << 29) + 32];
    let builder = places
        .iter()
        .fold(GgufBuilder::new(), |builder, at| builder.info(format!("t{at}"), F32, &[8], *at));
    let head = builder.head();
    let file = Sparse { head, size: 5 << 30 };
    let header = gguf::parse(&file, false).unwrap();
    let found: Vec<u64> = header.index.tensors.iter().map(|t| t.offset).collect();
    assert_eq!(found, places);
}

#[test]
fn two_hundred_thousand_tensors_and_a_hundred_thousand_keys_fit() {
    let mut builder = GgufBuilder::new();
    for at in 0..100_000 {
        builder = builder.key(format!("some.rather.long.key.of.a.file.{at:09}"), at);
    }
    for at in 0..200_000u64 {
        let name = format!("model.layers.experts.{at:06}.ffn_up.weights");
        builder = builder.info(name, I8, &[4, 4, 2, 1], at * 32);
    }
    let head = builder.head();
    let size = (head.len() as u64).next_multiple_of(32) + 200_000 * 32;
    let started = Instant::now();
    let header = gguf::parse(&Sparse { head, size }, false).unwrap_or_else(|e| panic!("{e}"));
    println!("200000 tensors and 100000 keys: {:?}", started.elapsed());
    assert_eq!(header.index.tensors.len(), 200_000);
}

#[test]
fn a_vocabulary_of_262144_tokens_is_walked() {
    let tokens = (0..262_144).map(|at| Val::Str(format!("token{at}").into())).collect();
    let merges = (0..262_144).map(|at| Val::Str(format!("to ken{at}").into())).collect();
    let builder = GgufBuilder::base().key("tokenizer.ggml.tokens", Val::Array(8, tokens));
    let builder = builder.key("tokenizer.ggml.merges", Val::Array(8, merges));
    let scores =
        Val::Raw(9, [&6u32.to_le_bytes()[..], &262_144u64.to_le_bytes(), &[0; 1 << 20]].concat());
    let bytes = builder.key("tokenizer.ggml.scores", scores).build();
    let started = Instant::now();
    let header = accept(&bytes);
    println!("3 arrays of 262144, {} bytes: {:?}", bytes.len(), started.elapsed());
    let Value::Array(tokens) = value(&header, "tokenizer.ggml.tokens") else { panic!() };
    assert_eq!(tokens.len, 262_144);
    assert_eq!(&span(&bytes, tokens.span)[tokens.span.len as usize - 11..], b"token262143");
}

/// Small files with every kind of field.
fn small_files() -> Vec<Vec<u8>> {
    let nested = Val::Array(9, vec![Val::Array(8, vec!["x".into()]), Val::Array(0, vec![])]);
    let full = |builder: GgufBuilder| {
        let list = Val::Array(8, vec!["x".into(), "".into(), "zz".into()]);
        builder
            .alignment(8)
            .key("list", list)
            .key("nested", nested.clone())
            .tensor("a", F32, &[2, 1], &[7; 8])
            .tensor("odd", 99, &[5], &[1; 8])
            .info("none", F32, &[0], 3)
            .tensor("q", Q2_0, &[64], &[2; 18])
            .tensor("b", Q4_0, &[32], &[3; 18])
            .build()
    };
    let new = GgufBuilder::new;
    vec![full(new()), full(new().version(1)), full(new().big_endian()), GgufBuilder::base().build()]
}

#[test]
fn every_prefix_is_refused_or_whole() {
    for bytes in small_files() {
        let header = parse(&bytes).unwrap();
        let end = header.index.tensors.iter().map(|t| t.offset + t.raw_bytes).max().unwrap();
        let needed = (header.shard.data_offset + end) as usize;
        for len in 0..bytes.len() {
            let cut = &bytes[..len];
            match parse(cut) {
                Ok(header) => {
                    assert!(len >= needed, "accepted at {len} of {needed}");
                    check(&header, cut);
                }
                Err(error) => assert!(len < needed, "refused at {len} of {needed}: {error}"),
            }
            if let Ok(header) = gguf::parse(cut, true) {
                check(&header, cut);
            }
        }
    }
}

#[test]
fn no_changed_byte_breaks_the_parser() {
    let started = Instant::now();
    for bytes in small_files() {
        for at in 0..bytes.len() {
            for change in [|_| 0, |_| 0xff, |b| b ^ 1, |b| b ^ 0x80, |b: u8| b.wrapping_add(1)] {
                let mut bytes = bytes.clone();
                bytes[at] = change(bytes[at]);
                for lenient in [false, true] {
                    match gguf::parse(&bytes[..], lenient) {
                        Ok(header) => check(&header, &bytes),
                        Err(error) => assert!(!error.to_string().contains('\n')),
                    }
                }
            }
        }
    }
    println!("took {:?}", started.elapsed());
}
