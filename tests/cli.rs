//! The command line without a mount, and that it shows what a mount would.

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::corpus;
use common::gguf_builder::{F32, GgufBuilder};
use common::mounted::*;

fn base() -> Place {
    Place::new(&GgufBuilder::base().build())
}

/// Calls `visit` with every path below `dir`, in the order of listings.
fn walk(dir: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        visit(&path);
        if path.is_dir() {
            walk(&path, visit);
        }
    }
}

#[test]
fn ls_and_cat_show_the_names_sizes_and_bytes_of_the_mount() {
    for name in ["all_types", "odd_names", "odd_keys", "shapes", "be_v3", "split-00002-of-00003"] {
        let samples = corpus::valid();
        let sample = samples.iter().find(|s| s.path.file_stem() == Some(OsStr::new(name)));
        let place = Place::of(&sample.unwrap().path);
        place.mounted(&[]);
        let verb = |args: &[&OsStr]| stdout(Command::new(PROGRAM).args(args));
        let model = place.model.as_os_str();
        let mut listings = vec![place.point.clone()];
        let mut files = 0;
        walk(&place.point, &mut |path| {
            let inside = path.strip_prefix(&place.point).unwrap().as_os_str();
            if path.is_dir() {
                listings.push(path.to_owned());
                return;
            }
            files += 1;
            if files % 7 == 0 || files < 40 {
                let bytes = verb(&["cat".as_ref(), model, inside]);
                assert!(bytes == fs::read(path).unwrap(), "{}", path.display());
            }
        });
        assert!(files > 10);
        for dir in listings.into_iter().take(60) {
            let inside = dir.strip_prefix(&place.point).unwrap().as_os_str();
            let entries: Vec<_> = fs::read_dir(&dir).unwrap().map(Result::unwrap).collect();
            let listed = verb(&["ls".as_ref(), model, inside]);
            let names: Vec<u8> =
                entries.iter().flat_map(|e| [e.file_name().as_bytes(), b"\n"].concat()).collect();
            assert!(listed == names, "{}", dir.display());
            let table = verb(&["ls".as_ref(), "-l".as_ref(), model, inside]);
            let lines: Vec<&[u8]> = table.split_inclusive(|b| *b == b'\n').collect();
            assert_eq!(lines.len(), entries.len(), "{}", dir.display());
            for (line, entry) in lines.into_iter().zip(entries) {
                let said = String::from_utf8_lossy(line);
                let meta = entry.metadata().unwrap();
                let size = said.split_whitespace().nth(1).unwrap();
                assert!(meta.is_dir() || size == meta.size().to_string(), "{said}");
                let name = entry.file_name();
                assert!(line.windows(name.len()).any(|part| part == name.as_bytes()), "{said}");
            }
        }
    }
}

