//! The tree: inode numbers by arithmetic, names to inodes and back, listings in the file's order.
//!
//! Pure and immutable: no I/O, no locks, and of each name only a hash.
//!
//! Numbers are the same at every mount of a file: those of [`FIXED`], then one a key, then
//! [`STRIDE`] a tensor.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::borrow::Cow;
use std::sync::Arc;

use crate::gguf::Tensor;
use crate::model::Model;
use crate::name::{self, Unique};
use crate::view::{File, MODEL_VIEWS, NPY as NPY_VIEW, TensorView, VIEWS};

/// The inode number of the root.
pub const ROOT: u64 = 1;
const METADATA: u64 = 2;
const TENSORS: u64 = 3;
const NPY: u64 = 4;
const SAFETENSORS: u64 = 5;

/// Number of the first key; those below are [`FIXED`] or kept for more of them.
const KEYS: u64 = 16;

/// Numbers of one tensor: its directory, room for three files in it, and its `.npy`.
const STRIDE: u64 = 5;

/// A node that every tree has.
struct Fixed {
    ino: u64,
    parent: u64,
    kind: Kind,
}

enum Kind {
    Dir(&'static str),
    /// A position in [`MODEL_VIEWS`].
    View(u8),
}

/// All of them, in the order of listings.
#[rustfmt::skip]
static FIXED: [Fixed; 10] = [
    Fixed { ino: 6, parent: ROOT, kind: Kind::View(0) },
    Fixed { ino: METADATA, parent: ROOT, kind: Kind::Dir("metadata") },
    Fixed { ino: TENSORS, parent: ROOT, kind: Kind::Dir("tensors") },
    Fixed { ino: 7, parent: ROOT, kind: Kind::View(1) },
    Fixed { ino: 8, parent: ROOT, kind: Kind::View(2) },
    Fixed { ino: NPY, parent: ROOT, kind: Kind::Dir("npy") },
    Fixed { ino: SAFETENSORS, parent: ROOT, kind: Kind::Dir("safetensors") },
    Fixed { ino: 9, parent: SAFETENSORS, kind: Kind::View(3) },
    Fixed { ino: 10, parent: SAFETENSORS, kind: Kind::View(4) },
    Fixed { ino: 11, parent: SAFETENSORS, kind: Kind::View(5) },
];

impl Fixed {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Dir(name) => name,
            Kind::View(view) => MODEL_VIEWS.get(usize::from(view)).map_or("", |view| view.name),
        }
    }
}

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
    /// The tensors in `/npy`, if those are not all.
    npy: Option<Vec<u32>>,
    /// Those of them whose name there is not their name in `/tensors` with the ending: it would be
    /// too long.
    long_npy: Unique,
}

/// What an inode number is made of.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Fixed(&'static Fixed),
    Key(u32),
    TensorDir(u32),
    TensorFile(u32, u8),
    Npy(u32),
}

impl Tree {
    /// The tree of a model.
    pub fn new(model: Arc<Model>) -> Tree {
        let (keys, tensors) = (model.metadata.len() as u32, model.tensors.len() as u32);
        let mut tree = Tree {
            model,
            keys: Unique::default(),
            tensors: Unique::default(),
            npy: None,
            long_npy: Unique::default(),
        };
        tree.keys = Unique::new(0..keys, |key, n| tree.key_name(key, n));
        tree.tensors = Unique::new(0..tensors, |tensor, n| tree.tensor_name(tensor, n));
        if !(0..tensors).all(|tensor| tree.has_npy(tensor)) {
            tree.npy = Some((0..tensors).filter(|tensor| tree.has_npy(*tensor)).collect());
        }
        let long: Vec<u32> = (0..tensors).filter(|tensor| tree.is_npy_long(*tensor)).collect();
        tree.long_npy = Unique::new(long.into_iter(), |tensor, n| tree.npy_name(tensor, n));
        tree
    }

