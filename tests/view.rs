//! Every file of the tree: sizes are exact, any read is a slice of the whole, and tensors are what is
//! known of them.

mod common;

use std::path::Path;

use common::corpus::{self, sha256};
use common::gguf_builder::{F16, F32, GgufBuilder, NVFP4, Q4_0, Q4_K, Q5_0, Q8_0, Val};
use common::opened::Opened;
use common::random::Random;
use gguf_fs::model::Model;
use gguf_fs::view::{File, Scratch, Views};

/// Compares reads at awkward places with slices of the whole file.
fn check_reads(opened: &Opened, path: &[u8], file: File, random: &mut Random) {
    let views = &opened.views;
    let whole = opened.cat(file).unwrap();
    let size = whole.len() as u64;
    let mut places = vec![
        (0, 0),
        (0, 1),
        (size, 0),
        (size, 1),
        (size + 1, 100),
        (1 << 62, 100),
        (u64::MAX, usize::MAX),
        (size.saturating_sub(1), 4096),
        (1, 4096),
    ];
    for edge in [4, 18 * 32, 1024, 4096, 8192, 128 << 10] {
        let edge = edge - 1 + random.below(3);
        places.push((edge, 1 + random.below(5000) as usize));
        places.push((edge + random.below(edge), 1 + random.below(7) as usize));
    }
    for _ in 0..8 {
        places.push((random.below(size + 1), random.below(size.min(200_000) + 9) as usize));
    }
    let mut scratch = Scratch::default();
    for (offset, len) in places {
        let found = views.read(file, offset, len, &mut scratch).unwrap();
        let start = offset.min(size) as usize;
        let expected = &whole[start..start.saturating_add(len).min(whole.len())];
        assert!(found == expected, "{} at {offset} + {len}", path.escape_ascii());
    }
    assert_eq!(views.cheap_size(file), Some(size), "after a scan");
}

/// Checks all files, of thousands a random part.
fn check_all_reads(opened: &Opened, random: &mut Random) {
    let files = opened.files();
    for (path, file) in &files {
        if random.below(files.len() as u64) < 400 {
            check_reads(opened, path, *file, random);
        }
    }
}

#[test]
fn any_read_of_a_sample_is_a_slice_of_the_whole() {
    let mut random = Random::new();
    for sample in corpus::valid() {
        println!("== {}", sample.path.display());
        let opened = Opened::new(&sample.path);
        check_all_reads(&opened, &mut random);
    }
}

#[test]
fn any_read_of_large_values_is_a_slice_of_the_whole() {
    let mut random = Random::new();
    let strings = (0..3000).map(|_| {
        let len = *random.pick(&[0, 1, 7, 30, 4090, 4100]);
        let mut bytes = random.bytes(len);
        for byte in &mut bytes {
            *byte = if *byte > 250 { b'\\' } else { *byte & 0x7f };
        }
        Val::Str(bytes)
    });
    let strings: Vec<Val> = strings.collect();
    let nested = |n: usize, random: &mut Random| {
        let strings = (0..n).map(|i| Val::Str(random.bytes(i * 37))).collect();
        Val::Array(9, vec![Val::Array(8, strings), Val::Array(7, vec![Val::Bool(1); 5000])])
    };
    let floats = (0..200).map(|_| random.next()).flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
    let builder = GgufBuilder::new()
        .key("long", Val::Str(random.bytes(700_000)))
        .key("bytes", Val::Array(0, random.bytes(300_000).into_iter().map(Val::U8).collect()))
        .key("floats", Val::Array(6, (0..90_000).map(|i| Val::F32(i as f32 * 0.1)).collect()))
        .key("doubles", Val::Array(12, (0..20_000).map(|i| Val::F64(1.0 / i as f64)).collect()))
        .key("strings", Val::Array(8, strings))
        .key("nested", Val::Array(9, (0..70).map(|n| nested(n, &mut random)).collect()))
        .tensor("f32", F32, &[25, 16], &floats)
        .tensor("f16", F16, &[800], &floats)
        .tensor("empty", Q4_K, &[256, 0], &[])
        .tensor("q4_0", Q4_0, &[32, 77], &random.bytes(18 * 77))
        .tensor("q4_k", Q4_K, &[512, 50], &random.bytes(144 * 100))
        .tensor("q8_0", Q8_0, &[32, 2, 3, 1], &random.bytes(34 * 6))
        .tensor("w.weight", NVFP4, &[64, 10], &random.bytes(36 * 10))
        .tensor("scalar", F32, &[], &floats[..4]);
    check_all_reads(&Opened::built(&builder), &mut random);
    check_all_reads(&Opened::built(&builder.version(1)), &mut random);
}

