//! The header of one GGUF file, parsed and checked: every validation rule of the format lives here.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cursor;
mod error;
mod extents;
mod foreign;
mod index;
mod infos;
mod metadata;
mod printable;
pub mod split;
mod tensor;

mod value;

pub use error::{Error, Place, Rule};
pub use index::{INDEX_BUDGET, Index};
pub use printable::Printable;
pub use tensor::{Oddity, Tensor, TensorType};
pub use value::{Array, KeyValue, Span, Value, ValueType};

use crate::source::ReadAt;
use cursor::Cursor;
use extents::Extents;

/// Largest file that is read, 4 EiB: so that sums of offsets and sizes stay in range.
const MAX_FILE: u64 = 1 << 62;

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

impl Layout {
    /// Bytes of a count or of the length of a string or array: 4 in version 1, else 8.
    pub fn length_bytes(self) -> usize {
        if self.version == 1 { 4 } else { 8 }
    }
}

/// A name held in the header's arena; see [`Header::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Name {
    /// Its bytes in the arena it was read into.
    pub(crate) fn of(self, names: &[u8]) -> &[u8] {
        let start = self.start as usize;
        names.get(start..start + self.len as usize).unwrap_or_default()
    }
}

/// What the head of one file says of the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardHeader {
    /// Version and byte order.
    pub layout: Layout,
    /// `general.alignment`, bytes.
    pub alignment: u64,
    /// End of the tensor infos rounded up to the alignment: where offsets count from. In a damaged
    /// file (lenient only) where that is unknown, a place past the end of the file.
    pub data_offset: u64,
}

/// The header of one file.
#[derive(Debug)]
pub struct Header {
    /// Version, byte order, alignment and start of the data.
    pub shard: ShardHeader,
    /// Metadata, tensors, names and warnings.
    pub index: Index,
}

/// Parses and checks the header of one file, by itself.
///
/// # Errors
/// The first rule that the file breaks. If `lenient`, what is before the damage is returned with a
/// warning for each problem, unless it is not a GGUF file at all.
pub fn parse<R: ReadAt + ?Sized>(file: &R, lenient: bool) -> Result<Header, Error> {
    let mut index = Index::default();
    let shard = parse_shard(file, lenient, 0, &mut index)?;
    index.mark_companions();
    Ok(Header { shard, index })
}

/// Parses the header of one file of a model, adding to what the files before it hold. `shard` is its
/// number in the model.
///
/// # Errors
/// As [`parse`]; the index is then of no further use.
pub(crate) fn parse_shard<R: ReadAt + ?Sized>(
    file: &R,
    lenient: bool,
    shard: u16,
    index: &mut Index,
) -> Result<ShardHeader, Error> {
    let at_header = |offset| move |rule| Error { place: Place::Header, offset, rule };
    let size = file.size();
    let mut cursor = Cursor::new(file);
    let layout = layout(file, &mut cursor).map_err(at_header(0))?;
    cursor.set_layout(layout);
    let tensors = cursor.count("the tensor count").map_err(at_header(8))?;
    let keys = cursor.count("the metadata key count").map_err(at_header(16))?;
    // The least a key takes: an empty name, a type and a byte. A tensor: an empty name, no dims.
    let length = layout.length_bytes() as u128;
    let least = u128::from(keys) * (length + 5) + u128::from(tensors) * (length + 16);
    let left = cursor.left();
    if least > left.into() {
        let rule = Rule::Counts { keys, tensors, least, left };
        index.tolerate(lenient, at_header(cursor.position())(rule))?;
    }

    let alignment = metadata::read(&mut cursor, keys, lenient, index)?;
    let known = alignment.unwrap_or(metadata::DEFAULT_ALIGNMENT);
    let rounded = |end: u64| end.checked_next_multiple_of(known).unwrap_or(end);
    let mut header = ShardHeader { layout, alignment: known, data_offset: 0 };
    if alignment.is_none() {
        index.warn(|_| "the tensors cannot be located and are left out".into());
        return Ok(ShardHeader { data_offset: rounded(size), ..header });
    }
    let first = index.tensors.len();
    let whole = infos::read(&mut cursor, tensors, shard, lenient, index)?;
    header.data_offset = rounded(if whole { cursor.position() } else { size });
    let extents = Extents { header: &header, file: size, first, lenient };
    if whole {
        extents.settle(index)?
    } else {
        extents.give_up(index)
    }
    Ok(header)
}

/// Magic and version.
fn layout<R: ReadAt + ?Sized>(file: &R, cursor: &mut Cursor<'_, R>) -> Result<Layout, Rule> {
    let size = file.size();
    if size == 0 {
        return Err(Rule::Empty);
    }
    if size > MAX_FILE {
        return Err(Rule::FileSize { size, most: MAX_FILE });
    }
    let mut head = [0; foreign::HEAD];
    let got = file.read_at(0, &mut head)?;
    let head = head.get(..got).unwrap_or_default();
    if !head.starts_with(b"GGUF") && !b"GGUF".starts_with(head) {
        let magic = head.iter().take(4).copied().collect();
        return Err(Rule::Magic { magic, looks_like: foreign::looks_like(head) });
    }
    let _: [u8; 4] = cursor.bytes("the magic")?;
    let bytes = cursor.bytes("the version")?;
    let (version, endian) = match u32::from_le_bytes(bytes) {
        version if version & 0xffff == 0 => (u32::from_be_bytes(bytes), Endian::Big),
        version => (version, Endian::Little),
    };
    match version {
        1..=3 => Ok(Layout { version, endian }),
        _ => Err(Rule::Version { version }),
    }
}
