//! The tree: which nodes there are, their numbers, names and order.

mod common;

use std::collections::HashSet;

use common::corpus::{self, bytes};
use common::gguf_builder::{F32, GgufBuilder};
use common::opened::Opened;
use gguf_fs::name;
use gguf_fs::tree::{Node, ROOT};

/// What must hold in every tree.
fn check(opened: &Opened) {
    let tree = &opened.tree;
    let nodes = opened.walk();
    let numbers: HashSet<u64> = nodes.iter().map(|n| n.1).collect();
    assert_eq!(numbers.len(), nodes.len(), "numbers are unique");
    for (path, ino) in &nodes {
        assert_eq!(tree.resolve(path), Some(*ino), "{}", path.escape_ascii());
        let name = tree.name(*ino);
        assert!(!name.is_empty() && name.len() <= name::MAX && !name.contains(&b'/'));
        assert!(*name != *b"." && *name != *b"..");
        let parent = tree.parent(*ino);
        assert_eq!(tree.lookup(parent, &name), Some(*ino));
        if tree.node(*ino) == Some(Node::Dir) {
            let children = (0..).map_while(|at| tree.entry(*ino, at));
            assert_eq!(children.filter(|e| e.is_dir).count(), tree.subdirs(*ino) as usize);
        } else {
            assert!(tree.entry(*ino, 0).is_none() && tree.lookup(*ino, b"info").is_none());
            assert_eq!(tree.subdirs(*ino), 0);
        }
    }
    assert_eq!(tree.subdirs(ROOT), 4);
    assert_eq!(tree.parent(ROOT), ROOT);
    let top = numbers.iter().max().unwrap();
    for ino in [0, 12, 15, top + 1, top + 5, u64::MAX] {
        assert_eq!(tree.node(ino), None, "{ino}");
        assert!(tree.entry(ino, 0).is_none() && tree.lookup(ino, b"info").is_none());
    }
    assert_eq!(tree.lookup(ROOT, b"nothing"), None);
    assert_eq!(tree.lookup(ROOT, b""), None);
}

#[test]
fn every_sample_has_a_tree_that_agrees_with_itself() {
    for sample in corpus::valid() {
        println!("== {}", sample.path.display());
        let opened = Opened::new(&sample.path);
        check(&opened);
        if sample.path.to_string_lossy().contains("split-") {
            continue;
        }
        for (dir, list) in [("metadata", "key"), ("tensors", "name")] {
            let known = sample.expected[dir].as_array().unwrap();
            let names: Vec<String> = known
                .iter()
                .map(|entry| {
                    name::file_name(&bytes(&entry[list]), 1, "").escape_ascii().to_string()
                })
                .collect();
            assert_eq!(opened.names(dir), names, "in the file's order");
        }
    }
}

#[test]
fn the_root_has_its_entries_in_a_stable_order_and_numbers_by_arithmetic() {
    let opened = Opened::built(&GgufBuilder::base().tensor("odd", 99, &[1], &[0; 4]));
    let root = ["info", "metadata", "tensors", "model.json", "tensors.tsv", "npy", "safetensors"];
    assert_eq!(opened.names("/"), root);
    assert_eq!(
        opened.names("safetensors"),
        ["f32.safetensors", "f16.safetensors", "bf16.safetensors"]
    );
    assert_eq!(opened.names("tensors"), ["a", "b", "odd"]);
    assert_eq!(opened.names("npy"), ["a.npy", "b.npy"]);
    for (path, ino) in [
        ("", 1),
        ("metadata", 2),
        ("/tensors/", 3),
        ("./npy/.", 4),
        ("safetensors", 5),
        ("info", 6),
        ("model.json", 7),
        ("tensors.tsv", 8),
        ("safetensors/bf16.safetensors", 11),
        ("metadata/general.architecture", 16),
        ("metadata//llama.block_count", 17),
        ("tensors/a", 18),
        ("tensors/a/info", 19),
        ("tensors/a/raw", 20),
        ("tensors/a/f32", 21),
        ("npy/a.npy", 22),
        ("tensors/b", 23),
        ("tensors/odd/raw", 30),
    ] {
        assert_eq!(opened.tree.resolve(path.as_bytes()), Some(ino), "{path}");
    }
    for path in ["tensors/..", "tensors/odd/f32", "npy/odd.npy", "npy/a", "info/x", "Tensors"] {
        assert_eq!(opened.tree.resolve(path.as_bytes()), None, "{path}");
    }
}

#[test]
fn duplicates_are_all_reachable_under_their_own_names() {
    let long = "l".repeat(400);
    let most = "m".repeat(255);
    let near = "n".repeat(250);
    let names = [&long[..], "a", &most, "a", &long, &near, "a", &most, "a%#2", &near, "", ""];
    let mut builder = GgufBuilder::new();
    for (i, name) in names.iter().enumerate() {
        builder = builder.key(name, i as u32).tensor(name, F32, &[1], &(i as f32).to_le_bytes());
    }
    let opened = Opened::built(&builder);
    check(&opened);
    let files = opened.names("tensors");
    assert_eq!(opened.names("metadata"), files);
    assert_eq!(files[1..4], ["a".into(), most.clone(), "a%#2".to_owned()]);
    assert_eq!(files[6], "a%#3");
    assert_eq!(files[8], "a%25#2");
    assert_eq!(files[10..], ["%empty", "%empty%#2"]);
    assert!(files[0].starts_with(&"l".repeat(237)) && files[0].len() == 255);
    assert!(files[4].starts_with("l") && files[4].ends_with("%#2") && files[4].len() == 255);
    assert!(files[7].ends_with("%#2") && files[7].len() == 255);
    for (i, file) in files.iter().enumerate() {
        let float = (i as f32).to_le_bytes();
        assert_eq!(opened.bytes(format!("tensors/{file}/f32")), float);
        assert_eq!(opened.text(format!("metadata/{file}")), format!("{i}\n"));
        let npy = opened.names("npy")[i].clone();
        assert!(npy.ends_with(".npy") && npy.len() <= 255, "{npy}");
        assert_eq!(opened.bytes(format!("npy/{npy}"))[4096..], float);
        if file.len() <= 251 {
            assert_eq!(npy, format!("{file}.npy"));
        }
    }
}