#[test]
fn tensors_of_every_sample_have_the_known_floats() {
    for sample in corpus::valid().into_iter().chain(corpus::real()) {
        if sample.path.to_string_lossy().contains("split-") {
            continue;
        }
        println!("== {}", sample.path.display());
        let opened = Opened::new(&sample.path);
        for (i, known) in sample.expected["tensors"].as_array().unwrap().iter().enumerate() {
            let name = corpus::bytes(&known["name"]);
            println!("{}", name.escape_ascii());
            let raw = opened.cat(File::Tensor(i as u32, 1)).unwrap();
            assert_eq!(sha256(&raw), known["raw_sha256"].as_str().unwrap());
            if let Some(sha) = known["f32"]["canon_sha256"].as_str() {
                let floats = opened.cat(File::Tensor(i as u32, 2)).unwrap();
                assert_eq!(sha256(&canonical(&floats)), sha);
                let npy = opened.cat(File::Npy(i as u32)).unwrap();
                assert!(npy[4096..] == floats);
            }
        }
    }
}

/// The floats with every NaN the same: its payload is nobody's promise.
fn canonical(floats: &[u8]) -> Vec<u8> {
    let (floats, rest) = floats.as_chunks::<4>();
    assert!(rest.is_empty());
    let same = |bytes: &[u8; 4]| match f32::from_le_bytes(*bytes) {
        nan if nan.is_nan() => 0x7FC0_0000u32.to_le_bytes(),
        _ => *bytes,
    };
    floats.iter().flat_map(same).collect()
}

#[test]
fn a_split_model_is_the_same_from_every_shard() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/valid");
    let open = |n| Opened::new(&folder.join(format!("split-0000{n}-of-00003.gguf")));
    let [first, others @ ..] = [1, 2, 3].map(open);
    let all = first.files();
    for other in &others {
        assert_eq!(other.files(), all);
        for (path, file) in &all {
            assert!(other.cat(*file).unwrap() == first.cat(*file).unwrap(), "{path:?}");
        }
    }
    let info = first.text("info");
    assert!(info.contains("-00001-of-00003.gguf\nshards: 3\n"), "{info}");
    let mut shards: Vec<String> = first.names("tensors");
    shards = shards.iter().map(|name| line(&first, name, "shard")).collect();
    assert!(shards.is_sorted() && shards[0] == "1" && shards.ends_with(&["3".into()]));
}

/// The value of a field of a tensor's `info`.
fn line(opened: &Opened, tensor: &str, field: &str) -> String {
    let info = opened.text(format!("tensors/{tensor}/info"));
    let value = info.lines().find_map(|l| l.strip_prefix(&format!("{field}: ")));
    value.unwrap_or_else(|| panic!("no {field} in {info}")).into()
}

#[test]
fn info_has_the_fields_of_the_contract_in_order() {
    let opened = Opened::built(
        &GgufBuilder::base()
            .tensor("blk.0.w.weight", NVFP4, &[64], &[0; 36])
            .tensor("blk.0.w.scale", F32, &[1], &[0; 4])
            .tensor("odd", 99, &[3, 5], &[1; 50]),
    );
    let path = opened.dir.as_ref().unwrap().path().join("model.gguf");
    let data = opened.model.headers[0].data_offset;
    let expected = format!(
        "file: {}\nbytes: {}\nversion: 3\nendianness: little\nalignment: 32\nmetadata: 2\n\
         tensors: 5\nparameters: {}\ndata_offset: {data}\n\
         types: {{F32: 2, Q8_0: 1, NVFP4: 1, unknown (99): 1}}\n",
        path.display(),
        opened.model.bytes(),
        12 + 64 + 64 + 1 + 15,
    );
    assert_eq!(opened.text("info"), expected);
    let expected = format!(
        "name: b\ntype: Q8_0\nshape: [2, 32]\ndims: [32, 2]\nelements: 64\n\
         block: 32 elements in 34 bytes\noffset: 64\nfile_offset: {}\nraw_bytes: 68\nf32_bytes: 256\n",
        data + 64
    );
    assert_eq!(opened.text("tensors/b/info"), expected);
    assert!(line(&opened, "blk.0.w.weight", "note").contains(".scale"));
    let odd = opened.text("tensors/odd/info");
    assert!(odd.contains("type: unknown (99)\n") && odd.contains("block: unknown\n"), "{odd}");
    assert!(!odd.contains("f32_bytes"));
    assert!(odd.lines().last().unwrap().starts_with("note: "), "{odd}");
    assert_eq!(opened.names("tensors/odd"), ["info", "raw"]);
    assert_eq!(opened.names("npy").len(), 4);
}