#[test]
fn cat_takes_a_part_of_each_file() {
    let place = base();
    let cat = |args: &[&str]| place.run([&["cat"], args].concat()).stdout;
    let raw = cat(&["model.gguf", "tensors/b/raw"]);
    assert_eq!(raw, (0..68).collect::<Vec<u8>>());
    assert_eq!(cat(&["--offset", "7", "--length", "9", "model.gguf", "tensors/b/raw"]), raw[7..16]);
    assert_eq!(cat(&["--offset", "60", "model.gguf", "/tensors//b/./raw/"]), raw[60..]);
    assert_eq!(cat(&["--offset", "68", "model.gguf", "tensors/b/raw"]), b"");
    let twice = cat(&["--length", "3", "model.gguf", "tensors/b/raw", "tensors/b/raw"]);
    assert_eq!(twice, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn ls_lists_the_root_a_directory_and_a_file() {
    let place = base();
    let ls = |args: &[&str]| {
        let listed = place.run([&["ls"], args].concat());
        String::from_utf8(listed.stdout).unwrap()
    };
    let root = ls(&["model.gguf"]);
    for name in ["info", "metadata", "tensors"] {
        assert!(root.lines().any(|l| l == name), "{root}");
    }
    assert_eq!(ls(&["model.gguf", "tensors"]), "a\nb\n");
    assert_eq!(ls(&["model.gguf", "tensors/a/raw"]), "tensors/a/raw\n");
    assert_eq!(ls(&["-l", "model.gguf", "tensors/a/raw"]), "data  48  tensors/a/raw\n");
}

#[test]
fn failures_are_one_line_and_status_1() {
    let place = base();
    let said = |args: &[&str]| one_line(&place.run(args));
    for (args, what) in [
        (&["cat", "model.gguf", "tensors/c/raw"][..], "model.gguf: tensors/c/raw: no such file"),
        (&["cat", "model.gguf", "tensors"], "model.gguf: tensors: is a directory"),
        (&["ls", "model.gguf", "nothing\n\x1b[31m"], "nothing\\n\\u{1b}[31m: no such file"),
        (&["ls", "no\nthing.gguf"], "no\\nthing.gguf: No such file or directory\n"),
        (&["ls", "mnt"], "mnt: is a directory"),
    ] {
        let said = said(args);
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn usage_errors_are_status_2() {
    let place = base();
    for args in [
        &[][..],
        &["model.gguf"],
        &["--frobnicate", "model.gguf", "mnt"],
        &["model.gguf", "mnt", "more"],
        &["cat", "model.gguf"],
        &["cat", "--offset", "-1", "model.gguf", "info"],
        &["ls"],
        &["-o", "frobnicate", "model.gguf", "mnt"],
        &["-v", "ls", "model.gguf"],
    ] {
        let refused = place.run(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(!refused.stderr.is_empty());
    }
    for (args, what) in [
        (["my", "model.gguf", "mnt"], "a name with blanks needs quotes"),
        (["-v", "ls", "model.gguf"], "options go after the verb: gguf-fs ls [OPTIONS]"),
    ] {
        let said = String::from_utf8(place.run(args).stderr).unwrap();
        assert!(said.contains(what), "{said}");
    }
    assert!(!place.is_mounted());
    for args in [["--help"], ["--version"]] {
        assert!(place.run(args).status.success());
    }
}

#[test]
fn a_model_called_as_a_verb_is_named_with_its_directory() {
    let place = Place::named(OsStr::new("ls"), &GgufBuilder::base().build());
    assert!(place.run(["./ls", "mnt"]).status.success());
    assert_eq!(place.read("metadata/llama.block_count"), b"2\n");
    let listed = place.run(["ls", "ls", "tensors"]);
    assert_eq!(listed.stdout, b"a\nb\n");
    assert!(place.umount().status.success());
    fs::rename(place.dir.join("ls"), place.dir.join("help")).unwrap();
    assert!(place.run(["help", "mnt"]).status.success());
}

fn shell(place: &Place, script: &str) -> Output {
    let mut shell = Command::new("bash");
    output(shell.args(["-c", script, PROGRAM]).current_dir(&place.dir))
}

#[test]
fn a_reader_that_has_seen_enough_ends_cat_and_ls_quietly() {
    let zeros = vec![0; 4 << 20];
    let big = GgufBuilder::new().tensor("a", F32, &[1 << 20], &zeros);
    let place = Place::new(&big.build());
    for verb in ["cat model.gguf tensors/a/raw", "ls model.gguf"] {
        let done = shell(&place, &format!("set -o pipefail; \"$0\" {verb} | head -c 1 >/dev/null"));
        assert_eq!(done.status.code(), Some(0), "{verb}");
        assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = base();
    for verb in [&["cat", "model.gguf", "info"][..], &["ls", "model.gguf"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(verb).current_dir(&place.dir).stdout(full).stderr(Stdio::piped());
        let said = one_line(&command.spawn().unwrap().wait_with_output().unwrap());
        assert!(said.contains("No space left"), "{said}");
    }
}

/// A model with as many oddities: tensors that share their data.
fn odd(oddities: u32) -> Vec<u8> {
    let one = GgufBuilder::new().tensor("t", F32, &[4], &[0; 16]);
    (0..oddities).fold(one, |model, i| model.info(format!("same{i}"), F32, &[4], 0)).build()
}

#[test]
fn warnings_are_at_most_ten_and_a_count() {
    let place = Place::new(&odd(25));
    let mounted = place.mount(&[]);
    assert!(mounted.status.success());
    let said = String::from_utf8(mounted.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 11, "{said}");
    let start = format!("gguf-fs: warning: {}: ", place.model.display());
    assert!(lines.iter().all(|l| l.starts_with(&start)), "{said}");
    assert!(lines[10].ends_with(": 15 more warnings"), "{said}");
}

#[test]
fn a_refused_model_gives_its_error_and_no_warnings() {
    let mut bytes = odd(25);
    bytes.truncate(bytes.len() - 20);
    let place = Place::new(&bytes);
    let said = one_line(&place.mount(&[]));
    assert!(said.contains("--lenient"), "{said}");
    one_line(&place.run(["ls", "model.gguf"]));
    assert!(place.run(["ls", "--lenient", "model.gguf"]).status.success());
}

#[test]
fn a_usage_error_shows_what_was_typed_without_control_characters() {
    let place = base();
    for (list, shown) in [("fro\nb", "'fro\\nb'"), ("uid=4294967295", "needs a number below")] {
        let refused = place.run(["-o", list, "model.gguf", "mnt"]);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.lines().next().unwrap().contains(shown), "{said}");
        assert!(!said.contains("fro\nb"), "{said}");
    }
}
