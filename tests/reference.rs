//! Random operations on a real mount, each compared with a model of the tree in memory: lookups,
//! attributes, listings from any place, reads of every kind, by several processes at once.
//!
//! The seed is printed; GGUF_FS_SEED repeats a run, GGUF_FS_OPERATIONS makes it longer.

mod common;

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::gguf_builder::{F32, GgufBuilder, I8, Q8_0, Val};
use common::listing::getdents;
use common::mounted::*;
use common::random::Random;

/// Operations of all processes together.
const OPERATIONS: u64 = 120_000;

const PROCESSES: u64 = 4;

/// Most files a process keeps open.
const OPEN: usize = 40;

/// Tells a process started again what to do: folder, mountpoint and number of operations.
const VARIABLE: &str = "GGUF_FS_REFERENCE_PROCESS";

/// What is at a path.
enum Node {
    File(Vec<u8>),
    /// Names in the order of listings.
    Directory(Vec<Vec<u8>>),
}

/// The tree that a mount shows, by path from the root.
struct Reference(BTreeMap<PathBuf, Node>);

/// Keys and tensors: file name, and content or views.
struct Content {
    builder: GgufBuilder,
    keys: Vec<(&'static str, Vec<u8>)>,
    tensors: Vec<(String, Vec<u8>, Vec<u8>)>,
}

fn content() -> Content {
    let mut content = Content { builder: GgufBuilder::new(), keys: vec![], tensors: vec![] };
    let many: Vec<u32> = (0..30_000).map(|i| i * 71).collect();
    let lines = many.iter().flat_map(|n| format!("{n}\n").into_bytes()).collect();
    let words: Vec<String> = (0..20_000).map(|i| "w\\\n".repeat(i % 5)).collect();
    let escaped = words
        .iter()
        .flat_map(|w| (w.replace('\\', "\\\\").replace('\n', "\\n") + "\n").into_bytes());
    let long = "x".repeat(100_000);
    let keys: Vec<(&str, &'static str, Val, Vec<u8>)> = vec![
        ("general.name", "general.name", "a name".into(), b"a name\n".into()),
        ("a/b", "a%2Fb", 7.into(), b"7\n".into()),
        ("", "%empty", Val::Bool(1), b"true\n".into()),
        ("general.name", "general.name%#2", Val::F32(0.1), b"0.1\n".into()),
        ("many", "many", Val::Array(4, many.iter().map(|n| Val::U32(*n)).collect()), lines),
        (
            "words",
            "words",
            Val::Array(8, words.iter().map(|w| Val::Str(w.clone().into())).collect()),
            escaped.collect(),
        ),
        ("none", "none", Val::Array(8, vec![]), vec![]),
        ("long", "long", Val::Str(long.clone().into()), (long + "\n").into_bytes()),
    ];
    for (key, name, value, text) in keys {
        content.builder = content.builder.key(key, value);
        content.keys.push((name, text));
    }
    for i in 0..300u32 {
        // Sizes around pages, blocks of the format and requests of the kernel.
        let elements = [0, 1, 31, 1023, 1024, 1025, 4097, 40_000, 300_001][i as usize % 9];
        let (id, elements) = if i % 2 == 0 { (F32, elements) } else { (I8, elements) };
        let bytes = |n: u32| (0..n).map(move |j| (j.wrapping_mul(31) ^ (j >> 8) ^ i) as u8);
        let (raw, f32): (Vec<u8>, Vec<u8>) = match id {
            F32 => {
                let floats = (0..elements).flat_map(|j| (j as f32 + i as f32).to_le_bytes());
                let floats = floats.collect::<Vec<u8>>();
                (floats.clone(), floats)
            }
            _ => {
                let raw: Vec<u8> = bytes(elements).collect();
                let f32 = raw.iter().flat_map(|b| f32::from(*b as i8).to_le_bytes()).collect();
                (raw, f32)
            }
        };
        let name = format!("blk.{i}.weight");
        content.builder = content.builder.tensor(&name, id, &[elements.into()], &raw);
        content.tensors.push((name, raw, f32));
    }
    // Blocks with a scale of 1, so that the values are the quants.
    let quants = |block: usize| (0..32).map(move |j| (block * 7 + j) as u8);
    let raw = (0..5000).flat_map(|block| [0x00, 0x3C].into_iter().chain(quants(block)));
    let raw: Vec<u8> = raw.collect();
    let f32 = (0..5000).flat_map(quants).flat_map(|q| f32::from(q as i8).to_le_bytes()).collect();
    content.builder = content.builder.tensor("q", Q8_0, &[32, 5000], &raw);
    content.tensors.push(("q".into(), raw, f32));
    content
}

/// Files that other tests check, of which `gguf-fs cat` says what is in them.
const SAID: [&str; 8] = [
    "info",
    "model.json",
    "tensors.tsv",
    "tensors/q/info",
    "tensors/blk.7.weight/info",
    "npy/q.npy",
    "npy/blk.8.weight.npy",
    "safetensors/bf16.safetensors",
];

/// Directories of which `gguf-fs ls` says what is in them.
const LISTED: [&str; 3] = ["", "npy", "safetensors"];

/// Where in a folder the output for a path is kept.
fn kept(folder: &Path, verb: &str, path: &str) -> PathBuf {
    folder.join(format!("{verb} {}", path.replace('/', " ")))
}

/// Keeps what the verbs without a mount say, once for all processes.
fn keep(place: &Place) {
    for (verb, paths) in [("cat", &SAID[..]), ("ls", &LISTED[..])] {
        for path in paths {
            let output = stdout(Command::new(PROGRAM).arg(verb).arg(&place.model).arg(path));
            fs::write(kept(&place.dir, verb, path), output).unwrap();
        }
    }
}

impl Reference {
    /// What is known from the content, and what is kept in the folder.
    fn new(content: Content, folder: &Path) -> Reference {
        let mut reference = Reference(BTreeMap::from([("".into(), Node::Directory(vec![]))]));
        let listed = |directory: &str| {
            let names = fs::read_to_string(kept(folder, "ls", directory)).unwrap();
            names.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        for name in listed("") {
            match name.as_str() {
                "metadata" => reference.directory(&name, &content.keys, |(name, text)| {
                    (name.to_string(), Some(text.clone()))
                }),
                "tensors" => {
                    reference.directory(&name, &content.tensors, |(name, ..)| (name.clone(), None));
                    for (tensor, raw, f32) in &content.tensors {
                        let views = [("info", None), ("raw", Some(raw)), ("f32", Some(f32))];
                        reference.directory(
                            &format!("tensors/{tensor}"),
                            &views,
                            |(view, bytes)| (view.to_string(), bytes.cloned()),
                        );
                    }
                }
                "npy" | "safetensors" => {
                    reference.directory(&name, &listed(&name), |file| (file.clone(), None));
                }
                _ => reference.add("", &name, None),
            }
        }
        for path in SAID {
            let said = fs::read(kept(folder, "cat", path)).unwrap();
            reference.0.insert(path.into(), Node::File(said));
        }
        reference
    }

    fn directory<T>(
        &mut self,
        path: &str,
        entries: &[T],
        entry: impl Fn(&T) -> (String, Option<Vec<u8>>),
    ) {
        if let Some((parent, name)) = path.rsplit_once('/') {
            debug_assert!(self.0.contains_key(Path::new(parent)), "{name}");
        } else {
            self.add("", path, None);
        }
        self.0.insert(path.into(), Node::Directory(vec![]));
        for (name, bytes) in entries.iter().map(entry) {
            self.add(path, &name, bytes);
        }
    }

    /// Adds an entry, and what it is if that is a file whose bytes are known.
    fn add(&mut self, directory: &str, name: &str, bytes: Option<Vec<u8>>) {
        let Some(Node::Directory(names)) = self.0.get_mut(Path::new(directory)) else {
            panic!("{directory} is no directory");
        };
        names.push(name.into());
        if let Some(bytes) = bytes {
            self.0.insert(Path::new(directory).join(name), Node::File(bytes));
        }
    }
}

/// One process at work.
struct Walker<'a> {
    reference: &'a Reference,
    paths: Vec<&'a PathBuf>,
    point: PathBuf,
    random: Random,
    open: Vec<(&'a PathBuf, &'a [u8], File, bool)>,
}

impl<'a> Walker<'a> {
    fn new(reference: &'a Reference, point: PathBuf) -> Walker<'a> {
        let paths = reference.0.keys().collect();
        Walker { reference, paths, point, random: Random::new(), open: vec![] }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..20 => self.attributes(),
            20..28 => self.missing(),
            28..38 => self.reopen(),
            38..68 => self.pread(),
            68..78 => self.mapped(),
            78..92 => self.list(),
            92..96 => self.forget(),
            _ => self.forbidden(),
        }
    }

