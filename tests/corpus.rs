//! The sample files: what is read of the valid ones agrees with what is known of them, and the
//! malformed ones are refused, warned of or accepted as they must be.

mod common;

use std::fs;
use std::path::Path;

use common::corpus::{self, bytes, sha256};
use common::temp::TempDir;
use gguf_fs::gguf::{Array, Endian, Layout, Printable, Span, TensorType, Value, ValueType};
use gguf_fs::model::Model;
use serde_json::Value as Json;

/// Opens the one file of a sample, a shard too as if it stood alone.
fn open(path: &Path, lenient: bool) -> Result<Model, String> {
    let name = path.file_name().unwrap().to_string_lossy();
    let folder = TempDir::new();
    let path = if name.contains("-of-") {
        folder.file(name.replace("-of-", "_of_"), &fs::read(path).unwrap())
    } else {
        path.into()
    };
    Model::open(&path, lenient).map_err(|e| e.to_string())
}

fn file_bytes(model: &Model, span: Span) -> Vec<u8> {
    let mut buf = Vec::new();
    let range = span.offset..span.offset + span.len;
    model.source.bytes(0, range, &mut buf).unwrap().to_vec()
}

/// An array's elements as the corpus hashes them: little-endian, lengths of 64 bits.
fn canonical(model: &Model, array: Array) -> Vec<u8> {
    let Layout { version, endian } = model.layout(0);
    let mut rest = &file_bytes(model, array.span)[..];
    let mut out = Vec::new();
    let mut take = |n: usize, swap: bool| {
        let (bytes, after) = rest.split_at(n);
        rest = after;
        let mut bytes = bytes.to_vec();
        if swap && endian == Endian::Big {
            bytes.reverse();
        }
        bytes
    };
    for _ in 0..array.len {
        if let Some(size) = array.element.size() {
            out.extend(take(size as usize, true));
            continue;
        }
        let mut len = take(if version == 1 { 4 } else { 8 }, true);
        len.resize(8, 0);
        out.extend(&len);
        out.extend(take(u64::from_le_bytes(len.try_into().unwrap()) as usize, false));
    }
    assert!(rest.is_empty(), "the span is longer than the elements");
    out
}

fn integer(json: &Json) -> i128 {
    json.as_str().map_or_else(|| json.as_i64().unwrap().into(), |s| s.parse().unwrap())
}

fn bits(json: &Json) -> u64 {
    u64::from_str_radix(json["bits"].as_str().unwrap(), 16).unwrap()
}

fn check_value(model: &Model, value: Value, known: &Json) {
    let name = known["type"].as_str().unwrap();
    let expected = &known["value"];
    let short = |ty: ValueType| ty.name().replace("string", "str").replace("array", "arr");
    assert_eq!(short(value.value_type()), name);
    match value {
        Value::F32(v) => assert_eq!(u64::from(v.to_bits()), bits(expected)),
        Value::F64(v) => assert_eq!(v.to_bits(), bits(expected)),
        Value::Bool(v) => assert_eq!(v, expected.as_bool().unwrap_or(true)),
        Value::String(span) => {
            let found = file_bytes(model, span);
            match expected["sha256"].as_str() {
                Some(sha) => assert_eq!(
                    (span.len, &*sha256(&found)),
                    (expected["len"].as_u64().unwrap(), sha)
                ),
                None => assert_eq!(found, bytes(expected)),
            }
        }
        Value::Array(array) => {
            assert_eq!(short(array.element), known["elem_type"].as_str().unwrap());
            assert_eq!(array.len, known["len"].as_u64().unwrap());
            assert_eq!(sha256(&canonical(model, array)), known["sha256"].as_str().unwrap());
        }
        integers => assert_eq!(integers.as_integer().unwrap(), integer(expected)),
    }
}

/// Compares a tensor with its entry; `type_id` and `dims` may be absent there.
fn check_tensor(model: &Model, position: usize, known: &Json) {
    let tensor = &model.tensors[position];
    assert_eq!(model.name(tensor.name), bytes(&known["name"]));
    let TensorType::Known(ty) = tensor.ty else { panic!("an unknown type") };
    assert_eq!(ty.name, known["type"].as_str().unwrap().to_uppercase());
    assert_eq!(model.file_offset(tensor), known["abs_offset"].as_u64().unwrap());
    assert_eq!(tensor.raw_bytes, known["n_bytes"].as_u64().unwrap());
    if let Some(dims) = known["dims"].as_array() {
        let dims: Vec<u64> = dims.iter().map(|d| d.as_u64().unwrap()).collect();
        assert_eq!(model.dims(tensor), dims);
        assert_eq!(tensor.elements, known["n_elements"].as_u64().unwrap());
        assert_eq!(tensor.offset, known["offset"].as_u64().unwrap());
        let defined = known["f32"]["sha256"].is_string();
        assert_eq!(model.has_f32(tensor), defined, "has_f32");
    }
    let start = model.file_offset(tensor);
    let mapped = model.source.mapped(tensor.shard, start..start + tensor.raw_bytes).unwrap();
    assert_eq!(sha256(mapped), known["raw_sha256"].as_str().unwrap());
}

