//! A model opened: the headers of all its shards as one, and the source of its bytes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod open;

use std::fmt;
use std::io::{self, ErrorKind::NotFound};
use std::path::{Path, PathBuf};

use crate::gguf::split::MAX_SHARDS;
use crate::gguf::{self, Endian, KeyValue, Layout, Name, Tensor, TensorType};
use crate::message::{plain, shown};
use crate::source::Source;

pub use crate::gguf::ShardHeader;

/// An opened and checked model.
#[derive(Debug)]
pub struct Model {
    /// Its bytes.
    pub source: Source,
    /// One a shard, in order.
    pub headers: Vec<ShardHeader>,
    /// Metadata of the first shard, in file order.
    pub metadata: Vec<KeyValue>,
    /// Tensors of all shards, in shard and file order.
    pub tensors: Vec<Tensor>,
    /// One line each: oddities that other readers refuse. Names are escaped for a terminal.
    pub warnings: Vec<String>,
    /// Warnings beyond those kept in the list.
    pub more_warnings: u64,
    pub(crate) names: Vec<u8>,
    pub(crate) dims: Vec<u64>,
}

/// Why a model cannot be opened. Its `Display` is `<path>: <what is wrong, with the numbers>`.
#[derive(Debug)]
pub struct OpenError {
    /// The file concerned: of a split model, the shard.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
    /// Whether opening it leniently would succeed.
    pub lenient_helps: bool,
}

/// What is wrong with a file of a model.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Problem {
    /// It cannot be opened.
    Io(io::Error),
    /// Its header breaks a rule.
    Header(Box<gguf::Error>),
    /// A shard cannot be opened beside the others.
    Shard {
        number: u32,
        count: u32,
        error: io::Error,
    },
    TooManyShards {
        count: u32,
    },
    /// A `split.*` key does not fit the file's name, or the set's tensors.
    Split {
        key: &'static str,
        found: i128,
        expected: u64,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", shown(&self.path), self.problem)?;
        if self.lenient_helps { f.write_str("; --lenient shows what is there") } else { Ok(()) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(error) => f.write_str(&plain(error)),
            Problem::Header(error) => write!(f, "{error}"),
            Problem::Shard { number, count, error } if error.kind() == NotFound => {
                write!(f, "shard {number} of {count} is missing")
            }
            Problem::Shard { number, count, error } => {
                write!(f, "shard {number} of {count} cannot be opened: {}", plain(error))
            }
            Problem::TooManyShards { count } => {
                write!(f, "a model of {count} shards; at most {MAX_SHARDS} can be opened")
            }
            Problem::Split { key, found, expected } => {
                write!(f, "{key} is {found} where {expected} would fit: not of the same model?")
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl OpenError {
    fn new(path: &Path, problem: Problem) -> OpenError {
        let lenient_helps = match &problem {
            Problem::Io(_) | Problem::TooManyShards { .. } => false,
            Problem::Shard { .. } | Problem::Split { .. } => true,
            Problem::Header(error) => error.lenient_helps(),
        };
        OpenError { path: path.into(), problem, lenient_helps }
    }
}

impl Model {
    /// Opens a model by the path of its file, or of any shard of `<name>-0000i-of-0000N.gguf`: the
    /// others are found beside it under the same name, or else beside the target of a symbolic link.
    ///
    /// # Errors
    /// The first problem found. If `lenient`, what can be shown is, with a warning for each problem;
    /// only the file named must be a GGUF file then.
    pub fn open(path: &Path, lenient: bool) -> Result<Model, OpenError> {
        open::open(path, lenient)
    }

    /// The bytes of a name.
    pub fn name(&self, name: Name) -> &[u8] {
        name.of(&self.names)
    }

    /// The name of the key at a position; empty past the last.
    pub fn key_name(&self, key: u32) -> &[u8] {
        self.metadata.get(key as usize).map_or(b"", |entry| self.name(entry.key))
    }

    /// The name of the tensor at a position; empty past the last.
    pub fn tensor_name(&self, tensor: u32) -> &[u8] {
        self.tensors.get(tensor as usize).map_or(b"", |tensor| self.name(tensor.name))
    }

    /// Dims of a tensor in the file's order, innermost first.
    pub fn dims(&self, tensor: &Tensor) -> &[u64] {
        tensor.dims_of(&self.dims)
    }

    /// Version and byte order of a shard.
    pub fn layout(&self, shard: u16) -> Layout {
        const NONE: Layout = Layout { version: 3, endian: Endian::Little };
        self.headers.get(usize::from(shard)).map_or(NONE, |header| header.layout)
    }

    /// Where a tensor's bytes start in its shard's file. Past the end of the file for a tensor
    /// without bytes that claims to be there; the end of any other does not overflow.
    pub fn file_offset(&self, tensor: &Tensor) -> u64 {
        let data = self.headers.get(usize::from(tensor.shard)).map_or(0, |h| h.data_offset);
        data.saturating_add(tensor.offset)
    }

    /// Whether a tensor can be shown as float32: its type is known, and is defined in the byte order
    /// of its file. The size, 4 bytes an element, is at most `i64::MAX` then.
    pub fn has_f32(&self, tensor: &Tensor) -> bool {
        match tensor.ty {
            TensorType::Known(ty) => {
                self.layout(tensor.shard).endian == Endian::Little || ty.has_big_endian()
            }
            TensorType::Unknown(_) => false,
        }
    }

    /// Size of all its files together, bytes.
    pub fn bytes(&self) -> u64 {
        self.source.shards.iter().fold(0, |sum, shard| sum.saturating_add(shard.bytes))
    }
}
