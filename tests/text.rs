//! Text of metadata values: what the contract says of every type, against a naive renderer.

mod common;

use std::os::unix::fs::FileExt;

use common::corpus;
use common::gguf_builder::{GgufBuilder, Val};
use common::opened::Opened;
use common::random::Random;
use common::temp::TempDir;
use gguf_fs::source::ReadError;
use gguf_fs::view::{File, Scratch};
use serde_json::Value as Json;

/// The text of a scalar but for a string.
fn number(value: &Val) -> String {
    let float = |text: String| text.replace("NaN", "nan");
    match value {
        Val::U8(v) => v.to_string(),
        Val::I8(v) => v.to_string(),
        Val::U16(v) => v.to_string(),
        Val::I16(v) => v.to_string(),
        Val::U32(v) => v.to_string(),
        Val::I32(v) => v.to_string(),
        Val::F32(v) => float(format!("{v:?}")),
        Val::Bool(v) => (*v != 0).to_string(),
        Val::U64(v) => v.to_string(),
        Val::I64(v) => v.to_string(),
        Val::F64(v) => float(format!("{v:?}")),
        Val::Str(_) | Val::Array(..) | Val::Raw(..) => panic!("{value:?} is no number"),
    }
}

/// What JSON should mean for a value. Floats are compared as text.
fn meaning(value: &Val) -> Json {
    match value {
        Val::Array(_, values) => values.iter().map(meaning).collect(),
        Val::Str(s) => String::from_utf8_lossy(s).into(),
        Val::F32(v) if !v.is_finite() => number(value).into(),
        Val::F64(v) if !v.is_finite() => number(value).into(),
        _ => serde_json::from_str(&number(value)).unwrap(),
    }
}

fn naive(value: &Val) -> Vec<u8> {
    let Val::Array(_, values) = value else {
        let text = if let Val::Str(s) = value { s.clone() } else { number(value).into() };
        return [&text[..], b"\n"].concat();
    };
    let mut lines = Vec::new();
    for value in values {
        match value {
            Val::Str(s) => {
                for byte in s {
                    match byte {
                        b'\\' => lines.extend(b"\\\\"),
                        b'\n' => lines.extend(b"\\n"),
                        b'\r' => lines.extend(b"\\r"),
                        byte => lines.push(*byte),
                    }
                }
            }
            Val::Array(..) => panic!("arrays in arrays are compared by their meaning"),
            other => lines.extend(number(other).bytes()),
        }
        lines.push(b'\n');
    }
    lines
}

fn scalar(id: u32, random: &mut Random) -> Val {
    let n = random.next() >> random.below(64);
    match id {
        0 => Val::U8(n as u8),
        1 => Val::I8(n as i8),
        2 => Val::U16(n as u16),
        3 => Val::I16(n as i16),
        4 => Val::U32(n as u32),
        5 => Val::I32(n as i32),
        6 => Val::F32(decimal(random) as f32),
        7 => Val::Bool(*random.pick(&[0, 1, 2, 255])),
        8 => Val::Str(string(random)),
        10 => Val::U64(n),
        11 => Val::I64(n as i64),
        12 => Val::F64(decimal(random)),
        _ => panic!("{id} is no scalar type"),
    }
}

/// A float of few digits, for which no other decimal is as short and as near; or a special one.
fn decimal(random: &mut Random) -> f64 {
    if random.below(4) == 0 {
        return *random.pick(&[0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e16, 1e-5]);
    }
    let (digits, exponent) = (random.below(2_000_000) as i64 - 1_000_000, random.below(60));
    format!("{digits}e{}", exponent as i64 - 40).parse().unwrap()
}

/// Text with much in it that must be escaped somewhere, and bytes that are no text.
fn string(random: &mut Random) -> Vec<u8> {
    const PARTS: [&str; 14] = [
        "a",
        "token",
        "\n",
        "\r",
        "\\",
        "\"",
        "\t\0\u{1b}",
        "▁é",
        "🦙",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "/",
        " ",
    ];
    const BAD: [&[u8]; 6] =
        [b"\xff", b"\xe2\x96", b"\xf0\x9f\xa6", b"\x80", b"\xed\xa0\x80", b"\xc0"];
    let part = |random: &mut Random| match random.below(5) {
        0 => random.pick(&BAD).to_vec(),
        _ => random.pick(&PARTS).as_bytes().to_vec(),
    };
    (0..random.below(9)).flat_map(|_| part(random)).collect()
}

const SCALARS: [u32; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12];

fn array(id: u32, len: u64, random: &mut Random) -> Val {
    Val::Array(id, (0..len).map(|_| scalar(id, random)).collect())
}

fn nested(depth: u32, random: &mut Random) -> Val {
    let len = random.below(5);
    if depth == 0 {
        return array(*random.pick(&SCALARS), len, random);
    }
    Val::Array(9, (0..len).map(|_| nested(random.below(depth.into()) as u32, random)).collect())
}

