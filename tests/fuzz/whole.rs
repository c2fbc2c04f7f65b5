//! Opens bytes as a model and holds its whole tree to what a filesystem owes: names are sound and
//! found again, sizes known before reading are exact, windows agree with the whole.

use std::collections::HashSet;
use std::ffi::CString;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use gguf_fs::model::{Model, OpenError};
use gguf_fs::tree::{Node, Tree};
use gguf_fs::view::{File, Scratch, Views};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Files larger than this are read in windows alone.
const WHOLE: u64 = 1 << 20;

/// Inode of the root.
const ROOT: u64 = 1;

/// Opens bytes as `Model::open` opens a file that holds them.
pub fn open(bytes: &[u8], lenient: bool) -> Result<Model, OpenError> {
    let name = CString::new("model.gguf").unwrap();
    let mut file =
        std::fs::File::from(memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC).unwrap());
    file.write_all(bytes).unwrap();
    Model::open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), lenient)
}

/// Walks and reads everything. `random` gives a number below its argument. Only a lenient model may
/// have bytes that cannot be read.
pub fn check(model: Model, lenient: bool, random: &mut impl FnMut(u64) -> u64) {
    let model = Arc::new(model);
    let tree = Tree::new(model.clone());
    let mut reader = Reader { views: Views::new(model), scratch: Scratch::default(), lenient };
    let mut seen = HashSet::from([ROOT]);
    let mut directories = vec![ROOT];
    while let Some(directory) = directories.pop() {
        let mut names = HashSet::new();
        let mut subdirectories = 0;
        for entry in (0..).map_while(|position| tree.entry(directory, position)) {
            assert!(sound(&entry.name), "{:?}", String::from_utf8_lossy(&entry.name));
            assert_eq!(tree.lookup(directory, &entry.name), Some(entry.ino));
            assert!(names.insert(entry.name.into_owned()), "two entries of one name");
            assert!(seen.insert(entry.ino), "two entries with the number {}", entry.ino);
            match tree.node(entry.ino) {
                Some(Node::Dir) => {
                    assert!(entry.is_dir);
                    assert_eq!(tree.parent(entry.ino), directory);
                    subdirectories += 1;
                    directories.push(entry.ino);
                }
                Some(Node::File(file)) => {
                    assert!(!entry.is_dir);
                    reader.check(file, random);
                }
                None => panic!("an entry without a node"),
            }
        }
        assert_eq!(tree.subdirs(directory), subdirectories);
        for absent in [&b""[..], b".", b"..", b"no such name", b"/", &[0xFF; 300]] {
            let found = tree.lookup(directory, absent);
            assert_eq!(found.is_some(), names.contains(absent), "{absent:?}");
        }
    }
    for beyond in [0, u64::MAX, u64::MAX / 2, seen.iter().max().unwrap() + 1] {
        assert!(seen.contains(&beyond) || tree.node(beyond).is_none(), "a node at {beyond}");
    }
}

/// Whether the kernel and a terminal may be given a name.
pub fn sound(name: &[u8]) -> bool {
    (1..=255).contains(&name.len())
        && !matches!(name, b"." | b"..")
        && !name.iter().any(|&byte| matches!(byte, 0..0x20 | 0x7F | b'/'))
        && !String::from_utf8_lossy(name).chars().any(char::is_control)
}

struct Reader {
    views: Views,
    scratch: Scratch,
    lenient: bool,
}

impl Reader {
    /// The bytes of a window; None if they cannot be had, which only a lenient model may say.
    fn read(&mut self, file: File, offset: u64, len: u64) -> Option<Vec<u8>> {
        match self.views.read(file, offset, len as usize, &mut self.scratch) {
            Ok(bytes) => Some(bytes.to_vec()),
            Err(e) => {
                assert!(self.lenient, "{file:?}: {e}");
                None
            }
        }
    }

    fn check(&mut self, file: File, random: &mut impl FnMut(u64) -> u64) {
        let cheap = self.views.cheap_size(file);
        let size = match self.views.size(file) {
            Ok(size) => size,
            Err(e) => return assert!(self.lenient, "{file:?}: {e}"),
        };
        assert!(cheap.is_none_or(|cheap| cheap == size), "{file:?}: {cheap:?} is not {size}");
        assert!(size <= i64::MAX as u64, "{file:?}: {size} bytes");
        let whole = if size <= WHOLE { self.read(file, 0, size) } else { None };
        if let Some(whole) = &whole {
            assert_eq!(whole.len() as u64, size, "{file:?}");
        }
        let edges = [(0, 1), (size.saturating_sub(1), 4096), (size, 1), (u64::MAX, 4096)];
        let edge = edges[random(edges.len() as u64) as usize];
        for (offset, len) in [edge, (random(size.saturating_add(2)), random(5000))] {
            let Some(bytes) = self.read(file, offset, len) else { continue };
            let expected = len.min(size.saturating_sub(offset));
            assert_eq!(bytes.len() as u64, expected, "{file:?} at {offset}");
            if let Some(whole) = &whole {
                let at = offset.min(size) as usize;
                assert_eq!(bytes, whole[at..at + bytes.len()], "{file:?} at {offset}");
            } else if let Some(again) = self.read(file, offset, len) {
                assert_eq!(bytes, again, "{file:?} at {offset}");
            }
        }
    }
}
