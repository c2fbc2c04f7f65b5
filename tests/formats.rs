//! The model in other tools' formats: what their readers expect, and the same values as elsewhere.

mod common;

use common::corpus;
use common::gguf_builder::{F16, F32, GgufBuilder, Q4_0, Q4_K, Q8_0, Val};
use common::opened::Opened;
use common::random::Random;
use half::{bf16, f16};
use serde_json::{Value as Json, json};

const BF16: u32 = 30;

/// The header and the data of a safetensors file, checked as the reference reader does it.
fn parse(file: &[u8]) -> (Json, &[u8]) {
    let (length, rest) = file.split_first_chunk().unwrap();
    let length = u64::from_le_bytes(*length) as usize;
    let (header, data) = rest.split_at(length);
    assert_eq!((8 + length) % 4096, 0, "the data begin at a page");
    assert_eq!(header[0], b'{');
    let header: Json = serde_json::from_slice(header).unwrap();
    assert!(header["__metadata__"].as_object().unwrap().values().all(Json::is_string));
    let mut places: Vec<(u64, u64)> = Vec::new();
    for (name, tensor) in header.as_object().unwrap() {
        if name == "__metadata__" {
            continue;
        }
        let numbers = |field: &str| -> Vec<u64> {
            tensor[field].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
        };
        let size = if tensor["dtype"] == "F32" { 4 } else { 2 };
        let offsets = numbers("data_offsets");
        let elements: u64 = numbers("shape").iter().product();
        assert_eq!(offsets[1] - offsets[0], elements * size, "{name}");
        places.push((offsets[0], offsets[1]));
    }
    places.sort();
    let mut end = 0;
    for place in places {
        assert_eq!(place.0, end, "contiguous");
        end = place.1;
    }
    assert_eq!(end, data.len() as u64, "all data are named");
    (header, data)
}

fn data_of<'a>(header: &Json, data: &'a [u8], name: &str) -> &'a [u8] {
    let offset = |i: usize| header[name]["data_offsets"][i].as_u64().unwrap() as usize;
    &data[offset(0)..offset(1)]
}

/// A model with what is awkward for the formats.
fn awkward() -> GgufBuilder {
    let mut random = Random::new();
    let halves: Vec<u8> =
        [0x3c00u16, 0x7c01, 0xfe55, 0x0001, 0x8000].iter().flat_map(|h| h.to_le_bytes()).collect();
    let floats: Vec<u8> = (0..1000).flat_map(|_| (random.next() as u32).to_le_bytes()).collect();
    GgufBuilder::new()
        .key("general.name", "a \"quoted\"\nname")
        .key("bad", Val::Str(b"bad \xff\xe2\x96".to_vec()))
        .key("long", Val::Str("é".repeat(5000).into()))
        .key("u64", Val::U64(u64::MAX))
        .key("i64", Val::I64(i64::MIN))
        .key("nan", Val::F32(f32::NAN))
        .key("inf", Val::F64(f64::NEG_INFINITY))
        .key("float", Val::F32(10000.0))
        .key("bool", Val::Bool(1))
        .key("format", "gguf")
        .key("empty", Val::Array(8, vec![]))
        .key("scores", Val::Array(6, vec![Val::F32(0.5), Val::F32(f32::INFINITY), Val::F32(-1e-5)]))
        .key("nested", Val::Array(9, vec![Val::Array(8, vec!["x".into()]), Val::Array(4, vec![])]))
        .tensor("floats", F32, &[100, 10], &floats)
        .tensor("halves", F16, &[5], &halves)
        .tensor("brain", BF16, &[5], &halves)
        .tensor("scalar", F32, &[], &1e30f32.to_le_bytes())
        .tensor("empty", Q4_K, &[256, 0], &[])
        .tensor("unknown", 99, &[7], &[1; 7])
        .tensor("q", Q4_0, &[32, 3], &random.bytes(54))
        .tensor("q", Q8_0, &[64], &random.bytes(68))
        .tensor("__metadata__", F32, &[1], &floats[..4])
        .tensor(b"bad\xff", F32, &[1], &floats[4..8])
        .tensor(b"bad\xfe", F32, &[1], &floats[8..12])
        .tensor("a/b %", F32, &[2], &floats[..8])
}