/// Arrays of every version and byte order, with the file they are in.
fn each_layout(mut check: impl FnMut(&mut dyn FnMut(&[Val]) -> Opened)) {
    for version in [1, 2, 3] {
        for big in [false, true] {
            check(&mut |values| {
                let mut builder = GgufBuilder::new().version(version);
                if big {
                    builder = builder.big_endian();
                }
                for (i, value) in values.iter().enumerate() {
                    builder = builder.key(i.to_string(), value.clone());
                }
                Opened::built(&builder)
            });
        }
    }
}

#[test]
fn scalars_and_plain_arrays_are_as_the_naive_renderer_has_them() {
    let mut random = Random::new();
    each_layout(|open| {
        let mut values: Vec<Val> = Vec::new();
        for id in SCALARS {
            values.extend((0..20).map(|_| scalar(id, &mut random)));
            values.extend([0, 1, 3, 200].map(|len| array(id, len, &mut random)));
        }
        // Beyond 64 KiB an array has an index.
        let size = |id| [1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8][id as usize];
        values.extend(SCALARS.map(|id| array(id, 70_000 / size(id), &mut random)));
        let opened = open(&values);
        for (i, value) in values.iter().enumerate() {
            let text = opened.cat(File::Key(i as u32)).unwrap();
            assert!(text == naive(value), "{i}: {:?}", &text[..text.len().min(100)]);
        }
    });
}

#[test]
fn arrays_in_arrays_are_lines_of_json() {
    let mut random = Random::new();
    each_layout(|open| {
        let mut values: Vec<Val> = (0..60).map(|_| nested(3, &mut random)).collect();
        values.push(Val::Array(9, (0..4000).map(|_| nested(2, &mut random)).collect()));
        let opened = open(&values);
        for (i, value) in values.iter().enumerate() {
            let text = String::from_utf8(opened.cat(File::Key(i as u32)).unwrap()).unwrap();
            let Val::Array(id, elements) = value else { panic!("no array") };
            if *id != 9 {
                assert_eq!(text.as_bytes(), naive(value));
                continue;
            }
            assert_eq!(text.lines().count(), elements.len());
            assert!(text.is_empty() || text.ends_with('\n'));
            for (line, element) in text.lines().zip(elements) {
                let json: Json =
                    serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
                assert_eq!(json, meaning(element), "{line}");
            }
        }
    });
}

#[test]
fn pieces_of_long_strings_are_cut_nowhere_that_shows() {
    let mut random = Random::new();
    // Bad and good sequences across every boundary of a piece.
    let mut long = |n: usize| {
        let mut bytes = Vec::new();
        while bytes.len() < n {
            bytes.extend(string(&mut random));
        }
        bytes
    };
    let strings: Vec<Vec<u8>> =
        [4094, 4095, 4096, 4097, 8192, 20_000, 100_000].map(&mut long).into();
    let lines = Val::Array(8, strings.iter().cloned().map(Val::Str).collect());
    let opened = Opened::built(
        &GgufBuilder::new()
            .key("lines", lines.clone())
            .key("json", Val::Array(9, vec![lines.clone()])),
    );
    assert!(opened.bytes("metadata/lines") == naive(&lines));
    let json: Json = serde_json::from_slice(&opened.bytes("metadata/json")).unwrap();
    let expected: Json = strings.iter().map(|s| String::from_utf8_lossy(s)).collect();
    assert!(json == expected);
}

#[test]
fn a_terminal_or_a_line_reader_sees_one_line_of_json() {
    let odd = "\n\r\u{85}\u{2028}\u{2029}\u{1b}\u{9b}\u{7f}\u{feff}";
    let opened = Opened::built(
        &GgufBuilder::new().key("k", Val::Array(9, vec![Val::Array(8, vec![odd.into()])])),
    );
    let text = opened.text("metadata/k");
    assert_eq!(text, "[\"\\n\\r\\u0085\\u2028\\u2029\\u001b\\u009b\\u007f\\ufeff\"]\n");
}

/// The text that `expected.json` says a value must have, where it says so.
fn expected_text(known: &Json) -> Option<Vec<u8>> {
    let value = &known["value"];
    let text = match known["type"].as_str().unwrap() {
        "str" if value["sha256"].is_string() => return None,
        "str" => corpus::bytes(value),
        "bool" => value.to_string().into(),
        "f32" | "f64" => {
            let bits = u64::from_str_radix(value["bits"].as_str().unwrap(), 16).unwrap();
            let float = if known["type"] == "f32" {
                number(&Val::F32(f32::from_bits(bits as u32)))
            } else {
                number(&Val::F64(f64::from_bits(bits)))
            };
            float.into()
        }
        "arr" => {
            let elements = value.as_array()?;
            if known["elem_type"] == "arr" {
                return None;
            }
            let lines = elements.iter().map(|element| {
                let known = serde_json::json!({"type": known["elem_type"], "value": element});
                let mut line = expected_text(&known)?;
                line.pop();
                if known["type"] == "str" {
                    line = naive(&Val::Array(8, vec![Val::Str(line)]));
                    line.pop();
                }
                line.push(b'\n');
                Some(line)
            });
            return lines.collect::<Option<Vec<_>>>().map(|lines| lines.concat());
        }
        _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned).into(),
    };
    Some([&text[..], b"\n"].concat())
}

