//! A tensor: its type, shape and place, and what is odd about it.

use std::ops::BitOrAssign;

use super::Name;
use crate::ggml;

/// Type of a tensor: one this build can size (and mostly decode), or just the id.
#[derive(Clone, Copy, Debug)]
pub enum TensorType {
    /// A row of the type table.
    Known(&'static ggml::Type),
    /// An id this build does not know, a retired one, or an ambiguous one that does not fit.
    Unknown(u32),
}

/// One tensor info.
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Name, see [`Header::name`].
    pub name: Name,
    /// Where its dims are in the header's list; see [`Header::dims`].
    pub(crate) dims_start: u32,
    /// Number of dimensions, 0 to 16.
    pub(crate) n_dims: u8,
    /// Which shard holds it (0 without shards).
    pub shard: u16,
    /// What `info` has to remark.
    pub oddity: Oddity,
    /// Type of its blocks.
    pub ty: TensorType,
    /// Product of dims: elements.
    pub elements: u64,
    /// Offset in the data section of its shard, bytes.
    pub offset: u64,
    /// Size in bytes; for an unknown type up to the next tensor or the end of the file.
    pub raw_bytes: u64,
}

impl Tensor {
    /// Its dims in the list they were read into.
    pub(crate) fn dims_of<'d>(&self, dims: &'d [u64]) -> &'d [u64] {
        let start = self.dims_start as usize;
        dims.get(start..start + usize::from(self.n_dims)).unwrap_or_default()
    }

    /// Where its bytes end in the data section.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.raw_bytes)
    }
}

/// Oddities of a tensor, as a set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddity(pub u8);

impl Oddity {
    /// Its data overlaps another tensor's.
    pub const OVERLAP: Oddity = Oddity(1);
    /// Its offset misses the alignment.
    pub const MISALIGNED: Oddity = Oddity(2);
    /// Bytes of it are not in the file (lenient only).
    pub const MISSING: Oddity = Oddity(4);
    /// A companion `.scale` tensor exists that `f32` does not apply (NVFP4).
    pub const COMPANION: Oddity = Oddity(8);

    /// Whether every flag of `other` is set.
    pub fn has(self, other: Oddity) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOrAssign for Oddity {
    fn bitor_assign(&mut self, other: Oddity) {
        self.0 |= other.0;
    }
}