    /// What a number stands for.
    pub fn node(&self, ino: u64) -> Option<Node> {
        Some(match self.place(ino)? {
            Place::Root | Place::TensorDir(_) => Node::Dir,
            Place::Fixed(Fixed { kind: Kind::Dir(_), .. }) => Node::Dir,
            Place::Fixed(Fixed { kind: Kind::View(view), .. }) => Node::File(File::Model(*view)),
            Place::Key(key) => Node::File(File::Key(key)),
            Place::TensorFile(tensor, view) => Node::File(File::Tensor(tensor, view)),
            Place::Npy(tensor) => Node::File(File::Npy(tensor)),
        })
    }

    /// The tensor that a directory is of.
    pub fn tensor_of(&self, dir: u64) -> Option<&Tensor> {
        match self.place(dir)? {
            Place::TensorDir(tensor) => self.tensor(tensor),
            _ => None,
        }
    }

    /// The directory that a node is in; the root is in itself.
    pub fn parent(&self, ino: u64) -> u64 {
        match self.place(ino) {
            Some(Place::Fixed(fixed)) => fixed.parent,
            Some(Place::Key(_)) => METADATA,
            Some(Place::TensorDir(_)) => TENSORS,
            Some(Place::TensorFile(tensor, _)) => self.tensor_ino(tensor),
            Some(Place::Npy(_)) => NPY,
            Some(Place::Root) | None => ROOT,
        }
    }

