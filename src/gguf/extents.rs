//! Where the data of one file's tensors lie: sizes that follow from the neighbour, bytes that are
//! not in the file, gaps, overlaps, order and alignment.

use std::collections::BTreeMap;

use super::error::{Error, Place, Rule};
use super::index::{Index, MAX_WARNINGS};
use super::printable::Printable;
use super::{Name, Oddity, ShardHeader, Tensor, TensorType};
use crate::ggml;

/// The id of `Q2_0`: 64 elements in 18 bytes.
const Q2_0: u32 = 42;

/// Before ggml gave 42 to its `Q2_0`, model files were published with 128 elements in 34 bytes.
const OLD_Q2_0: (u64, u64) = (128, 34);

/// Whether files exist in which a known id stands for blocks of another size.
pub(super) fn has_several_layouts(id: u32) -> bool {
    id == Q2_0
}

/// The tensors of one file.
pub(super) struct Extents<'h> {
    pub header: &'h ShardHeader,
    /// Size of the file, bytes.
    pub file: u64,
    /// Position of the file's first tensor in the index.
    pub first: usize,
    pub lenient: bool,
}

impl Extents<'_> {
    /// Settles sizes and oddities of the tensors from `first` on.
    ///
    /// # Errors
    /// [`Rule::Incomplete`] unless lenient.
    pub(super) fn settle(&self, index: &mut Index) -> Result<(), Error> {
        let tensors = index.tensors.get_mut(self.first..).unwrap_or_default();
        let mut order: Vec<u32> =
            (0..).zip(&*tensors).filter(|(_, t)| t.elements > 0).map(|(at, _)| at).collect();
        order.sort_by_key(|&at| tensors.get(at as usize).map(|t| t.offset));
        self.settle_sizes(tensors, &order);
        self.check_presence(index)?;
        self.warn_of_unknown(index);
        self.warn_of_places(index, &order);
        Ok(())
    }

    /// Where the data start is unknown: no tensor has any byte.
    pub(super) fn give_up(&self, index: &mut Index) {
        let tensors = index.tensors.get_mut(self.first..).unwrap_or_default();
        let count = tensors.len();
        for tensor in tensors.iter_mut().filter(|t| t.elements > 0) {
            tensor.oddity |= Oddity::MISSING;
        }
        index.warn(|_| format!("the bytes of {count} tensors cannot be located"));
    }

    /// Where a run of bytes ends once it is padded.
    fn padded(&self, end: u64) -> u64 {
        end.checked_next_multiple_of(self.header.alignment).unwrap_or(u64::MAX)
    }

    /// Unknown types reach to the next tensor, or to the end of the file. An id with several layouts
    /// is known only where its padded size reaches there exactly.
    fn settle_sizes(&self, tensors: &mut [Tensor], order: &[u32]) {
        let data = self.file.saturating_sub(self.header.data_offset);
        let mut odd = false;
        let mut last = Vec::new();
        let (mut next, mut here) = (None, None);
        for &at in order.iter().rev() {
            let Some(tensor) = tensors.get_mut(at as usize) else { continue };
            if here != Some(tensor.offset) {
                next = here;
                here = Some(tensor.offset);
            }
            if let TensorType::Known(ty) = tensor.ty
                && has_several_layouts(ty.id)
            {
                match next {
                    None => last.push(at),
                    Some(next) if next == self.padded(tensor.end()) => {}
                    Some(_) => {
                        odd = true;
                        tensor.ty = TensorType::Unknown(ty.id);
                    }
                }
            }
            if let TensorType::Unknown(_) = tensor.ty {
                tensor.raw_bytes = next.unwrap_or(data).saturating_sub(tensor.offset);
            }
        }
        // After the last tensor padding may be missing and junk may follow, so there the other
        // tensors decide, and where there are none, whether the old layout fits exactly.
        for at in last {
            let Some(tensor) = tensors.get_mut(at as usize) else { continue };
            let old = tensor.offset + tensor.elements / OLD_Q2_0.0 * OLD_Q2_0.1;
            let ends = |end| (end..=self.padded(end)).contains(&data);
            if odd || (ends(old) && !ends(tensor.end())) {
                tensor.ty = TensorType::Unknown(Q2_0);
                tensor.raw_bytes = data.saturating_sub(tensor.offset);
            }
        }
    }

    /// All bytes of every tensor must be in the file.
    fn check_presence(&self, index: &mut Index) -> Result<(), Error> {
        let file_end = |t: &Tensor| {
            let least = if t.elements > 0 { t.raw_bytes.max(1) } else { 0 };
            self.header.data_offset + t.offset + least
        };
        let tensors = index.tensors.get(self.first..).unwrap_or_default();
        let whole = tensors.iter().filter(|t| t.elements > 0).map(file_end).max().unwrap_or(0);
        for position in self.first..index.tensors.len() {
            let Some(tensor) = index.tensors.get_mut(position) else { break };
            if tensor.elements == 0 || file_end(tensor) <= self.file {
                continue;
            }
            tensor.oddity |= Oddity::MISSING;
            let (end, name) = (file_end(tensor), tensor.name);
            let rule = Rule::Incomplete { end, file: self.file, missing: whole - self.file };
            let name = Some(index.name(name).into());
            let place = Place::Tensor((position - self.first) as u64, name);
            let error = Error { place, offset: self.header.data_offset, rule };
            index.tolerate(self.lenient, error)?;
        }
        Ok(())
    }

    /// One warning for each type id that cannot be sized.
    fn warn_of_unknown(&self, index: &mut Index) {
        let mut ids: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        for (position, tensor) in index.tensors.iter().enumerate().skip(self.first) {
            if let TensorType::Unknown(id) = tensor.ty
                && (ids.len() < MAX_WARNINGS || ids.contains_key(&id))
            {
                ids.entry(id).or_insert((position, 0)).1 += 1;
            }
        }
        for (id, (first, count)) in ids {
            let name = index.tensors.get(first).map(|t| index.name(t.name)).unwrap_or_default();
            let why = match ggml::retired(id) {
                _ if has_several_layouts(id) => "in another layout than the usual one".into(),
                Some(retired) => format!("retired ({retired})"),
                None => "unknown to this version".into(),
            };
            let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            let name = Printable(name);
            let warning =
                format!("tensor {name}{more}: type {id}, {why}; only raw bytes are shown");
            index.warn(|_| warning);
        }
    }

    /// Offsets that other readers refuse: not one after the other, without gaps, each aligned.
    fn warn_of_places(&self, index: &mut Index, order: &[u32]) {
        let alignment = self.header.alignment;
        let mut before = 0;
        for position in self.first..index.tensors.len() {
            let Some(tensor) = index.tensors.get_mut(position) else { break };
            let Tensor { name, offset, elements, .. } = *tensor;
            if elements == 0 {
                continue;
            }
            if !offset.is_multiple_of(alignment) {
                tensor.oddity |= Oddity::MISALIGNED;
                index.warn_of(name, format_args!("offset {offset} is not aligned to {alignment}"));
            }
            if offset < before {
                index
                    .warn_of(name, format_args!("offset {offset} is out of order, after {before}"));
            }
            before = offset;
        }
        // The tensor that reaches furthest of those passed: its place, its name and its end.
        let mut furthest: Option<(usize, Name, u64)> = None;
        for position in order.iter().map(|&at| self.first + at as usize) {
            let Some(tensor) = index.tensors.get(position) else { break };
            let (name, offset, end) = (tensor.name, tensor.offset, tensor.end());
            let free = furthest.map_or(0, |(.., end)| end);
            if let Some((holder, other, _)) = furthest.filter(|_| offset < free) {
                for at in [position, holder] {
                    if let Some(tensor) = index.tensors.get_mut(at) {
                        tensor.oddity |= Oddity::OVERLAP;
                    }
                }
                index.warn(|index| {
                    let (name, other) = (Printable(index.name(name)), Printable(index.name(other)));
                    format!("tensor {name}: offset {offset} overlaps tensor {other}")
                });
            } else if offset - offset % alignment > self.padded(free) {
                let gap = offset - self.padded(free);
                index.warn_of(name, format_args!("offset {offset} leaves a gap of {gap} bytes"));
            }
            if end >= free {
                furthest = Some((position, name, end));
            }
        }
    }
}
