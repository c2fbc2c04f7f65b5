//! A model opened: the headers of all its shards as one, and the source of its bytes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::gguf::{KeyValue, Layout, Name, Tensor};
use crate::source::Source;

/// What `info` tells of one shard.
#[derive(Clone, Copy, Debug)]
pub struct ShardHeader {
    /// Version and byte order.
    pub layout: Layout,
    /// `general.alignment`, bytes.
    pub alignment: u64,
    /// End of the tensor infos rounded up to the alignment: where offsets count from.
    pub data_offset: u64,
}

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
    pub(crate) names: Vec<u8>,
    pub(crate) dims: Vec<u64>,
}

impl Model {
    /// The bytes of a name.
    pub fn name(&self, name: Name) -> &[u8] {
        let start = name.start as usize;
        self.names.get(start..start + name.len as usize).unwrap_or_default()
    }

    /// Dims of a tensor in the file's order, innermost first.
    pub fn dims(&self, tensor: &Tensor) -> &[u64] {
        let start = tensor.dims_start as usize;
        self.dims.get(start..start + usize::from(tensor.n_dims)).unwrap_or_default()
    }
}