    /// The file name of a node; empty for the root.
    pub fn name(&self, ino: u64) -> Cow<'_, [u8]> {
        match self.place(ino) {
            Some(Place::Root) | None => Cow::Borrowed(b""),
            Some(Place::Fixed(fixed)) => Cow::Borrowed(fixed.name().as_bytes()),
            Some(Place::Key(key)) => self.key_name(key, self.keys.ordinals.of(key)),
            Some(Place::TensorDir(tensor)) => {
                self.tensor_name(tensor, self.tensors.ordinals.of(tensor))
            }
            Some(Place::TensorFile(_, view)) => {
                let view = VIEWS.get(usize::from(view));
                Cow::Borrowed(view.map_or("", |view| view.name).as_bytes())
            }
            Some(Place::Npy(tensor)) => self.npy_name(tensor, self.long_npy.ordinals.of(tensor)),
        }
    }

    /// The entry of a directory that has this file name.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> Option<u64> {
        match (self.place(parent)?, parent) {
            (_, METADATA) => {
                let key = self.keys.find(name, |key, n| self.key_name(key, n))?;
                Some(KEYS + u64::from(key))
            }
            (_, TENSORS) => {
                let tensor = self.tensors.find(name, |tensor, n| self.tensor_name(tensor, n))?;
                Some(self.tensor_ino(tensor))
            }
            (_, NPY) => self.lookup_npy(name),
            (Place::TensorDir(tensor), _) => {
                let mut files = self.tensor_files(tensor);
                let (view, _) = files.find(|(_, view)| view.name.as_bytes() == name)?;
                Some(self.tensor_file_ino(tensor, view))
            }
            (Place::Root | Place::Fixed(_), _) => {
                let mut children = FIXED.iter().filter(|fixed| fixed.parent == parent);
                Some(children.find(|fixed| fixed.name().as_bytes() == name)?.ino)
            }
            (Place::Key(_) | Place::TensorFile(..) | Place::Npy(_), _) => None,
        }
    }

    fn lookup_npy(&self, name: &[u8]) -> Option<u64> {
        let long = self.long_npy.find(name, |tensor, n| self.npy_name(tensor, n));
        let tensor = long.or_else(|| {
            let stem = name.strip_suffix(NPY_VIEW.name.as_bytes())?;
            let tensor = self.tensors.find(stem, |tensor, n| self.tensor_name(tensor, n))?;
            (name.len() <= name::MAX).then_some(tensor)
        })?;
        self.has_npy(tensor).then(|| self.npy_ino(tensor))
    }

    /// The entry of a directory at a position of its listing, from 0, in the file's order; None past
    /// its end. `.` and `..` are not counted.
    pub fn entry(&self, dir: u64, position: u64) -> Option<Entry<'_>> {
        let at = usize::try_from(position).ok()?;
        let below = |count: usize| (at < count).then_some(at as u32);
        let ino = match (self.place(dir)?, dir) {
            (_, METADATA) => KEYS + u64::from(below(self.model.metadata.len())?),
            (_, TENSORS) => self.tensor_ino(below(self.model.tensors.len())?),
            (_, NPY) => self.npy_ino(match &self.npy {
                Some(some) => *some.get(at)?,
                None => below(self.model.tensors.len())?,
            }),
            (Place::TensorDir(tensor), _) => {
                let (view, _) = self.tensor_files(tensor).nth(at)?;
                self.tensor_file_ino(tensor, view)
            }
            (Place::Root | Place::Fixed(_), _) => {
                FIXED.iter().filter(|fixed| fixed.parent == dir).nth(at)?.ino
            }
            (Place::Key(_) | Place::TensorFile(..) | Place::Npy(_), _) => return None,
        };
        Some(Entry { ino, name: self.name(ino), is_dir: self.node(ino) == Some(Node::Dir) })
    }

    /// Number of directories in a directory: its link count is 2 more.
    pub fn subdirs(&self, dir: u64) -> u32 {
        let is_subdir = |fixed: &&Fixed| fixed.parent == dir && matches!(fixed.kind, Kind::Dir(_));
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
        let position = u32::try_from(number / STRIDE).ok()?;
        let tensor = self.tensor(position)?;
        match (number % STRIDE) as u8 {
            0 => Some(Place::TensorDir(position)),
            4 => self.has_npy(position).then_some(Place::Npy(position)),
            file => {
                let view = VIEWS.get(usize::from(file - 1))?;
                (view.exists)(&self.model, tensor).then_some(Place::TensorFile(position, file - 1))
            }
        }
    }

    fn tensor_ino(&self, tensor: u32) -> u64 {
        KEYS + self.model.metadata.len() as u64 + u64::from(tensor) * STRIDE
    }

    fn tensor_file_ino(&self, tensor: u32, view: u8) -> u64 {
        self.tensor_ino(tensor) + 1 + u64::from(view)
    }

    fn npy_ino(&self, tensor: u32) -> u64 {
        self.tensor_ino(tensor) + STRIDE - 1
    }

    fn tensor(&self, position: u32) -> Option<&Tensor> {
        self.model.tensors.get(position as usize)
    }

    fn has_npy(&self, tensor: u32) -> bool {
        self.tensor(tensor).is_some_and(|tensor| (NPY_VIEW.exists)(&self.model, tensor))
    }

    /// Whether the name in `/npy` is not just the one in `/tensors` with the ending.
    fn is_npy_long(&self, tensor: u32) -> bool {
        let name = self.tensor_name(tensor, self.tensors.ordinals.of(tensor));
        name.len() + NPY_VIEW.name.len() > name::MAX && self.has_npy(tensor)
    }

    /// The files that a tensor has, with their positions in [`VIEWS`].
    fn tensor_files(&self, tensor: u32) -> impl Iterator<Item = (u8, &'static TensorView)> {
        let tensor = self.tensor(tensor);
        (0..).zip(&VIEWS).filter(move |(_, view)| {
            tensor.is_some_and(|tensor| (view.exists)(&self.model, tensor))
        })
    }

    fn key_name(&self, key: u32, ordinal: u32) -> Cow<'_, [u8]> {
        name::file_name(self.model.key_name(key), ordinal, "")
    }

    fn tensor_name(&self, tensor: u32, ordinal: u32) -> Cow<'_, [u8]> {
        name::file_name(self.model.tensor_name(tensor), ordinal, "")
    }

    /// The name in `/npy`. The ordinal there is counted on from the one in `/tensors`: it is 1 unless
    /// hashes of long names collide.
    fn npy_name(&self, tensor: u32, ordinal: u32) -> Cow<'_, [u8]> {
        let ordinal = self.tensors.ordinals.of(tensor) + ordinal - 1;
        name::file_name(self.model.tensor_name(tensor), ordinal, NPY_VIEW.name)
    }
}
