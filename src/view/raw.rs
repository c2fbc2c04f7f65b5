//! `raw`: the stored bytes of a tensor, straight from the mapping.

use std::ops::Range;

use super::Scratch;
use crate::gguf::Tensor;
use crate::model::Model;
use crate::source::ReadError;

/// Size in bytes.
pub fn size(_: &Model, tensor: &Tensor) -> u64 {
    tensor.raw_bytes
}

/// The bytes `range` of the tensor.
pub fn read<'a>(
    model: &'a Model,
    tensor: &Tensor,
    range: Range<u64>,
    _: &'a mut Scratch,
) -> Result<&'a [u8], ReadError> {
    model.source.mapped(tensor.shard, within_file(model, tensor, range))
}

/// A range of the tensor's bytes as a range of its shard's file. A damaged file may place a tensor
/// anywhere; saturated, the range is past the end of the file and is refused there.
pub fn within_file(model: &Model, tensor: &Tensor, range: Range<u64>) -> Range<u64> {
    let start = model.file_offset(tensor);
    start.saturating_add(range.start)..start.saturating_add(range.end)
}