#[test]
fn a_name_that_yaml_would_misread_is_quoted() {
    for (name, shown) in [
        (&b"blk.0.ffn_down.weight"[..], "blk.0.ffn_down.weight"),
        (b"-dash", "-dash"),
        (b":x", ":x"),
        (b"a:b#c", "a:b#c"),
        (b"it's \"x\"\\", "it's \"x\"\\"),
        (b"0.weight", "0.weight"),
        ("größe 模型 🦙".as_bytes(), "größe 模型 🦙"),
        (b"", "\"\""),
        (b" a", "\" a\""),
        (b"a ", "\"a \""),
        (b"a: b", "\"a: b\""),
        (b"a:", "\"a:\""),
        (b"a #b", "\"a #b\""),
        (b"- a", "\"- a\""),
        (b"-", "\"-\""),
        (b"---", "\"---\""),
        (b"\"a\"", "\"\\\"a\\\"\""),
        (b"[a", "\"[a\""),
        (b"*?[x]", "\"*?[x]\""),
        (b"%a", "\"%a\""),
        (b"~", "\"~\""),
        (b"TRUE", "\"TRUE\""),
        (b"no", "\"no\""),
        (b"null", "\"null\""),
        (b"=", "\"=\""),
        (b"<<", "\"<<\""),
        (b".inf", "\".inf\""),
        (b"-.Inf", "\"-.Inf\""),
        (b"12", "\"12\""),
        (b"-1.5e3", "\"-1.5e3\""),
        (b".5", "\".5\""),
        (b"0x1F", "\"0x1F\""),
        (b"0o17", "\"0o17\""),
        (b"1_000", "\"1_000\""),
        (b"12:30:45", "\"12:30:45\""),
        (b"2001-01-01", "\"2001-01-01\""),
        (b"new\nline\ttab", "\"new\\nline\\ttab\""),
        (b"\x1b\x7f\x00", "\"\\u001b\\u007f\\u0000\""),
        ("\u{85}\u{2028}".as_bytes(), "\"\\u0085\\u2028\""),
        (b"bad\xff\xe2\x96x", "\"bad\u{FFFD}\u{FFFD}x\""),
    ] {
        let opened = Opened::built(&GgufBuilder::new().tensor(name, F32, &[0], &[]));
        let info = opened.cat(File::Tensor(0, 0)).unwrap();
        let first = String::from_utf8(info).unwrap().split('\n').next().unwrap().to_owned();
        assert_eq!(first, format!("name: {shown}"));
    }
}

#[test]
fn a_big_endian_type_without_a_defined_form_has_no_floats_and_says_so() {
    let opened = Opened::built(
        &GgufBuilder::new()
            .big_endian()
            .tensor("swapped", F32, &[1], &1.5f32.to_be_bytes())
            .tensor("undefined", Q5_0, &[32], &[0; 22]),
    );
    assert_eq!(opened.bytes("tensors/swapped/f32"), 1.5f32.to_le_bytes());
    assert_eq!(opened.bytes("tensors/swapped/raw"), 1.5f32.to_be_bytes());
    assert_eq!(opened.names("tensors/undefined"), ["info", "raw"]);
    assert!(line(&opened, "undefined", "note").contains("big-endian"));
    assert!(opened.text("info").contains("\nendianness: big\n"));
}

