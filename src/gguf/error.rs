//! Why a file is refused: the rule it breaks, where, and the numbers.

use std::fmt;
use std::io;

use super::ValueType;
use super::printable::Printable;

/// A rule of the format broken, and where. Its `Display` is one line without the file's path; names
/// in it are escaped.
#[derive(Debug)]
pub struct Error {
    /// The structure concerned.
    pub place: Place,
    /// Where it starts in the file, bytes.
    pub offset: u64,
    /// The rule, with what was found.
    pub rule: Rule,
}

/// A structure of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Magic, version and counts.
    Header,
    /// A metadata entry: its position from 0, and its key where that is read and not empty.
    Key(u64, Option<Box<[u8]>>),
    /// A tensor info: its position from 0, and its name where that is read and not empty.
    Tensor(u64, Option<Box<[u8]>>),
}

/// The rules, one each.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Rule {
    /// The disk must give what it holds.
    Io(io::Error),
    Empty,
    /// The first four bytes must be `GGUF`.
    Magic {
        magic: Box<[u8]>,
        looks_like: Option<String>,
    },
    Version {
        version: u32,
    },
    /// Sums of an offset and a size must not overflow.
    FileSize {
        size: u64,
        most: u64,
    },
    /// The file must not end inside a field.
    Ends {
        part: &'static str,
        needs: u64,
        left: u64,
    },
    /// What the counts announce must fit in the rest of the file.
    Counts {
        keys: u64,
        tensors: u64,
        least: u128,
        left: u64,
    },
    /// What a length announces must fit in the rest of the file.
    Length {
        part: &'static str,
        bytes: u128,
        left: u64,
    },
    NameLength {
        len: u64,
        most: u64,
    },
    ValueType {
        id: u32,
    },
    ElementType {
        id: u32,
    },
    Nesting {
        most: u32,
    },
    AlignmentType {
        found: ValueType,
    },
    Alignment {
        found: u32,
    },
    /// `general.alignment` twice must say the same.
    AlignmentTwice {
        first: u32,
        second: u32,
    },
    /// Reading a header must come to an end.
    Walk {
        limit: u64,
    },
    /// What is kept in memory of the header is bounded.
    Budget {
        limit: usize,
    },
    Dimensions {
        found: u32,
        most: u32,
    },
    Dimension {
        axis: u32,
        dim: u64,
    },
    /// The product of the dims must be a number of elements.
    Elements,
    /// The size of the float view must be a file size.
    FloatSize {
        elements: u64,
    },
    /// A row must be whole blocks.
    Row {
        row: u64,
        block: u32,
        ty: &'static str,
    },
    /// No file reaches this far.
    Beyond {
        offset: u64,
        bytes: u64,
    },
    /// All bytes of a tensor must be in the file. `missing` counts from the end of the file to the
    /// end of the last tensor.
    Incomplete {
        end: u64,
        file: u64,
        missing: u64,
    },
    /// A name must be in one shard only.
    TwoShards {
        shard: u16,
    },
}

impl From<io::Error> for Rule {
    fn from(e: io::Error) -> Self {
        Rule::Io(e)
    }
}

impl Error {
    /// Whether `--lenient` mounts a file with this error.
    pub fn lenient_helps(&self) -> bool {
        !matches!(self.place, Place::Header) || matches!(self.rule, Rule::Counts { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, &self.rule) {
            (Place::Header, rule) => write!(f, "{rule}"),
            (place, rule @ (Rule::Incomplete { .. } | Rule::TwoShards { .. })) => {
                write!(f, "{place} {rule}")
            }
            (place, rule) => write!(f, "{place} (at byte {}): {rule}", self.offset),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.rule {
            Rule::Io(e) => Some(e),
            _ => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Header => f.write_str("header"),
            Place::Key(_, Some(key)) => write!(f, "key {}", Printable(key)),
            Place::Key(position, None) => write!(f, "key number {}", position + 1),
            Place::Tensor(_, Some(name)) => write!(f, "tensor {}", Printable(name)),
            Place::Tensor(position, None) => write!(f, "tensor number {}", position + 1),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Io(e) => write!(f, "cannot be read: {}", crate::message::plain(e)),
            Rule::Empty => f.write_str("is an empty file"),
            Rule::Magic { magic, looks_like } => {
                write!(f, "is not a GGUF file: its magic is {}", Printable(magic))?;
                match looks_like {
                    Some(guess) => write!(f, "; it looks like {guess}"),
                    None => Ok(()),
                }
            }
            Rule::Version { version } => {
                write!(f, "is GGUF version {version}; versions 1, 2 and 3 can be read")
            }
            Rule::FileSize { size, most } => {
                write!(f, "is {size} bytes large; at most {most} can be addressed")
            }
            Rule::Ends { part, needs, left } => write!(
                f,
                "the file ends inside {part}: {needs} bytes needed, {left} left (an incomplete download?)"
            ),
            Rule::Counts { keys, tensors, least, left } => write!(
                f,
                "its counts (keys: {keys}, tensors: {tensors}) take {least} bytes at least, but the \
                 file ends after {left} more (truncated or damaged)"
            ),
            Rule::Length { part, bytes, left } => {
                write!(f, "its {part} takes {bytes} bytes, but the file ends after {left} more")
            }
            Rule::NameLength { len, most } => {
                write!(f, "its name is {len} bytes long; at most {most} are read")
            }
            Rule::ValueType { id } => write!(f, "unknown value type {id}"),
            Rule::ElementType { id } => write!(f, "unknown type {id} of array elements"),
            Rule::Nesting { most } => {
                write!(f, "an array nested deeper than {most} levels")
            }
            Rule::AlignmentType { found } => {
                write!(f, "the alignment must be a u32, not {}", found.name())
            }
            Rule::Alignment { found } => {
                write!(f, "an alignment of {found}, neither a power of two nor a multiple of 8")
            }
            Rule::AlignmentTwice { first, second } => {
                write!(f, "a duplicate key with another alignment, {second} after {first}")
            }
            Rule::Walk { limit } => {
                write!(
                    f,
                    "the header is longer than {limit} bytes even without what can be skipped"
                )
            }
            Rule::Budget { limit } => {
                write!(f, "keys and tensors up to here already take {limit} bytes of memory")
            }
            Rule::Dimensions { found, most } => {
                write!(f, "{found} dimensions; at most {most} can be read")
            }
            Rule::Dimension { axis, dim } => {
                write!(f, "dimension {axis} is {dim}, which is negative or too large")
            }
            Rule::Elements => {
                f.write_str("the product of its dimensions overflows 63 bits of elements")
            }
            Rule::FloatSize { elements } => {
                write!(f, "{elements} elements: the size of its f32 view overflows 63 bits")
            }
            Rule::Row { row, block, ty } => {
                write!(f, "rows of {row} elements are no multiple of the {block} in a {ty} block")
            }
            Rule::Beyond { offset, bytes } => {
                write!(f, "{bytes} bytes at offset {offset} are past the end of any file")
            }
            Rule::Incomplete { end, file, missing } => write!(
                f,
                "needs bytes up to {end}, file has {file}: truncated, {missing} bytes are missing \
                 (an incomplete download?)"
            ),
            Rule::TwoShards { shard } => write!(f, "is in shard {} too", u32::from(*shard) + 1),
        }
    }
}
