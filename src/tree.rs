//! The tree: inode numbers by arithmetic, names to inodes and back, listings in the file's order.
//!
//! Pure and immutable: no I/O, no locks, and of each name only a hash.
//!
//! Numbers are the same at every mount of a file: those of [`FIXED`], then one a key, then
//! [`STRIDE`] a tensor.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::borrow::Cow;
use std::sync::Arc;

use crate::model::Model;
use crate::name::{self, Unique};
use crate::view::{File, TensorView, VIEWS};

/// The inode number of the root.
pub const ROOT: u64 = 1;
const METADATA: u64 = 2;
const TENSORS: u64 = 3;

/// Number of the first key; those below are [`FIXED`] or kept for more of them.
const KEYS: u64 = 16;

/// Numbers of one tensor: its directory, room for three files in it, and its `.npy`.
const STRIDE: u64 = 5;

/// A node that every tree has.
struct Fixed {
    ino: u64,
    parent: u64,
    name: &'static str,
    node: Node,
}

const fn fixed(ino: u64, parent: u64, name: &'static str, node: Node) -> Fixed {
    Fixed { ino, parent, name, node }
}

/// All of them, in the order of listings.
const FIXED: [Fixed; 3] = [
    fixed(6, ROOT, "info", Node::File(File::Info)),
    fixed(METADATA, ROOT, "metadata", Node::Dir),
    fixed(TENSORS, ROOT, "tensors", Node::Dir),
];

/// What an inode number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Dir,
    /// A file, of which [`crate::view::Views`] has the content.
    File(File),
}

/// One entry of a listing.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Inode number.
    pub ino: u64,
    /// File name.
    pub name: Cow<'a, [u8]>,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Names and numbers of all nodes of a model's tree.
#[derive(Debug)]
pub struct Tree {
    model: Arc<Model>,
    keys: Unique,
    tensors: Unique,
}

/// What an inode number is made of.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Fixed(&'static Fixed),
    Key(u32),
    TensorDir(u32),
    TensorFile(u32, u8),
}

impl Tree {
    /// The tree of a model.
    pub fn new(model: Arc<Model>) -> Tree {
        let keys = Unique::new(0..model.metadata.len() as u32, |key, ordinal| {
            name::file_name(key_name(&model, key), ordinal, "")
        });
        let tensors = Unique::new(0..model.tensors.len() as u32, |tensor, ordinal| {
            name::file_name(tensor_name(&model, tensor), ordinal, "")
        });
        Tree { keys, tensors, model }
    }

    /// What a number stands for.
    pub fn node(&self, ino: u64) -> Option<Node> {
        Some(match self.place(ino)? {
            Place::Root | Place::TensorDir(_) => Node::Dir,
            Place::Fixed(fixed) => fixed.node,
            Place::Key(key) => Node::File(File::Key(key)),
            Place::TensorFile(tensor, view) => Node::File(File::Tensor(tensor, view)),
        })
    }

    /// The directory that a node is in; the root is in itself.
    pub fn parent(&self, ino: u64) -> u64 {
        match self.place(ino) {
            Some(Place::Fixed(fixed)) => fixed.parent,
            Some(Place::Key(_)) => METADATA,
            Some(Place::TensorDir(_)) => TENSORS,
            Some(Place::TensorFile(tensor, _)) => self.tensor_ino(tensor),
            Some(Place::Root) | None => ROOT,
        }
    }

