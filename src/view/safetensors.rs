//! `safetensors/*.safetensors`: the whole model as one file of plain floats.
//!
//! Eight bytes with the length of a JSON header, the header padded with spaces to end at a page, and
//! the tensors one after the other: all that have an `f32`, in the file's order.

mod header;

use std::ops::Range;

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use header::Header;
pub use header::State;

use super::text::Lazy;
use super::{Scratch, Views, clamp, f32, part, raw};
use crate::gguf::{Tensor, TensorType};
use crate::model::Model;
use crate::source::ReadError;

/// What the data begin at a multiple of, so that pages and blocks agree.
const PAGE: u64 = 4096;

/// Bytes of the header's length.
const PREFIX: u64 = 8;

/// Most elements of a file: its size in bytes must be a file size.
const MAX_ELEMENTS: u64 = 1 << 60;

/// The type of all elements of a file.
pub struct Format {
    /// Its name in the header.
    dtype: &'static str,
    /// Bytes of an element.
    bytes: u64,
    /// Id of the GGUF type that is the same, and passes through.
    same: u32,
    /// Rounds floats to nearest even, where they are not handed out as they are.
    round: Option<Round>,
    /// The index of the header.
    index: fn(&Views) -> &Lazy<State>,
}

/// Rounds floats into as many halves of either kind.
type Round = fn(&[f32], &mut [u16]);

/// The formats of the files.
pub static FORMATS: [Format; 3] = [
    Format { dtype: "F32", bytes: 4, same: 0, round: None, index: |v| &v.safetensors[0] },
    Format { dtype: "F16", bytes: 2, same: 1, round: Some(to_f16), index: |v| &v.safetensors[1] },
    Format {
        dtype: "BF16",
        bytes: 2,
        same: 30,
        round: Some(to_bf16),
        index: |v| &v.safetensors[2],
    },
];

fn to_f16(floats: &[f32], out: &mut [u16]) {
    out.reinterpret_cast_mut::<f16>().convert_from_f32_slice(floats);
}

/// As `half` does it, but in a loop without branches, which vectorises.
fn to_bf16(floats: &[f32], out: &mut [u16]) {
    for (half, float) in out.iter_mut().zip(floats) {
        let bits = float.to_bits();
        let to_even = 0x7FFF + (bits >> 16 & 1);
        let rounded = (bits.wrapping_add(to_even) >> 16) as u16;
        let quiet = (bits >> 16) as u16 | 0x40;
        *half = if float.is_nan() { quiet } else { rounded };
    }
}

/// Where each tensor begins in the data, and after the last where they end, in elements. A tensor
/// that is left out takes none.
#[derive(Debug)]
pub struct Starts(Vec<u64>);

impl Starts {
    /// The places of a model's tensors.
    pub fn new(model: &Model) -> Starts {
        let mut end = 0u64;
        let ends = model.tensors.iter().map(|tensor| {
            let after = end.checked_add(tensor.elements).filter(|after| *after <= MAX_ELEMENTS);
            end = after.filter(|_| model.has_f32(tensor)).unwrap_or(end);
            end
        });
        Starts(std::iter::once(0).chain(ends).collect())
    }

    /// The elements of a tensor.
    fn of(&self, tensor: usize) -> Range<u64> {
        match self.0.get(tensor..).unwrap_or_default() {
            [start, end, ..] => *start..*end,
            _ => 0..0,
        }
    }

    /// The tensor that holds an element.
    fn find(&self, element: u64) -> usize {
        self.0.partition_point(|start| *start <= element).saturating_sub(1)
    }

    fn total(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }
}

/// Size in bytes of the file of a format.
///
/// # Errors
/// The header had to be measured and could not.
pub fn size(views: &Views, format: &'static Format) -> Result<u64, ReadError> {
    let header = format.header(views);
    let json = (format.index)(views).size(&header, &views.model.source)?;
    Ok(data_start(json) + format.data_size(views))
}

/// The size if the header has been measured.
pub fn known_size(views: &Views, format: &Format) -> Option<u64> {
    Some(data_start((format.index)(views).known_size()?) + format.data_size(views))
}