#[test]
fn bytes_that_have_gone_are_an_error_and_all_others_stay() {
    let opened = Opened::built(
        &GgufBuilder::new()
            .key("z", 7)
            .key("list", Val::Array(8, vec![Val::Str(vec![b'x'; 100]); 1000]))
            .tensor("a", F32, &[4096], &[1; 16384])
            .tensor("b", Q8_0, &[32768], &[2; 34816]),
    );
    let (a, b) = (opened.bytes("tensors/a/raw"), opened.bytes("tensors/b/f32"));
    let path = opened.dir.as_ref().unwrap().path().join("model.gguf");
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let tensor = &opened.model.tensors[1];
    file.set_len(opened.model.file_offset(tensor) + 17).unwrap();
    assert_eq!(opened.bytes("tensors/a/raw"), a);
    assert_eq!(opened.bytes("npy/a.npy")[4096..], a);
    for lost in ["tensors/b/raw", "tensors/b/f32", "npy/b.npy", "safetensors/f32.safetensors"] {
        assert!(opened.cat(opened.file(lost)).is_err(), "{lost}");
    }
    file.set_len(100).unwrap();
    assert_eq!(opened.text("metadata/z"), "7\n");
    assert!(opened.views.size(opened.file("metadata/list")).is_err(), "a scan that failed");
    file.set_len(opened.model.bytes()).unwrap();
    assert_ne!(opened.bytes("tensors/b/f32"), b, "zeros, now that the file has them");
}

#[test]
fn a_warm_read_keeps_its_buffers() {
    let opened = Opened::built(&GgufBuilder::base().tensor("c", Q4_K, &[256, 64], &[3; 144 * 64]));
    let file = opened.file("tensors/c/f32");
    let mut scratch = Scratch::default();
    let first = opened.views.read(file, 0, 65536, &mut scratch).unwrap().as_ptr();
    let again = opened.views.read(file, 0, 65536, &mut scratch).unwrap().as_ptr();
    assert_eq!(first, again);
    assert!(!Views::is_text(file) && Views::is_text(opened.file("tensors/c/info")));
}

#[test]
fn readers_in_parallel_see_the_same_bytes() {
    let random = &mut Random::new();
    let tokens = (0..30_000).map(|_| {
        let len = random.below(9) as usize;
        Val::Str(random.bytes(len))
    });
    let opened =
        Opened::built(&GgufBuilder::new().key("tokens", Val::Array(8, tokens.collect())).tensor(
            "q",
            Q4_K,
            &[256, 500],
            &random.bytes(144 * 500),
        ));
    let alone = Opened::new(&opened.dir.as_ref().unwrap().path().join("model.gguf"));
    let paths = ["metadata/tokens", "model.json", "npy/q.npy", "safetensors/bf16.safetensors"];
    let files = paths.map(|path| (opened.file(path), alone.bytes(path)));
    std::thread::scope(|scope| {
        for mut random in [(); 8].map(|()| random.split()) {
            let (opened, files) = (&opened, &files);
            scope.spawn(move || {
                let mut scratch = Scratch::default();
                for _ in 0..60 {
                    let (file, whole) = random.pick(files);
                    let start = random.below(whole.len() as u64) as usize;
                    let end = whole.len().min(start + random.below(20_000) as usize);
                    let size = opened.views.size(*file).unwrap();
                    assert_eq!(size, whole.len() as u64);
                    let read = opened.views.read(*file, start as u64, end - start, &mut scratch);
                    assert!(read.unwrap() == &whole[start..end], "{file:?} {start}..{end}");
                }
            });
        }
    });
}

#[test]
fn a_damaged_file_gives_errors_and_nothing_worse() {
    for odd in corpus::malformed() {
        let Ok(model) = Model::open(&odd.path, true) else { continue };
        println!("== {}", odd.path.display());
        let opened = Opened::of(model);
        let mut scratch = Scratch::default();
        for (path, file) in opened.files() {
            println!("{}", path.escape_ascii());
            // A size is known even where no byte is.
            let Ok(size) = opened.views.size(file) else { continue };
            for (offset, len) in
                [(0, 4096), (size / 2, 100), (size.saturating_sub(1), 9), (size, 9)]
            {
                if let Ok(found) = opened.views.read(file, offset, len, &mut scratch) {
                    assert_eq!(found.len() as u64, (size - offset).min(len as u64));
                }
            }
        }
    }
}

#[test]
fn of_thousands_of_unknown_types_info_lists_a_few() {
    let types = 1000..4000;
    let builder = types.fold(GgufBuilder::new().info("known", F32, &[0], 0), |builder, id| {
        builder.info(format!("t{id}"), id, &[0], 0)
    });
    let opened = Opened::built(&builder.info("again", 1001, &[0], 0));
    let info = opened.text("info");
    let types = info.lines().find_map(|line| line.strip_prefix("types: ")).unwrap();
    assert!(types.starts_with("{F32: 1, unknown (1000): 1, unknown (1001): 2, "), "{types}");
    assert!(types.ends_with("unknown (1063): 1, other: 2936}"), "{types}");
}
