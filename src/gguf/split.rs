//! Split models: the file names of their shards, and what the `split.*` keys say of them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::{Index, KeyValue};

/// Most shards of a model: below the 1024 files that a process may usually have open. Splitting one
/// terabyte into files of two gigabytes takes half of them.
pub const MAX_SHARDS: u32 = 1000;

/// A file name `<prefix>-<number>-of-<count>.gguf`, both of five digits, as llama.cpp writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardName<'a> {
    prefix: &'a [u8],
    /// From 1 to `count`.
    pub number: u32,
    /// Shards of the model.
    pub count: u32,
}

impl<'a> ShardName<'a> {
    /// Takes a file name apart; None if it is not of that form.
    pub fn parse(name: &'a OsStr) -> Option<ShardName<'a>> {
        let rest = name.as_bytes().strip_suffix(b".gguf")?;
        let (rest, count) = rest.split_last_chunk().map(|(r, n)| (r, digits(n)))?;
        let rest = rest.strip_suffix(b"-of-")?;
        let (rest, number) = rest.split_last_chunk().map(|(r, n)| (r, digits(n)))?;
        let prefix = rest.strip_suffix(b"-")?;
        let (number, count) = (number?, count?);
        (1..=count).contains(&number).then_some(ShardName { prefix, number, count })
    }

    /// The file name of another shard of the same model.
    pub fn sibling(&self, number: u32) -> OsString {
        let tail = format!("-{number:05}-of-{:05}.gguf", self.count);
        OsString::from_vec([self.prefix, tail.as_bytes()].concat())
    }
}

fn digits(bytes: &[u8; 5]) -> Option<u32> {
    bytes.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
}

/// The `split.*` keys of one file. A value that is not an integer is as wrong as a wrong number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitKeys {
    /// `split.no`: the shard's number from 0.
    pub number: Option<i128>,
    /// `split.count`: shards of the model.
    pub count: Option<i128>,
    /// `split.tensors.count`: tensors of all shards together.
    pub tensors: Option<i128>,
}

impl SplitKeys {
    /// Reads them from the metadata that a file added to the index.
    pub fn of(index: &Index, metadata: &[KeyValue]) -> SplitKeys {
        let find = |key: &[u8]| {
            let entry = metadata.iter().find(|entry| index.name(entry.key) == key)?;
            Some(entry.value.as_integer().unwrap_or(-1))
        };
        SplitKeys {
            number: find(b"split.no"),
            count: find(b"split.count"),
            tensors: find(b"split.tensors.count"),
        }
    }
}
