//! Tensor infos, each checked by itself. Where their data lie is `extents`' business.

use super::cursor::Cursor;
use super::error::{Error, Place, Rule};
use super::index::Index;
use super::printable::Printable;
use super::{MAX_FILE, Name, Oddity, Tensor, TensorType};
use crate::ggml;
use crate::source::ReadAt;

/// Most dimensions of a tensor. ggml has 4; numpy reads up to 32, and nobody writes more than 5.
const MAX_DIMS: u32 = 16;

/// Reads `count` infos of a shard into the index. In a lenient parse the first damage ends the list:
/// false, and nobody knows where the data start.
pub(super) fn read<R: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, R>,
    count: u64,
    shard: u16,
    lenient: bool,
    index: &mut Index,
) -> Result<bool, Error> {
    for position in 0..count {
        let offset = cursor.position();
        let (names, dims) = (index.names.len(), index.dims.len());
        let error = |rule, name: Option<&[u8]>| Error {
            place: Place::Tensor(position, name.map(Into::into)),
            offset,
            rule,
        };
        let info = match info(cursor, index) {
            Ok(info) => info,
            Err(rule) => {
                let name = index.names.get(names..).filter(|name| !name.is_empty());
                let error = error(rule, name);
                index.names.truncate(names);
                index.dims.truncate(dims);
                index.tolerate(lenient, error)?;
                return Ok(false);
            }
        };
        match info.tensor(shard, index.dims.get(dims..).unwrap_or_default(), dims as u32) {
            Ok(tensor) => {
                index.tensors.push(tensor);
                if let Err(rule) = enter_name(index, info.name) {
                    let error = error(rule, Some(index.name(info.name)));
                    index.tolerate(lenient, error)?;
                }
            }
            Err(rule) => {
                let error = error(rule, Some(index.name(info.name)));
                index.names.truncate(names);
                index.dims.truncate(dims);
                index.tolerate(lenient, error)?;
            }
        }
    }
    Ok(true)
}

/// Most elements of a tensor with an `f32` view: its size, and that of a file with a short header
/// before it, must fit in an `i64` as file sizes do.
const MAX_FLOATS: u64 = (i64::MAX as u64 - (1 << 20)) / 4;

/// An info as it stands in the file; its dims are the last of the index.
struct Info {
    name: Name,
    id: u32,
    offset: u64,
}

fn info<R: ReadAt + ?Sized>(c: &mut Cursor<'_, R>, index: &mut Index) -> Result<Info, Rule> {
    index.check_budget()?;
    let name = c.name(&mut index.names)?;
    let n_dims = c.u32("its number of dimensions")?;
    if n_dims > MAX_DIMS {
        return Err(Rule::Dimensions { found: n_dims, most: MAX_DIMS });
    }
    for _ in 0..n_dims {
        index.dims.push(c.count("its dimensions")?);
    }
    Ok(Info { name, id: c.u32("its type")?, offset: c.u64("its offset")? })
}

impl Info {
    /// The tensor, if its numbers make one.
    fn tensor(&self, shard: u16, dims: &[u64], dims_start: u32) -> Result<Tensor, Rule> {
        for (axis, &dim) in (0..).zip(dims) {
            if dim > i64::MAX as u64 {
                return Err(Rule::Dimension { axis, dim });
            }
        }
        let elements = if dims.contains(&0) {
            0
        } else {
            dims.iter()
                .try_fold(1u64, |product, dim| product.checked_mul(*dim))
                .filter(|elements| *elements <= i64::MAX as u64)
                .ok_or(Rule::Elements)?
        };
        let row = dims.first().copied().unwrap_or(1);
        let (ty, raw_bytes) = match ggml::by_id(self.id) {
            None => (TensorType::Unknown(self.id), 0),
            Some(ty) if elements > 0 && !row.is_multiple_of(ty.block_len.into()) => {
                if !super::extents::has_several_layouts(self.id) {
                    return Err(Rule::Row { row, block: ty.block_len, ty: ty.name });
                }
                (TensorType::Unknown(self.id), 0)
            }
            Some(ty) => {
                let bytes = (elements / u64::from(ty.block_len)).checked_mul(ty.block_bytes.into());
                let float_fits = elements <= MAX_FLOATS;
                let bytes = bytes.filter(|_| float_fits).ok_or(Rule::FloatSize { elements })?;
                (TensorType::Known(ty), bytes)
            }
        };
        if elements > 0 && self.offset.checked_add(raw_bytes).is_none_or(|end| end > MAX_FILE) {
            return Err(Rule::Beyond { offset: self.offset, bytes: raw_bytes });
        }
        Ok(Tensor {
            name: self.name,
            dims_start,
            n_dims: dims.len() as u8,
            shard,
            oddity: Oddity::default(),
            ty,
            elements,
            offset: self.offset,
            raw_bytes,
        })
    }
}

/// Enters the last tensor's name; a duplicate is worth a warning, one from another shard an error.
fn enter_name(index: &mut Index, name: Name) -> Result<(), Rule> {
    let Index { tensors, names, by_name, .. } = &mut *index;
    let name_of = |p: usize| tensors.get(p).map_or(&[][..], |tensor| tensor.name.of(names));
    let last = tensors.len().saturating_sub(1);
    let Some(earlier) = by_name.enter(last, name_of) else { return Ok(()) };
    let shard_of = |p: usize| tensors.get(p).map_or(0, |tensor| tensor.shard);
    if shard_of(earlier) != shard_of(last) {
        return Err(Rule::TwoShards { shard: shard_of(earlier) });
    }
    index.warn(|index| format!("duplicate tensor {}", Printable(index.name(name))));
    Ok(())
}
