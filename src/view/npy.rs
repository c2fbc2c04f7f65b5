//! `npy/<name>.npy`: a tensor as NumPy's array file, format 1.0: a header, then the floats of `f32`.

use std::io::Write;
use std::ops::Range;

use super::f32::{self, FLOAT};
use super::{Scratch, part};
use crate::gguf::Tensor;
use crate::model::Model;
use crate::source::ReadError;

/// Bytes of the header. A page, so that the floats are aligned in a mapping and no page of the file
/// splits a block; 16 dimensions fit many times.
const HEADER: usize = 4096;

/// Size in bytes.
pub fn size(model: &Model, tensor: &Tensor) -> u64 {
    f32::size(model, tensor).saturating_add(HEADER as u64)
}

/// The bytes `range` of the file.
pub fn read<'a>(
    model: &'a Model,
    tensor: &Tensor,
    range: Range<u64>,
    scratch: &'a mut Scratch,
) -> Result<&'a [u8], ReadError> {
    let head = HEADER as u64;
    let floats = range.start.saturating_sub(head)..range.end.saturating_sub(head);
    if range.start >= head {
        return f32::read(model, tensor, floats, scratch);
    }
    let Scratch { text: out, blocks, .. } = scratch;
    out.clear();
    header(model, tensor, out);
    let elements = 0..floats.end.div_ceil(FLOAT);
    out.extend_from_slice(bytemuck::cast_slice(f32::floats(model, tensor, elements, blocks)?));
    Ok(part(out, range))
}

/// Appends the magic, the version, the length of what follows, and a Python dict padded with spaces to
/// a line.
fn header(model: &Model, tensor: &Tensor, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x93NUMPY\x01\x00");
    out.extend_from_slice(&(HEADER as u16 - 10).to_le_bytes());
    out.extend_from_slice(b"{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for dim in model.dims(tensor).iter().rev() {
        // Writing to memory cannot fail.
        let _ = write!(out, "{dim}, ");
    }
    out.extend_from_slice(b"), }");
    out.resize(HEADER - 1, b' ');
    out.push(b'\n');
}