    fn pick(&mut self) -> (&'a PathBuf, &'a Node) {
        let path = self.paths[self.random.below(self.paths.len() as u64) as usize];
        (path, &self.reference.0[path])
    }

    fn attributes(&mut self) {
        let (path, node) = self.pick();
        let found = fs::symlink_metadata(self.point.join(path)).unwrap();
        assert_eq!((found.uid(), found.gid()), self.owner(), "{path:?}");
        match node {
            Node::File(bytes) => {
                assert_eq!(found.mode(), libc::S_IFREG | 0o444, "{path:?}");
                assert_eq!(found.len(), bytes.len() as u64, "{path:?}");
                assert_eq!(found.blocks(), found.len().div_ceil(512), "{path:?}");
                assert_eq!(found.nlink(), 1, "{path:?}");
            }
            Node::Directory(names) => {
                assert_eq!(found.mode(), libc::S_IFDIR | 0o555, "{path:?}");
                let is_directory = |name: &&Vec<u8>| {
                    path.as_os_str() == "tensors" || self.is_directory(path, name)
                };
                let directories = names.iter().filter(is_directory).count();
                assert_eq!(found.nlink(), 2 + directories as u64, "{path:?}");
            }
        }
    }

    fn owner(&self) -> (u32, u32) {
        // SAFETY: neither call does more than return a number.
        unsafe { (libc::getuid(), libc::getgid()) }
    }