fn check_sample(path: &Path, expected: &Json) -> Model {
    let model = open(path, false).unwrap_or_else(|e| panic!("{e}"));
    let header = model.headers[0];
    assert_eq!(u64::from(header.layout.version), expected["version"].as_u64().unwrap());
    assert_eq!(header.layout.endian == Endian::Big, expected["endian"] == "big");
    assert_eq!(header.alignment, expected["alignment"].as_u64().unwrap());
    let known = expected["data_offset"].as_u64().unwrap();
    assert_eq!(header.data_offset, known.next_multiple_of(header.alignment));
    assert_eq!(model.bytes(), expected["size"].as_u64().unwrap());
    let keys = expected["metadata"].as_array().unwrap();
    assert_eq!(model.metadata.len(), keys.len());
    for (entry, known) in model.metadata.iter().zip(keys) {
        assert_eq!(model.name(entry.key), bytes(&known["key"]));
        println!("{}", Printable(model.name(entry.key)));
        check_value(&model, entry.value, known);
    }
    let tensors = expected["tensors"].as_array().unwrap();
    assert_eq!(model.tensors.len(), tensors.len());
    for (position, known) in tensors.iter().enumerate() {
        println!("{}", Printable(model.name(model.tensors[position].name)));
        check_tensor(&model, position, known);
    }
    model
}

#[test]
fn every_valid_file_is_read_as_it_was_written() {
    for sample in corpus::valid() {
        println!("== {}", sample.path.display());
        let model = check_sample(&sample.path, &sample.expected);
        let split = sample.path.to_string_lossy().contains("split-");
        assert_eq!(model.warnings.len(), usize::from(split), "{:?}", model.warnings);
    }
}

#[test]
fn every_real_file_is_read_as_it_was_written() {
    for sample in corpus::real() {
        println!("== {}", sample.path.display());
        check_sample(&sample.path, &sample.expected);
    }
}

#[test]
fn real_files_that_other_readers_refuse_open_with_a_warning() {
    let Some(folder) = corpus::real_folder() else { return };
    for name in ["iree-single.gguf", "iree-single_v2.gguf", "zackshen-be-v3.gguf"] {
        let model = open(&folder.join(name), false).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(model.warnings, ["duplicate key general.architecture"], "{name}");
        assert!(!model.tensors.is_empty());
    }
}

#[test]
fn every_malformed_file_is_refused_warned_of_or_accepted_as_it_must_be() {
    for odd in corpus::malformed() {
        let entry = &odd.entry;
        println!("== {} ({})", odd.path.display(), entry["reason"]);
        let mentions = |message: &str| {
            let message = message.to_lowercase();
            assert!(!message.contains('\n'), "{message:?} is more than one line");
            let words = entry["message_mentions_any"].as_array().unwrap();
            assert!(
                words.iter().any(|word| message.contains(word.as_str().unwrap())),
                "{message:?} says none of {words:?}"
            );
        };
        let strict = open(&odd.path, false);
        let lenient = open(&odd.path, true);
        match (entry["expect"].as_str().unwrap(), &strict) {
            ("refuse", Err(message)) => {
                println!("{message}");
                let path = format!("{}: ", odd.path.display());
                let (message, hint) = match message.strip_prefix(&path).unwrap().rsplit_once(';') {
                    Some((message, hint)) if hint.contains("--lenient") => (message, true),
                    _ => (&message[path.len()..], false),
                };
                mentions(message);
                assert_eq!(hint, lenient.is_ok(), "the hint to --lenient");
                if let Ok(model) = &lenient {
                    assert!(!model.warnings.is_empty());
                }
            }
            ("warn" | "degrade", Ok(model)) => {
                println!("{:?}", model.warnings);
                assert!(!model.warnings.is_empty());
                mentions(&model.warnings.join(" "));
            }
            ("accept", Ok(model)) => assert!(model.warnings.is_empty(), "{:?}", model.warnings),
            (expect, Ok(_)) => panic!("{expect} expected, but it opens"),
            (expect, Err(message)) => panic!("{expect} expected: {message}"),
        }
        let Ok(model) = strict else { continue };
        let unknown = model.tensors.iter().filter(|t| matches!(t.ty, TensorType::Unknown(_)));
        assert_eq!(unknown.count() > 0, entry["expect"] == "degrade");
        if let Some(known) = entry["if_accepted"].as_object() {
            assert_eq!(model.metadata.len() as u64, known["n_kv"].as_u64().unwrap());
            for (position, known) in known["tensors"].as_array().unwrap().iter().enumerate() {
                check_tensor(&model, position, known);
            }
        }
    }
}
