//! Opening models: which files are opened, which are refused, and what a split model shows.

mod common;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::gguf_builder::{F32, GgufBuilder, Q4_K, Val};
use common::temp::TempDir;
use gguf_fs::gguf::{Oddity, Value};
use gguf_fs::model::Model;
use gguf_fs::source::ReadError;

fn open(path: &Path) -> Model {
    Model::open(path, false).unwrap_or_else(|e| panic!("{e}"))
}

fn refuse(path: &Path) -> String {
    let error = Model::open(path, false).expect_err("must be refused");
    assert_eq!(Model::open(path, true).is_ok(), error.lenient_helps, "{error}");
    let message = error.to_string();
    assert_eq!(message.contains("--lenient"), error.lenient_helps, "{message}");
    assert!(!message.contains('\n'), "{message}");
    message
}

fn names(model: &Model) -> Vec<String> {
    let name = |t: &gguf_fs::gguf::Tensor| String::from_utf8_lossy(model.name(t.name)).into_owned();
    model.tensors.iter().map(name).collect()
}

fn raw(model: &Model, tensor: usize) -> Result<Vec<u8>, ReadError> {
    let tensor = &model.tensors[tensor];
    let start = model.file_offset(tensor);
    model.source.mapped(tensor.shard, start..start + tensor.raw_bytes).map(<[u8]>::to_vec)
}

/// Shard `no` (from 0) of `count`: one tensor, named and filled after its number.
fn shard(no: u8, count: u16, total: i32) -> GgufBuilder {
    let mut builder = GgufBuilder::new();
    if no == 0 {
        builder = builder.key("general.architecture", "llama");
    }
    builder
        .key("split.no", Val::U16(no.into()))
        .key("split.count", Val::U16(count))
        .key("split.tensors.count", Val::I32(total))
        .tensor(format!("t{no}"), F32, &[4], &[no; 16])
}

fn name(number: u32, count: u32) -> String {
    format!("model-{number:05}-of-{count:05}.gguf")
}

/// A folder with the given shards, in order, under the names of a set.
fn set(shards: &[GgufBuilder]) -> (TempDir, Vec<PathBuf>) {
    let folder = TempDir::new();
    let count = shards.len() as u32;
    let write =
        |(number, shard): (u32, &GgufBuilder)| folder.file(name(number, count), &shard.build());
    let paths = (1..).zip(shards).map(write).collect();
    (folder, paths)
}

fn three() -> (TempDir, Vec<PathBuf>) {
    set(&[shard(0, 3, 3), shard(1, 3, 3), shard(2, 3, 3)])
}

#[test]
fn any_shard_opens_the_whole_model() {
    let (_folder, paths) = three();
    for path in &paths {
        let model = open(path);
        assert_eq!(model.warnings, [""; 0]);
        assert_eq!(names(&model), ["t0", "t1", "t2"]);
        for no in 0..3 {
            assert_eq!(model.tensors[no].shard, no as u16);
            assert_eq!(raw(&model, no).unwrap(), [no as u8; 16]);
        }
        assert_eq!(model.metadata.len(), 4);
        assert_eq!(model.metadata[1].value, Value::U16(0));
        let opened: Vec<&PathBuf> = model.source.shards.iter().map(|s| &s.path).collect();
        assert_eq!(opened, paths.iter().collect::<Vec<_>>());
    }
}

#[test]
fn shards_may_differ_in_byte_order_and_alignment() {
    let (_folder, paths) = set(&[shard(0, 2, 3), {
        let second = GgufBuilder::new().big_endian().alignment(4096);
        second.tensor("a", F32, &[1], &[1; 4]).tensor("b", Q4_K, &[256], &[2; 144])
    }]);
    let model = open(&paths[0]);
    assert_eq!(names(&model), ["t0", "a", "b"]);
    assert_eq!(raw(&model, 2).unwrap(), [2; 144]);
    assert_eq!(model.headers[1].alignment, 4096);
    assert_eq!(model.warnings.len(), 1, "{:?}", model.warnings);
    assert!(model.warnings[0].starts_with("model-00002-of-00002.gguf: no split.count"));
}

