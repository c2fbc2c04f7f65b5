//! `f32`: a tensor as little-endian float32, decoded block by block for just the bytes asked for.

use std::ops::Range;

use super::{Scratch, raw};
use crate::gguf::{Endian, Tensor, TensorType};
use crate::model::Model;
use crate::source::ReadError;

/// Bytes of one float.
pub const FLOAT: u64 = 4;

/// Id of the type whose bytes are the floats.
const F32: u32 = 0;

const _: () = assert!(cfg!(target_endian = "little"), "decoded floats are handed out as they are");

/// Size in bytes. The parser has checked that it is a file size.
pub fn size(_: &Model, tensor: &Tensor) -> u64 {
    tensor.elements.saturating_mul(FLOAT)
}

/// The bytes `range` of the tensor's floats.
pub fn read<'a>(
    model: &'a Model,
    tensor: &Tensor,
    range: Range<u64>,
    scratch: &'a mut Scratch,
) -> Result<&'a [u8], ReadError> {
    if is_stored_as(model, tensor, F32) {
        return raw::read(model, tensor, range, scratch);
    }
    let elements = range.start / FLOAT..range.end.div_ceil(FLOAT);
    let floats = floats(model, tensor, elements, &mut scratch.blocks)?;
    let head = (range.start % FLOAT) as usize;
    let len = (range.end - range.start) as usize;
    Ok(bytemuck::cast_slice(floats).get(head..head + len).unwrap_or_default())
}

/// Whether the bytes in the file are the little-endian ones of this plain type.
pub fn is_stored_as(model: &Model, tensor: &Tensor, id: u32) -> bool {
    matches!(tensor.ty, TensorType::Known(ty) if ty.id == id)
        && model.layout(tensor.shard).endian == Endian::Little
}

/// Floats in a cache line: decoders write whole ones, and faster where they do not straddle two.
const LINE: usize = 16;

/// Floats decoded at a time, a multiple of every block: what they are decoded from, up to twice the
/// bytes, is still in the L2 cache when it is used.
const PIECE: usize = 32 << 10;

/// Buffers for decoding.
#[derive(Debug, Default)]
pub struct Blocks {
    stored: Vec<u8>,
    floats: Vec<f32>,
}

/// Elements `range` of a tensor that has an `f32`. Whole blocks are decoded, and the head of the first
/// and the tail of the last cut off here.
pub fn floats<'a>(
    model: &Model,
    tensor: &Tensor,
    range: Range<u64>,
    blocks: &'a mut Blocks,
) -> Result<&'a [f32], ReadError> {
    let TensorType::Known(ty) = tensor.ty else { return Ok(&[]) };
    let len = u64::from(ty.block_len);
    let whole = range.start / len..range.end.div_ceil(len);
    let n = ((whole.end - whole.start) * len) as usize;
    let head = (range.start - whole.start * len) as usize;
    let Blocks { stored, floats } = blocks;
    if floats.len() < n + LINE {
        floats.resize(n + LINE, 0.0);
    }
    let skip = floats.as_ptr().align_offset(LINE * FLOAT as usize).min(LINE);
    let floats = floats.get_mut(skip..skip + n).unwrap_or_default();
    let mut next = whole.start;
    for floats in floats.chunks_mut(PIECE) {
        let end = next + floats.len() as u64 / len;
        ty.decode(self::stored(model, tensor, next..end, stored)?, floats);
        next = end;
    }
    Ok(floats.get(head..head + (range.end - range.start) as usize).unwrap_or_default())
}

/// Stored blocks `range` of a tensor of a known type, little-endian.
fn stored<'a>(
    model: &Model,
    tensor: &Tensor,
    range: Range<u64>,
    buf: &'a mut Vec<u8>,
) -> Result<&'a [u8], ReadError> {
    let TensorType::Known(ty) = tensor.ty else { return Ok(&[]) };
    let bytes = u64::from(ty.block_bytes);
    let range = range.start.saturating_mul(bytes)..range.end.saturating_mul(bytes);
    let range = raw::within_file(model, tensor, range);
    let stored = model.source.bytes(tensor.shard, range, buf)?;
    if model.layout(tensor.shard).endian == Endian::Big {
        ty.swap_bytes(stored);
    }
    Ok(stored)
}

/// The elements `range` as they are stored, little-endian, for a type of one element a block.
pub fn plain<'a>(
    model: &Model,
    tensor: &Tensor,
    range: Range<u64>,
    blocks: &'a mut Blocks,
) -> Result<&'a [u8], ReadError> {
    stored(model, tensor, range, &mut blocks.stored)
}