#[test]
fn safetensors_files_hold_every_tensor_that_has_floats() {
    let opened = Opened::built(&awkward());
    let names = [
        ("floats", "floats"),
        ("halves", "halves"),
        ("brain", "brain"),
        ("scalar", "scalar"),
        ("empty", "empty"),
        ("q", "q"),
        ("q%#2", "q%#2"),
        ("__metadata__", "__metadata__%#2"),
        ("bad\\xff", "bad\u{FFFD}"),
        ("bad\\xfe", "bad\u{FFFD}%#2"),
        ("a%2Fb %25", "a/b %"),
    ];
    let paths = opened.names("npy");
    assert_eq!(paths.len(), names.len());
    for (dtype, path) in [("F32", "f32"), ("F16", "f16"), ("BF16", "bf16")] {
        let file = opened.bytes(format!("safetensors/{path}.safetensors"));
        let (header, data) = parse(&file);
        assert_eq!(header.as_object().unwrap().len(), names.len() + 1);
        for (position, (shown, name)) in names.iter().enumerate() {
            assert_eq!(paths[position], format!("{shown}.npy"));
            let npy = opened.tree.entry(4, position as u64).unwrap();
            let npy = opened.bytes([b"npy/", &*npy.name].concat());
            let (floats, _) = npy[4096..].as_chunks::<4>();
            let floats = floats.iter().map(|f| f32::from_le_bytes(*f));
            let expected: Vec<u8> = match dtype {
                "F32" => npy[4096..].to_vec(),
                "F16" => floats.flat_map(|f| f16::from_f32(f).to_le_bytes()).collect(),
                _ => floats.flat_map(|f| bf16::from_f32(f).to_le_bytes()).collect(),
            };
            assert_eq!(header[name]["dtype"], dtype);
            let found = data_of(&header, data, name);
            match (dtype, *name) {
                // Payloads of NaNs are kept where the type is the same.
                ("F16", "halves") => assert_eq!(found, opened.bytes("tensors/halves/raw")),
                ("BF16", "brain") => assert_eq!(found, opened.bytes("tensors/brain/raw")),
                _ => assert!(found == expected, "{name} in {path}"),
            }
        }
        assert_eq!(header["floats"]["shape"], json!([10, 100]));
        assert_eq!(header["scalar"]["shape"], json!([]));
        assert_eq!(header["empty"]["shape"], json!([0, 256]));
        let mut keys = json!({
            "format": "pt", "general.name": "a \"quoted\"\nname", "bad": "bad \u{FFFD}\u{FFFD}",
            "long": "é".repeat(5000), "u64": "18446744073709551615", "nan": "nan", "inf": "-inf",
            "i64": "-9223372036854775808", "float": "10000.0", "bool": "true",
        });
        keys["format%#2"] = "gguf".into();
        assert_eq!(header["__metadata__"], keys);
    }
}

#[test]
fn plain_types_of_a_big_endian_file_pass_through_swapped() {
    let halves = [0x3c00u16, 0x7c01, 0xfe55, 0x0001, 0x8000];
    let stored: Vec<u8> = halves.iter().flat_map(|h| h.to_be_bytes()).collect();
    let expected: Vec<u8> = halves.iter().flat_map(|h| h.to_le_bytes()).collect();
    let builder = GgufBuilder::new().big_endian();
    let opened = Opened::built(&builder.tensor("halves", F16, &[5], &stored).tensor(
        "brain",
        BF16,
        &[5],
        &stored,
    ));
    for (format, name) in [("f16", "halves"), ("bf16", "brain")] {
        let file = opened.bytes(format!("safetensors/{format}.safetensors"));
        let (header, data) = parse(&file);
        assert_eq!(data_of(&header, data, name), expected);
    }
}

#[test]
fn every_sample_makes_sound_safetensors_files() {
    for sample in corpus::valid() {
        println!("== {}", sample.path.display());
        let opened = Opened::new(&sample.path);
        for format in ["f32", "f16", "bf16"] {
            parse(&opened.bytes(format!("safetensors/{format}.safetensors")));
        }
    }
}

#[test]
fn npy_headers_are_one_page_with_the_shape_in_numpys_order() {
    let opened = Opened::built(
        &GgufBuilder::base()
            .tensor("scalar", F32, &[], &[0; 4])
            .tensor("none", F32, &[4, 0], &[])
            .tensor("many", F32, &[1; 16], &[0; 4]),
    );
    let ones = "1, ".repeat(16);
    for (name, shape) in
        [("a", "3, 4, "), ("b", "2, 32, "), ("scalar", ""), ("none", "0, 4, "), ("many", &ones)]
    {
        let npy = opened.bytes(format!("npy/{name}.npy"));
        let (header, floats) = npy.split_at(4096);
        assert_eq!(header[..10], *b"\x93NUMPY\x01\x00\xf6\x0f");
        let dict = std::str::from_utf8(&header[10..]).unwrap();
        let start = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
        assert_eq!(dict.trim_end(), start);
        assert!(dict.ends_with(" \n"));
        assert_eq!(floats, opened.bytes(format!("tensors/{name}/f32")));
    }
}