#[test]
fn split_keys_of_any_integer_type_are_read() {
    let keys = |no, one: Val, tensor: &str| {
        GgufBuilder::new().key("split.no", no).key("split.count", one).tensor(
            tensor,
            F32,
            &[0],
            &[],
        )
    };
    let (_folder, paths) =
        set(&[keys(Val::U64(0), Val::I8(2), "a"), keys(Val::I64(1), Val::U32(2), "b")]);
    assert_eq!(open(&paths[1]).warnings, [""; 0]);
}

#[test]
fn a_missing_shard_is_named() {
    for gone in 0..3 {
        let (_folder, paths) = three();
        std::fs::remove_file(&paths[gone]).unwrap();
        let there = &paths[(gone + 1) % 3];
        let message = refuse(there);
        let expected = format!("{}: shard {} of 3 is missing; --", paths[gone].display(), gone + 1);
        assert!(message.starts_with(&expected), "{message}");
        let model = Model::open(there, true).unwrap();
        assert_eq!(model.tensors.len(), 2);
        for tensor in 0..2 {
            let no = model.name(model.tensors[tensor].name)[1] - b'0';
            assert_eq!(raw(&model, tensor).unwrap(), [no; 16]);
        }
        assert_eq!(model.warnings.len(), 1, "{:?}", model.warnings);
        assert!(model.warnings[0].contains(&name(gone as u32 + 1, 3)));
        assert!(refuse(&paths[gone]).contains("No such file"));
    }
}

#[test]
fn shards_that_do_not_belong_together_are_refused_naming_the_file() {
    let other = |builder: GgufBuilder| builder.tensor("x", F32, &[1], &[0; 4]);
    for (shards, wrong, says) in [
        ([shard(0, 3, 3), shard(2, 3, 3), shard(1, 3, 3)], 1, "split.no is 2 where 1"),
        ([shard(0, 3, 3), shard(1, 4, 3), shard(2, 3, 3)], 1, "split.count is 4 where 3"),
        ([shard(0, 3, 3), shard(1, 3, 3), other(shard(2, 3, 3))], 0, "split.tensors.count is 3"),
        ([shard(0, 3, 3), shard(1, 3, 9), shard(2, 3, 3)], 1, "split.tensors.count is 9 where 3"),
        (
            [shard(0, 3, 4), shard(1, 3, 4), shard(2, 3, 4).tensor("t0", F32, &[1], &[0; 4])],
            2,
            "tensor t0 is in shard 1 too",
        ),
        ([shard(0, 3, 3), shard(1, 3, 3), shard(2, 3, 3).key("split.no", "x")], 2, ""),
    ] {
        let (_folder, paths) = set(&shards);
        if says.is_empty() {
            assert!(open(&paths[0]).warnings[0].contains("duplicate key split.no"));
            continue;
        }
        let message = refuse(&paths[0]);
        assert!(message.starts_with(&format!("{}: ", paths[wrong].display())), "{message}");
        assert!(message.contains(says), "{message}");
        let lenient = Model::open(&paths[0], true).unwrap();
        let count: usize = lenient.tensors.len();
        assert!(count >= 3 && !lenient.warnings.is_empty());
    }
}

#[test]
fn a_broken_shard_is_named_and_left_out_leniently() {
    let (_folder, paths) = three();
    std::fs::write(&paths[1], b"<html>").unwrap();
    let message = refuse(&paths[0]);
    assert!(message.starts_with(&format!("{}: is not a GGUF file", paths[1].display())));
    assert_eq!(names(&Model::open(&paths[0], true).unwrap()), ["t0", "t2"]);
    assert!(!refuse(&paths[1]).contains("--lenient") || Model::open(&paths[1], true).is_ok());
    let whole = shard(2, 3, 3).build();
    let (_folder, paths) = three();
    std::fs::write(&paths[2], &whole[..whole.len() - 20]).unwrap();
    let message = refuse(&paths[0]);
    assert!(message.starts_with(&format!("{}: tensor t2 needs bytes", paths[2].display())));
    let model = Model::open(&paths[0], true).unwrap();
    assert!(model.tensors[2].oddity.has(Oddity::MISSING));
    assert!(matches!(raw(&model, 2), Err(ReadError::Missing { .. })));
    assert_eq!(raw(&model, 1).unwrap(), [1; 16]);
}