    fn is_directory(&self, directory: &Path, name: &[u8]) -> bool {
        let path = directory.join(std::ffi::OsStr::from_bytes(name));
        matches!(self.reference.0.get(&path), Some(Node::Directory(_)))
    }

    /// Names that are not there, near ones that are.
    fn missing(&mut self) {
        let (path, node) = self.pick();
        let mut wrong = self.point.join(path).into_os_string();
        let expected = match (node, self.random.below(3)) {
            (Node::File(_), 0) => {
                wrong.push("/x");
                ErrorKind::NotADirectory
            }
            (Node::Directory(_), 0) => {
                wrong.push(format!("/{}", self.random.below(1 << 40)));
                ErrorKind::NotFound
            }
            _ if path.as_os_str().is_empty() => return,
            (_, 1) => {
                wrong.push("%");
                ErrorKind::NotFound
            }
            _ => {
                wrong.push("x".repeat(300));
                ErrorKind::InvalidFilename
            }
        };
        let found = fs::metadata(&wrong).map(|_| ()).map_err(|e| e.kind());
        assert_eq!(found, Err(expected), "{wrong:?}");
    }

    fn reopen(&mut self) {
        if self.open.len() >= OPEN {
            let at = self.random.below(self.open.len() as u64) as usize;
            self.open.swap_remove(at);
        }
        let (path, node) = self.pick();
        let Node::File(bytes) = node else { return };
        let direct = self.random.below(4) == 0;
        let flags = if direct { libc::O_DIRECT } else { 0 };
        let file = File::options().read(true).custom_flags(flags).open(self.point.join(path));
        self.open.push((path, bytes, file.unwrap(), direct));
    }

    /// A place in a file of this size, often near its end or a page's or a block's.
    fn place(&mut self, size: u64) -> u64 {
        let near = match self.random.below(4) {
            0 => size,
            1 => self.random.below(size + 1) / 4096 * 4096,
            2 => self.random.below(size + 1) / 1024 * 1024,
            _ => return self.random.below(size + 10),
        };
        (near + self.random.below(7)).saturating_sub(3)
    }

    fn pread(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.random.below(self.open.len() as u64) as usize;
        let size = self.open[at].1.len() as u64;
        let offset = if self.random.below(50) == 0 { 1 << 62 } else { self.place(size) };
        let most = *self.random.pick(&[1, 100, 4096, 5000, 70_000]);
        let len = self.random.below(most + 1) as usize;
        let (path, expected, file, direct) = &self.open[at];
        let mut bytes = vec![0xAA; len];
        let n = file.read_at(&mut bytes, offset).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let start = offset.min(size) as usize;
        let end = (start + len).min(expected.len());
        assert_eq!(n, end - start, "{path:?} at {offset}, {len} bytes, direct: {direct}");
        assert!(bytes[..n] == expected[start..end], "{path:?} at {offset}, direct: {direct}");
    }

    fn mapped(&mut self) {
        let (path, node) = self.pick();
        let Node::File(expected) = node else { return };
        let file = File::open(self.point.join(path)).unwrap();
        if expected.is_empty() {
            return;
        }
        // SAFETY: nobody writes to the file, or changes its size, while it is mapped.
        let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
        assert_eq!(map.len(), expected.len(), "{path:?}");
        let start = self.place(expected.len() as u64).min(expected.len() as u64) as usize;
        let end = (start + self.random.below(20_000) as usize).min(expected.len());
        assert!(map[start..end] == expected[start..end], "{path:?} from {start} to {end}");
    }