#[test]
fn the_json_has_info_every_value_with_its_type_and_every_tensor() {
    let opened = Opened::built(&awkward());
    let text = opened.text("model.json");
    let json: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(json["info"]["parameters"], 1000 + 5 + 5 + 1 + 7 + 96 + 64 + 5);
    assert_eq!(json["info"]["endianness"], "little");
    assert_eq!(json["info"]["types"]["unknown (99)"], 1);
    let info = opened.text("info");
    let fields: Vec<&str> = info.lines().map(|l| l.split_once(": ").unwrap().0).collect();
    assert_eq!(json["info"].as_object().unwrap().len(), fields.len());
    assert!(fields.iter().all(|field| !json["info"][field].is_null()));
    for (key, kind, value) in [
        ("general.name", "string", json!("a \"quoted\"\nname")),
        ("bad", "string", json!("bad \u{FFFD}\u{FFFD}")),
        ("u64", "u64", json!(u64::MAX)),
        ("i64", "i64", json!(i64::MIN)),
        ("nan", "f32", json!("nan")),
        ("inf", "f64", json!("-inf")),
        ("float", "f32", json!(10000.0)),
        ("bool", "bool", json!(true)),
        ("format", "string", json!("gguf")),
        ("empty", "array", json!([])),
        ("scores", "array", json!([0.5, "inf", -1e-5])),
        ("nested", "array", json!([["x"], []])),
    ] {
        assert_eq!(json["metadata"][key]["value"], value, "{key}");
        assert_eq!(json["metadata"][key]["type"], kind, "{key}");
    }
    assert_eq!(json["metadata"].as_object().unwrap().len(), 13);
    assert_eq!(json["metadata"]["scores"]["element_type"], "f32");
    let tensors = json["tensors"].as_object().unwrap();
    assert_eq!(tensors.len(), 12);
    assert_eq!(tensors["floats"]["shape"], json!([10, 100]));
    assert_eq!(tensors["q%#2"]["name"], "q");
    assert_eq!(tensors["q%#2"]["type"], "Q8_0");
    assert_eq!(tensors["unknown"]["type"], "unknown (99)");
    assert!(tensors["unknown"]["f32_bytes"].is_null());
}

#[test]
fn the_json_of_every_sample_agrees_with_its_info_files() {
    for sample in corpus::valid() {
        println!("== {}", sample.path.display());
        let opened = Opened::new(&sample.path);
        let json: Json = serde_json::from_slice(&opened.bytes("model.json")).unwrap();
        assert_eq!(json["metadata"].as_object().unwrap().len(), opened.model.metadata.len());
        let tensors = json["tensors"].as_object().unwrap();
        assert_eq!(tensors.len(), opened.model.tensors.len());
        for file in ["type", "elements", "file_offset", "raw_bytes"] {
            assert!(tensors.values().all(|tensor| !tensor[file].is_null()));
        }
    }
}

#[test]
fn the_table_has_one_line_a_tensor() {
    let opened = Opened::built(&awkward().tensor("tab\tnew\nline\\", F32, &[1], &[0; 4]));
    let table = opened.bytes("tensors.tsv");
    let lines: Vec<&[u8]> = table.split(|b| *b == b'\n').collect();
    let (last, lines) = lines.split_last().unwrap();
    assert!(last.is_empty());
    assert_eq!(*lines[0], *b"name\ttype\tshape\telements\traw_bytes\tshard\tfile_offset");
    assert_eq!(lines.len(), 14);
    let data = opened.model.headers[0].data_offset;
    let first = format!("floats\tF32\t[10, 100]\t1000\t4000\t1\t{data}");
    assert_eq!(*lines[1], *first.as_bytes());
    assert!(lines[13].starts_with(b"tab\\tnew\\nline\\\\\tF32\t[1]\t1\t4\t1\t"));
    assert!(lines[10].starts_with(b"bad\xff\t"));
    assert!(lines.iter().all(|line| line.iter().filter(|b| **b == b'\t').count() == 6));
}

#[test]
fn keys_named_format_are_all_different_members() {
    let keys = ["format%#3", "format", "format%#2", "format"];
    let builder = keys.iter().fold(GgufBuilder::new(), |b, key| b.key(key, *key));
    let opened = Opened::built(&builder.tensor("t", F32, &[1], &[0; 4]));
    let (header, _) = parse(&opened.bytes("safetensors/f32.safetensors"));
    let members = header["__metadata__"].as_object().unwrap();
    assert_eq!(members.len(), keys.len() + 1, "{members:?}");
    assert_eq!(members["format"], "pt");
}
