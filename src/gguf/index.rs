//! What is kept in memory of the headers of a model's files: bounded, and without a copy of any
//! string value.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::error::{Error, Rule};
use super::printable::Printable;
use super::{KeyValue, Name, Oddity, Tensor, TensorType};

/// Most bytes of memory for the index of one model. It holds 200,000 tensors with names of 40 bytes
/// and 100,000 keys with room to spare; the largest models known have a few thousand of each.
pub const INDEX_BUDGET: usize = 40 << 20;

/// Charged for each key and tensor besides itself: its share of the hash tables here and in the
/// tree, and its place in the order of offsets.
const OVERHEAD: usize = 24;

/// Most warnings kept; a hostile file could bring about millions. The rest is counted.
pub(super) const MAX_WARNINGS: usize = 100;

/// The headers of a model's files as one.
#[derive(Debug, Default)]
pub struct Index {
    /// Metadata of the first file, in file order.
    pub metadata: Vec<KeyValue>,
    /// Tensors of all files, in shard and file order.
    pub tensors: Vec<Tensor>,
    /// The arena of all names.
    pub names: Vec<u8>,
    /// Dims of all tensors, one after the other.
    pub dims: Vec<u64>,
    /// One line each, at most a hundred.
    pub warnings: Vec<String>,
    /// Warnings that were not kept.
    pub more_warnings: u64,
    pub(super) by_name: NameTable,
}

impl Index {
    /// The bytes of a name.
    pub fn name(&self, name: Name) -> &[u8] {
        name.of(&self.names)
    }

    /// Dims of a tensor in the file's order, innermost first.
    pub fn dims(&self, tensor: &Tensor) -> &[u64] {
        tensor.dims_of(&self.dims)
    }

    /// Marks the NVFP4 tensors that have a companion with the scale that their blocks leave out:
    /// `x.scale` beside `x.weight` (or beside `x`).
    pub(crate) fn mark_companions(&mut self) {
        let Index { tensors, names, by_name, .. } = &*self;
        let name_of = |p: usize| tensors.get(p).map_or(&[][..], |tensor| tensor.name.of(names));
        let has_companion = |tensor: &Tensor| {
            let name = tensor.name.of(names);
            let stem = name.strip_suffix(b".weight").unwrap_or(name);
            by_name.find(&[stem, b".scale"].concat(), name_of).is_some()
        };
        let nvfp4 = |t: &Tensor| matches!(t.ty, TensorType::Known(ty) if ty.name == "NVFP4");
        let marked: Vec<u32> = (0..)
            .zip(tensors)
            .filter(|(_, tensor)| nvfp4(tensor) && has_companion(tensor))
            .map(|(position, _)| position)
            .collect();
        for position in marked {
            if let Some(tensor) = self.tensors.get_mut(position as usize) {
                tensor.oddity |= Oddity::COMPANION;
            }
        }
    }

    pub(crate) fn warn(&mut self, warning: impl FnOnce(&Index) -> String) {
        if self.warnings.len() < MAX_WARNINGS {
            let line = warning(self);
            self.warnings.push(line);
        } else {
            self.more_warnings += 1;
        }
    }

    /// Warns of a tensor.
    pub(super) fn warn_of(&mut self, tensor: Name, what: fmt::Arguments<'_>) {
        self.warn(|index| format!("tensor {}: {what}", Printable(index.name(tensor))));
    }

    /// Refuses, or warns and goes on if lenient.
    pub(super) fn tolerate(&mut self, lenient: bool, error: Error) -> Result<(), Error> {
        if !lenient {
            return Err(error);
        }
        self.warn(|_| error.to_string());
        Ok(())
    }

    /// Whether all this still fits in memory's budget.
    pub(super) fn check_budget(&self) -> Result<(), Rule> {
        let used = self.metadata.len() * (size_of::<KeyValue>() + OVERHEAD)
            + self.tensors.len() * (size_of::<Tensor>() + OVERHEAD)
            + self.dims.len() * size_of::<u64>()
            + self.names.len();
        if used > INDEX_BUDGET { Err(Rule::Budget { limit: INDEX_BUDGET }) } else { Ok(()) }
    }
}

/// Positions of entries by their names. The hash is seeded at random, so that no file can bring
/// about many collisions.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    positions: HashTable<u32>,
    state: RandomState,
}

impl NameTable {
    /// Enters `position` under its name, or returns the earlier position that has the same name.
    pub(super) fn enter<'n>(
        &mut self,
        position: usize,
        name_of: impl Fn(usize) -> &'n [u8],
    ) -> Option<usize> {
        let name = name_of(position);
        let entry = self.positions.entry(
            self.state.hash_one(name),
            |p| name_of(*p as usize) == name,
            |p| self.state.hash_one(name_of(*p as usize)),
        );
        match entry {
            Entry::Occupied(earlier) => Some(*earlier.get() as usize),
            Entry::Vacant(place) => {
                // The budget keeps positions far below u32::MAX.
                place.insert(position as u32);
                None
            }
        }
    }

    /// The first position entered under a name.
    pub(super) fn find<'n>(
        &self,
        name: &[u8],
        name_of: impl Fn(usize) -> &'n [u8],
    ) -> Option<usize> {
        let hash = self.state.hash_one(name);
        self.positions.find(hash, |p| name_of(*p as usize) == name).map(|p| *p as usize)
    }
}