    /// Lists, through a buffer of any size, from the start and then from any entry of what was seen.
    fn list(&mut self) {
        let (path, node) = self.pick();
        let Node::Directory(names) = node else { return };
        let dots = [b".".to_vec(), b"..".to_vec()];
        let expected: Vec<&Vec<u8>> = dots.iter().chain(names).collect();
        let directory = File::open(self.point.join(path)).unwrap();
        let mut seen: Vec<(i64, Vec<u8>)> = Vec::new();
        let most = self.random.below(400) as usize;
        while seen.len() < most {
            let buffer = *self.random.pick(&[300, 1000, 32_768]);
            let some = getdents(&directory, buffer).unwrap();
            if some.is_empty() {
                assert_eq!(seen.len(), expected.len(), "{path:?} ends too early");
                break;
            }
            seen.extend(some);
        }
        let names_seen: Vec<&Vec<u8>> = seen.iter().map(|(_, name)| name).collect();
        assert_eq!(names_seen, expected[..seen.len()], "{path:?}");
        if !seen.is_empty() {
            let at = self.random.below(seen.len() as u64) as usize;
            // SAFETY: the descriptor is open, and the call has no pointers.
            let moved = unsafe { libc::lseek(directory.as_raw_fd(), seen[at].0, libc::SEEK_SET) };
            assert_eq!(moved, seen[at].0);
            let next = getdents(&directory, 1000).unwrap();
            let next = next.first().map(|(_, name)| name);
            assert_eq!(next, expected.get(at + 1).copied(), "{path:?} after entry {at}");
        }
    }

    /// Makes the kernel ask again.
    fn forget(&mut self) {
        if let Some((_, _, file, _)) = self.open.first() {
            let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
            nix::fcntl::posix_fadvise(file, 0, 0, advice).unwrap();
        }
    }

    fn forbidden(&mut self) {
        let (path, node) = self.pick();
        let path = self.point.join(path);
        let refused = match (node, self.random.below(4)) {
            (Node::File(_), 0) => File::options().write(true).open(&path).map(|_| ()),
            (Node::File(_), 1) => fs::remove_file(&path),
            (Node::File(_), 2) => fs::rename(&path, self.point.join("new")),
            (Node::Directory(_), 0) => File::create(path.join("new")).map(|_| ()),
            (Node::Directory(_), 1) => fs::create_dir(path.join("new")),
            (Node::Directory(_), 2) => std::os::unix::fs::symlink("x", path.join("new")),
            _ => fs::set_permissions(&path, fs::metadata(&path).unwrap().permissions()),
        };
        let errno = refused.map_err(|e| e.raw_os_error());
        assert_eq!(errno, Err(Some(libc::EROFS)), "{path:?}");
    }
}

fn walk(folder: &Path, point: &Path, operations: u64) {
    let reference = Reference::new(content(), folder);
    let mut walker = Walker::new(&reference, point.into());
    for _ in 0..operations {
        walker.step();
    }
}

#[test]
fn a_mount_is_what_its_model_in_memory_is_whatever_is_asked_in_whatever_order() {
    if let Ok(task) = env::var(VARIABLE) {
        let task: Vec<&str> = task.split('\n').collect();
        return walk(Path::new(task[0]), Path::new(task[1]), task[2].parse().unwrap());
    }
    let operations = env::var("GGUF_FS_OPERATIONS").map_or(OPERATIONS, |n| n.parse().unwrap());
    let mut random = Random::new();
    let place = Place::new(&content().builder.build());
    keep(&place);
    place.mounted(&[]);
    let mut start = |_| {
        let (folder, point) = (place.dir.display(), place.point.display());
        let seed = random.next().to_string();
        let task = format!("{folder}\n{point}\n{}", operations / PROCESSES);
        let name = "a_mount_is_what_its_model_in_memory_is_whatever_is_asked_in_whatever_order";
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", name, "--nocapture"])
            .env(VARIABLE, task)
            .env("GGUF_FS_SEED", seed);
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let processes: Vec<_> = (0..PROCESSES).map(&mut start).collect();
    let failed = processes.into_iter().map(|mut p| p.wait().unwrap()).filter(|s| !s.success());
    assert_eq!(failed.count(), 0, "processes failed");
    assert_eq!(place.daemons().len(), 1);
}
