//! The header of one GGUF file, parsed and checked: every validation rule of the format lives here.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::ggml;

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// Little-endian: almost every file.
    Little,
    /// Big-endian, allowed since version 3 (versions 1 and 2 in that order are read too).
    Big,
}

/// What is needed to read lengths and numbers of a file: version 1 has 32-bit lengths, later ones 64-bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// 1, 2 or 3.
    pub version: u32,
    /// Byte order of every number of the file.
    pub endian: Endian,
}

/// A run of bytes of the file, absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte from the start of the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A name held in the header's arena; see [`Header::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// Type of a metadata value, with the format's ids.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

/// A metadata value: scalars by value, strings and arrays as where they are in the file.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// The string's bytes, without its length.
    String(Span),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// Type of the elements ([`ValueType::Array`] for a nested one).
    pub element: ValueType,
    /// Number of elements.
    pub len: u64,
    /// The elements' bytes: after the element type and the count, to the end of the last element.
    pub span: Span,
}

/// One metadata entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyValue {
    /// The key, see [`Header::name`].
    pub key: Name,
    /// Its value.
    pub value: Value,
}

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