    /// The file name of a node; empty for the root.
    pub fn name(&self, ino: u64) -> Cow<'_, [u8]> {
        match self.place(ino) {
            Some(Place::Root) | None => Cow::Borrowed(b""),
            Some(Place::Fixed(fixed)) => Cow::Borrowed(fixed.name.as_bytes()),
            Some(Place::Key(key)) => self.key_label(key, self.keys.ordinals.of(key)),
            Some(Place::TensorDir(tensor)) => {
                self.tensor_label(tensor, self.tensors.ordinals.of(tensor))
            }
            Some(Place::TensorFile(_, view)) => {
                let view = VIEWS.get(usize::from(view));
                Cow::Borrowed(view.map_or("", |view| view.name).as_bytes())
            }
        }
    }

    /// The entry of a directory that has this file name.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> Option<u64> {
        match self.place(parent)? {
            Place::Fixed(Fixed { ino: METADATA, .. }) => {
                self.keys.find(name, |key, n| self.key_label(key, n)).map(key_ino)
            }
            Place::Fixed(Fixed { ino: TENSORS, .. }) => self
                .tensors
                .find(name, |tensor, n| self.tensor_label(tensor, n))
                .map(|tensor| self.tensor_ino(tensor)),
            Place::TensorDir(tensor) => self
                .tensor_files(tensor)
                .find(|(_, view)| view.name.as_bytes() == name)
                .map(|(view, _)| self.tensor_file_ino(tensor, view)),
            Place::Root | Place::Fixed(_) => FIXED
                .iter()
                .find(|fixed| fixed.parent == parent && fixed.name.as_bytes() == name)
                .map(|fixed| fixed.ino),
            Place::Key(_) | Place::TensorFile(..) => None,
        }
    }

    /// The entry of a directory at a position of its listing, from 0, in the file's order; None past
    /// its end. `.` and `..` are not counted.
    pub fn entry(&self, dir: u64, position: u64) -> Option<Entry<'_>> {
        let at = usize::try_from(position).ok()?;
        let nth = |count: usize| (at < count).then_some(at as u32);
        let ino = match self.place(dir)? {
            Place::Fixed(Fixed { ino: METADATA, .. }) => key_ino(nth(self.model.metadata.len())?),
            Place::Fixed(Fixed { ino: TENSORS, .. }) => {
                self.tensor_ino(nth(self.model.tensors.len())?)
            }
            Place::TensorDir(tensor) => {
                let (view, _) = self.tensor_files(tensor).nth(at)?;
                self.tensor_file_ino(tensor, view)
            }
            Place::Root | Place::Fixed(_) => {
                FIXED.iter().filter(|fixed| fixed.parent == dir).nth(at)?.ino
            }
            Place::Key(_) | Place::TensorFile(..) => return None,
        };
        Some(Entry { ino, name: self.name(ino), is_dir: self.node(ino) == Some(Node::Dir) })
    }

    /// Number of directories in a directory: its link count is 2 more.
    pub fn subdirs(&self, dir: u64) -> u32 {
        let is_subdir = |fixed: &&Fixed| fixed.parent == dir && fixed.node == Node::Dir;
        match dir {
            TENSORS => self.model.tensors.len() as u32,
            _ => FIXED.iter().filter(is_subdir).count() as u32,
        }
    }

    /// The node of a path from the root: `metadata/general.name`. Empty parts and `.` are passed over.
    pub fn resolve(&self, path: &[u8]) -> Option<u64> {
        path.split(|b| *b == b'/')
            .filter(|part| !matches!(*part, b"" | b"."))
            .try_fold(ROOT, |dir, part| self.lookup(dir, part))
    }

    fn place(&self, ino: u64) -> Option<Place> {
        let Some(number) = ino.checked_sub(KEYS) else {
            let fixed = FIXED.iter().find(|fixed| fixed.ino == ino).map(Place::Fixed);
            return if ino == ROOT { Some(Place::Root) } else { fixed };
        };
        let keys = self.model.metadata.len() as u64;
        let Some(number) = number.checked_sub(keys) else { return Some(Place::Key(number as u32)) };
        let tensor = u32::try_from(number / STRIDE).ok()?;
        self.model.tensors.get(tensor as usize)?;
        let Some(view) = (number % STRIDE).checked_sub(1) else {
            return Some(Place::TensorDir(tensor));
        };
        self.tensor_files(tensor)
            .find(|(at, _)| u64::from(*at) == view)
            .map(|(view, _)| Place::TensorFile(tensor, view))
    }

    fn tensor_ino(&self, tensor: u32) -> u64 {
        KEYS + self.model.metadata.len() as u64 + u64::from(tensor) * STRIDE
    }

    fn tensor_file_ino(&self, tensor: u32, view: u8) -> u64 {
        self.tensor_ino(tensor) + 1 + u64::from(view)
    }

    /// The files that a tensor has, with their positions in [`VIEWS`].
    fn tensor_files(&self, tensor: u32) -> impl Iterator<Item = (u8, &'static TensorView)> {
        let tensor = self.model.tensors.get(tensor as usize);
        (0..).zip(&VIEWS).filter(move |(_, view)| {
            tensor.is_some_and(|tensor| (view.exists)(&self.model, tensor))
        })
    }

    fn key_label(&self, key: u32, ordinal: u32) -> Cow<'_, [u8]> {
        name::file_name(key_name(&self.model, key), ordinal, "")
    }

    fn tensor_label(&self, tensor: u32, ordinal: u32) -> Cow<'_, [u8]> {
        name::file_name(tensor_name(&self.model, tensor), ordinal, "")
    }
}

fn key_ino(key: u32) -> u64 {
    KEYS + u64::from(key)
}

fn key_name(model: &Model, key: u32) -> &[u8] {
    model.metadata.get(key as usize).map_or(b"", |entry| model.name(entry.key))
}

fn tensor_name(model: &Model, tensor: u32) -> &[u8] {
    model.tensors.get(tensor as usize).map_or(b"", |tensor| model.name(tensor.name))
}