/// The bytes `range` of the file of a format, as far as it goes.
pub fn read<'a>(
    views: &'a Views,
    format: &'static Format,
    range: Range<u64>,
    scratch: &'a mut Scratch,
) -> Result<&'a [u8], ReadError> {
    let model = &*views.model;
    let (header, index) = (format.header(views), (format.index)(views));
    let json = index.size(&header, &model.source)?;
    let data = data_start(json);
    let range = clamp(range, data + format.data_size(views));
    let before = |place: u64| range.start.saturating_sub(place)..range.end.saturating_sub(place);

    let mut pieces = format.pieces(views, before(data)).peekable();
    if let Some((tensor, piece)) = pieces.peek()
        && piece.end - piece.start == range.end - range.start
    {
        if f32::is_stored_as(model, tensor, format.same) {
            return raw::read(model, tensor, piece.clone(), scratch);
        }
        return format.computed(model, tensor, piece.clone(), scratch);
    }
    let mut out = std::mem::take(&mut scratch.gathered);
    out.clear();
    out.extend_from_slice(part(&(data - PREFIX).to_le_bytes(), range.clone()));
    let Scratch { source, text, .. } = scratch;
    out.extend_from_slice(index.read(&header, before(PREFIX), &model.source, source, text)?);
    if range.start < data {
        out.resize((range.end.min(data) - range.start) as usize, b' ');
    }
    for (tensor, piece) in pieces {
        out.extend_from_slice(format.computed(model, tensor, piece, scratch)?);
    }
    scratch.gathered = out;
    Ok(&scratch.gathered)
}

/// Where the data begin after a header of this many bytes.
fn data_start(json: u64) -> u64 {
    (PREFIX + json).next_multiple_of(PAGE)
}

impl Format {
    fn header<'a>(&'a self, views: &'a Views) -> Header<'a> {
        let (labels, starts) = (views.labels(), views.starts());
        Header { model: &views.model, labels, arrays: &views.arrays, starts, format: self }
    }

    fn data_size(&self, views: &Views) -> u64 {
        views.starts().total() * self.bytes
    }

    /// The tensors that have bytes in a range of the data, with the range of those bytes in each.
    fn pieces<'a>(
        &self,
        views: &'a Views,
        range: Range<u64>,
    ) -> impl Iterator<Item = (&'a Tensor, Range<u64>)> {
        let (starts, size) = (views.starts(), self.bytes);
        let first = starts.find(range.start / size);
        let from_first = views.model.tensors.iter().enumerate().skip(first);
        from_first
            .map(move |(position, tensor)| (tensor, starts.of(position)))
            .take_while(move |(_, place)| place.start * size < range.end)
            .map(move |(tensor, place)| {
                let start = place.start * size;
                let end = range.end.min(place.end * size);
                (tensor, range.start.max(start) - start..end - start)
            })
            .filter(|(_, piece)| !piece.is_empty())
    }

    /// The bytes `range` of a tensor's elements, fit to be copied: never those of the mapping.
    fn computed<'a>(
        &self,
        model: &Model,
        tensor: &Tensor,
        range: Range<u64>,
        scratch: &'a mut Scratch,
    ) -> Result<&'a [u8], ReadError> {
        let elements = range.start / self.bytes..range.end.div_ceil(self.bytes);
        let Scratch { blocks, halves, .. } = scratch;
        let bytes = if matches!(tensor.ty, TensorType::Known(ty) if ty.id == self.same) {
            f32::plain(model, tensor, elements, blocks)?
        } else {
            let floats = f32::floats(model, tensor, elements, blocks)?;
            match self.round {
                None => bytemuck::cast_slice(floats),
                Some(round) => {
                    halves.resize(floats.len().max(halves.len()), 0);
                    let halves = halves.get_mut(..floats.len()).unwrap_or_default();
                    round(floats, halves);
                    bytemuck::cast_slice(halves)
                }
            }
        };
        let head = (range.start % self.bytes) as usize;
        let len = (range.end - range.start) as usize;
        Ok(bytes.get(head..head + len).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_as_the_half_crate_rounds_one_float() {
        let lows = [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x0FFF, 0x1000, 0x1001, 0x3000];
        for low in lows {
            let floats: Vec<f32> =
                (0..=u16::MAX).map(|high| f32::from_bits(u32::from(high) << 16 | low)).collect();
            let mut halves = vec![0; floats.len()];
            to_bf16(&floats, &mut halves);
            let expected = floats.iter().map(|f| half::bf16::from_f32(*f).to_bits());
            assert!(halves.iter().copied().eq(expected), "{low:x}");
            to_f16(&floats, &mut halves);
            for (half, float) in halves.iter().zip(&floats) {
                let expected = f16::from_f32(*float);
                assert!(*half == expected.to_bits() || float.is_nan() && expected.is_nan());
                assert_eq!(f16::from_bits(*half).is_nan(), float.is_nan());
            }
        }
    }
}