#[test]
fn values_of_every_sample_are_the_known_ones() {
    for sample in corpus::valid().into_iter().chain(corpus::real()) {
        println!("== {}", sample.path.display());
        if sample.path.to_string_lossy().contains("split-") {
            // Only the first shard's metadata are shown.
            continue;
        }
        let opened = Opened::new(&sample.path);
        for (i, known) in sample.expected["metadata"].as_array().unwrap().iter().enumerate() {
            let text = opened.cat(File::Key(i as u32)).unwrap();
            if known["type"] == "arr" && known["elem_type"] != "arr" {
                let lines = text.iter().filter(|b| **b == b'\n').count();
                assert_eq!(lines as u64, known["len"].as_u64().unwrap(), "{}", known["key"]);
            }
            if let Some(expected) = expected_text(known) {
                assert_eq!(text.escape_ascii().to_string(), expected.escape_ascii().to_string());
            }
        }
    }
}

#[test]
fn a_vocabulary_is_one_line_a_token() {
    let tokens: Vec<Val> = (0..40_000).map(|i| Val::Str(format!("tok\n{i}").into())).collect();
    let opened = Opened::built(&GgufBuilder::new().key("tokens", Val::Array(8, tokens)));
    let file = opened.file("metadata/tokens");
    assert_eq!(opened.views.cheap_size(file), None, "not scanned for a listing");
    let size = opened.views.size(file).unwrap();
    assert_eq!(opened.views.cheap_size(file), Some(size));
    let text = opened.text("metadata/tokens");
    assert_eq!(text.lines().nth(9707), Some("tok\\n9707"));
    let mut scratch = Scratch::default();
    let end = opened.views.read(file, size - 11, 100, &mut scratch).unwrap();
    assert_eq!(end, b"tok\\n39999\n");
}

#[test]
fn what_would_take_hours_is_no_text() {
    const LEN: u64 = 1 << 38;
    let begin = [&0u32.to_le_bytes()[..], &LEN.to_le_bytes()].concat();
    let huge = GgufBuilder::new().announce_keys(3).key("array", Val::Raw(9, begin)).head();
    let string = GgufBuilder::new().key("string", Val::Raw(8, LEN.to_le_bytes().into())).head();
    let small = Val::Array(4, vec![Val::U32(7), Val::U32(8)]);
    let small = &GgufBuilder::new().key("small", small).head()[24..];
    let string_at = huge.len() as u64 + LEN;
    let small_at = string_at + string.len() as u64 - 24 + LEN;
    let dir = TempDir::new();
    let path = dir.file("huge.gguf", &huge);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&string[24..], string_at).unwrap();
    file.write_all_at(small, small_at).unwrap();

    let opened = Opened::new(&path);
    let (views, mut scratch) = (&opened.views, Scratch::default());
    let array = opened.file("metadata/array");
    assert!(matches!(views.size(array), Err(ReadError::TooLarge { .. })));
    assert!(matches!(views.read(array, 0, 9, &mut scratch), Err(ReadError::TooLarge { .. })));
    // A string is its bytes, which no one has to scan.
    assert_eq!(views.size(opened.file("metadata/string")).unwrap(), LEN + 1);
    assert_eq!(opened.text("metadata/small"), "7\n8\n");
    let json: Json = serde_json::from_slice(&opened.bytes("model.json")).unwrap();
    let value = |key: &str| &json["metadata"][key]["value"];
    assert_eq!([value("array"), value("string")], [&Json::Null; 2]);
    assert_eq!(*value("small"), serde_json::json!([7, 8]));
    let header = opened.bytes("safetensors/f32.safetensors");
    assert!(header[8..].starts_with(b"{\"__metadata__\":{\"format\":\"pt\"}}"));
}

#[test]
fn a_small_array_that_was_overwritten_is_whole_or_an_error() {
    let array = |n: u32| Val::Array(4, vec![Val::U32(n); 100]);
    let build = |n: u32| GgufBuilder::new().key("k", array(n)).build();
    let opened = Opened::of_bytes(&build(1000));
    let file = opened.file("metadata/k");
    assert_eq!(opened.views.size(file).unwrap(), 500);
    let model = std::fs::File::options()
        .write(true)
        .open(opened.dir.as_ref().unwrap().path().join("model.gguf"))
        .unwrap();
    let mut scratch = Scratch::default();
    model.write_all_at(&build(1), 0).unwrap();
    assert!(opened.views.read(file, 0, 4096, &mut scratch).is_err());
    assert_eq!(opened.views.read(file, 0, 4, &mut scratch).unwrap(), b"1\n1\n");
    model.write_all_at(&build(100_000), 0).unwrap();
    assert_eq!(opened.views.read(file, 0, 4096, &mut scratch).unwrap().len(), 500);
    assert_eq!(opened.views.size(file).unwrap(), 500);
}