#[test]
fn shards_are_found_beside_the_link_and_else_beside_its_target() {
    let cache = TempDir::new();
    let blobs = cache.path().join("blobs");
    let snapshot = cache.path().join("snapshot");
    std::fs::create_dir(&blobs).unwrap();
    std::fs::create_dir(&snapshot).unwrap();
    for no in 0..2 {
        let blob = blobs.join(format!("sha{no}"));
        std::fs::write(&blob, shard(no, 2, 2).build()).unwrap();
        symlink(format!("../blobs/sha{no}"), snapshot.join(name(u32::from(no) + 1, 2))).unwrap();
    }
    assert_eq!(names(&open(&snapshot.join(name(2, 2)))), ["t0", "t1"]);

    let (folder, paths) = three();
    for link in ["m.gguf", &name(2, 3)] {
        let elsewhere = TempDir::new();
        let link = elsewhere.path().join(link);
        symlink(&paths[1], &link).unwrap();
        assert_eq!(names(&open(&link)), ["t0", "t1", "t2"]);
    }
    drop(folder);
}

#[test]
fn a_shard_under_another_name_is_shown_alone_with_a_warning() {
    let folder = TempDir::new();
    let path = folder.file("renamed.gguf", &shard(1, 3, 3).build());
    let model = open(&path);
    assert_eq!(names(&model), ["t1"]);
    assert_eq!(model.warnings.len(), 1);
    assert!(model.warnings[0].contains("split.count is 3"), "{:?}", model.warnings);
    let one = folder.file(name(1, 1), &GgufBuilder::base().build());
    assert_eq!(open(&one).warnings, [""; 0]);
    let one = folder.file("one.gguf", &shard(0, 1, 1).build());
    assert_eq!(open(&one).warnings, [""; 0]);
}

#[test]
fn the_number_of_shards_is_bounded() {
    let folder = TempDir::new();
    let path = folder.file(name(1, 99_999), &shard(0, 3, 3).build());
    let message = refuse(&path);
    assert!(message.contains("99999 shards") && message.contains("at most 1000"), "{message}");
    for odd in [name(0, 3), name(4, 3), "-00001-of-00002.gguf.gguf".into(), "x-1-of-2.gguf".into()]
    {
        let path = folder.file(&odd, &GgufBuilder::base().build());
        assert_eq!(open(&path).source.shards.len(), 1, "{odd}");
    }
}

#[test]
fn only_regular_files_are_opened_and_nothing_hangs() {
    let folder = TempDir::new();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let started = Instant::now();
    for (path, says) in [
        (folder.path().into(), "is a directory"),
        (fifo.clone(), "not a regular file"),
        (PathBuf::from("/dev/null"), "not a regular file"),
        (folder.path().join("nowhere"), "No such file"),
    ] {
        let message = refuse(&path);
        assert!(message.starts_with(&format!("{}: ", path.display())), "{message}");
        assert!(message.contains(says), "{message}");
    }
    let path = folder.file(name(1, 2), &shard(0, 2, 2).build());
    std::fs::rename(&fifo, folder.path().join(name(2, 2))).unwrap();
    assert!(refuse(&path).contains("not a regular file"));
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[test]
fn big_endian_floats_are_shown_where_the_type_defines_them() {
    let folder = TempDir::new();
    let builder = GgufBuilder::new().big_endian().tensor("f", F32, &[1], &[0; 4]);
    let builder = builder.tensor("k", 10, &[256], &[0; 84]).tensor("u", 99, &[1], &[0; 4]);
    let model = open(&folder.file("be.gguf", &builder.build()));
    let shown: Vec<bool> = model.tensors.iter().map(|t| model.has_f32(t)).collect();
    assert_eq!(shown, [true, false, false]);
}

#[test]
fn bytes_that_a_shrunk_file_has_lost_are_missing() {
    let folder = TempDir::new();
    let path = folder.file("m.gguf", &GgufBuilder::base().build());
    let model = open(&path);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(model.file_offset(&model.tensors[1]) + 1).unwrap();
    assert_eq!(raw(&model, 0).unwrap().len(), 48);
    assert!(matches!(raw(&model, 1), Err(ReadError::Missing { .. })));
    let start = model.file_offset(&model.tensors[1]);
    let mut buf = Vec::new();
    assert!(matches!(
        model.source.bytes(0, start..start + 68, &mut buf),
        Err(ReadError::Missing { .. })
    ));
}
